//! Programs in other languages: each is built once, where its compiler is.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::host::is_installed;

/// A program of one file. In its command lines, SOURCE, PROGRAM and WORKERS are put in.
pub struct Foreign {
    /// Its file's name, which no other has.
    pub file: &'static str,
    /// What is in it.
    pub source: &'static str,
    /// Built with this, in a folder of its own.
    pub build: &'static [&'static str],
    /// Run with this, there.
    pub run: &'static [&'static str],
}

impl Foreign {
    /// Whether its compiler is here; it may be of another version than is needed.
    pub fn has_compiler(&self) -> bool {
        is_installed(self.build[0])
    }

    /// The folder with the program, built when it is first asked for; `None` if that fails.
    pub fn built(&self) -> Option<PathBuf> {
        static BUILT: Mutex<BTreeMap<&str, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
        let mut built = BUILT.lock().expect("nobody panics holding it");
        built
            .entry(self.file)
            .or_insert_with(|| self.build())
            .clone()
    }

    fn build(&self) -> Option<PathBuf> {
        let name = format!("creel-bench-{}-{}", self.file, std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).ok()?;
        fs::write(folder.join(self.file), self.source).ok()?;
        let words = self.words(self.build, &folder, 1);
        let mut build = Command::new(words.first()?);
        build.args(&words[1..]).current_dir(&folder);
        let silent = build.stdout(Stdio::null()).stderr(Stdio::null());
        silent.status().ok()?.success().then_some(folder)
    }

    /// The words that run it.
    pub fn run(&self, folder: &Path, workers: usize) -> Vec<String> {
        self.words(self.run, folder, workers)
    }

    fn words(&self, words: &[&str], folder: &Path, workers: usize) -> Vec<String> {
        let program = folder.join("program");
        let put_in = |word: &&str| {
            let word = word.replace("PROGRAM", &program.to_string_lossy());
            let word = word.replace("SOURCE", self.file);
            word.replace("WORKERS", &workers.to_string())
        };
        words.iter().map(put_in).collect()
    }
}

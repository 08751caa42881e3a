//! Builds and starts programs in other languages, which are peers in some cases. Each program is
//! built once, if its compiler is installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::host::is_installed;

/// A program that consists of one file. In its command lines, we replace the words SOURCE, PROGRAM
/// and WORKERS by the source file, the built program and the number of workers.
pub struct Foreign {
    /// The name of the file, which must be unique.
    pub file: &'static str,
    /// The content of the file.
    pub source: &'static str,
    /// The command that builds the program, in a folder of its own.
    pub build: &'static [&'static str],
    /// The command that runs the program in this folder.
    pub run: &'static [&'static str],
}

impl Foreign {
    /// Returns whether the compiler is installed. The build can still fail, for example because the
    /// compiler is too old.
    pub fn has_compiler(&self) -> bool {
        is_installed(self.build[0])
    }

    /// Returns the folder with the program, which the first call builds, or `None` if the build
    /// fails.
    pub fn built(&self) -> Option<PathBuf> {
        static BUILT: Mutex<BTreeMap<&str, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
        let mut built = BUILT
            .lock()
            .expect("no thread panics while it holds the lock");
        built
            .entry(self.file)
            .or_insert_with(|| self.build())
            .clone()
    }

    fn build(&self) -> Option<PathBuf> {
        // The name is unpredictable and the folder is private. Otherwise, another user could put a
        // program into it, and we would run that program. We keep the folder, because cases run the
        // program later.
        let name = format!("creel-bench-{}-", self.file);
        let folder = tempfile::Builder::new()
            .prefix(&name)
            .tempdir()
            .ok()?
            .keep();
        fs::write(folder.join(self.file), self.source).ok()?;
        let words = self.words(self.build, &folder, 1);
        let mut build = Command::new(words.first()?);
        build.args(&words[1..]).current_dir(&folder);
        let silent = build.stdout(Stdio::null()).stderr(Stdio::null());
        silent.status().ok()?.success().then_some(folder)
    }

    /// Returns the words of the command that runs the program.
    pub fn run(&self, folder: &Path, workers: usize) -> Vec<String> {
        self.words(self.run, folder, workers)
    }

    fn words(&self, words: &[&str], folder: &Path, workers: usize) -> Vec<String> {
        let program = folder.join("program");
        let fill = |word: &&str| {
            let word = word.replace("PROGRAM", &program.to_string_lossy());
            let word = word.replace("SOURCE", self.file);
            word.replace("WORKERS", &workers.to_string())
        };
        words.iter().map(fill).collect()
    }
}

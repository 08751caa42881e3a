//! Tests that run `creel-vgm play`: in a terminal, with its socket, and with errors.
#![cfg(unix)]

mod devices;
mod figures;
mod keys;
#[cfg(feature = "mpris")]
mod mpris;
mod remote;
mod restored;
mod screens;
mod terminal;
mod troubles;

use std::fs;
use std::path::PathBuf;

/// A temporary folder, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("creel-play-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn put(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.0.join(name), bytes).unwrap();
        self.path(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a built-in song by its number.
fn carried(number: usize) -> &'static [u8] {
    creel_vgm::demo::CARRIED[number].packed
}

/// The flags of a player that plays songs endlessly and without sound output.
const SILENT: &[&str] = &["--sink", "null", "--loops", "0"];

fn demo(more: &[&'static str]) -> Vec<&'static str> {
    [SILENT, &["--demo"], more].concat()
}

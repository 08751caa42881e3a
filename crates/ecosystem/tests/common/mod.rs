//! A folder that is removed when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};

/// A folder for the files of one test.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder in the system's folder for temporary files.
    pub fn new(name: &str) -> Self {
        let name = format!("creel-ecosystem-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

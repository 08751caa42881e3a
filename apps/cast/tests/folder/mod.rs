//! A temporary folder for one test.

use std::path::PathBuf;

/// A folder that is removed with its contents when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// Creates a folder whose name contains `name` and the process id.
    pub fn new(name: &str) -> Self {
        let name = format!("creel-cast-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

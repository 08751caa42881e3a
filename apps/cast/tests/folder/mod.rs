//! A folder of the system's for one test.

use std::path::PathBuf;

/// Removed with all that is in it when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    /// One of this name and process.
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

//! Creates folders that only their owner can use, and warns about files that others can read.

use std::fs::DirBuilder;
use std::io;
use std::path::Path;

use creel_console::output;

/// Creates a folder and its parents, if they do not exist. Only their owner can use them. The mode
/// of an existing folder does not change.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Writes a line to stderr if other users can read a file that contains a secret.
///
/// We do not stop for this reason, because containers often mount secrets that way.
pub fn warn_if_readable(path: &Path, secret: &str) {
    if let Some(mode) = readable_by_others(path) {
        output::note(&format!(
            "creel-serve: warning: {} contains {secret}, and its mode {mode:04o} lets other users \
             access it: run chmod 600 {0}\n",
            path.display()
        ));
    }
}

/// Returns the mode of a file if it grants any access to users other than the owner.
#[cfg(unix)]
fn readable_by_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;

    let mode = path.metadata().ok()?.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn readable_by_others(_: &Path) -> Option<u32> {
    None
}

//! Writes drawings to stdout or to a file. A regular file is written as a whole or not at all.

use std::{fs, io, path::Path};

use creel_console::AtomicFile;

/// Returns whether the name means stdout.
pub fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// Writes a drawing. A regular file is replaced in one step. A device, a FIFO or a link is not
/// replaced. We write into it, or into the file to which the link leads.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(there) if !there.is_file() => fs::write(file, text),
        _ => AtomicFile::write(file, text.as_bytes()),
    }
}

//! Writes drawings to stdout, to a regular file as a whole or not at all, or to another kind of
//! file.

use std::{fs, io, path::Path};

use creel_console::AtomicFile;

/// Returns whether the name means stdout.
pub fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// Writes a drawing. A regular file is replaced in one step. A device, a FIFO or a link is not
/// replaced, because we write to the file that it stands for.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(there) if !there.is_file() => fs::write(file, text),
        _ => AtomicFile::write(file, text.as_bytes()),
    }
}

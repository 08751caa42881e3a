//! Where a drawing goes: a file that is there whole or not at all, whatever else the name stands
//! for, or stdout.

use std::{fs, io, path::Path};

use creel_console::AtomicFile;

/// Whether the name stands for stdout.
pub fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// A regular file is replaced in one step. A device, a FIFO and a link stay what they are: they
/// are written through.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(there) if !there.is_file() => fs::write(file, text),
        _ => AtomicFile::write(file, text.as_bytes()),
    }
}

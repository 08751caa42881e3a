//! Where a drawing goes: a file that is there whole or not at all, whatever else the name stands
//! for, or stdout.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Whether the name stands for stdout.
pub fn is_stdout(file: &Path) -> bool {
    file == Path::new("-")
}

/// A regular file is replaced in one step. A device, a FIFO and a link stay what they are: they
/// are written through.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(there) if !there.is_file() => fs::write(file, text),
        _ => replace(file, text),
    }
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = File::create(&partial).and_then(|mut out| {
        out.write_all(text.as_bytes())?;
        out.sync_all()
    });
    written
        .and_then(|()| fs::rename(&partial, file))
        .inspect_err(|_| {
            // The error that matters is the first one.
            let _ = fs::remove_file(&partial);
        })
}

//! Output files that get their final name only when they are complete.
//!
//! We write to a device or a pipe in place, because replacing it with a regular file would destroy
//! it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use creel_console::AtomicFile;
use flate2::Compression;
use flate2::write::GzEncoder;

/// An output file that is being written. If it is dropped before [`finish`](Self::finish), nothing
/// is left behind, except what was written to a device or a pipe.
pub struct OutputFile {
    target: Target,
    /// Whether the name ends with `.gz`.
    packed: bool,
}

enum Target {
    /// A regular file.
    Atomic(AtomicFile),
    /// A device or a pipe.
    InPlace(File),
}

impl OutputFile {
    /// Creates the file that will be called `path` when it is complete. A device or a FIFO is
    /// opened instead.
    pub fn create(path: &Path) -> io::Result<Self> {
        let there = fs::metadata(path);
        if there.as_ref().is_ok_and(fs::Metadata::is_dir) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let special = there.is_ok_and(|there| !there.is_file());
        // We follow symbolic links first. The output then replaces the file that a link points to,
        // and the link itself stays.
        let path = if special {
            path.to_owned()
        } else {
            behind_links(path)?
        };
        let target = if special {
            Target::InPlace(File::create(&path)?)
        } else {
            remove_abandoned(&path);
            Target::Atomic(AtomicFile::create(&path)?)
        };
        let packed = path.extension().is_some_and(|end| end == "gz");
        Ok(Self { target, packed })
    }

    /// Returns the stream to write to. It compresses with gzip if the name ends with `.gz` and
    /// `may_pack` is set.
    pub fn stream(&self, may_pack: bool) -> io::Result<Stream> {
        let file = match &self.target {
            Target::Atomic(file) => file.file(),
            Target::InPlace(file) => file,
        };
        let stream = BufWriter::with_capacity(1 << 20, file.try_clone()?);
        Ok(if self.packed && may_pack {
            Stream::Packed(Box::new(GzEncoder::new(stream, Compression::fast())))
        } else {
            Stream::Plain(stream)
        })
    }

    /// Gives the complete file its final name, unless it has this name from the beginning, like a
    /// device.
    pub fn finish(self) -> io::Result<()> {
        match self.target {
            Target::Atomic(file) => file.commit(),
            Target::InPlace(_) => Ok(()),
        }
    }
}

/// Removes temporary files for the output `path`. Earlier runs have left them if they were killed.
fn remove_abandoned(path: &Path) {
    if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
        let is_here = folder.as_os_str().is_empty();
        let folder = if is_here { Path::new(".") } else { folder };
        AtomicFile::remove_abandoned(folder, |other| other == name);
    }
}

/// Follows symbolic links and returns the path that they lead to, whether or not that file exists.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    const LINKS_MAX: u32 = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(to) => path = path.with_file_name("").join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// The stream of a file. Flushing it also ends it, because a gzip stream has a trailer. The caller
/// must see an error if the disk is too full for the trailer.
pub enum Stream {
    Plain(BufWriter<File>),
    Packed(Box<GzEncoder<BufWriter<File>>>),
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(to) => to.write(bytes),
            Self::Packed(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(to) => to.flush(),
            Self::Packed(to) => {
                to.try_finish()?;
                to.get_mut().flush()
            }
        }
    }
}

/// Returns an error if the file cannot be created. Call it before starting a long computation.
pub fn check(path: &Path) -> anyhow::Result<()> {
    OutputFile::create(path).with_context(|| cannot_write(path))?;
    Ok(())
}

/// Returns an error if two outputs are the same file, or if an output would overwrite an input.
/// Devices are exempt.
pub fn check_distinct<'a>(
    written: impl Iterator<Item = &'a Path>,
    read: impl Iterator<Item = &'a Path>,
) -> anyhow::Result<()> {
    // We compare folder and name rather than inodes, because the file may not exist yet. We skip
    // devices, because two outputs may share a device.
    let file = |path: &Path| -> Option<PathBuf> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return None;
        }
        let path = behind_links(path).ok()?;
        let name = path.file_name()?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        Some(fs::canonicalize(folder).ok()?.join(name))
    };
    let read: Vec<PathBuf> = read.filter_map(file).collect();
    let mut seen = Vec::new();
    for path in written {
        let Some(place) = file(path) else { continue };
        let path = path.display();
        if read.contains(&place) {
            return Err(super::usage(format!(
                "cannot write to {path}, because this file is also an input: choose another output \
                 file"
            )));
        }
        if seen.contains(&place) {
            return Err(super::usage(format!(
                "cannot write two outputs to the same file {path}: choose a different file for each"
            )));
        }
        seen.push(place);
    }
    Ok(())
}

/// Returns the context of an error that occurs while writing `path`.
pub fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Writes a file atomically: readers see either the old content or all of the new content. A device
/// or a pipe is written in place.
pub fn write(
    path: &Path,
    may_pack: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let written = || -> io::Result<()> {
        let file = OutputFile::create(path)?;
        let mut stream = file.stream(may_pack)?;
        write(&mut stream)?;
        stream.flush()?;
        file.finish()
    }();
    written.with_context(|| cannot_write(path))
}

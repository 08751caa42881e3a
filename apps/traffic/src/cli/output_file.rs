//! Output files, which appear under their name when they are complete.
//!
//! A device or a pipe is written in place, because replacing it by a file would destroy it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use creel_console::AtomicFile;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A file that is being written. If it is dropped before it is finished, nothing stays.
pub struct OutputFile {
    target: Target,
    /// Whether the name asks for compression.
    packed: bool,
}

enum Target {
    /// A regular file.
    Atomic(AtomicFile),
    /// A device or a pipe.
    InPlace(File),
}

impl OutputFile {
    /// Begins one that will be called `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let there = fs::metadata(path);
        if there.as_ref().is_ok_and(fs::Metadata::is_dir) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let special = there.is_ok_and(|there| !there.is_file());
        // A link stays one; what it leads to is replaced.
        let path = if special {
            path.to_owned()
        } else {
            behind_links(path)?
        };
        let target = if special {
            Target::InPlace(File::create(&path)?)
        } else {
            Target::Atomic(AtomicFile::create(&path)?)
        };
        let packed = path.extension().is_some_and(|end| end == "gz");
        Ok(Self { target, packed })
    }

    /// What is to be written goes here, packed if its name says so and `may_pack`.
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

    /// It is complete: gives it its name.
    pub fn finish(self) -> io::Result<()> {
        match self.target {
            Target::Atomic(file) => file.commit(),
            Target::InPlace(_) => Ok(()),
        }
    }
}

/// What a path leads to, be that there or not.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    const LINKS_MAX: u32 = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(to) => path = path.with_file_name("").join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("links without end"))
}

/// The stream of a file. To flush it is to end it: what is packed has an end, which a disk may be too full
/// for.
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

/// Says, before anything is done that takes long, if there can be no such file.
pub fn check(path: &Path) -> anyhow::Result<()> {
    OutputFile::create(path).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Says, before anything is done, if a file would be written twice, or over one that is read.
pub fn check_distinct<'a>(
    written: impl Iterator<Item = &'a Path>,
    read: impl Iterator<Item = &'a Path>,
) -> anyhow::Result<()> {
    // A file is told by its folder and name, for it may not be there yet; a device may be written twice.
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
            return Err(super::usage(format!("{path}: this file is read, too")));
        }
        if seen.contains(&place) {
            return Err(super::usage(format!("{path}: two outputs have this name")));
        }
        seen.push(place);
    }
    Ok(())
}

/// Writes a file: under its own name it is whole or as it was before.
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
    written.with_context(|| path.display().to_string())
}

//! Files that get their names when they are whole: until then there is nothing, or what was there before.
//!
//! A file is written beside its place, synced, and renamed into it. What is no file, a device or a pipe,
//! is written as it is: to put a file in its place would be the end of it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A file that is being written. If it is dropped before it is finished, nothing stays.
pub struct Whole {
    file: File,
    path: PathBuf,
    /// Where it is until it is whole.
    part: Option<PathBuf>,
}

impl Whole {
    /// Begins one that will be called `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        let there = fs::metadata(path);
        if there.as_ref().is_ok_and(fs::Metadata::is_dir) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let special = there.as_ref().is_ok_and(|there| !there.is_file());
        // A link stays one; what it leads to is replaced.
        let path = match there {
            Ok(_) if !special => fs::canonicalize(path)?,
            _ => path.to_owned(),
        };
        let part = (!special).then(|| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}.part", std::process::id()));
            path.with_file_name(name)
        });
        let file = File::create(part.as_deref().unwrap_or(&path))?;
        Ok(Self { file, path, part })
    }

    /// What is to be written goes here, packed if its name says so and `may_pack`.
    pub fn stream(&self, may_pack: bool) -> io::Result<Stream> {
        let stream = BufWriter::with_capacity(1 << 20, self.file.try_clone()?);
        let packed = may_pack && self.path.extension().is_some_and(|end| end == "gz");
        Ok(if packed {
            Stream::Packed(Box::new(GzEncoder::new(stream, Compression::fast())))
        } else {
            Stream::Plain(stream)
        })
    }

    /// It is whole: gives it its name.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(part) = &self.part {
            self.file.sync_all()?;
            fs::rename(part, &self.path)?;
            self.part = None;
        }
        Ok(())
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // What is half-written is of no use; there is nobody to tell that it stays.
            let _ = fs::remove_file(part);
        }
    }
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
    Whole::create(path).with_context(|| path.display().to_string())?;
    Ok(())
}

/// Writes a file: under its own name it is whole or as it was before.
pub fn write(
    path: &Path,
    may_pack: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let written = || -> io::Result<()> {
        let whole = Whole::create(path)?;
        let mut stream = whole.stream(may_pack)?;
        write(&mut stream)?;
        stream.flush()?;
        whole.finish()
    }();
    written.with_context(|| path.display().to_string())
}

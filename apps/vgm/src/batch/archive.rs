//! Archives as folders: the songs in zip and 7z files.
//!
//! A zip's songs are unpacked one at a time, as they are rendered. A 7z's may depend on all that
//! lies before them, so they are unpacked once, when the archive is opened, within bounds.
//!
//! Invariant: a song's place is a path below the output folder, whatever the archive says.

use std::fmt;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use sevenz_rust2::{ArchiveReader, Password};
use zip::ZipArchive;

use super::kind::{self, Kind};
use super::text;
use crate::error::{Error, Result};
use crate::format::{SONG_BYTES_MAX, open};

/// The most entries an archive may have.
const ENTRIES_MAX: usize = 100_000;
/// The most bytes that a 7z may unpack to.
const SEVENZ_BYTES_MAX: u64 = 512 << 20;

/// Where an archive's bytes are: in a file, or in memory.
trait Bytes: Read + Seek + Send {}

impl<B: Read + Seek + Send> Bytes for B {}

/// An archive whose songs can be had.
pub struct Archive {
    path: PathBuf,
    songs: Songs,
}

enum Songs {
    Zip(Mutex<ZipArchive<Box<dyn Bytes>>>),
    SevenZ(Vec<Arc<Vec<u8>>>),
}

/// A song in an archive.
#[derive(Clone)]
pub struct Packed {
    archive: Arc<Archive>,
    index: usize,
    /// Where in the archive it lies.
    pub place: PathBuf,
}

/// What an archive has.
pub struct Listed {
    /// Its songs, by name.
    pub songs: Vec<Packed>,
    /// What is left out of it though it may be music, and why.
    pub left_out: Vec<(String, &'static str)>,
}

/// What an archive has that is a file, or has these `bytes`.
///
/// # Errors
///
/// [`Error::Io`] if it cannot be read, [`Error::BadList`] if it is no archive or a damaged one,
/// [`Error::TooLarge`] beyond 100,000 entries, or 512 MiB of a 7z.
pub fn list(path: &Path, kind: Kind, bytes: Option<Arc<[u8]>>) -> Result<Listed> {
    let bytes: Box<dyn Bytes> = match bytes {
        Some(bytes) => Box::new(Cursor::new(bytes)),
        None => Box::new(open(path)?),
    };
    let mut names = Names::default();
    let songs = match kind {
        Kind::SevenZ => seven_z(bytes, &mut names)?,
        _ => zip(bytes, &mut names)?,
    };
    let archive = Arc::new(Archive {
        path: path.into(),
        songs,
    });
    let packed = |(index, place)| Packed {
        archive: archive.clone(),
        index,
        place,
    };
    let mut songs: Vec<_> = names.places.into_iter().map(packed).collect();
    songs.sort_by(|a, b| a.place.cmp(&b.place));
    Ok(Listed {
        songs,
        left_out: names.left_out,
    })
}

/// The names of an archive's songs.
#[derive(Default)]
struct Names {
    /// By number.
    places: Vec<(usize, PathBuf)>,
    left_out: Vec<(String, &'static str)>,
}

impl Names {
    /// Takes an entry's name; gives whether it is that of a song that can be had.
    fn take(&mut self, index: usize, name: &str) -> bool {
        let turned = name.replace('\\', "/");
        let path = PathBuf::from(&turned);
        let kind = kind::by_name(&path).filter(|_| !turned.ends_with('/'));
        let leads_down = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let why = match kind {
            Some(Kind::Song) if leads_down && !turned.contains('\0') => {
                self.places.push((index, path));
                return true;
            }
            Some(Kind::Song) => "its name leads out of the archive",
            Some(kind) if kind.is_archive() => "an archive in an archive is not opened",
            _ => return false,
        };
        self.left_out.push((name.into(), why));
        false
    }
}

fn zip(bytes: Box<dyn Bytes>, names: &mut Names) -> Result<Songs> {
    let archive = ZipArchive::new(bytes).map_err(zip_error)?;
    if archive.len() > ENTRIES_MAX {
        return Err(too_many());
    }
    for (index, raw) in archive.file_names_raw().enumerate() {
        // Of what is not marked as UTF-8 the crate knows DOS's letters only.
        let name = text::japanese(raw).or_else(|| {
            let name = archive.name_for_index(index)?;
            Some(name.ok()?.into_owned())
        });
        names.take(index, &name.unwrap_or_default());
    }
    Ok(Songs::Zip(Mutex::new(archive)))
}

fn seven_z(bytes: Box<dyn Bytes>, names: &mut Names) -> Result<Songs> {
    let mut reader = ArchiveReader::new(bytes, Password::empty()).map_err(seven_z_error)?;
    // It would start threads of its own.
    reader.set_thread_count(1);
    if reader.archive().files.len() > ENTRIES_MAX {
        return Err(too_many());
    }
    let (mut songs, mut left) = (Vec::new(), SEVENZ_BYTES_MAX);
    let read = reader.for_each_entries(|entry, bytes| {
        let mut bytes = bytes.take(left + 1);
        if !entry.is_directory() && names.take(songs.len(), entry.name()) {
            let mut song = Vec::new();
            bytes.read_to_end(&mut song)?;
            songs.push(Arc::new(song));
        } else {
            // What follows may depend on it.
            io::copy(&mut bytes, &mut io::sink())?;
        }
        let read = left + 1 - bytes.limit();
        let fits = read <= left;
        left = left.saturating_sub(read);
        if !fits {
            left = 0;
        }
        Ok(fits)
    });
    read.map_err(seven_z_error)?;
    if left == 0 {
        let reason = format!(
            "a 7z that unpacks to {} MiB or more",
            SEVENZ_BYTES_MAX >> 20
        );
        return Err(Error::TooLarge(reason));
    }
    Ok(Songs::SevenZ(songs))
}

impl Packed {
    /// The archive's path.
    pub fn archive(&self) -> &Path {
        &self.archive.path
    }

    /// The song's bytes, so many at most.
    ///
    /// # Errors
    ///
    /// [`Error::BadList`] where the archive is damaged or encrypted.
    pub fn read(&self, bytes_max: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match &self.archive.songs {
            Songs::Zip(archive) => {
                let mut archive = archive.lock().expect("nobody panics with it");
                let entry = archive.by_index(self.index).map_err(zip_error)?;
                let damaged = |error| Error::BadList(format!("zip: {error}"));
                entry
                    .take(bytes_max)
                    .read_to_end(&mut bytes)
                    .map_err(damaged)?;
            }
            Songs::SevenZ(songs) => {
                let song = &songs[self.index];
                bytes.extend(song.iter().take(bytes_max as usize));
            }
        }
        Ok(bytes)
    }

    /// The whole song, as far as songs may be long.
    ///
    /// # Errors
    ///
    /// As [`Packed::read`].
    pub fn read_all(&self) -> Result<Vec<u8>> {
        self.read(SONG_BYTES_MAX as u64 + 1)
    }
}

fn zip_error(error: zip::result::ZipError) -> Error {
    match error {
        zip::result::ZipError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            Error::Io(error)
        }
        error => Error::BadList(format!("zip: {error}")),
    }
}

/// The crate shows its errors as their code has them.
fn seven_z_error(error: sevenz_rust2::Error) -> Error {
    use sevenz_rust2::Error as Seven;
    let reason = match error {
        Seven::Io(error, _) | Seven::FileOpen(error, _)
            if !matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::InvalidData
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::Other
            ) =>
        {
            return Error::Io(error);
        }
        Seven::Io(error, _) | Seven::FileOpen(error, _)
            if error.kind() == io::ErrorKind::UnexpectedEof =>
        {
            "it is cut short".into()
        }
        Seven::Io(error, _) | Seven::FileOpen(error, _) => format!("damaged: {error}"),
        Seven::BadSignature(_) => "it does not begin like one".into(),
        Seven::UnsupportedVersion { major, minor } => {
            format!("version {major}.{minor} is not known")
        }
        Seven::ChecksumVerificationFailed | Seven::NextHeaderCrcMismatch => {
            "damaged: a checksum does not match".into()
        }
        Seven::UnsupportedCompressionMethod(name) => format!("packed by {name}, not known here"),
        Seven::PasswordRequired | Seven::MaybeBadPassword(_) => "it is encrypted".into(),
        Seven::MaxMemLimited { max_kb, .. } => format!("it needs more than {max_kb} KiB of memory"),
        Seven::Other(reason) | Seven::Unsupported(reason) => reason.into_owned(),
        Seven::ExternalUnsupported => "its headers lie elsewhere".into(),
        Seven::BadTerminatedStreamsInfo(_)
        | Seven::BadTerminatedUnpackInfo
        | Seven::BadTerminatedPackInfo(_)
        | Seven::BadTerminatedSubStreamsInfo
        | Seven::BadTerminatedHeader(_)
        | Seven::FileNotFound => "damaged: its list of files is broken".into(),
    };
    Error::BadList(format!("7z: {reason}"))
}

fn too_many() -> Error {
    Error::TooLarge(format!("an archive of more than {ENTRIES_MAX} entries"))
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.archive.path == other.archive.path && self.index == other.index
    }
}

impl Eq for Packed {}

impl fmt::Display for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.archive.path.join(&self.place).display().fmt(f)
    }
}

impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_paths_never_leave_the_output_folder() {
        let mut names = Names::default();
        assert!(names.take(0, "a\\b.vgm"));
        assert_eq!(names.places, [(0, "a/b.vgm".into())]);
        for name in [
            "../a.vgm",
            "/a.vgm",
            "a/../../b.vgm",
            "a\0.vgm",
            "\\\\x\\a.vgz",
        ] {
            assert!(!names.take(1, name), "{name:?}");
            let left_out = names.left_out.pop().map(|(name, _)| name);
            assert_eq!(left_out.as_deref(), Some(name));
        }
        for name in ["a.txt", "../a.txt", "", "a.vgm/"] {
            assert!(!names.take(1, name), "{name:?}");
        }
        assert!(names.left_out.is_empty() && names.places.len() == 1);
        assert!(!names.take(1, "disc 2.zip") && names.left_out.len() == 1);
    }
}

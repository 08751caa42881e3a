//! The songs in zip and 7z archives.
//!
//! We unpack a song of a zip archive each time that we read it. A song of a 7z archive may depend
//! on all data before it. We therefore unpack the whole archive once when we open it, up to a
//! limit.
//!
//! Invariant: the path of a song always stays below the output folder, even if a malicious archive
//! has names such as `../a.vgm`.

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

/// The maximum number of entries of an archive.
const ENTRIES_MAX: usize = 100_000;
/// The maximum unpacked size of a 7z archive.
const SEVENZ_BYTES_MAX: u64 = 512 << 20;

/// The bytes of an archive, in a file or in memory.
trait Bytes: Read + Seek + Send {}

impl<B: Read + Seek + Send> Bytes for B {}

/// An open archive.
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
    /// The path of the song in the archive.
    pub place: PathBuf,
}

/// The contents of an archive.
pub struct Listed {
    /// The songs, ordered by name.
    pub songs: Vec<Packed>,
    /// Entries that may be music but are left out, with the reasons.
    pub left_out: Vec<(String, &'static str)>,
}

/// Lists the songs of an archive, which is the file `path` or has these `bytes`.
///
/// # Errors
///
/// - [`Error::Io`] if the archive cannot be read.
/// - [`Error::BadList`] if it is not an archive, or is damaged.
/// - [`Error::TooLarge`] if it has more than 100,000 entries, or a 7z archive unpacks to 512 MiB or
///   more.
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
    /// The songs, by their index in the archive.
    places: Vec<(usize, PathBuf)>,
    left_out: Vec<(String, &'static str)>,
}

impl Names {
    /// Adds an entry. Returns whether it is a song that can be read.
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
            Some(Kind::Song) => "skipped, because its name leads out of the archive",
            Some(kind) if kind.is_archive() => {
                "skipped, because archives in archives are not supported"
            }
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
        // The library `zip` decodes names that are not marked as UTF-8 from the code page of DOS.
        // We therefore check first whether a name is Japanese.
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
    // By default, the library would start threads of its own.
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
            // We must also unpack entries that we skip, because later entries may depend on them.
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
            "the 7z archive unpacks to {} MiB or more",
            SEVENZ_BYTES_MAX >> 20
        );
        return Err(Error::TooLarge(reason));
    }
    Ok(Songs::SevenZ(songs))
}

impl Packed {
    /// Returns the path of the archive.
    pub fn archive(&self) -> &Path {
        &self.archive.path
    }

    /// Reads up to `bytes_max` bytes of the song.
    ///
    /// # Errors
    ///
    /// Returns [`Error::BadList`] if the archive is damaged or encrypted, and [`Error::Io`] if it
    /// cannot be read.
    pub fn read(&self, bytes_max: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match &self.archive.songs {
            Songs::Zip(archive) => {
                let mut archive = archive
                    .lock()
                    .expect("no thread panics while it holds this lock");
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

    /// Reads the song, at most one byte more than the maximum size of songs.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Packed::read`].
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

/// Converts an error of the library `sevenz-rust2`. We write the messages ourselves, because those
/// of the library are names from its code.
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
            "the archive is cut short".into()
        }
        Seven::Io(error, _) | Seven::FileOpen(error, _) => format!("damaged: {error}"),
        Seven::BadSignature(_) => "the file does not begin like a 7z archive".into(),
        Seven::UnsupportedVersion { major, minor } => {
            format!("version {major}.{minor} of the format is not supported")
        }
        Seven::ChecksumVerificationFailed | Seven::NextHeaderCrcMismatch => {
            "the archive is damaged: a checksum does not match".into()
        }
        Seven::UnsupportedCompressionMethod(name) => {
            format!("the compression method {name} is not supported")
        }
        Seven::PasswordRequired | Seven::MaybeBadPassword(_) => "the archive is encrypted".into(),
        Seven::MaxMemLimited { max_kb, .. } => {
            format!("decompressing the archive needs more than {max_kb} KiB of memory")
        }
        Seven::Other(reason) | Seven::Unsupported(reason) => reason.into_owned(),
        Seven::ExternalUnsupported => "external headers are not supported".into(),
        Seven::BadTerminatedStreamsInfo(_)
        | Seven::BadTerminatedUnpackInfo
        | Seven::BadTerminatedPackInfo(_)
        | Seven::BadTerminatedSubStreamsInfo
        | Seven::BadTerminatedHeader(_)
        | Seven::FileNotFound => "the archive is damaged: its list of files cannot be read".into(),
    };
    Error::BadList(format!("7z: {reason}"))
}

fn too_many() -> Error {
    Error::TooLarge(format!("the archive has more than {ENTRIES_MAX} entries"))
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

//! Archives as folders: the songs in zip and 7z files.
//!
//! A zip's songs are unpacked one at a time, as they are rendered. A 7z's may depend on all that
//! lies before them, so they are unpacked once, when the archive is opened, within bounds.
//!
//! Invariant: a song's place is a path below the output folder, whatever the archive says.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use sevenz_rust2::{ArchiveReader, Password};
use zip::ZipArchive;

use super::find::is_song;
use crate::error::{Error, Result};
use crate::format::{SONG_BYTES_MAX, open};

/// The most entries an archive may have.
const ENTRIES_MAX: usize = 100_000;
/// The most bytes that a 7z may unpack to.
const SEVENZ_BYTES_MAX: u64 = 512 << 20;

/// An archive whose songs can be had.
pub struct Archive {
    path: PathBuf,
    songs: Songs,
}

enum Songs {
    Zip(Mutex<ZipArchive<File>>),
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

/// Whether a file is an archive by its name.
pub fn is_archive(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| {
        ["zip", "7z"]
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

/// The songs of an archive, by name.
///
/// # Errors
///
/// [`Error::Io`] if it cannot be read, [`Error::NotVgm`] if it is no archive or a damaged one,
/// [`Error::TooLarge`] beyond 100,000 entries, or 512 MiB of a 7z.
pub fn songs(path: &Path) -> Result<Vec<Packed>> {
    let seven = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("7z"));
    let (songs, places) = if seven { seven_z(path)? } else { zip(path)? };
    let archive = Arc::new(Archive {
        path: path.into(),
        songs,
    });
    let packed = |(index, place)| Packed {
        archive: archive.clone(),
        index,
        place,
    };
    let mut songs: Vec<_> = places.into_iter().map(packed).collect();
    songs.sort_by(|a, b| a.place.cmp(&b.place));
    Ok(songs)
}

type Places = Vec<(usize, PathBuf)>;

fn zip(path: &Path) -> Result<(Songs, Places)> {
    let archive = ZipArchive::new(open(path)?).map_err(zip_error)?;
    if archive.len() > ENTRIES_MAX {
        return Err(too_many());
    }
    let name = |index| Some(archive.name_for_index(index)?.ok()?.into_owned());
    let places = (0..archive.len()).filter_map(|index| Some((index, safe(&name(index)?)?)));
    let places = places.collect();
    Ok((Songs::Zip(Mutex::new(archive)), places))
}

fn seven_z(path: &Path) -> Result<(Songs, Places)> {
    let bad = |error: sevenz_rust2::Error| Error::NotVgm(format!("7z: {error}"));
    let mut reader = ArchiveReader::new(open(path)?, Password::empty()).map_err(bad)?;
    // It would start threads of its own.
    reader.set_thread_count(1);
    if reader.archive().files.len() > ENTRIES_MAX {
        return Err(too_many());
    }
    let (mut songs, mut places, mut left) = (Vec::new(), Vec::new(), SEVENZ_BYTES_MAX);
    let read = reader.for_each_entries(|entry, bytes| {
        let mut bytes = bytes.take(left + 1);
        let mut song = Vec::new();
        match safe(entry.name()).filter(|_| !entry.is_directory()) {
            Some(place) => {
                bytes.read_to_end(&mut song)?;
                places.push((songs.len(), place));
            }
            // What follows may depend on it.
            None => drop(io::copy(&mut bytes, &mut io::sink())?),
        }
        let read = left + 1 - bytes.limit();
        songs.extend((!song.is_empty()).then(|| Arc::new(song)));
        places.truncate(songs.len());
        let fits = read <= left;
        left = left.saturating_sub(read);
        if !fits {
            left = 0;
        }
        Ok(fits)
    });
    read.map_err(bad)?;
    if left == 0 {
        let reason = format!(
            "a 7z that unpacks to {} MiB or more",
            SEVENZ_BYTES_MAX >> 20
        );
        return Err(Error::TooLarge(reason));
    }
    Ok((Songs::SevenZ(songs), places))
}

/// The place of a song, as a path that leads nowhere but down; none of what is no song.
fn safe(name: &str) -> Option<PathBuf> {
    let name = name.replace('\\', "/");
    let path = PathBuf::from(&name);
    let harmless = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (harmless && !name.contains('\0') && is_song(&path)).then_some(path)
}

impl Packed {
    /// The song's bytes, so many at most.
    ///
    /// # Errors
    ///
    /// [`Error::NotVgm`] where the archive is damaged or encrypted.
    pub fn read(&self, bytes_max: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match &self.archive.songs {
            Songs::Zip(archive) => {
                let mut archive = archive.lock().expect("nobody panics with it");
                let entry = archive.by_index(self.index).map_err(zip_error)?;
                let damaged = |error| Error::NotVgm(format!("zip: {error}"));
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
        error => Error::NotVgm(format!("zip: {error}")),
    }
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
    fn places_lead_down_only() {
        assert_eq!(safe("a\\b.vgm"), Some("a/b.vgm".into()));
        for name in [
            "../a.vgm",
            "/a.vgm",
            "a/../../b.vgm",
            "a.txt",
            "a\0.vgm",
            "",
        ] {
            assert_eq!(safe(name), None, "{name:?}");
        }
    }
}

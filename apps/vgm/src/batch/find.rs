//! Which songs the paths of a command line name: files, what lies in folders and archives, what
//! playlists name, and standard input.
//!
//! Invariant: the songs come in the order of the paths, those of a folder by name, and each knows
//! its place below the output folder. No song is opened here but the one on standard input.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Source;
use super::archive::{self, is_archive};
use super::playlist::{self, is_playlist};
use crate::error::Error;
use crate::format::SONG_BYTES_MAX;

/// The endings of songs' names.
const ENDINGS: [&str; 5] = ["vgm", "vgz", "vgb", "vgzst", "gz"];

/// Entries of folders that are looked at, at most, to tell whether songs lie deeper.
const DEEPER_MAX: usize = 10_000;

/// What paths were found to be.
#[derive(Debug, Default)]
pub struct Found {
    /// Each song with its place below the output folder, still with its own ending.
    pub songs: Vec<(Source, PathBuf)>,
    /// Paths that cannot be read, each with the reason.
    pub refused: Vec<(PathBuf, Error)>,
    /// Folders below which songs lie that were not looked for.
    pub deeper: Vec<PathBuf>,
    /// Folders in which nothing was found.
    pub barren: Vec<PathBuf>,
}

/// Finds the songs of `paths`: files as they are, what playlists name, what lies in archives and in
/// folders, below them and in the archives there too if `recurse`, and what `-` is given on standard
/// input, which is read to its end. Links to folders are not followed: they may lead back.
pub fn find(paths: &[PathBuf], recurse: bool) -> Found {
    let mut found = Found::default();
    for path in paths {
        if path.as_os_str() == "-" {
            found.standard_input();
        } else if path.is_dir() {
            let before = found.songs.len();
            let mut below = Vec::new();
            found.folder(path, Path::new(""), recurse, &mut below);
            if below.iter().any(|folder| has_songs(folder)) {
                found.deeper.push(path.clone());
            } else if found.songs.len() == before {
                found.barren.push(path.clone());
            }
        } else if is_archive(path) {
            let before = found.songs.len();
            found.archive(path, Path::new(""));
            if found.songs.len() == before && found.refused.last().is_none_or(|it| it.0 != *path) {
                found.barren.push(path.clone());
            }
        } else if is_playlist(path) {
            match playlist::entries(path) {
                Ok(entries) => entries.into_iter().for_each(|entry| found.file(entry)),
                Err(error) => found.refused.push((path.clone(), error)),
            }
        } else {
            found.file(path.clone());
        }
    }
    found
}

impl Found {
    fn file(&mut self, path: PathBuf) {
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        self.songs.push((Source::File(path), name));
    }

    /// Takes an archive's songs, with their places below `place`.
    fn archive(&mut self, path: &Path, place: &Path) {
        match archive::songs(path) {
            Ok(songs) => self.songs.extend(songs.into_iter().map(|song| {
                let place = place.join(&song.place);
                (Source::Packed(song), place)
            })),
            Err(error) => self.refused.push((path.into(), error)),
        }
    }

    fn standard_input(&mut self) {
        let mut bytes = Vec::new();
        let input = io::stdin().lock().take(SONG_BYTES_MAX as u64 + 1);
        match { input }.read_to_end(&mut bytes) {
            Ok(_) => {
                let source = Source::StandardInput(Arc::new(bytes));
                self.songs.push((source, "stdin.vgm".into()));
            }
            Err(error) => self.refused.push(("-".into(), error.into())),
        }
    }

    /// Takes a folder's songs; the folders below go to `below` unless `recurse`.
    fn folder(&mut self, folder: &Path, place: &Path, recurse: bool, below: &mut Vec<PathBuf>) {
        let entries =
            fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.refused.push((folder.into(), error.into())),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, place) = (entry.path(), place.join(entry.file_name()));
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true if recurse => self.folder(&path, &place, recurse, below),
                false if is_archive(&path) && recurse => {
                    self.archive(&path, &place.with_extension(""));
                }
                false if is_archive(&path) => below.push(path),
                true => below.push(path),
                false if is_song(&path) => self.songs.push((Source::File(path), place)),
                false => {}
            }
        }
    }
}

/// Whether songs lie in a folder or below it, as far as a bounded look tells.
fn has_songs(folder: &Path) -> bool {
    let mut folders = vec![folder.to_path_buf()];
    let mut left = DEEPER_MAX;
    while let Some(folder) = folders.pop() {
        if is_archive(&folder) {
            return true;
        }
        for entry in fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .take(left)
        {
            left -= 1;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if is_song(&entry.path()) || is_archive(&entry.path()) {
                return true;
            }
        }
    }
    false
}

/// Whether a file is a song by its name.
pub(super) fn is_song(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| {
        ENDINGS
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

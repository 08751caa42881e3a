//! Finds the songs for the paths of a command line: files, the contents of folders and archives,
//! the entries of playlists, and standard input.
//!
//! Invariants:
//!
//! - The songs are in the order of the paths. The songs of a folder are ordered by name.
//! - Each song has a path below the output folder.
//! - We read only the first bytes of files here, except for playlists, the directories of archives,
//!   7z archives and standard input.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Source;
use super::archive;
use super::kind::{self, Kind};
use super::playlist::{self, Target};
use crate::error::{Error, Result};

/// The maximum depth of playlists in playlists.
const LISTS_MAX: usize = 16;
/// If this many songs have been found, we reject further entries of playlists.
const LISTED_MAX: usize = 1_000_000;
/// The maximum size of standard input, which may be an archive.
const INPUT_BYTES_MAX: u64 = 512 << 20;

/// The maximum number of entries that we check to find out whether a subfolder contains songs.
const DEEPER_MAX: usize = 10_000;

/// The songs that were found.
#[derive(Debug, Default)]
pub struct Found {
    /// The songs, each with its path below the output folder and its original extension.
    pub songs: Vec<(Source, PathBuf)>,
    /// Paths that cannot be read, each with the reason.
    pub refused: Vec<(PathBuf, Error)>,
    /// Folders that have archives, or subfolders with songs, which were not searched.
    pub unsearched_folders: Vec<PathBuf>,
    /// Folders, archives and playlists without songs.
    pub empty_folders: Vec<PathBuf>,
}

/// Finds the songs of `paths`.
///
/// - A file is a song, an archive or a playlist. Its first bytes determine which, or its name if
///   the first bytes do not.
/// - An archive or a playlist stands for its songs.
/// - A folder stands for the songs in it. With `recurse`, subfolders and archives in the folder are
///   searched as well.
/// - `-` stands for standard input, which is read to its end.
///
/// Within a folder, we do not follow links to folders, because they may lead back to a parent
/// folder.
pub fn find(paths: &[PathBuf], recurse: bool) -> Found {
    let mut found = Found::default();
    for path in paths {
        found.named(path, recurse, &mut Vec::new());
    }
    found
}

/// Returns the files of a folder and its subfolders whose names look like songs or archives,
/// ordered by path. It does not open the files and does not follow links to folders. It skips
/// folders that cannot be read.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if is_song_or_archive(&entry.path()) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

/// Returns the songs of a file: the songs in an archive, otherwise the file itself.
///
/// # Errors
///
/// Fails if an archive cannot be read.
pub fn songs_of(file: &Path) -> Result<Vec<Source>> {
    match Kind::of_file(file) {
        kind if kind.is_archive() => {
            let listed = archive::list(file, kind, None)?;
            Ok(listed.songs.into_iter().map(Source::Packed).collect())
        }
        _ => Ok(vec![Source::File(file.into())]),
    }
}

impl Found {
    /// Adds the songs of a path. `lists` are the playlists that led to the path.
    fn named(&mut self, path: &Path, recurse: bool, lists: &mut Vec<PathBuf>) {
        if path.as_os_str() == "-" && lists.is_empty() {
            return self.standard_input(recurse);
        }
        if path.is_dir() {
            let before = self.songs.len();
            let mut below = Vec::new();
            self.folder(path, Path::new(""), recurse, &mut below);
            if below.iter().any(|folder| has_songs(folder)) {
                self.unsearched_folders.push(path.into());
            } else if self.songs.len() == before {
                self.empty_folders.push(path.into());
            }
            return;
        }
        match Kind::of_file(path) {
            Kind::Song => self.file(path.into()),
            kind if kind.is_archive() => self.named_archive(path, kind, None),
            kind => {
                // A path that cannot be resolved is compared as it is.
                let own = path.canonicalize().unwrap_or(path.into());
                if lists.contains(&own) {
                    return self.refuse(path, "the playlist leads back to itself");
                }
                match playlist::entries(path, kind) {
                    Ok(entries) if entries.is_empty() => self.empty_folders.push(path.into()),
                    Ok(entries) => {
                        lists.push(own);
                        self.listed(entries, recurse, lists);
                        lists.pop();
                    }
                    Err(error) => self.refused.push((path.into(), error)),
                }
            }
        }
    }

    /// Adds the songs of the entries of a playlist.
    fn listed(&mut self, entries: Vec<Target>, recurse: bool, lists: &mut Vec<PathBuf>) {
        for entry in entries {
            let entry = match entry {
                Target::Local(path) => path,
                Target::Remote(uri) => {
                    self.refuse(
                        Path::new(&uri),
                        "network addresses in playlists are not supported",
                    );
                    continue;
                }
                Target::Broken(why) => {
                    let list = lists.last().cloned().unwrap_or_default();
                    self.refuse(&list, &why);
                    continue;
                }
            };
            if lists.len() > LISTS_MAX {
                let reason = "playlists are nested more than 16 levels deep";
                return self.refuse(&entry, reason);
            }
            if self.songs.len() >= LISTED_MAX {
                return self.refuse(
                    &entry,
                    "the playlists contain more than 1,000,000 songs, which is the maximum",
                );
            }
            self.named(&entry, recurse, lists);
        }
    }

    fn refuse(&mut self, path: &Path, reason: &str) {
        let error = Error::BadList(reason.into());
        self.refused.push((path.into(), error));
    }

    fn file(&mut self, path: PathBuf) {
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        self.songs.push((Source::File(path), name));
    }

    /// Adds the songs of an archive, with paths below `place`.
    fn archive(&mut self, path: &Path, kind: Kind, bytes: Option<Arc<[u8]>>, place: &Path) {
        let listed = match archive::list(path, kind, bytes) {
            Ok(listed) => listed,
            Err(error) => return self.refused.push((path.into(), error)),
        };
        for (name, why) in listed.left_out {
            let shown = format!("{}: {name}", path.display());
            self.refuse(Path::new(&shown), why);
        }
        self.songs.extend(listed.songs.into_iter().map(|song| {
            let place = place.join(&song.place);
            (Source::Packed(song), place)
        }));
    }

    /// Adds the songs of an archive that the user named, and records it if it is empty.
    fn named_archive(&mut self, path: &Path, kind: Kind, bytes: Option<Arc<[u8]>>) {
        let before = (self.songs.len(), self.refused.len());
        self.archive(path, kind, bytes, Path::new(""));
        if (self.songs.len(), self.refused.len()) == before {
            self.empty_folders.push(path.into());
        }
    }

    fn standard_input(&mut self, recurse: bool) {
        let mut bytes = Vec::new();
        let input = io::stdin().lock().take(INPUT_BYTES_MAX + 1);
        if let Err(error) = { input }.read_to_end(&mut bytes) {
            return self.refused.push(("-".into(), error.into()));
        }
        if bytes.len() as u64 > INPUT_BYTES_MAX {
            let error = Error::TooLarge(
                "standard input has more than 512 MiB, which is the maximum".into(),
            );
            return self.refused.push(("-".into(), error));
        }
        match Kind::of(&bytes, Path::new("")) {
            Kind::Song => {
                let source = Source::StandardInput(Arc::new(bytes));
                self.songs.push((source, "stdin.vgm".into()));
            }
            kind if kind.is_archive() => {
                let name = Path::new("standard input");
                self.named_archive(name, kind, Some(bytes.into()));
            }
            kind => match playlist::entries_of(&bytes, kind, Path::new("")) {
                Ok(entries) => self.listed(entries, recurse, &mut vec!["-".into()]),
                Err(error) => self.refused.push(("-".into(), error)),
            },
        }
    }

    /// Adds the songs of a folder. Without `recurse`, subfolders and archives go to `below`
    /// instead.
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
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                match recurse {
                    true => self.folder(&path, &place, recurse, below),
                    false => below.push(path),
                }
                continue;
            }
            // We ignore files with other names, because a folder may contain all kinds of files.
            if !is_song_or_archive(&path) {
                continue;
            }
            match Kind::of_file(&path) {
                kind if !kind.is_archive() => self.songs.push((Source::File(path), place)),
                kind if recurse => self.archive(&path, kind, None, &place.with_extension("")),
                _ => below.push(path),
            }
        }
    }
}

/// Returns whether a folder or its subfolders seem to contain songs. It checks only the names, and
/// only a limited number of them.
fn has_songs(folder: &Path) -> bool {
    let mut folders = vec![folder.to_path_buf()];
    let mut left = DEEPER_MAX;
    while let Some(folder) = folders.pop() {
        if is_song_or_archive(&folder) && !folder.is_dir() {
            return true;
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.take(left) {
            left -= 1;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if is_song_or_archive(&entry.path()) {
                return true;
            }
        }
    }
    false
}

/// Returns whether a file has the name of a song or an archive.
fn is_song_or_archive(path: &Path) -> bool {
    kind::by_name(path).is_some_and(|kind| kind == Kind::Song || kind.is_archive())
}

//! Which songs the paths of a command line name: files, what lies in folders and archives, what
//! playlists name, and standard input.
//!
//! Invariant: the songs come in the order of the paths, those of a folder by name, and each knows
//! its place below the output folder. Of files no more than their first bytes are read here, but for
//! playlists, the lists of archives, 7z archives and standard input.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Source;
use super::archive;
use super::kind::{self, Kind};
use super::playlist::{self, Target};
use crate::error::{Error, Result};

/// How deep playlists may name playlists.
const LISTS_MAX: usize = 16;
/// Songs that playlists may name in all.
const LISTED_MAX: usize = 1_000_000;
/// The most bytes taken from standard input: an archive, perhaps.
const INPUT_BYTES_MAX: u64 = 512 << 20;

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
    pub unsearched_folders: Vec<PathBuf>,
    /// Folders in which nothing was found.
    pub empty_folders: Vec<PathBuf>,
}

/// Finds the songs of `paths`: files as they are, what playlists name, what lies in archives and in
/// folders, below them and in the archives there too if `recurse`, and what `-` is given on standard
/// input, which is read to its end. What a file is, its first bytes say. Links to folders are not
/// followed: they may lead back.
pub fn find(paths: &[PathBuf], recurse: bool) -> Found {
    let mut found = Found::default();
    for path in paths {
        found.named(path, recurse, &mut Vec::new());
    }
    found
}

/// The files of a folder and below it whose names are those of songs or archives, by name; none is
/// opened. Links to folders are not followed. A folder that cannot be read is passed over.
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

/// The songs of such a file: what lies in an archive, else the file itself.
///
/// # Errors
///
/// If an archive cannot be read.
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
    /// Takes what a path means; `lists` are the playlists that led to it.
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
                // Its own name where it has no other.
                let own = path.canonicalize().unwrap_or(path.into());
                if lists.contains(&own) {
                    return self.refuse(path, "a playlist that leads back to itself");
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

    /// Takes what a playlist names.
    fn listed(&mut self, entries: Vec<Target>, recurse: bool, lists: &mut Vec<PathBuf>) {
        for entry in entries {
            let entry = match entry {
                Target::Local(path) => path,
                Target::Remote(uri) => {
                    self.refuse(Path::new(&uri), "is on the network, not fetched");
                    continue;
                }
                Target::Broken(why) => {
                    let list = lists.last().cloned().unwrap_or_default();
                    self.refuse(&list, &why);
                    continue;
                }
            };
            if lists.len() > LISTS_MAX {
                let reason = "a playlist in a playlist in a playlist, more than 16 deep";
                return self.refuse(&entry, reason);
            }
            if self.songs.len() >= LISTED_MAX {
                return self.refuse(&entry, "the playlists name more than 1,000,000 songs");
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

    /// Takes an archive's songs, with their places below `place`.
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

    /// The same of an archive that was asked for by its name.
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
            let error = Error::TooLarge("more than 512 MiB on standard input".into());
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
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                match recurse {
                    true => self.folder(&path, &place, recurse, below),
                    false => below.push(path),
                }
                continue;
            }
            // What has another name is none of ours: a folder holds all kinds of files.
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

/// Whether songs lie in a folder or below it, as far as a bounded look at names tells.
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

/// Whether a file is one of these by its name.
fn is_song_or_archive(path: &Path) -> bool {
    kind::by_name(path).is_some_and(|kind| kind == Kind::Song || kind.is_archive())
}

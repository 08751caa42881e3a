//! What to render: songs found in files and folders, each with the place of its output.
//!
//! Invariant: no two songs share an output, and the order is that of their lengths, so that the
//! longest starts first and no worker is left with it at the end.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::demo;
use crate::error::{Error, Result};
use crate::format::{Song, peek_samples};

/// Where a song comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// One of the songs that the program carries.
    Carried(&'static demo::Carried),
}

impl Source {
    /// Reads the song.
    ///
    /// # Errors
    ///
    /// As [`Song::read`].
    pub fn load(&self) -> Result<Song> {
        match self {
            Source::File(path) => Song::read(path),
            Source::Carried(song) => Song::parse(song.packed.to_vec()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Carried(song) => write!(f, "{} (carried)", song.name),
        }
    }
}

/// A song to render.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The song.
    pub input: Source,
    /// The sound file to write, below the output folder.
    pub output: PathBuf,
    /// How long the song claims to be, in samples at 44,100 Hz; for ordering and estimates only.
    pub claimed: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Plan {
    /// The songs to render, the longest first.
    pub units: Vec<Unit>,
    /// Paths that cannot be rendered, each with the reason.
    pub refused: Vec<(PathBuf, Error)>,
}

/// The endings of songs' names.
const ENDINGS: [&str; 5] = ["vgm", "vgz", "vgb", "vgzst", "gz"];

/// Finds the songs of `paths`: files as they are, and what lies in folders, below them too if
/// `recurse`. The outputs mirror the folders' trees below `output`, with `extension`.
pub fn plan(paths: &[PathBuf], output: &Path, extension: &str, recurse: bool) -> Plan {
    let mut found = Found::default();
    for path in paths {
        if path.is_dir() {
            found.folder(path, Path::new(""), recurse);
        } else {
            let name = path.file_name().map(PathBuf::from).unwrap_or_default();
            found.songs.push((path.clone(), name));
        }
    }
    let mut plan = Plan {
        units: Vec::new(),
        refused: found.refused,
    };
    let mut taken: HashMap<PathBuf, PathBuf> = HashMap::new();
    for (input, place) in found.songs {
        let target = output.join(place.with_extension(extension));
        if let Some(first) = taken.get(&target) {
            let reason = format!(
                "{} has the same output, {}",
                first.display(),
                target.display()
            );
            plan.refused
                .push((input, Error::Io(io::Error::other(reason))));
            continue;
        }
        match claimed_samples(&input) {
            Ok(claimed) => {
                taken.insert(target.clone(), input.clone());
                plan.units.push(Unit {
                    input: Source::File(input),
                    output: target,
                    claimed,
                });
            }
            Err(error) => plan.refused.push((input, error)),
        }
    }
    sort(&mut plan.units);
    plan
}

/// The songs that the program carries.
pub fn carried(output: &Path, extension: &str) -> Plan {
    let unit = |song: &'static demo::Carried| Unit {
        input: Source::Carried(song),
        output: output.join(song.name).with_extension(extension),
        claimed: peek_samples(song.packed),
    };
    let mut plan = Plan {
        units: demo::CARRIED.iter().map(unit).collect(),
        refused: Vec::new(),
    };
    sort(&mut plan.units);
    plan
}

fn sort(units: &mut [Unit]) {
    units.sort_by(|a, b| b.claimed.cmp(&a.claimed).then(a.output.cmp(&b.output)));
}

#[derive(Default)]
struct Found {
    /// Each song with its place below the output folder.
    songs: Vec<(PathBuf, PathBuf)>,
    refused: Vec<(PathBuf, Error)>,
}

impl Found {
    fn folder(&mut self, folder: &Path, place: &Path, recurse: bool) {
        let entries =
            fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(error) => return self.refused.push((folder.into(), error.into())),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, place) = (entry.path(), place.join(entry.file_name()));
            // A link to a folder is not followed: it may lead back here.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && recurse {
                self.folder(&path, &place, recurse);
            } else if !is_folder && is_song(&path) {
                self.songs.push((path, place));
            }
        }
    }
}

fn is_song(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| {
        ENDINGS
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

/// What the header says of the song's length; 0 where that cannot be told, for the error will show
/// when the song is rendered.
fn claimed_samples(path: &Path) -> Result<u64> {
    let mut file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    let mut front = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut front)?;
    Ok(peek_samples(&front))
}

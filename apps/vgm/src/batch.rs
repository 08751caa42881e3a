//! What to render: songs found in files and folders, each with the place of its output.
//!
//! Invariant: no two songs share an output, and the order is that of the time they are expected to
//! take, so that the longest starts first and no worker is left with it at the end.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::chips::set::frame_ns;
use crate::demo;
use crate::error::{Error, Result};
use crate::format::{Header, Song, peek};

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
    /// How long the song claims to be, in samples at 44,100 Hz; for estimates only.
    pub claimed: u64,
    /// About how long rendering will take; for ordering only.
    pub cost: Cost,
}

/// An estimate of a song's rendering time, in ns; 0 where its header does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Of all its chips.
    pub whole: u64,
    /// Of the one that takes longest.
    pub longest_chip: u64,
}

impl Cost {
    /// The cost of a header's chips over so many frames.
    pub fn of(header: &Header, frames: u64) -> Cost {
        let chips = header.instances();
        let each = chips.map(|instance| frames.saturating_mul(frame_ns(instance.chip)));
        each.fold(Cost::default(), |cost, chip| Cost {
            whole: cost.whole.saturating_add(chip),
            longest_chip: cost.longest_chip.max(chip),
        })
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct Plan {
    /// The songs to render, those that take longest first.
    pub units: Vec<Unit>,
    /// Paths that cannot be rendered, each with the reason.
    pub refused: Vec<(PathBuf, Error)>,
}

impl Plan {
    /// Whether `jobs` workers are done sooner if they share each song, a chip a worker, than if each
    /// takes songs of its own.
    pub fn is_better_split(&self, jobs: usize) -> bool {
        let costs = || self.units.iter().map(|unit| unit.cost);
        let shared: u64 = costs().map(|cost| cost.longest_chip).sum();
        let longest = costs().map(|cost| cost.whole).max().unwrap_or(0);
        // Only where there are workers without a song; an eighth is left for meetings.
        self.units.len() < jobs && shared < longest / 8 * 7
    }
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
        match peek_file(&input) {
            Ok(header) => {
                taken.insert(target.clone(), input.clone());
                plan.units
                    .push(unit(Source::File(input), target, header.as_ref()));
            }
            Err(error) => plan.refused.push((input, error)),
        }
    }
    sort(&mut plan.units);
    plan
}

/// The songs that the program carries.
pub fn carried(output: &Path, extension: &str) -> Plan {
    let unit = |song: &'static demo::Carried| {
        let output = output.join(song.name).with_extension(extension);
        unit(Source::Carried(song), output, peek(song.packed).as_ref())
    };
    let mut plan = Plan {
        units: demo::CARRIED.iter().map(unit).collect(),
        refused: Vec::new(),
    };
    sort(&mut plan.units);
    plan
}

/// A unit of a song with this header, if it could be read.
fn unit(input: Source, output: PathBuf, header: Option<&Header>) -> Unit {
    let claimed = header.map_or(0, |header| u64::from(header.claimed_samples));
    Unit {
        input,
        output,
        claimed,
        cost: header.map_or(Cost::default(), |header| Cost::of(header, claimed)),
    }
}

fn sort(units: &mut [Unit]) {
    let key = |unit: &Unit| (unit.cost.whole, unit.claimed);
    units.sort_by(|a, b| key(b).cmp(&key(a)).then(a.output.cmp(&b.output)));
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

/// The header of a song; none where it cannot be read, for the error will show when the song is
/// rendered.
fn peek_file(path: &Path) -> Result<Option<Header>> {
    let mut file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    let mut front = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut front)?;
    Ok(peek(&front))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan of songs with chips of these costs.
    fn plan(songs: &[&[u64]]) -> Plan {
        let unit = |chips: &&[u64]| Unit {
            input: Source::File(PathBuf::new()),
            output: PathBuf::new(),
            claimed: 1,
            cost: Cost {
                whole: chips.iter().sum(),
                longest_chip: chips.iter().copied().max().unwrap_or(0),
            },
        };
        Plan {
            units: songs.iter().map(unit).collect(),
            refused: Vec::new(),
        }
    }

    #[test]
    fn songs_are_shared_only_where_workers_would_idle_and_it_pays() {
        let dual: &[u64] = &[50, 50];
        assert!(plan(&[dual]).is_better_split(2));
        assert!(!plan(&[dual]).is_better_split(1));
        assert!(!plan(&[&[100]]).is_better_split(8));
        assert!(!plan(&[dual, dual]).is_better_split(2), "a song for each");
        assert!(
            !plan(&[dual, dual]).is_better_split(4),
            "two at once are as fast"
        );
        assert!(plan(&[&[30; 4], &[30; 4]]).is_better_split(4));
        assert!(!plan(&[]).is_better_split(4));
    }

    #[test]
    fn carried_songs_come_in_the_order_of_their_costs() {
        let units = carried(Path::new("out"), "wav").units;
        assert!(units.iter().all(|unit| unit.cost.whole > 0));
        assert!(units.is_sorted_by_key(|unit| std::cmp::Reverse(unit.cost.whole)));
    }
}

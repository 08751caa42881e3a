//! What to render: songs found in files, folders and archives, each with the place of its output.
//!
//! Invariant: no two songs share an output, and the order is that of the time they are expected to
//! take, so that the longest starts first and no worker is left with it at the end.

mod archive;
mod engine;
mod find;
mod gains;
mod kind;
mod naming;
mod playlist;
mod preview;
mod stems;
mod text;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use creel::Pool;

pub use archive::Packed;
pub use engine::{Engine, Event, Existing, Observer, SPARE_WORKERS, Stream, Warnings};
pub use find::{Found, files_below, find, songs_of};
pub use naming::Naming;
pub use playlist::Playlist;
pub use preview::{Intent, Preview};
pub use stems::{Stem, StemKind};

use crate::chips::factory::render_cost_ns;
use crate::demo;
use crate::error::{Error, Result};
use crate::format::{Header, Song, open, peek};
use crate::output::NAME_BYTES_MAX;

/// How much of a file is read to see its header.
const FRONT: u64 = 4096;

/// Where a song comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A song in an archive.
    Packed(Packed),
    /// One of the songs that the program carries.
    Carried(&'static demo::Carried),
    /// What standard input gave.
    StandardInput(Arc<Vec<u8>>),
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
            Source::Packed(song) => Song::parse(song.read_all()?),
            Source::Carried(song) => Song::parse(song.packed.to_vec()),
            Source::StandardInput(bytes) => Song::parse(bytes.to_vec()),
        }
    }
}

impl Source {
    /// The path that it has, or stands for.
    fn path(&self) -> PathBuf {
        match self {
            Source::File(path) => path.clone(),
            Source::Packed(song) => song.to_string().into(),
            Source::Carried(song) => song.name.into(),
            Source::StandardInput(_) => "-".into(),
        }
    }

    /// Its file's path as a URI has it, where that is no text.
    pub fn escaped(&self) -> Option<String> {
        match self {
            Source::File(path) => escaped(path),
            _ => None,
        }
    }

    /// The folder or the archive that it was found in, at `place`.
    fn root(&self, place: &Path) -> PathBuf {
        match self {
            Source::File(path) => {
                let root = path.ancestors().nth(place.components().count());
                root.unwrap_or(Path::new("")).into()
            }
            Source::Packed(song) => song.archive().into(),
            Source::Carried(_) | Source::StandardInput(_) => PathBuf::new(),
        }
    }

    /// Whether both are one song, however they are named.
    fn is_same(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::File(a), Source::File(b)) => one_file(a, b),
            (Source::Packed(a), Source::Packed(b)) => {
                a.place == b.place && one_file(a.archive(), b.archive())
            }
            _ => self == other,
        }
    }

    /// The header; none where it cannot be read, for the error will show when the song is rendered.
    fn header(&self) -> Result<Option<Header>> {
        Ok(match self {
            Source::File(path) => {
                let mut front = Vec::new();
                open(path)?.take(FRONT).read_to_end(&mut front)?;
                peek(&front)
            }
            Source::Packed(song) => peek(&song.read(FRONT)?),
            Source::Carried(song) => peek(song.packed),
            Source::StandardInput(bytes) => peek(bytes),
        })
    }
}

/// A path percent-escaped as a URI has it, if it is not UTF-8: what is printed of it then is another.
pub fn escaped(path: &Path) -> Option<String> {
    match path.to_str() {
        Some(_) => None,
        None => Some(text::escaped(path.as_os_str().as_encoded_bytes())),
    }
}

fn one_file(a: &Path, b: &Path) -> bool {
    let own = |path: &Path| path.canonicalize().ok();
    a == b || own(a).is_some_and(|a| Some(a) == own(b))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => path.display().fmt(f),
            Source::Packed(song) => song.fmt(f),
            Source::Carried(song) => write!(f, "{} (carried)", song.name),
            Source::StandardInput(_) => f.write_str("standard input"),
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
    /// Its place in the input.
    pub order: usize,
    /// What of it is rendered, if not all.
    pub stem: Option<Stem>,
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
        let each = chips.map(|instance| frames.saturating_mul(render_cost_ns(instance.chip)));
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
    /// Folders below which songs lie that were not looked for.
    pub unsearched_folders: Vec<PathBuf>,
    /// Folders in which nothing was found.
    pub empty_folders: Vec<PathBuf>,
}

impl Plan {
    /// Gives each song an output of its own. Songs that are the same are rendered once; where others
    /// meet, those that come from these folders and archives lie in folders of their names. `roots`
    /// has where each song comes from, by its order.
    fn resolve_outputs(&mut self, base: &Path, roots: &[PathBuf]) {
        self.units.sort_by_key(|unit| unit.order);
        let mut first: HashMap<PathBuf, usize> = HashMap::new();
        let (mut twice, mut apart) = (HashSet::new(), HashSet::new());
        for (place, unit) in self.units.iter().enumerate() {
            match first.entry(unit.output.clone()) {
                Entry::Vacant(entry) => drop(entry.insert(place)),
                Entry::Occupied(entry) => {
                    let other = &self.units[*entry.get()];
                    if other.input.is_same(&unit.input) {
                        twice.insert(unit.order);
                    } else if roots[other.order] != roots[unit.order] {
                        apart.extend([&roots[other.order], &roots[unit.order]]);
                    }
                }
            }
        }
        self.units.retain(|unit| !twice.contains(&unit.order));
        for unit in &mut self.units {
            let root = &roots[unit.order];
            if let Ok(place) = unit.output.strip_prefix(base)
                && apart.contains(root)
            {
                unit.output = base.join(name_of(root)).join(place);
            }
        }
        self.reject_duplicates();
    }

    /// Refuses songs whose output is that of an earlier one of the input.
    fn reject_duplicates(&mut self) {
        self.units.sort_by_key(|unit| unit.order);
        let mut taken: HashMap<PathBuf, Source> = HashMap::new();
        let (units, refused) = (&mut self.units, &mut self.refused);
        units.retain(|unit| {
            let Some(first) = taken.get(&unit.output) else {
                taken.insert(unit.output.clone(), unit.input.clone());
                return true;
            };
            let output = unit.output.display();
            let reason = format!("{first} has the same output, {output}");
            refused.push((unit.input.path(), Error::Io(io::Error::other(reason))));
            false
        });
        sort(units);
    }

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

/// The songs of `paths`, as [`find`] has them. The outputs mirror the folders' trees below `output`,
/// with `extension`, and no two songs share one, unless `output` is `-`: a song that is named twice is
/// rendered once, and songs of several folders or archives whose names meet lie in folders named after
/// these.
pub fn plan(paths: &[PathBuf], output: &Path, extension: &str, recurse: bool) -> Plan {
    let (mut plan, roots) = collect(paths, output, extension, recurse);
    // A stream takes all songs, whatever their names.
    if output.as_os_str() == "-" {
        sort(&mut plan.units);
    } else {
        plan.resolve_outputs(output, &roots);
    }
    plan
}

/// The same with names by a pattern.
pub fn plan_named(
    (paths, recurse): (&[PathBuf], bool),
    output: &Path,
    extension: &str,
    (naming, pool): (&Naming, &Pool),
) -> Plan {
    let (mut plan, roots) = collect(paths, output, extension, recurse);
    naming.rename(&mut plan, pool);
    plan.resolve_outputs(output, &roots);
    plan
}

/// The songs of `paths`, of which some may share an output, and the folder or archive that each comes
/// from, by its order.
fn collect(
    paths: &[PathBuf],
    output: &Path,
    extension: &str,
    recurse: bool,
) -> (Plan, Vec<PathBuf>) {
    let found = find(paths, recurse);
    let mut plan = Plan {
        units: Vec::new(),
        refused: found.refused,
        unsearched_folders: found.unsearched_folders,
        empty_folders: found.empty_folders,
    };
    let mut roots = Vec::new();
    for (input, place) in found.songs {
        let target = output.join(with_ending(&place, &format!(".{extension}")));
        match input.header() {
            Ok(header) => {
                roots.push(input.root(&place));
                let order = plan.units.len();
                plan.units.push(unit(input, target, header.as_ref(), order));
            }
            Err(error) => plan.refused.push((input.path(), error)),
        }
    }
    (plan, roots)
}

/// What a folder or an archive is called.
fn name_of(root: &Path) -> OsString {
    let own = root.canonicalize().unwrap_or(root.into());
    let name = match own.is_dir() {
        true => own.file_name(),
        false => own.file_stem(),
    };
    name.unwrap_or_default().to_os_string()
}

/// A place with another ending behind its name's stem, of which so much is cut off that file systems
/// take the name.
fn with_ending(place: &Path, ending: &str) -> PathBuf {
    let stem = place.file_stem().unwrap_or_default();
    let most = NAME_BYTES_MAX.saturating_sub(ending.len());
    let mut name = stem.to_os_string();
    if stem.len() > most {
        let stem = stem.to_string_lossy();
        let end = (0..=most).rev().find(|end| stem.is_char_boundary(*end));
        name = stem[..end.unwrap_or(0)].into();
    }
    name.push(ending);
    place.with_file_name(name)
}

/// The songs that the program carries.
pub fn carried(output: &Path, extension: &str) -> Plan {
    let unit = |(order, song): (usize, &'static demo::Carried)| {
        let output = output.join(song.name).with_extension(extension);
        let header = peek(song.packed);
        unit(Source::Carried(song), output, header.as_ref(), order)
    };
    let mut plan = Plan {
        units: demo::CARRIED.iter().enumerate().map(unit).collect(),
        ..Plan::default()
    };
    sort(&mut plan.units);
    plan
}

/// A unit of a song with this header, if it could be read.
fn unit(input: Source, output: PathBuf, header: Option<&Header>, order: usize) -> Unit {
    let claimed = header.map_or(0, |header| u64::from(header.claimed_samples));
    Unit {
        input,
        output,
        claimed,
        cost: header.map_or(Cost::default(), |header| Cost::of(header, claimed)),
        order,
        stem: None,
    }
}

fn sort(units: &mut [Unit]) {
    let key = |unit: &Unit| (unit.cost.whole, unit.claimed);
    units.sort_by(|a, b| key(b).cmp(&key(a)).then(a.output.cmp(&b.output)));
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
            order: 0,
            stem: None,
        };
        Plan {
            units: songs.iter().map(unit).collect(),
            ..Plan::default()
        }
    }

    #[test]
    fn songs_are_split_only_if_it_finishes_sooner() {
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
    fn bundled_songs_are_sorted_by_cost() {
        let units = carried(Path::new("out"), "wav").units;
        assert!(units.iter().all(|unit| unit.cost.whole > 0));
        assert!(units.is_sorted_by_key(|unit| std::cmp::Reverse(unit.cost.whole)));
    }
}

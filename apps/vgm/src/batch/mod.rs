//! Batch rendering: finding songs in files, folders and archives, planning their output files, and
//! rendering them on a pool.
//!
//! Invariants of a plan:
//!
//! - No two songs share an output file. Only standard output (`-`) can take more than one song.
//! - The songs are ordered by their expected rendering time, longest first. Otherwise, a long song
//!   that starts last would keep one worker busy while all others are idle.

#[cfg(feature = "formats")]
mod archive;
#[cfg(not(feature = "formats"))]
#[path = "archive_disabled.rs"]
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

/// The number of bytes that we read from a file for its header.
const FRONT: u64 = 4096;

/// The source of a song.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A song in an archive.
    Packed(Packed),
    /// One of the built-in demo songs.
    Carried(&'static demo::Carried),
    /// The bytes of standard input.
    StandardInput(Arc<Vec<u8>>),
}

impl Source {
    /// Reads the song.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Song::read`], and for a song in an archive also those of
    /// [`Packed::read_all`].
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
    /// Returns the path of the song, or a text that stands for it.
    fn path(&self) -> PathBuf {
        match self {
            Source::File(path) => path.clone(),
            Source::Packed(song) => song.to_string().into(),
            Source::Carried(song) => song.name.into(),
            Source::StandardInput(_) => "-".into(),
        }
    }

    /// Returns the path of the file percent-escaped as in a URI, if the path is not UTF-8.
    pub fn escaped(&self) -> Option<String> {
        match self {
            Source::File(path) => escaped(path),
            _ => None,
        }
    }

    /// Returns the folder or archive in which the song was found at the relative path `place`.
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

    /// Returns whether both are the same song, even if their paths differ.
    fn is_same(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::File(a), Source::File(b)) => one_file(a, b),
            (Source::Packed(a), Source::Packed(b)) => {
                a.place == b.place && one_file(a.archive(), b.archive())
            }
            _ => self == other,
        }
    }

    /// Reads the header. Returns `None` if the header is malformed. The error then appears when the
    /// song is rendered.
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

/// Returns a path percent-escaped as in a URI, if it is not UTF-8. In this case, the printed path
/// differs from the real one.
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
            Source::Carried(song) => write!(f, "{} (built-in)", song.name),
            Source::StandardInput(_) => f.write_str("standard input"),
        }
    }
}

/// A song to render.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The place from which the song is read.
    pub input: Source,
    /// The path of the sound file, below the output folder.
    pub output: PathBuf,
    /// The length of the song according to its header, in samples at 44,100 Hz. We use it only for
    /// estimates.
    pub claimed: u64,
    /// The estimated rendering time. The order of the songs and
    /// [`is_better_split`](Plan::is_better_split) depend on it.
    pub cost: Cost,
    /// The position of the song in the input.
    pub order: usize,
    /// The number of the song among the songs of its output folder, from 1 in the order of the
    /// input. It is `None` for a song that is alone in its output folder.
    pub track: Option<usize>,
    /// The part of the song to render, or `None` for the whole song.
    pub stem: Option<Stem>,
}

/// The estimated rendering time of a song in ns, or 0 if its header does not have the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// The rendering time of all chips of the song together, in ns.
    pub whole: u64,
    /// The rendering time of the slowest chip of the song, in ns.
    pub longest_chip: u64,
}

impl Cost {
    /// Estimates the cost of rendering the chips of a header for a number of frames.
    pub fn of(header: &Header, frames: u64) -> Cost {
        let chips = header.instances();
        let each = chips.map(|instance| frames.saturating_mul(render_cost_ns(instance.chip)));
        each.fold(Cost::default(), |cost, chip| Cost {
            whole: cost.whole.saturating_add(chip),
            longest_chip: cost.longest_chip.max(chip),
        })
    }
}

/// A plan of songs to render.
#[derive(Debug, Default)]
pub struct Plan {
    /// The songs to render. The one that takes longest comes first.
    pub units: Vec<Unit>,
    /// Paths that cannot be rendered, each with the reason.
    pub refused: Vec<(PathBuf, Error)>,
    /// Folders that have archives, or subfolders with songs, which were not searched.
    pub unsearched_folders: Vec<PathBuf>,
    /// Folders, archives and playlists without songs.
    pub empty_folders: Vec<PathBuf>,
}

impl Plan {
    /// Gives each song an output file of its own. A song that appears twice is rendered once. If
    /// songs of different folders or archives have the same output, all songs of these folders or
    /// archives move into subfolders with their names. Songs that still have the output of an
    /// earlier song are rejected. `roots` has the folder or archive of each song, indexed by its
    /// order.
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

    /// Rejects songs whose output is already the output of an earlier song of the input.
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
            let reason = format!(
                "cannot render to {output}, because {first} has the same output. Use --name to \
                 give them different names"
            );
            refused.push((unit.input.path(), Error::Io(io::Error::other(reason))));
            false
        });
        sort(units);
    }

    /// Returns whether `jobs` workers finish sooner if they share each song, with one chip per
    /// worker, than if each renders songs of its own.
    pub fn is_better_split(&self, jobs: usize) -> bool {
        let costs = || self.units.iter().map(|unit| unit.cost);
        let shared: u64 = costs().map(|cost| cost.longest_chip).sum();
        let longest = costs().map(|cost| cost.whole).max().unwrap_or(0);
        // Sharing helps only if some workers would have no song. We assume that synchronization
        // costs an eighth of the time.
        self.units.len() < jobs && shared < longest / 8 * 7
    }
}

/// Plans the songs of `paths`, as [`find`] finds them. The outputs mirror the tree of the folders
/// below `output`, with `extension`. Unless `output` is `-`, no two songs share an output, and a
/// song that appears twice is rendered once. If songs of several folders or archives have the same
/// name, their outputs are in subfolders with the names of these folders or archives.
pub fn plan(paths: &[PathBuf], output: &Path, extension: &str, recurse: bool) -> Plan {
    let (mut plan, roots) = collect(paths, output, extension, recurse);
    number_tracks(&mut plan.units);
    // On stdout, the names of the songs do not matter.
    if output.as_os_str() == "-" {
        sort(&mut plan.units);
    } else {
        plan.resolve_outputs(output, &roots);
    }
    plan
}

/// Plans the songs of `paths` like [`plan`], and names the outputs by a pattern.
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

/// Collects the songs of `paths`, which may share outputs. Also returns the folder or archive of
/// each song, indexed by its order.
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

/// Returns the name of a folder, or of an archive without its extension.
fn name_of(root: &Path) -> OsString {
    let own = root.canonicalize().unwrap_or(root.into());
    let name = match own.is_dir() {
        true => own.file_name(),
        false => own.file_stem(),
    };
    name.unwrap_or_default().to_os_string()
}

/// Replaces the extension of a path with `ending`. If the name is too long for file systems, its
/// stem is cut.
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

/// Plans the built-in demo songs.
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
    number_tracks(&mut plan.units);
    sort(&mut plan.units);
    plan
}

/// Creates the entry of a song in a plan. `header` is `None` if it could not be read.
fn unit(input: Source, output: PathBuf, header: Option<&Header>, order: usize) -> Unit {
    let claimed = header.map_or(0, |header| u64::from(header.claimed_samples));
    Unit {
        input,
        output,
        claimed,
        cost: header.map_or(Cost::default(), |header| Cost::of(header, claimed)),
        order,
        track: None,
        stem: None,
    }
}

/// Numbers the songs of each output folder in the order of the input. A song alone has no number.
fn number_tracks(units: &mut [Unit]) {
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by_key(|place| units[*place].order);
    let mut folders: HashMap<_, Vec<usize>> = HashMap::new();
    for place in order {
        let folder = units[place].output.parent().map(PathBuf::from);
        folders.entry(folder).or_default().push(place);
    }
    for places in folders.values().filter(|places| places.len() > 1) {
        for (number, place) in (1..).zip(places) {
            units[*place].track = Some(number);
        }
    }
}

fn sort(units: &mut [Unit]) {
    let key = |unit: &Unit| (unit.cost.whole, unit.claimed);
    units.sort_by(|a, b| key(b).cmp(&key(a)).then(a.output.cmp(&b.output)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a plan of songs, each with chips of the given costs.
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
            track: None,
            stem: None,
        };
        Plan {
            units: songs.iter().map(unit).collect(),
            ..Plan::default()
        }
    }

    #[test]
    fn songs_are_split_only_if_the_batch_ends_sooner() {
        let dual: &[u64] = &[50, 50];
        assert!(plan(&[dual]).is_better_split(2));
        assert!(!plan(&[dual]).is_better_split(1));
        assert!(!plan(&[&[100]]).is_better_split(8));
        assert!(
            !plan(&[dual, dual]).is_better_split(2),
            "there is a song for each worker"
        );
        assert!(
            !plan(&[dual, dual]).is_better_split(4),
            "rendering both songs at the same time is as fast"
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

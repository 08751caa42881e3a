//! Renders the songs of a plan on the workers of one pool. Each job renders one song at a time.
//!
//! The first workers render. The workers beyond the number of jobs sync finished files to the disk,
//! because syncing takes as long as a tenth of rendering and needs no processor. If there are no
//! such workers, the rendering workers do both.
//!
//! Invariants:
//!
//! - Each song is started by one worker, in the order of the plan. Its end is reported once, unless
//!   the run stops before.
//! - A file appears under its name only when it is complete, even if something fails.
//! - The bytes of the files do not depend on the number of jobs or workers.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard};

use creel::Pool;
use creel_console::AtomicFile;

use super::gains::Gains;
use super::{Plan, Unit};
use crate::chips::factory::{missing, unsupported};
use crate::effects::Effects;
use crate::error::{Error, Result};
use crate::format::Song;
use crate::output::{Extent, Job, Outcome, OutputSettings, TemporaryFile};
use crate::render::Settings;
use crate::wav::Layout;

/// The number of workers beyond the jobs that a pool for a batch should have. Several workers wait
/// for the disk at once, because the disk can sync several files at the same time.
pub const SPARE_WORKERS: usize = 4;

/// If this many files wait for the disk, the jobs start no further song.
const UNPUBLISHED_MAX: usize = 16;

/// The treatment of songs whose sound file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// The song fails.
    #[default]
    Refuse,
    /// The file is replaced.
    Replace,
    /// The song is skipped.
    Skip,
}

/// The warnings about a song.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Warnings {
    /// The names of the chips that are not played.
    pub chips_missing: Vec<&'static str>,
    /// The warnings about other parts of the song that are not played. `warnings` has them as well.
    pub not_played: Vec<String>,
    /// All warnings that are not about missing chips.
    pub warnings: Vec<String>,
}

impl Warnings {
    /// Returns the warnings about a song.
    pub fn of(song: &Song) -> Warnings {
        let name = |instance: crate::format::Instance| song.header.name(instance.chip);
        let mut not_played = song.losses().to_vec();
        not_played.extend(unsupported(song));
        let mut warnings = not_played.clone();
        let others = song.warnings().iter();
        warnings.extend(others.filter(|it| !song.losses().contains(it)).cloned());
        if song.chips().next().is_none() {
            warnings.push("the song does not write to any chip for which it has a clock".into());
        }
        Warnings {
            chips_missing: missing(song).into_iter().map(name).collect(),
            not_played,
            warnings,
        }
    }

    /// Returns whether everything in the song is played. `--strict` rejects other songs.
    pub fn is_complete(&self) -> bool {
        self.chips_missing.is_empty() && self.not_played.is_empty()
    }

    /// Adds a warning if the song is silent. A silent stem is normal, so there is no warning for
    /// it.
    fn with_silence(mut self, unit: &Unit, extent: Extent, how: OutputSettings<'_>) -> Warnings {
        let dithered = how.effects.dither;
        if unit.stem.is_none() && extent.is_silent(how.layout.samples, dithered) {
            self.warnings
                .push("the song is silent: all its samples are 0".into());
        }
        self
    }
}

/// An event of a song. The events of a song come in this order.
#[derive(Debug)]
pub enum Event<'e> {
    /// The song was read and will have this number of frames.
    Started(u64),
    /// This number of further frames was rendered.
    Rendered(u64),
    /// The song is on the disk under its name, or was passed to the sink of a [`Stream`]. This is
    /// its last event.
    Done(Extent, &'e Warnings),
    /// The song was skipped, because its file exists. This is its only event.
    Skipped,
    /// The song was not rendered. This is its last event.
    Failed(&'e Error),
}

/// Renders the songs of a plan to files.
pub struct Engine<'a> {
    /// The pool on which to render.
    pub pool: &'a Pool,
    /// The number of workers that render at the same time, at least 1.
    pub jobs: usize,
    /// The settings for playing the songs.
    pub settings: &'a Settings,
    /// The effects on the mix.
    pub effects: &'a Effects,
    /// The format of the files.
    pub layout: Layout,
    /// The treatment of songs whose file exists.
    pub existing: Existing,
    /// Whether to reject songs that are not played in full.
    pub strict: bool,
}

/// The callbacks of [`Engine::run`]. All workers call them.
#[derive(Clone, Copy)]
pub struct Observer<'w> {
    /// Receives each event of each song.
    pub on_event: &'w (dyn Fn(&Unit, Event<'_>) + Sync),
    /// Returns whether to stop. It is called before each song and after each block. If it returns
    /// true, unfinished songs are abandoned without a further event.
    pub should_stop: &'w (dyn Fn() -> bool + Sync),
}

/// A rendered song whose file must be synced to the disk.
type Finished<'p> = (&'p Unit, TemporaryFile, Warnings);

/// The state that the workers of a run share.
#[derive(Default)]
struct SharedState<'p> {
    /// The index of the next song of the plan.
    next: usize,
    /// The number of songs that are being rendered.
    rendering: usize,
    finished: VecDeque<Finished<'p>>,
}

impl Engine<'_> {
    /// Renders all songs of the plan. It blocks until the last song is on the disk, or until all
    /// workers have stopped.
    ///
    /// First, it removes temporary files of these songs that earlier runs left behind because they
    /// were killed.
    pub fn run(&self, plan: &Plan, watch: Observer<'_>) {
        remove_abandoned(&plan.units);
        let gains = &Gains::measure(self, &plan.units, watch);
        if plan.is_better_split(self.jobs) {
            let mut job = Job::default();
            for unit in &plan.units {
                let gain = gains.of(unit, self.effects.loudness);
                let way = (gain, Some(self.pool));
                if let Some(finished) = self.song(unit, &mut job, way, watch) {
                    publish(finished, watch);
                }
            }
            return;
        }
        let (board, changed) = (Mutex::new(SharedState::default()), Condvar::new());
        let crew = WorkerContext {
            engine: self,
            units: &plan.units,
            gains,
            board: &board,
            changed: &changed,
            watch,
        };
        self.pool.broadcast(|worker| crew.work(worker));
    }

    /// Renders one song. Returns `None` if the song was skipped, abandoned, or has failed.
    fn song<'p>(
        &self,
        unit: &'p Unit,
        job: &mut Job,
        way: (Option<f32>, Option<&Pool>),
        watch: Observer<'_>,
    ) -> Option<Finished<'p>> {
        if (watch.should_stop)() {
            return None;
        }
        if self.is_skipped(unit) {
            (watch.on_event)(unit, Event::Skipped);
            return None;
        }
        match self.rendered(unit, job, way, watch) {
            Ok(finished) => finished,
            Err(error) => {
                (watch.on_event)(unit, Event::Failed(&error));
                None
            }
        }
    }

    /// Returns whether a song is skipped.
    pub(super) fn is_skipped(&self, unit: &Unit) -> bool {
        self.existing == Existing::Skip && unit.output.exists()
    }

    /// Reads a song and its warnings. Fails if its output exists and `Existing::Refuse` is set.
    pub(super) fn ready(&self, unit: &Unit) -> Result<(Song, Warnings)> {
        if self.existing == Existing::Refuse && unit.output.exists() {
            return Err(Error::Io(io::Error::other(format!(
                "{} exists. Use --overwrite to replace it, or --skip-done to keep it",
                unit.output.display()
            ))));
        }
        load(unit, self.strict)
    }

    fn rendered<'p>(
        &self,
        unit: &'p Unit,
        job: &mut Job,
        way: (Option<f32>, Option<&Pool>),
        watch: Observer<'_>,
    ) -> Result<Option<Finished<'p>>> {
        let (song, remarks) = self.ready(unit)?;
        if let Some(folder) = unit.output.parent() {
            fs::create_dir_all(folder).map_err(|error| at_output(unit, error.into()))?;
        }
        let (frames, _) = self.settings.frames(&song);
        (watch.on_event)(unit, Event::Started(frames));
        let settings = unit.settings(self.settings);
        let how = OutputSettings {
            settings: &settings,
            layout: self.layout,
            effects: self.effects,
            gain: way.0,
            track: unit.track,
            split: way.1,
        };
        let rendered = job.render_file(&song, how, &unit.output, |frames| {
            (watch.on_event)(unit, Event::Rendered(frames));
            !(watch.should_stop)()
        });
        let rendered = rendered.map_err(|error| at_output(unit, error))?;
        Ok(rendered.map(|rendered| {
            let remarks = remarks.with_silence(unit, rendered.extent(), how);
            (unit, rendered, remarks)
        }))
    }
}

/// The view of a run that all its workers share.
struct WorkerContext<'a, 'p> {
    engine: &'a Engine<'a>,
    units: &'p [Unit],
    gains: &'a Gains,
    board: &'a Mutex<SharedState<'p>>,
    changed: &'a Condvar,
    watch: Observer<'a>,
}

impl<'p> WorkerContext<'_, 'p> {
    /// Renders songs and syncs files until no work is left.
    fn work(&self, worker: usize) {
        let renders = worker < self.engine.jobs;
        let has_spare = self.engine.pool.workers() > self.engine.jobs;
        let mut job = Job::default();
        let mut board = self.board();
        loop {
            let songs_left = board.next < self.units.len();
            let to_publish = !board.finished.is_empty()
                && (!renders
                    || !songs_left
                    || (!has_spare && board.finished.len() >= UNPUBLISHED_MAX));
            if to_publish {
                let finished = board.finished.pop_front();
                self.changed.notify_all();
                drop(board);
                finished.into_iter().for_each(|it| publish(it, self.watch));
                board = self.board();
            } else if renders && songs_left && board.finished.len() < UNPUBLISHED_MAX {
                let unit = &self.units[board.next];
                board.next += 1;
                board.rendering += 1;
                drop(board);
                let gain = self.gains.of(unit, self.engine.effects.loudness);
                let way = (gain, None);
                let finished = self.engine.song(unit, &mut job, way, self.watch);
                board = self.board();
                board.rendering -= 1;
                board.finished.extend(finished);
                self.changed.notify_all();
            } else if songs_left || board.rendering > 0 {
                board = self
                    .changed
                    .wait(board)
                    .expect("no worker panics while it holds this lock");
            } else {
                return;
            }
        }
    }

    fn board(&self) -> MutexGuard<'_, SharedState<'p>> {
        self.board
            .lock()
            .expect("no worker panics while it holds this lock")
    }
}

/// Renders the songs of a plan one after another into one stream.
pub struct Stream<'a> {
    /// The settings for playing the songs.
    pub settings: &'a Settings,
    /// The effects on the mix. Album gain is not supported here.
    pub effects: &'a Effects,
    /// The format of the stream.
    pub layout: Layout,
    /// Whether to reject songs that are not played in full.
    pub strict: bool,
}

impl Stream<'_> {
    /// Renders the songs in the order of the plan, on the calling thread. Songs that fail are
    /// reported and left out.
    ///
    /// # Errors
    ///
    /// Returns the error of `sink`, because no further song could be written.
    pub fn run(
        &self,
        plan: &Plan,
        watch: Observer<'_>,
        mut sink: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut job = Job::default();
        for unit in &plan.units {
            if (watch.should_stop)() {
                break;
            }
            let mut sunk = Ok(());
            let rendered = load(unit, self.strict).and_then(|(song, remarks)| {
                (watch.on_event)(unit, Event::Started(self.settings.frames(&song).0));
                let how = OutputSettings {
                    settings: self.settings,
                    layout: self.layout,
                    effects: self.effects,
                    gain: None,
                    track: unit.track,
                    split: None,
                };
                let sink = |bytes: &[u8]| {
                    sunk = sink(bytes);
                    // `sunk` keeps the full error for the caller. The job needs only the kind of
                    // the error, because any error makes it stop.
                    sunk.as_ref()
                        .map(|_| ())
                        .map_err(|error| error.kind().into())
                };
                let progress = |frames| {
                    (watch.on_event)(unit, Event::Rendered(frames));
                    !(watch.should_stop)()
                };
                Ok((job.render(&song, how, sink, progress)?, remarks, how))
            });
            sunk?;
            match rendered {
                Ok((Outcome::Done(finished), remarks, how)) => {
                    let remarks = remarks.with_silence(unit, finished.extent, how);
                    (watch.on_event)(unit, Event::Done(finished.extent, &remarks));
                }
                Ok((Outcome::Cancelled, ..)) => {}
                Err(error) => (watch.on_event)(unit, Event::Failed(&error)),
            }
        }
        Ok(())
    }
}

/// Removes temporary files of these outputs that earlier runs left behind because they were killed.
fn remove_abandoned(units: &[Unit]) {
    let mut folders: HashMap<&Path, HashSet<&OsStr>> = HashMap::new();
    for unit in units {
        if let (Some(folder), Some(name)) = (unit.output.parent(), unit.output.file_name()) {
            folders.entry(folder).or_default().insert(name);
        }
    }
    for (folder, names) in folders {
        AtomicFile::remove_abandoned(folder, |name| names.contains(name));
    }
}

/// Reads a song and its warnings.
pub(super) fn load(unit: &Unit, strict: bool) -> Result<(Song, Warnings)> {
    let song = unit.input.load()?;
    let remarks = Warnings::of(&song);
    if strict && !remarks.chips_missing.is_empty() {
        let names = remarks.chips_missing.join(", ");
        let reason = format!("the song needs {names}, and --strict rejects it");
        return Err(Error::Unsupported(reason));
    }
    if strict && let Some(loss) = remarks.not_played.first() {
        let reason = format!("{loss}, and --strict rejects songs that are not played in full");
        return Err(Error::Unsupported(reason));
    }
    Ok((song, remarks))
}

/// Syncs the file of a song to the disk and gives it its name.
fn publish((unit, rendered, remarks): Finished<'_>, watch: Observer<'_>) {
    let extent = rendered.extent();
    match rendered.publish() {
        Ok(()) => (watch.on_event)(unit, Event::Done(extent, &remarks)),
        Err(error) => (watch.on_event)(unit, Event::Failed(&at_output(unit, error))),
    }
}

/// Adds the path of the output to an error of the system.
fn at_output(unit: &Unit, error: Error) -> Error {
    match error {
        Error::Io(error) => {
            let reason = format!("cannot write {}: {error}", unit.output.display());
            Error::Io(io::Error::new(error.kind(), reason))
        }
        other => other,
    }
}

//! Renders the songs of a plan, a song a job, on the workers of one pool and on no other thread.
//!
//! The first workers render; those beyond the number of jobs bring finished files to the disk, for
//! syncing a file takes as long as rendering a tenth of a song and needs no processor. Where there
//! are no such workers, those who render do both.
//!
//! Invariant: a song is begun by one worker, in the plan's order, and told of once; whatever fails,
//! a file is under its own name whole or not at all. The bytes do not depend on jobs or workers.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard};

use creel::Pool;

use super::gains::Gains;
use super::{Plan, Unit};
use crate::chips::factory::missing;
use crate::effects::Effects;
use crate::error::{Error, Result};
use crate::format::Song;
use crate::output::{Extent, Job, Outcome, OutputSettings, TemporaryFile};
use crate::render::Settings;
use crate::wav::Layout;

/// Workers beyond the jobs that a pool for a batch should have: what several wait for, the disk
/// does at once.
pub const SPARE_WORKERS: usize = 4;

/// Files that may wait for the disk before the jobs do.
const UNPUBLISHED_MAX: usize = 16;

/// What is done where a sound file exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Existing {
    /// The song fails.
    #[default]
    Refuse,
    /// The file is replaced.
    Replace,
    /// The song is left alone.
    Skip,
}

/// What is to be said of a song that was rendered.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Warnings {
    /// The names of its chips that are not played.
    pub chips_missing: Vec<&'static str>,
    /// What is wrong with it otherwise.
    pub warnings: Vec<String>,
}

impl Warnings {
    /// The remarks on a song.
    pub fn of(song: &Song) -> Warnings {
        let name = |instance: crate::format::Instance| song.header.name(instance.chip);
        let mut warnings = song.warnings().to_vec();
        if song.chips().next().is_none() {
            warnings.push("it writes to no chip that it has a clock for".into());
        }
        Warnings {
            chips_missing: missing(song).into_iter().map(name).collect(),
            warnings,
        }
    }

    /// The same, and that nothing is heard of the song. Of a stem nobody expects it.
    fn with_silence(mut self, unit: &Unit, extent: Extent, how: OutputSettings<'_>) -> Warnings {
        let dithered = how.effects.dither;
        if unit.stem.is_none() && extent.is_silent(how.layout.samples, dithered) {
            self.warnings
                .push("nothing is heard: all its samples are 0".into());
        }
        self
    }
}

/// What happens to a song, in this order.
#[derive(Debug)]
pub enum Event<'e> {
    /// It was read and will have so many frames.
    Started(u64),
    /// So many more frames were rendered.
    Rendered(u64),
    /// It is on the disk under its own name. The end.
    Done(Extent, &'e Warnings),
    /// It was left alone, for its file exists. The end.
    Skipped,
    /// It was not rendered. The end.
    Failed(&'e Error),
}

/// How the songs of a plan are rendered.
pub struct Engine<'a> {
    /// The workers.
    pub pool: &'a Pool,
    /// How many of them render at once, at least 1.
    pub jobs: usize,
    /// How songs are played.
    pub settings: &'a Settings,
    /// What is done to the mix.
    pub effects: &'a Effects,
    /// What the files are like.
    pub layout: Layout,
    /// What is done where a file exists.
    pub existing: Existing,
    /// Whether a song that lacks a chip fails.
    pub strict: bool,
}

/// What the caller of [`Engine::run`] wants to know, and whether to go on. Called from all workers.
#[derive(Clone, Copy)]
pub struct Observer<'w> {
    /// Told of each event of each song.
    pub on_event: &'w (dyn Fn(&Unit, Event<'_>) + Sync),
    /// Asked before each block: songs under way are given up, without an event, once it says yes.
    pub should_stop: &'w (dyn Fn() -> bool + Sync),
}

/// A song that waits for the disk.
type Finished<'p> = (&'p Unit, TemporaryFile, Warnings);

/// Who does what.
#[derive(Default)]
struct SharedState<'p> {
    /// The next song of the plan.
    next: usize,
    rendering: usize,
    finished: VecDeque<Finished<'p>>,
}

impl Engine<'_> {
    /// Renders all songs of the plan. Blocks until the last is on the disk, or until those under way
    /// have noticed that they should stop.
    pub fn run(&self, plan: &Plan, watch: Observer<'_>) {
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

    /// Renders one song; none if that has come to an end already.
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

    /// Whether a song is left alone.
    pub(super) fn is_skipped(&self, unit: &Unit) -> bool {
        self.existing == Existing::Skip && unit.output.exists()
    }

    /// A song that may be rendered, and what is to be said of it.
    pub(super) fn ready(&self, unit: &Unit) -> Result<(Song, Warnings)> {
        if self.existing == Existing::Refuse && unit.output.exists() {
            return Err(Error::Io(io::Error::other(format!(
                "{} exists (--overwrite replaces it, --skip-done leaves it)",
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

/// The workers of a run, as each of them sees it.
struct WorkerContext<'a, 'p> {
    engine: &'a Engine<'a>,
    units: &'p [Unit],
    gains: &'a Gains,
    board: &'a Mutex<SharedState<'p>>,
    changed: &'a Condvar,
    watch: Observer<'a>,
}

impl<'p> WorkerContext<'_, 'p> {
    /// What a worker does from the first song to the last.
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
                board = self.changed.wait(board).expect("no worker panics with it");
            } else {
                return;
            }
        }
    }

    fn board(&self) -> MutexGuard<'_, SharedState<'p>> {
        self.board.lock().expect("no worker panics with it")
    }
}

/// How the songs of a plan are rendered one after the other, all into one stream.
pub struct Stream<'a> {
    /// How songs are played.
    pub settings: &'a Settings,
    /// What is done to the mix; songs of a stream are no album.
    pub effects: &'a Effects,
    /// What the stream is like.
    pub layout: Layout,
    /// Whether a song that lacks a chip fails.
    pub strict: bool,
}

impl Stream<'_> {
    /// Renders the plan's songs in its order on the calling thread.
    ///
    /// # Errors
    ///
    /// What `sink` fails with: nothing that follows could be put anywhere. Songs that fail are told
    /// of, and left out.
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
                    split: None,
                };
                let sink = |bytes: &[u8]| {
                    sunk = sink(bytes);
                    // The error is told by what `sunk` holds.
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

/// A song, and what is to be said of it.
pub(super) fn load(unit: &Unit, strict: bool) -> Result<(Song, Warnings)> {
    let song = unit.input.load()?;
    let remarks = Warnings::of(&song);
    if strict && !remarks.chips_missing.is_empty() {
        let names = remarks.chips_missing.join(", ");
        let reason = format!("it needs {names}, not played yet");
        return Err(Error::Unsupported(reason));
    }
    Ok((song, remarks))
}

/// Brings a song's file to the disk and under its name.
fn publish((unit, rendered, remarks): Finished<'_>, watch: Observer<'_>) {
    let extent = rendered.extent();
    match rendered.publish() {
        Ok(()) => (watch.on_event)(unit, Event::Done(extent, &remarks)),
        Err(error) => (watch.on_event)(unit, Event::Failed(&at_output(unit, error))),
    }
}

/// An error of the system, with the output it was met at.
fn at_output(unit: &Unit, error: Error) -> Error {
    match error {
        Error::Io(error) => {
            let reason = format!("{}: {error}", unit.output.display());
            Error::Io(io::Error::new(error.kind(), reason))
        }
        other => other,
    }
}

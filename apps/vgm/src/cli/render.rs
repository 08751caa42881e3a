//! `creel-vgm render`: many songs to as many sound files, a song a job.

use std::path::PathBuf;
use std::sync::{Mutex, mpsc};
use std::{fs, io, thread};

use anyhow::Context;
use clap::{Args, ValueEnum};
use creel::{Balance, Pool, Wait};
use creel_console::{Common, Exit, Failure, Interrupt, Knobs};
use creel_vgm::batch::{self, Plan, Unit};
use creel_vgm::mix::{Quality, SampleFormat};
use creel_vgm::output::{How, Job, Rendered};
use creel_vgm::render::Settings;
use creel_vgm::wav::{Container, Layout};
use creel_vgm::{Error, Result};

use super::make_folder;
use super::tally::{Tally, Verdict};

/// Render songs to sound files
///
/// A song a job. Where there are more jobs than songs, they share each song instead, a chip a job,
/// if that is expected to take less time. The sound files are the same, bit by bit.
///
/// Exit codes: 0 all done, 1 some failed, 2 usage, 65 nothing but bad data, 130 interrupted.
#[derive(Args, Debug)]
pub struct Render {
    /// Songs, and folders of songs
    #[arg(required_unless_present = "demo", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The folder for the sound files
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Render the songs that the program carries
    #[arg(long)]
    demo: bool,
    /// Look for songs in folders below the folders, too
    #[arg(short, long)]
    recurse: bool,
    /// Replace sound files that exist
    #[arg(long, conflicts_with = "skip_done")]
    overwrite: bool,
    /// Leave songs alone whose sound file exists
    #[arg(long)]
    skip_done: bool,
    /// One JSON line a song on stdout, as it ends
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    sound: Sound,
    #[command(flatten)]
    knobs: Knobs,
}

/// How it should sound.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sound")]
struct Sound {
    /// How often loops are played
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    loops: u32,
    /// How long songs that loop fade out, in seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    fade: f64,
    /// A factor on the loudness
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = factor)]
    volume: f32,
    /// Frames a second
    #[arg(long, value_name = "HZ", default_value_t = 44_100, value_parser = clap::value_parser!(u32).range(8_000..=192_000))]
    sample_rate: u32,
    /// How native frames become output frames
    #[arg(long, value_name = "R", value_enum, default_value_t)]
    resampler: Resampler,
    /// Bits of a sample
    #[arg(long, value_name = "BITS", default_value = "16", value_parser = ["8", "16", "24", "32"])]
    bit_depth: String,
    /// Floating-point samples
    #[arg(long, conflicts_with = "bit_depth")]
    float: bool,
    /// AU files instead of WAV
    #[arg(long)]
    au: bool,
}

/// The resamplers by their names.
#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum Resampler {
    /// A polyphase low-pass filter
    #[default]
    BandLimited,
    /// A straight line between neighbours
    Linear,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0 to 3600".into()),
    }
}

fn factor(text: &str) -> std::result::Result<f32, String> {
    match text.parse() {
        Ok(factor) if (0.0..=100.0).contains(&factor) => Ok(factor),
        _ => Err("not a factor from 0 to 100".into()),
    }
}

impl Sound {
    fn settings(&self) -> Settings {
        Settings {
            loops: self.loops,
            fade_seconds: self.fade,
            volume: self.volume,
            sample_rate: self.sample_rate,
            quality: match self.resampler {
                Resampler::BandLimited => Quality::BandLimited,
                Resampler::Linear => Quality::Linear,
            },
        }
    }

    fn layout(&self) -> Layout {
        let samples = match (self.float, self.bit_depth.as_str()) {
            (true, _) => SampleFormat::F32,
            (_, "8") => SampleFormat::I8,
            (_, "24") => SampleFormat::I24,
            (_, "32") => SampleFormat::I32,
            _ => SampleFormat::I16,
        };
        let container = if self.au {
            Container::Au
        } else {
            Container::Wav
        };
        Layout { container, samples }
    }
}

impl Render {
    /// Renders all songs.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let interrupt = Interrupt::install().context("cannot watch for Ctrl-C")?;
        make_folder(&self.output)?;
        let plan = self.plan();
        let pool = Pool::builder().balance(Balance::Shared).wait(Wait::Park);
        let pool = self.knobs.apply(pool).build()?;
        let split = plan.is_better_split(pool.workers());
        let claimed = plan.units.iter().map(|unit| unit.claimed).sum();
        let tally = Tally::new(plan.units.len(), claimed, self.lines, common.quiet);
        for (path, error) in &plan.refused {
            tally.add(&path.display(), None, &Verdict::Failed(error));
        }
        let (finished, to_publish) = mpsc::sync_channel(UNPUBLISHED_MAX);
        let to_publish = Mutex::new(to_publish);
        let bench = Workbench {
            render: self,
            settings: self.sound.settings(),
            jobs: Mutex::new(Vec::new()),
            split: split.then_some(&pool),
            interrupt: &interrupt,
            tally: &tally,
            finished,
        };
        thread::scope(|scope| {
            for _ in 0..PUBLISHERS {
                scope.spawn(|| publish(&to_publish, &tally));
            }
            let units = &plan.units;
            if split {
                units.iter().for_each(|unit| bench.song(unit));
            } else {
                pool.for_each_index(0..units.len(), |place| bench.song(&units[place]));
            }
            drop(bench);
        });
        drop(to_publish);
        let exit = tally.exit(interrupt.requested());
        tally.finish().print(common)?;
        if exit == Exit::Interrupted {
            return Err(Failure::new(exit, "interrupted").into());
        }
        Ok(exit)
    }

    fn plan(&self) -> Plan {
        let extension = self.sound.layout().container.extension();
        if self.demo {
            batch::carried(&self.output, extension)
        } else {
            batch::plan(&self.paths, &self.output, extension, self.recurse)
        }
    }
}

/// Files that may wait for the disk before the jobs do.
const UNPUBLISHED_MAX: usize = 16;

/// Threads that wait for the disk: what several wait for, it does at once.
const PUBLISHERS: usize = 4;

/// Brings files to the disk while the jobs go on.
fn publish(finished: &Mutex<mpsc::Receiver<(&Unit, Rendered)>>, tally: &Tally) {
    let next = || finished.lock().expect("receiving panics not").recv();
    while let Ok((unit, rendered)) = next() {
        let frames = rendered.frames();
        let published = rendered.publish().map_err(|error| at_output(unit, error));
        tally.add(
            &unit.input,
            Some(&unit.output),
            &match &published {
                Ok(()) => Verdict::Done(frames),
                Err(error) => Verdict::Failed(error),
            },
        );
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

/// What the jobs share.
struct Workbench<'a> {
    render: &'a Render,
    settings: Settings,
    /// Jobs that are not rendering just now; their memory goes from song to song.
    jobs: Mutex<Vec<Job>>,
    /// The pool, if its workers share each song.
    split: Option<&'a Pool>,
    interrupt: &'a Interrupt,
    tally: &'a Tally,
    /// To who brings them to the disk.
    finished: mpsc::SyncSender<(&'a Unit, Rendered)>,
}

impl<'a> Workbench<'a> {
    fn song(&self, unit: &'a Unit) {
        if self.interrupt.requested() {
            return;
        }
        let verdict = |verdict| self.tally.add(&unit.input, Some(&unit.output), &verdict);
        if self.render.skip_done && unit.output.exists() {
            return verdict(Verdict::Skipped(unit.claimed));
        }
        let mut job = self.jobs().pop().unwrap_or_default();
        let outcome = self.song_with(unit, &mut job);
        self.jobs().push(job);
        match outcome {
            // It takes them until the last job has ended.
            Ok(Some(rendered)) => drop(self.finished.send((unit, rendered))),
            Ok(None) => {}
            Err(error) => verdict(Verdict::Failed(&error)),
        }
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, Vec<Job>> {
        self.jobs.lock().expect("no job panics while it holds this")
    }

    fn song_with(&self, unit: &Unit, job: &mut Job) -> Result<Option<Rendered>> {
        if unit.output.exists() && !self.render.overwrite {
            return Err(Error::Io(io::Error::other(format!(
                "{} exists (--overwrite replaces it, --skip-done leaves it)",
                unit.output.display()
            ))));
        }
        let song = unit.input.load()?;
        if let Some(folder) = unit.output.parent() {
            fs::create_dir_all(folder).map_err(|error| at_output(unit, error.into()))?;
        }
        let (frames, _) = self.settings.frames(&song);
        self.tally.correct(unit.claimed, frames);
        let how = How {
            settings: &self.settings,
            layout: self.render.sound.layout(),
            split: self.split,
        };
        job.render_file(&song, how, &unit.output, |frames| {
            self.tally.advance(frames);
            !self.interrupt.requested()
        })
        .map_err(|error| at_output(unit, error))
    }
}

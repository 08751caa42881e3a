//! `creel-vgm render`: many songs to as many sound files, a song a job.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use creel::{Balance, Placement, Pool, Wait};
use creel_console::{Common, Exit, Failure, Format, Interrupt, Knobs, knobs};
use creel_vgm::batch::{
    self, Engine, Event, Existing, Naming, Plan, Playlist, SPARE_WORKERS, Stream, Watch,
};
use creel_vgm::mix::{Quality, SampleFormat};
use creel_vgm::render::Settings;
use creel_vgm::wav::{Container, Layout};

use super::tally::Tally;
use super::{make_folder, tell_of_folders};

/// Render songs to sound files
///
/// A song a job. Where there are more jobs than songs, they share each song instead, a chip a job,
/// if that is expected to take less time. The sound files are the same, bit by bit.
///
/// Exit codes: 0 all done, 1 some failed, 2 usage, 65 nothing but bad data, 130 interrupted.
#[derive(Args, Debug)]
pub struct Render {
    /// Songs, folders of songs, playlists (M3U, XSPF, JSPF), - for standard input
    #[arg(required_unless_present = "demo", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The folder for the sound files; - for samples alone on stdout, song after song
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Name sound files by a pattern of {track} {title} {game} {system} {author} {date} {file};
    /// {track:02} has two digits
    #[arg(long, value_name = "PATTERN")]
    name: Option<Naming>,
    /// Write an M3U playlist of what was rendered
    #[arg(long, value_name = "FILE")]
    m3u: Option<PathBuf>,
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
    /// Let songs fail that need a chip which is not played yet
    #[arg(long)]
    strict: bool,
    /// Print JSON alone: a line a song, as it ends, and the sum
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    sound: Sound,
    #[command(flatten)]
    knobs: Knobs,
    /// Workers of the pool, those included that wait for the disk; by default four more than jobs
    #[arg(long, value_name = "N", value_parser = knobs::jobs, help_heading = "Knobs")]
    workers: Option<usize>,
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
    #[arg(long, conflicts_with = "raw")]
    au: bool,
    /// Samples alone instead of WAV: little-endian, signed
    #[arg(long)]
    raw: bool,
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

pub(super) fn seconds(text: &str) -> std::result::Result<f64, String> {
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
        let container = match (self.au, self.raw) {
            (true, _) => Container::Au,
            (_, true) => Container::Raw,
            _ => Container::Wav,
        };
        Layout { container, samples }
    }
}

impl Render {
    /// Renders all songs.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        if self.lines && common.format == Format::Csv {
            let message = "--lines prints JSON; --format csv does not go with it";
            return Err(Failure::new(Exit::Usage, message).into());
        }
        if self.output.as_os_str() == "-" {
            return self.to_stdout(common);
        }
        make_folder(&self.output)?;
        // Before signals are watched for: standard input may be waited for, and nothing is begun.
        let mut plan = self.plan();
        let interrupt = Interrupt::install().context("cannot watch for Ctrl-C")?;
        tell_of_folders(&plan.deeper, &plan.barren);
        let pool = Pool::builder()
            .balance(Balance::Shared)
            .wait(Wait::Park)
            .placement(Placement::Unpinned);
        let pool = self.knobs.apply(pool).build()?;
        let jobs = pool.workers();
        let workers = self.workers.unwrap_or(jobs + SPARE_WORKERS);
        pool.resize(workers.max(jobs))?;
        if let Some(naming) = &self.name {
            naming.apply(&mut plan, &pool);
        }
        let claimed = plan.units.iter().map(|unit| unit.claimed).sum();
        let tally = Tally::new(plan.units.len(), claimed, self.lines, common.quiet);
        for (path, error) in &plan.refused {
            tally.refused(path, error);
        }
        let settings = self.sound.settings();
        let list = Playlist::default();
        let engine = Engine {
            pool: &pool,
            jobs,
            settings: &settings,
            layout: self.sound.layout(),
            existing: self.existing(),
            strict: self.strict,
        };
        let watch = Watch {
            tell: &|unit, event| {
                if let Event::Done(frames, _) = event {
                    list.add(unit, Some(frames));
                } else if let Event::Kept = event {
                    list.add(unit, None);
                }
                tally.event(unit, &event);
            },
            stop: &|| interrupt.requested(),
        };
        engine.run(&plan, watch);
        if let Some(path) = &self.m3u {
            list.write(path, settings.sample_rate)?;
        }
        let exit = tally.exit(interrupt.requested());
        tally.finish().print(common, self.lines)?;
        if exit == Exit::Interrupted {
            return Err(Failure::new(exit, "interrupted").into());
        }
        Ok(exit)
    }

    /// Samples alone on stdout, the songs in the order of the input; a reader that has seen enough
    /// ends it quietly.
    fn to_stdout(&self, common: &Common) -> anyhow::Result<Exit> {
        if self.lines || self.sound.au || self.m3u.is_some() || self.name.is_some() {
            let message =
                "-o -: stdout has samples alone; --lines, --au, --m3u and --name do not go with it";
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let mut plan = self.plan();
        plan.units.sort_by_key(|unit| unit.order);
        let interrupt = Interrupt::install().context("cannot watch for Ctrl-C")?;
        let claimed = plan.units.iter().map(|unit| unit.claimed).sum();
        let tally = Tally::new(plan.units.len(), claimed, false, common.quiet);
        for (path, error) in &plan.refused {
            tally.refused(path, error);
        }
        let settings = self.sound.settings();
        let engine = Stream {
            settings: &settings,
            layout: Layout {
                container: Container::Raw,
                ..self.sound.layout()
            },
            strict: self.strict,
        };
        let watch = Watch {
            tell: &|unit, event| tally.event(unit, &event),
            stop: &|| interrupt.requested(),
        };
        let mut stdout = io::stdout().lock();
        engine.run(&plan, watch, |bytes| stdout.write_all(bytes))?;
        stdout.flush()?;
        Ok(tally.exit(interrupt.requested()))
    }

    fn existing(&self) -> Existing {
        match (self.overwrite, self.skip_done) {
            (true, _) => Existing::Replace,
            (_, true) => Existing::Keep,
            _ => Existing::Refuse,
        }
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

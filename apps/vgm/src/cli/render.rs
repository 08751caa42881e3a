//! `creel-vgm render`: many songs to as many sound files, a song a job.

use std::fs;
use std::io::{self, Write};
use std::path::{self, Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use creel::{Balance, Placement, Pool, Wait};
use creel_console::{Common, Exit, Failure, Format, Interrupt, Knobs, knobs};
use creel_topology::Machine;
use creel_vgm::batch::{
    self, Engine, Event, Existing, Naming, Observer, Plan, Playlist, Preview, SPARE_WORKERS,
    StemKind, Stream, Unit,
};
use creel_vgm::chips::selection::{Name, Selection};
use creel_vgm::effects::Effects;
use creel_vgm::mix::SampleFormat;
use creel_vgm::render::Settings;
use creel_vgm::wav::{Container, Layout};

use super::sound_flags::{EffectFlags, ReplayGain, SoundFlags};
use super::stderr::report;
use super::tally::Tally;
use super::{create_folder, report_skipped_folders};

const EXAMPLES: &str = "Examples:
  creel-vgm render --demo -o out
  creel-vgm render -r music album.zip -o out --flac --replay-gain album
  creel-vgm render song.vgz -o out --stems chip --float
  creel-vgm render list.m3u -o out --name '{track:02} {title}' --m3u out.m3u
  creel-vgm render song.vgm -o - | aplay -f cd";

/// Render songs to sound files
///
/// A song a job. Where there are more jobs than songs, they share each song instead, a chip a job,
/// if that is expected to take less time. The sound files are the same, bit by bit.
///
/// Files can be packed (--flac) and tagged as the songs are; chips rendered each for itself
/// (--stems), left out or alone; songs brought to the same loudness.
///
/// Exit codes: 0 all done, 1 some failed, 2 usage, 65 nothing but bad data, 130 and 143
/// interrupted.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Render {
    /// Songs, folders and archives (zip, 7z) of songs, playlists (M3U, XSPF, JSPF); - for a song, an
    /// archive or a playlist on standard input
    #[arg(required_unless_present = "demo", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The folder for the sound files; - for samples alone on stdout, song after song
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Name sound files by a pattern of {track} {title} {game} {system} {author} {date} {file};
    /// {track:02} has two digits, a / makes a folder
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
    sound: SoundFlags,
    #[command(flatten)]
    effects: EffectFlags,
    /// Write a file for each of this instead of one a song
    #[arg(long, value_name = "WHAT", value_enum, help_heading = "Chips")]
    stems: Option<Stems>,
    /// Leave these chips out: CHIP (both of them where a song has two), CHIP#1, CHIP#2 (the second),
    /// CHIP:3 (voice 3 of both), CHIP#2:3; names as `creel-vgm chips` has them
    #[arg(
        long,
        value_name = "CHIP,...",
        value_delimiter = ',',
        help_heading = "Chips"
    )]
    mute: Vec<Name>,
    /// Leave all but these chips out, named likewise
    #[arg(
        long,
        value_name = "CHIP,...",
        value_delimiter = ',',
        help_heading = "Chips"
    )]
    solo: Vec<Name>,
    #[command(flatten)]
    knobs: Knobs,
    /// Workers of the pool, those included that wait for the disk; by default four more than jobs
    #[arg(long, value_name = "N", value_parser = knobs::jobs, allow_negative_numbers = true, help_heading = "Knobs")]
    workers: Option<usize>,
}

/// What stems are of.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Stems {
    /// A chip each
    #[value(alias = "chips")]
    Chip,
    /// A voice of a chip each, where they can be told apart
    #[value(alias = "voices")]
    Voice,
}

impl Render {
    /// Renders all songs.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        self.check(common)?;
        if self.is_stream() {
            return self.to_stdout(common);
        }
        create_folder(&self.output)?;
        if let Some(folder) = self.m3u.as_ref().and_then(|list| list.parent()) {
            // It is there, or below the other.
            fs::create_dir_all(folder).context("--m3u")?;
        }
        let (pool, jobs) = self.pool()?;
        // Before signals are watched for: standard input may be waited for, and nothing is begun.
        let plan = self.plan(&pool);
        let interrupt = Interrupt::install().context("cannot watch for Ctrl-C")?;
        report_skipped_folders(&plan.unsearched_folders, &plan.empty_folders);
        if self.knobs.jobs.is_none() && plan.units.len() > jobs && !common.quiet {
            // Where the machine cannot be read, there is nothing to say of it.
            let machine = Machine::detect().ok();
            if let Some(line) = machine.and_then(|machine| knobs::idle_pus(&machine, jobs)) {
                report(&line);
            }
        }
        let tally = Tally::new(&plan.units, self.lines, common.quiet);
        for (path, error) in &plan.refused {
            tally.refused(path, error);
        }
        let (settings, effects) = (self.settings(), self.effects.effects());
        let list = Playlist::default();
        let engine = self.engine((&pool, jobs), &settings, &effects);
        let watch = Observer {
            on_event: &|unit, event| {
                if let Event::Done(extent, _) = event {
                    list.add(unit, Some(extent.frames));
                } else if let Event::Skipped = event {
                    list.add(unit, None);
                }
                tally.event(unit, &event);
            },
            should_stop: &|| interrupt.requested(),
        };
        engine.run(&plan, watch);
        if let Some(path) = &self.m3u {
            let written = list.write(path, settings.sample_rate);
            written.with_context(|| format!("--m3u: {}", path.display()))?;
        }
        let exit = tally.exit();
        tally.finish().print_summary(common, self.lines)?;
        interrupt.check()?;
        Ok(exit)
    }

    /// Tells what a run with these flags would do to each song, and the plan behind it.
    pub(super) fn preview<T>(
        &self,
        common: &Common,
        with_previews: impl Fn(&Plan, Vec<(&Unit, Preview)>) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.check(common)?;
        let (pool, jobs) = self.pool()?;
        let mut plan = self.plan(&pool);
        let (settings, effects) = (self.settings(), self.effects.effects());
        let mut engine = self.engine((&pool, jobs), &settings, &effects);
        if self.is_stream() {
            // Samples alone, and no file stands in their way.
            engine.existing = Existing::Replace;
            engine.layout.container = Container::Raw;
            for unit in &mut plan.units {
                unit.output = self.output.clone();
            }
        }
        with_previews(&plan, engine.preview(&plan))
    }

    /// Samples alone on stdout, the songs in the order of the input; a reader that has seen enough
    /// ends it quietly.
    fn to_stdout(&self, common: &Common) -> anyhow::Result<Exit> {
        let mut plan = self.found();
        plan.units.sort_by_key(|unit| unit.order);
        let interrupt = Interrupt::install().context("cannot watch for Ctrl-C")?;
        report_skipped_folders(&plan.unsearched_folders, &plan.empty_folders);
        let tally = Tally::new(&plan.units, false, common.quiet);
        for (path, error) in &plan.refused {
            tally.refused(path, error);
        }
        let (settings, effects) = (self.settings(), self.effects.effects());
        let engine = Stream {
            settings: &settings,
            effects: &effects,
            layout: Layout {
                container: Container::Raw,
                ..self.sound.layout()
            },
            strict: self.strict,
        };
        let watch = Observer {
            on_event: &|unit, event| tally.event(unit, &event),
            should_stop: &|| interrupt.requested(),
        };
        let mut stdout = io::stdout().lock();
        engine.run(&plan, watch, |bytes| stdout.write_all(bytes))?;
        stdout.flush()?;
        interrupt.check()?;
        Ok(tally.exit())
    }

    fn is_stream(&self) -> bool {
        self.output.as_os_str() == "-"
    }

    /// Refuses flags that do not go together.
    fn check(&self, common: &Common) -> anyhow::Result<()> {
        match self.refused(common) {
            Some(message) => Err(Failure::new(Exit::Usage, message).into()),
            None => Ok(()),
        }
    }

    fn refused(&self, common: &Common) -> Option<String> {
        if self.lines && common.format == Format::Csv {
            return Some("--lines prints JSON; --format csv does not go with it".into());
        }
        if let Some(message) = self.sound.refused() {
            return Some(message.into());
        }
        let rounded = [SampleFormat::I8, SampleFormat::I16];
        if self.effects.dither && !rounded.contains(&self.sound.layout().samples) {
            return Some("--dither: nothing is rounded to 8 or 16 bits".into());
        }
        if self.is_stream() {
            let has_files = self.lines || self.sound.au || self.sound.flac || self.m3u.is_some();
            return if has_files || self.name.is_some() {
                Some("-o -: stdout has samples alone; --lines, --au, --flac, --m3u and --name do not go with it".into())
            } else if self.stems.is_some() || self.effects.replay_gain == Some(ReplayGain::Album) {
                Some("-o -: --stems and --replay-gain album want files".into())
            } else {
                None
            };
        }
        let list = self.m3u.as_ref()?;
        let same = |path: &PathBuf| path.canonicalize().ok() == list.canonicalize().ok();
        let why = if list.as_os_str() == "-" {
            "is a file's name, not stdout"
        } else if list.exists() && self.paths.iter().any(same) {
            "is read, too"
        } else if !self.has_folder(list) {
            "is to lie in a folder that is not there"
        } else {
            Playlist::refused_at(list, self.overwrite || self.skip_done)?
        };
        Some(format!("--m3u: {} {why}", list.display()))
    }

    /// Whether the folder of a playlist is there, or will be.
    fn has_folder(&self, list: &Path) -> bool {
        let absolute = |path: &Path| path::absolute(path).unwrap_or(path.into());
        let list = absolute(list);
        list.parent().is_some_and(Path::is_dir) || list.starts_with(absolute(&self.output))
    }

    /// The pool, with workers for the disk too, and how many of them render.
    fn pool(&self) -> anyhow::Result<(Pool, usize)> {
        let pool = Pool::builder()
            .balance(Balance::Shared)
            .wait(Wait::Park)
            .placement(Placement::Unpinned);
        let pool = self.knobs.apply(pool).build()?;
        let jobs = pool.workers();
        let workers = self.workers.unwrap_or(jobs + SPARE_WORKERS);
        pool.resize(workers.max(jobs))?;
        Ok((pool, jobs))
    }

    fn engine<'a>(
        &self,
        (pool, jobs): (&'a Pool, usize),
        settings: &'a Settings,
        effects: &'a Effects,
    ) -> Engine<'a> {
        Engine {
            pool,
            jobs,
            settings,
            effects,
            layout: self.sound.layout(),
            existing: match (self.overwrite, self.skip_done) {
                (true, _) => Existing::Replace,
                (_, true) => Existing::Skip,
                _ => Existing::Refuse,
            },
            strict: self.strict,
        }
    }

    fn settings(&self) -> Settings {
        self.sound.settings(Selection {
            mute: self.mute.clone(),
            solo: self.solo.clone(),
            ..Selection::default()
        })
    }

    /// The songs with the names of their files, stem by stem if those are wanted.
    fn plan(&self, pool: &Pool) -> Plan {
        let extension = self.sound.layout().container.extension();
        let mut plan = match &self.name {
            Some(naming) if !self.demo => batch::plan_named(
                (&self.paths, self.recurse),
                &self.output,
                extension,
                (naming, pool),
            ),
            Some(naming) => {
                let mut plan = self.found();
                naming.apply(&mut plan, pool);
                plan
            }
            None => self.found(),
        };
        if let Some(stems) = self.stems {
            let apart = match stems {
                Stems::Chip => StemKind::Chips,
                Stems::Voice => StemKind::Voices,
            };
            plan.split_into_stems(apart, &self.settings().chips, pool);
        }
        plan
    }

    fn found(&self) -> Plan {
        let extension = self.sound.layout().container.extension();
        if self.demo {
            batch::carried(&self.output, extension)
        } else {
            batch::plan(&self.paths, &self.output, extension, self.recurse)
        }
    }
}

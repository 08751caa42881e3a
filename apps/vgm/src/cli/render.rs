//! `creel-vgm render`: renders songs to sound files. Each job renders one song at a time.

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
/// Each job renders one song at a time. If there are more jobs than songs, the jobs can instead
/// share each song, with one job per chip, if that is likely to be faster. The sound files are
/// identical in both cases.
///
/// The files have the tags of the songs. You can compress the files (--flac), write one file per
/// chip (--stems), leave chips out (--mute, --solo), and bring all songs to the same loudness
/// (--replay-gain).
///
/// Exit codes: 0 all done, 1 some songs failed, 2 wrong usage, 65 all inputs are malformed, 130 and
/// 143 interrupted.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Render {
    /// Read these songs, folders, archives (zip, 7z) and playlists (M3U, XSPF, JSPF); - reads one
    /// of them from standard input
    #[arg(required_unless_present = "demo", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Render the built-in demo songs
    #[arg(long, help_heading = "Input")]
    demo: bool,
    /// Also search the subfolders of the folders
    #[arg(short, long, help_heading = "Input")]
    recurse: bool,
    /// Reject songs that are not played in full: a chip or a part of it is not supported or not in
    /// the header, its samples are missing or replaced, or the song is damaged
    #[arg(long, help_heading = "Input")]
    strict: bool,
    /// Write the sound files to the folder DIR; - writes the samples of all songs to stdout
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    output: PathBuf,
    /// Name the sound files by PATTERN, for example '{track:02} {title}'. It can contain {track},
    /// {title}, {game}, {system}, {author}, {date} and {file}. {track:02} has two digits. A /
    /// creates a folder
    #[arg(long, value_name = "PATTERN", help_heading = "Output")]
    name: Option<Naming>,
    /// Write an M3U playlist of the rendered songs to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    m3u: Option<PathBuf>,
    /// Replace existing sound files
    #[arg(long, conflicts_with = "skip_done", help_heading = "Output")]
    overwrite: bool,
    /// Skip songs whose sound file already exists
    #[arg(long, help_heading = "Output")]
    skip_done: bool,
    /// Print only JSON: one line per song when it ends, and a summary at the end
    #[arg(long, help_heading = "Output")]
    lines: bool,
    #[command(flatten)]
    sound: SoundFlags,
    #[command(flatten)]
    effects: EffectFlags,
    /// Write one file per chip or per voice instead of one per song
    #[arg(long, value_name = "WHAT", value_enum, help_heading = "Chips")]
    stems: Option<Stems>,
    /// Mute these chips or voices: CHIP (both if the song has two of it), CHIP#2 (the second one),
    /// CHIP:3 (voice 3 of both) or CHIP#2:3 (voice 3 of the second one). `creel-vgm chips` lists
    /// the names
    #[arg(
        long,
        value_name = "CHIP,...",
        value_delimiter = ',',
        help_heading = "Chips"
    )]
    mute: Vec<Name>,
    /// Mute everything except these chips or voices, which you name as for --mute
    #[arg(
        long,
        value_name = "CHIP,...",
        value_delimiter = ',',
        help_heading = "Chips"
    )]
    solo: Vec<Name>,
    #[command(flatten)]
    knobs: Knobs,
    /// Use N workers, including those that wait for the disk [default: four more than jobs]
    #[arg(long, value_name = "N", value_parser = knobs::jobs, allow_negative_numbers = true, help_heading = "Pool settings")]
    workers: Option<usize>,
}

/// The parts of a song that get a file of their own.
#[derive(ValueEnum, Clone, Copy, Debug)]
enum Stems {
    /// One file per chip
    #[value(alias = "chips")]
    Chip,
    /// One file per voice, if the voices of the chip can be separated
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
            // `check` has ensured that this folder exists or is below the output folder.
            fs::create_dir_all(folder).with_context(|| {
                format!("cannot create the playlist's folder {}", folder.display())
            })?;
        }
        let (pool, jobs) = self.pool()?;
        // We make the plan before we handle signals, because it may wait for standard input. Until
        // then there is nothing to clean up, so a signal may simply end the process.
        let plan = self.plan(&pool);
        let interrupt = Interrupt::install().context("cannot install a handler for Ctrl-C")?;
        report_skipped_folders(&plan.unsearched_folders, &plan.empty_folders);
        if self.knobs.jobs.is_none() && plan.units.len() > jobs && !common.quiet {
            // If we cannot detect the machine, we print no hint.
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
            written.with_context(|| format!("cannot write the playlist {}", path.display()))?;
        }
        let exit = tally.exit();
        tally.finish().print_summary(common, self.lines)?;
        interrupt.check()?;
        Ok(exit)
    }

    /// Passes the plan of a run with these flags to `with_previews`, together with a preview of
    /// what the run would do to each song.
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
            // The run would write to stdout, so existing files do not matter.
            engine.existing = Existing::Replace;
            engine.layout.container = Container::Raw;
            for unit in &mut plan.units {
                unit.output = self.output.clone();
            }
        }
        with_previews(&plan, engine.preview(&plan))
    }

    /// Writes the samples of all songs to stdout, in the order of the input. If the reader closes
    /// the pipe, the program ends without a message.
    fn to_stdout(&self, common: &Common) -> anyhow::Result<Exit> {
        let mut plan = self.found();
        plan.units.sort_by_key(|unit| unit.order);
        let interrupt = Interrupt::install().context("cannot install a handler for Ctrl-C")?;
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

    /// Rejects flags that cannot be combined.
    fn check(&self, common: &Common) -> anyhow::Result<()> {
        match self.refused(common) {
            Some(message) => Err(Failure::new(Exit::Usage, message).into()),
            None => Ok(()),
        }
    }

    fn refused(&self, common: &Common) -> Option<String> {
        if self.lines && common.format == Format::Csv {
            return Some("cannot combine --lines with --format csv: --lines prints JSON".into());
        }
        if let Some(message) = self.sound.refused() {
            return Some(message.into());
        }
        let rounded = [SampleFormat::I8, SampleFormat::I16];
        if self.effects.dither && !rounded.contains(&self.sound.layout().samples) {
            let message = "cannot use --dither, because it needs integer samples of 8 or 16 bits: \
                           set --bit-depth 8 or 16";
            return Some(message.into());
        }
        if self.is_stream() {
            let has_files = self.lines || self.sound.au || self.sound.flac || self.m3u.is_some();
            return if has_files || self.name.is_some() {
                let message = "cannot combine `-o -` with --lines, --au, --flac, --m3u or --name, \
                               because stdout gets only samples. Use -o DIR";
                Some(message.into())
            } else if self.stems.is_some() || self.effects.replay_gain == Some(ReplayGain::Album) {
                let message = "cannot combine `-o -` with --stems or --replay-gain album, because \
                               they need files. Use -o DIR";
                Some(message.into())
            } else {
                None
            };
        }
        let list = self.m3u.as_ref()?;
        let same = |path: &PathBuf| path.canonicalize().ok() == list.canonicalize().ok();
        let why = if list.as_os_str() == "-" {
            "--m3u cannot write to stdout, so it needs the name of a file"
        } else if list.exists() && self.paths.iter().any(same) {
            "the playlist is also an input"
        } else if !self.has_folder(list) {
            "the folder of the playlist does not exist"
        } else {
            Playlist::refused_at(list, self.overwrite || self.skip_done)?
        };
        Some(format!(
            "cannot write the playlist {}: {why}",
            list.display()
        ))
    }

    /// Returns whether the folder of a playlist exists, or will exist after the run.
    fn has_folder(&self, list: &Path) -> bool {
        let absolute = |path: &Path| path::absolute(path).unwrap_or(path.into());
        let list = absolute(list);
        list.parent().is_some_and(Path::is_dir) || list.starts_with(absolute(&self.output))
    }

    /// Creates the pool, including the workers that wait for the disk. Also returns how many
    /// workers render.
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

    /// Returns the songs with the names of their files, divided into stems if `--stems` is set.
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

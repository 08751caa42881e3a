//! `creel-vgm video`: draws an oscilloscope view of a song.

mod flags;
mod target;

use std::num::NonZero;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use creel::{Balance, Placement, Pool, Wait};
use creel_console::{Common, Exit, Failure, Format, Interrupt, Knobs, Progress, duration, output};
use creel_vgm::Error;
use creel_vgm::batch::{Source, Warnings, find};
use creel_vgm::chips::selection::{Name, Selection};
use creel_vgm::format::Song;
use creel_vgm::render::Settings;
use creel_vgm::video::{Components, Options, Picture, Video};
use serde::Serialize;

use super::stderr::{escape_control, report};
use flags::{Arrangement, Size};
use target::{Kind, Sound, Target};

const EXAMPLES: &str = "Examples:
  creel-vgm video song.vgz -o song.mp4
  creel-vgm video song.vgz -o song.mkv --layout chips --window 25ms
  creel-vgm video song.vgz -o scope.png --start 30s --length 1s
  creel-vgm video song.vgz -o - | ffmpeg -i - -vf scale=1280:720 song.gif";

/// Draw an oscilloscope view of a song, with one panel per voice
///
/// Each panel shows the wave of one voice, and a trigger keeps the waves of tones in place. Voices
/// that make no sound have no panel. The size of a wave in its panel does not depend on the volume
/// of the voice.
///
/// For video files (mp4, mkv, mov, webm), the program ffmpeg encodes the pictures and the sound, so
/// it must be installed. Raw pictures (y4m) and numbered PNG files need no other program, and have
/// no sound. Use `creel-vgm render` for it.
///
/// Exit codes: 0 done, 1 the song cannot be drawn, 2 wrong usage, 65 the song is malformed, 127
/// ffmpeg is not installed, 130 and 143 interrupted.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Draw {
    /// Read this song; - reads it from standard input
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Write the video to FILE. Its ending selects the format: mp4, mkv, mov, webm, y4m or png; -
    /// writes raw pictures (y4m) to stdout
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: PathBuf,
    /// Replace existing files
    #[arg(long, help_heading = "Output")]
    overwrite: bool,
    /// Encode mp4, mkv and mov with this preset of x264. Slower presets make smaller files: the files
    /// of `veryfast` have half the size, and take twice as long
    #[arg(long, value_name = "P", default_value = "superfast", value_parser = flags::PRESETS, help_heading = "Output")]
    preset: String,
    /// Draw pictures of this size, in pixels
    #[arg(
        long,
        value_name = "WxH",
        default_value = "1920x1080",
        help_heading = "Picture"
    )]
    size: Size,
    /// Draw N pictures per second
    #[arg(long, value_name = "N", default_value = "60", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=240), help_heading = "Picture")]
    fps: u32,
    /// Choose how the panels are arranged
    #[arg(
        long,
        value_name = "L",
        value_enum,
        default_value_t,
        help_heading = "Picture"
    )]
    layout: Arrangement,
    /// Show TIME of sound across the width of each panel, from 1ms to 200ms
    #[arg(long, value_name = "TIME", default_value = "40ms", allow_negative_numbers = true, value_parser = flags::window, help_heading = "Picture")]
    window: Duration,
    /// Start at TIME in the song
    #[arg(long, value_name = "TIME", default_value = "0s", allow_negative_numbers = true, value_parser = duration::value_parser, help_heading = "Song")]
    start: Duration,
    /// Stop after TIME [default: at the end of the song]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = duration::positive, help_heading = "Song")]
    length: Option<Duration>,
    /// Play loops N times
    #[arg(long, allow_negative_numbers = true, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Song")]
    loops: u32,
    /// Fade out looping songs for TIME
    #[arg(long, allow_negative_numbers = true, value_name = "TIME", default_value = "5s", value_parser = duration::value_parser, help_heading = "Song")]
    fade: Duration,
    /// Mute these chips or voices, and draw no panels for them: CHIP, CHIP#2, CHIP:3 or CHIP#2:3.
    /// `creel-vgm chips` lists the names
    #[arg(
        long,
        value_name = "CHIP,...",
        value_delimiter = ',',
        help_heading = "Song"
    )]
    mute: Vec<Name>,
    /// Mute everything except these chips or voices, which you name as for --mute
    #[arg(
        long,
        value_name = "CHIP,...",
        value_delimiter = ',',
        help_heading = "Song"
    )]
    solo: Vec<Name>,
    #[command(flatten)]
    knobs: Knobs,
}

/// The JSON document about a finished video.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document {
    schema: u32,
    output: String,
    width: usize,
    height: usize,
    pictures_per_second: u32,
    pictures: u64,
    /// The labels of the panels.
    voices: Vec<String>,
    /// The duration of the video.
    seconds: f64,
    /// The time that drawing and encoding took.
    wall_seconds: f64,
    real_time_ratio: f64,
}

/// The number of pictures per worker that we draw at a time.
const PICTURES_PER_WORKER: usize = 4;

impl Draw {
    /// Draws the video.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let kind = Kind::of(&self.output).map_err(|message| Failure::new(Exit::Usage, message))?;
        if kind == Kind::Encoded {
            target::check_ffmpeg(&self.output)?;
        }
        kind.check_new(&self.output, self.overwrite)?;
        let interrupt = Interrupt::install().context("cannot handle Ctrl-C")?;
        let pool = Pool::builder()
            .balance(Balance::Shared)
            .wait(Wait::Park)
            .placement(Placement::Unpinned);
        let pool = self.knobs.apply(pool).build()?;
        let (source, song) = self.song()?;
        if !common.quiet {
            report_warnings(&source, &song);
        }
        let (settings, options) = (self.settings(), self.options());
        self.check_start(&song, &settings)?;
        let name = escape_control(&source.to_string());
        let cannot = || format!("cannot draw {name}");
        let components = match kind {
            Kind::Pictures => Components::Rgb,
            _ => Components::Yuv420,
        };
        let begun = Instant::now();
        let go_on = || !interrupt.requested();
        let video = Video::new(&song, &settings, &options, (components, &pool), go_on);
        let Some(mut video) = video.with_context(cannot)? else {
            interrupt.check()?;
            return Ok(Exit::Interrupted);
        };
        let sound = match kind {
            Kind::Encoded => Some(Sound::render(
                &song,
                &settings,
                &pool,
                &self.output,
                &interrupt,
            )?),
            _ => None,
        };
        let target = Target::open(kind, &self.output, &options, (sound, &self.preset))
            .with_context(|| format!("cannot write {}", self.output.display()))?;
        let progress = Progress::new(video.pictures(), "pictures", common.quiet);
        let written = draw_all(&mut video, &pool, target, (&interrupt, &progress));
        progress.finish();
        // If the user has interrupted us, that is why ffmpeg has ended.
        interrupt.check()?;
        written.with_context(|| format!("cannot write {}", self.output.display()))?;
        if kind != Kind::Stdout {
            self.print(common, &video, begun.elapsed().as_secs_f64())?;
        }
        Ok(Exit::Done)
    }

    /// Reads the song. The path must lead to exactly one.
    fn song(&self) -> anyhow::Result<(Source, Song)> {
        let cannot_read = |name: String, error| {
            // The kind of an error of the system decides the exit code, so the chain must have it.
            let error = match error {
                Error::Io(error) => anyhow::Error::new(error),
                error => error.into(),
            };
            error.context(escape_control(&name))
        };
        let mut found = find(std::slice::from_ref(&self.path), false);
        if let Some((path, error)) = found.refused.pop() {
            return Err(cannot_read(path.display().to_string(), error));
        }
        if found.songs.len() != 1 {
            let (path, count) = (self.path.display(), found.songs.len());
            let message = format!(
                "cannot draw {path}, because it contains {count} songs. Pass the path of one song"
            );
            return Err(Failure::new(Exit::Usage, message).into());
        }
        let (source, _) = found.songs.remove(0);
        let song = source.load();
        let song = song.map_err(|error| cannot_read(source.to_string(), error))?;
        Ok((source, song))
    }

    /// Checks that the video starts within the song.
    fn check_start(&self, song: &Song, settings: &Settings) -> anyhow::Result<()> {
        let (frames, _) = settings.frames(song);
        let seconds = frames as f64 / f64::from(settings.sample_rate);
        if self.start.as_secs_f64() < seconds {
            return Ok(());
        }
        let start = self.start.as_secs_f64();
        let message = format!("cannot start at {start:.1} s: the song ends after {seconds:.1} s");
        Err(Failure::new(Exit::Usage, message).into())
    }

    fn settings(&self) -> Settings {
        Settings {
            loops: self.loops,
            fade_seconds: self.fade.as_secs_f64(),
            chips: Selection {
                mute: self.mute.clone(),
                solo: self.solo.clone(),
                ..Selection::default()
            },
            ..Settings::default()
        }
    }

    fn options(&self) -> Options {
        Options {
            size: (self.size.width, self.size.height),
            pictures_per_second: self.fps,
            layout: self.layout.layout(),
            window_seconds: self.window.as_secs_f64(),
            start_seconds: self.start.as_secs_f64(),
            most_seconds: self.length.map(|length| length.as_secs_f64()),
        }
    }

    /// Prints what was written.
    fn print(&self, common: &Common, video: &Video<'_>, wall_seconds: f64) -> anyhow::Result<()> {
        let seconds = video.pictures() as f64 / f64::from(self.fps);
        let document = Document {
            schema: 1,
            output: self.output.display().to_string(),
            width: self.size.width,
            height: self.size.height,
            pictures_per_second: self.fps,
            pictures: video.pictures(),
            voices: video.labels().to_vec(),
            seconds,
            wall_seconds,
            real_time_ratio: seconds / wall_seconds,
        };
        match common.format {
            Format::Json => output::json(&document)?,
            Format::Csv => output::csv([CsvRow::from(document)])?,
            Format::Text if common.quiet => {}
            Format::Text => output::text(&format!(
                "{}: {} voices, {} pictures of {}x{}, {seconds:.1} s in {wall_seconds:.1} s \
                 ({:.1} times real time)\n",
                escape_control(&document.output),
                document.voices.len(),
                document.pictures,
                self.size.width,
                self.size.height,
                document.real_time_ratio,
            ))?,
        }
        Ok(())
    }
}

/// The document as one row, with all voices in one field.
#[derive(Serialize)]
struct CsvRow {
    output: String,
    width: usize,
    height: usize,
    pictures_per_second: u32,
    pictures: u64,
    voices: String,
    seconds: f64,
    wall_seconds: f64,
    real_time_ratio: f64,
}

impl From<Document> for CsvRow {
    fn from(document: Document) -> CsvRow {
        CsvRow {
            output: document.output,
            width: document.width,
            height: document.height,
            pictures_per_second: document.pictures_per_second,
            pictures: document.pictures,
            voices: document.voices.join("; "),
            seconds: document.seconds,
            wall_seconds: document.wall_seconds,
            real_time_ratio: document.real_time_ratio,
        }
    }
}

/// Reports the parts of the song that are not played, and thus not drawn.
fn report_warnings(source: &Source, song: &Song) {
    let warnings = Warnings::of(song);
    let name = escape_control(&source.to_string());
    for chip in &warnings.chips_missing {
        report(&format!(
            "{name}: {chip} is not supported, so it is not drawn"
        ));
    }
    for warning in &warnings.warnings {
        report(&format!("{name}: {}", escape_control(warning)));
    }
}

/// Draws all pictures and writes them. The workers draw the next pictures while this thread writes
/// the previous ones.
fn draw_all(
    video: &mut Video<'_>,
    pool: &Pool,
    mut target: Target,
    (interrupt, progress): (&Interrupt, &Progress),
) -> anyhow::Result<()> {
    let at_a_time = PICTURES_PER_WORKER * NonZero::new(pool.workers()).map_or(1, NonZero::get);
    let mut drawn: Vec<Picture> = vec![video.blank(); at_a_time];
    let mut free = drawn.clone();
    let mut count = video.draw(pool, &mut drawn);
    while count > 0 && !interrupt.requested() {
        let write = || target.write(pool, &drawn[..count]);
        let (written, next) = pool.join(write, || video.draw(pool, &mut free));
        if let Err(error) = written {
            return Err(target.explain(error));
        }
        progress.advance(count as u64);
        std::mem::swap(&mut drawn, &mut free);
        count = next;
    }
    match interrupt.requested() {
        true => Ok(()),
        false => target.finish(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-vgm-video", schemars::schema_for!(Document));
    }
}

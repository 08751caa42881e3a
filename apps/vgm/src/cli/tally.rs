//! Progress of a run. We count the songs as they end, print a JSON line per song if the user asked
//! for it, and print a summary at the end.

use std::fmt::Display;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use creel_console::{Common, Exit, Format, Progress, output};
use creel_vgm::Error;
use creel_vgm::batch::{Event, Unit, escaped};
use serde::Serialize;

use super::stderr::escape_control;

/// Counts songs as they end. Several threads use it at the same time.
pub struct Tally {
    songs: usize,
    /// The noun for one of the counted things: `song` or `stem`.
    what: &'static str,
    lines: bool,
    started: Instant,
    progress: Progress,
    counts: Mutex<Counts>,
    /// The number of rendered frames, including those of unfinished songs. We access this field and
    /// the next with `Relaxed`, because only the progress bar depends on them.
    rendered: AtomicU64,
    /// The number of frames of all songs together, as far as we know.
    expected: AtomicU64,
}

#[derive(Default)]
struct Counts {
    done: u64,
    failed: u64,
    skipped: u64,
    /// The number of finished songs that were not played in full.
    incomplete: u64,
    /// The number of finished songs that have samples beyond full scale.
    clipped: u64,
    /// The number of frames of finished songs.
    frames: u64,
    /// Whether at least one failure was caused by the system and not by the song.
    system_failed: bool,
}

/// The JSON line of one song.
#[derive(Serialize, Default)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SongLine<'l> {
    schema: u32,
    song: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    song_escaped: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_escaped: Option<String>,
    status: &'static str,
    frames: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clipped: Option<u64>,
    chips_missing: &'l [&'static str],
    not_played: &'l [String],
    warnings: &'l [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl SongLine<'_> {
    fn of_unit(unit: &Unit, status: &'static str) -> Self {
        SongLine {
            output: Some(unit.output.display().to_string()),
            song_escaped: unit.input.escaped(),
            output_escaped: escaped(&unit.output),
            ..SongLine::of(&unit.name(), status)
        }
    }

    fn of(song: &(impl Display + ?Sized), status: &'static str) -> Self {
        SongLine {
            schema: 1,
            song: song.to_string(),
            status,
            ..SongLine::default()
        }
    }
}

/// The summary of a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    schema: u32,
    /// The noun for the counted things: `song` or `stem`.
    #[serde(skip)]
    what: &'static str,
    songs: u64,
    failed: u64,
    skipped: u64,
    incomplete: u64,
    clipped: u64,
    frames: u64,
    seconds: f64,
    frames_per_second: f64,
    peak_rss_bytes: Option<u64>,
}

/// The number of frames between two updates of the text next to the progress bar.
const MESSAGE_FRAMES: u64 = 1 << 18;

impl Tally {
    /// Creates a tally for these songs, or stems of songs. If `lines` is set, it prints a JSON line
    /// for each of them.
    pub fn new(units: &[Unit], lines: bool, quiet: bool) -> Self {
        let frames = units.iter().map(|unit| unit.claimed).sum();
        let has_stems = units.iter().any(|unit| unit.stem.is_some());
        Tally {
            songs: units.len(),
            what: if has_stems { "stem" } else { "song" },
            lines,
            started: Instant::now(),
            progress: Progress::share(frames, quiet),
            counts: Mutex::default(),
            rendered: AtomicU64::new(0),
            expected: AtomicU64::new(frames),
        }
    }

    /// Counts rendered frames of an unfinished song.
    fn advance(&self, frames: u64) {
        self.progress.advance(frames);
        let before = self.rendered.fetch_add(frames, Ordering::Relaxed);
        if before / MESSAGE_FRAMES != (before + frames) / MESSAGE_FRAMES {
            self.update_bar_message(before + frames);
        }
    }

    /// Corrects the expected number of frames of the run. It contains the number that the header of
    /// a song claims, and we replace that by the real number.
    fn correct_expected(&self, claimed: u64, frames: u64) {
        let change = frames.wrapping_sub(claimed);
        let before = self.expected.fetch_add(change, Ordering::Relaxed);
        self.progress.set_total(before.wrapping_add(change));
    }

    /// Counts an event of a song, and reports the song when it ends.
    pub fn event(&self, unit: &Unit, event: &Event<'_>) {
        match event {
            Event::Started(frames) => self.correct_expected(unit.claimed, *frames),
            Event::Rendered(frames) => self.advance(*frames),
            Event::Done(extent, remarks) => {
                let mut line = SongLine::of_unit(unit, "done");
                line.frames = extent.frames;
                (line.peak, line.clipped) = (Some(extent.peak), Some(extent.clipped));
                line.chips_missing = &remarks.chips_missing;
                line.not_played = &remarks.not_played;
                line.warnings = &remarks.warnings;
                self.finish_song(&line, |counts| {
                    counts.done += 1;
                    counts.incomplete += u64::from(!remarks.is_complete());
                    counts.clipped += u64::from(extent.clipped > 0);
                    counts.frames += extent.frames;
                });
            }
            Event::Skipped => {
                let line = SongLine::of_unit(unit, "skipped");
                self.correct_expected(unit.claimed, 0);
                self.finish_song(&line, |counts| counts.skipped += 1);
            }
            Event::Failed(error) => self.fail(&unit.name(), error),
        }
    }

    /// Counts a path that cannot be rendered as a failed song.
    pub fn refused(&self, path: &Path, error: &Error) {
        self.fail(&path.display(), error);
    }

    fn fail(&self, song: &dyn Display, error: &Error) {
        let mut line = SongLine::of(song, "failed");
        line.error = Some(error.to_string());
        self.finish_song(&line, |counts| {
            counts.failed += 1;
            counts.system_failed |= !error.is_bad_data();
        });
    }

    /// Reports the end of a song, and counts it.
    fn finish_song(&self, line: &SongLine<'_>, count: impl FnOnce(&mut Counts)) {
        let report = |text: &str| {
            self.progress.println(&format!(
                "creel-vgm: {}: {}",
                escape_control(&line.song),
                escape_control(text)
            ));
        };
        line.warnings.iter().for_each(|warning| report(warning));
        if !line.chips_missing.is_empty() {
            let names = line.chips_missing.join(", ");
            report(&format!("rendered without {names} (not played)"));
        }
        line.error.iter().for_each(|error| report(error));
        // The lock also ensures that lines do not mix, and that their order is that of the counts.
        let mut counts = self.counts();
        count(&mut counts);
        if self.lines {
            // We ignore a closed pipe, because the songs should be rendered in any case.
            let _ = self.progress.suspend(|| output::json_line(line));
        }
    }

    /// Returns the exit code of the run.
    pub fn exit(&self) -> Exit {
        let counts = self.counts();
        match (counts.failed, counts.done + counts.skipped) {
            (0, _) => Exit::Done,
            (_, 0) if !counts.system_failed => Exit::BadData,
            _ => Exit::SomeFailed,
        }
    }

    /// Ends the progress bar and returns the summary.
    pub fn finish(self) -> Summary {
        let seconds = self.started.elapsed().as_secs_f64();
        let counts = self.counts.into_inner().unwrap_or_default();
        self.progress.finish();
        Summary {
            schema: 1,
            what: self.what,
            songs: counts.done,
            failed: counts.failed,
            skipped: counts.skipped,
            incomplete: counts.incomplete,
            clipped: counts.clipped,
            frames: counts.frames,
            seconds,
            frames_per_second: counts.frames as f64 / seconds.max(1e-9),
            peak_rss_bytes: peak_rss_bytes(),
        }
    }

    fn update_bar_message(&self, rendered: u64) {
        let counts = self.counts();
        let ended = counts.done + counts.failed + counts.skipped;
        drop(counts);
        let rate = rendered as f64 / self.started.elapsed().as_secs_f64() / 1e6;
        self.progress.set_message(format!(
            "{ended}/{} {}s, {rate:.1} M/s",
            self.songs, self.what
        ));
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts
            .lock()
            .expect("no thread panics while it holds this lock")
    }
}

impl Summary {
    /// Prints the summary on stdout in the requested format. After `lines`, the format is JSON.
    pub fn print_summary(&self, common: &Common, lines: bool) -> anyhow::Result<()> {
        match common.format {
            _ if lines => output::json_line(self)?,
            Format::Json => output::json_line(self)?,
            Format::Csv => output::csv([self])?,
            Format::Text if common.quiet => {}
            Format::Text => output::text(&format!(
                "{} {}{}{}, {} failed, {} skipped: {:.1} M frames in {:.2} s, {:.2} M frames/s\n",
                self.songs,
                self.what,
                if self.songs == 1 { "" } else { "s" },
                self.notes_of(),
                self.failed,
                self.skipped,
                self.frames as f64 / 1e6,
                self.seconds,
                self.frames_per_second / 1e6,
            ))?,
        }
        Ok(())
    }
}

impl Summary {
    /// Returns the remarks on finished songs, in parentheses.
    fn notes_of(&self) -> String {
        let counted = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let notes = [
            counted(self.incomplete, "not in full"),
            counted(self.clipped, "clip"),
        ];
        match notes.into_iter().flatten().collect::<Vec<_>>() {
            notes if notes.is_empty() => String::new(),
            notes => format!(" ({})", notes.join(", ")),
        }
    }
}

/// Returns the peak resident memory of the process, or `None` if the system does not report it.
fn peak_rss_bytes() -> Option<u64> {
    let status = creel_console::system::text("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-vgm-render", schemars::schema_for!(Summary));
        documented::check_schema("creel-vgm-render-lines", schemars::schema_for!(SongLine));
    }
}

//! `creel-vgm info`: prints the tags, the length and the chips of songs.

use std::fmt::Display;
use std::path::PathBuf;

use clap::Args;
use creel_console::{Common, Exit, Format, output, report};
use creel_vgm::Error;
use creel_vgm::batch::{Source, Warnings, find};
use creel_vgm::format::{Gd3, Song, TICKS_PER_SECOND};
use creel_vgm::render::{Player, Settings};
use serde::Serialize;

use super::report_skipped_folders;
use super::stderr::escape_control;

/// Print the title, length, loop and chips of songs
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm info song.vgz
  creel-vgm info -r music --format csv > songs.csv")]
pub struct Info {
    /// Read these songs, folders, archives (zip, 7z) and playlists (M3U, XSPF, JSPF); - reads one
    /// of them from standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Also search the subfolders of the folders
    #[arg(short, long)]
    recurse: bool,
}

/// The JSON document of one song.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document<'s> {
    schema: u32,
    song: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    song_escaped: Option<String>,
    version: String,
    seconds: f64,
    samples: u64,
    loop_seconds: f64,
    loop_samples: u64,
    chips: Vec<Chip>,
    #[serde(flatten)]
    remarks: Warnings,
    track: &'s str,
    game: &'s str,
    system: &'s str,
    author: &'s str,
    date: &'s str,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Chip {
    name: &'static str,
    second: bool,
    clock_hz: u32,
    writes: u64,
}

impl Info {
    /// Prints all songs. The first failure determines the exit code.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let found = find(&self.paths, self.recurse);
        report_skipped_folders(&found.unsearched_folders, &found.empty_folders);
        let mut failures = ExitStatus(Exit::Done);
        let mut rows = Vec::new();
        for (path, error) in found.refused {
            failures.report(&path.display(), error);
        }
        for (source, _) in &found.songs {
            let song = match source.load() {
                Ok(song) => song,
                Err(error) => {
                    failures.report(source, error);
                    continue;
                }
            };
            let tags = song.tags.with_fallback();
            let document = document(source, &song, &tags);
            match common.format {
                Format::Json => output::json_line(&document)?,
                Format::Csv => rows.push(row(&document)),
                Format::Text => output::text(&text(&document))?,
            }
        }
        if common.format == Format::Csv {
            output::csv(rows)?;
        }
        Ok(failures.0)
    }
}

/// The exit code of the first failure.
struct ExitStatus(Exit);

impl ExitStatus {
    fn report(&mut self, song: &dyn Display, error: Error) {
        let failed = if error.is_bad_data() {
            Exit::BadData
        } else {
            Exit::SomeFailed
        };
        if self.0 == Exit::Done {
            self.0 = failed;
        }
        let error = anyhow::Error::new(error).context(escape_control(&song.to_string()));
        report("creel-vgm", &error);
    }
}

fn document<'s>(source: &Source, song: &'s Song, tags: &'s Gd3) -> Document<'s> {
    let rate = f64::from(TICKS_PER_SECOND);
    let looped = song.repeat().map_or(0, |repeat| song.ticks() - repeat.tick);
    Document {
        schema: 1,
        song: source.to_string(),
        song_escaped: source.escaped(),
        version: format!(
            "{:x}.{:02x}",
            song.header.version >> 8,
            song.header.version & 0xFF
        ),
        seconds: song.ticks() as f64 / rate,
        samples: song.ticks(),
        loop_seconds: looped as f64 / rate,
        loop_samples: looped,
        chips: song
            .chips()
            .map(|instance| Chip {
                name: song.header.name(instance.chip),
                second: instance.second,
                clock_hz: song.header.clock(instance).unwrap_or(0),
                writes: song.writes(instance),
            })
            .collect(),
        remarks: warnings_of(song),
        track: &tags.track,
        game: &tags.game,
        system: &tags.system,
        author: &tags.author,
        date: &tags.date,
    }
}

/// Returns the warnings that `render` would print, including the reason if it would reject the
/// song.
fn warnings_of(song: &Song) -> Warnings {
    let mut remarks = Warnings::of(song);
    if let Err(error) = Player::check(song, &Settings::default()) {
        let refused = format!("the song cannot be rendered: {error}");
        remarks.warnings.push(refused);
    }
    remarks
}

/// One song as a row of a CSV table. All chips are in one field.
#[derive(Serialize)]
struct Row {
    song: String,
    seconds: f64,
    loop_seconds: f64,
    chips: String,
    chips_missing: String,
    track: String,
    game: String,
    author: String,
}

fn row(document: &Document<'_>) -> Row {
    let chips: Vec<_> = document.chips.iter().map(|chip| chip.name).collect();
    Row {
        song: document.song.clone(),
        seconds: document.seconds,
        loop_seconds: document.loop_seconds,
        chips: chips.join(" "),
        chips_missing: document.remarks.chips_missing.join(" "),
        track: document.track.into(),
        game: document.game.into(),
        author: document.author.into(),
    }
}

fn text(document: &Document<'_>) -> String {
    let mut lines = vec![escape_control(&document.song)];
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {name:<8} {}", escape_control(&value)));
        }
    };
    field("track", document.track.into());
    field("game", document.game.into());
    field("system", document.system.into());
    field("author", document.author.into());
    field("date", document.date.into());
    field("version", document.version.clone());
    field("length", format!("{:.2} s", document.seconds));
    if document.loop_samples > 0 {
        field("loop", format!("{:.2} s", document.loop_seconds));
    }
    for chip in &document.chips {
        let second = if chip.second { " (second)" } else { "" };
        let Chip {
            name,
            clock_hz,
            writes,
            ..
        } = chip;
        field(
            "chip",
            format!("{name}{second} at {clock_hz} Hz, {writes} writes"),
        );
    }
    if !document.remarks.chips_missing.is_empty() {
        field("missing", document.remarks.chips_missing.join(", "));
    }
    for warning in &document.remarks.warnings {
        field("warning", warning.clone());
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use creel_console::documented;

    #[test]
    fn the_published_schema_matches_the_types() {
        documented::check_schema("creel-vgm-info", schemars::schema_for!(Document));
    }
}

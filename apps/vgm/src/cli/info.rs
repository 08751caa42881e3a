//! `creel-vgm info`: what a song says of itself.

use std::path::PathBuf;

use clap::Args;
use creel_console::{Common, Exit, Format, output, report};
use creel_vgm::format::{Song, TICKS_PER_SECOND};
use serde::Serialize;

/// Tell what songs are: title, length, loop, chips
#[derive(Args, Debug)]
pub struct Info {
    /// Songs
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// One song.
#[derive(Serialize)]
struct Document<'s> {
    schema: u32,
    song: String,
    version: String,
    seconds: f64,
    samples: u64,
    loop_seconds: f64,
    loop_samples: u64,
    chips: Vec<Chip>,
    track: &'s str,
    game: &'s str,
    system: &'s str,
    author: &'s str,
    date: &'s str,
}

#[derive(Serialize)]
struct Chip {
    name: &'static str,
    second: bool,
    clock_hz: u32,
    writes: u64,
}

impl Info {
    /// Prints all songs; the first failure gives the exit code.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let mut exit = Exit::Done;
        for path in &self.paths {
            match Song::read(path) {
                Ok(song) => print(common, &document(path.display().to_string(), &song))?,
                Err(error) => {
                    let failed = if error.is_bad_data() {
                        Exit::BadData
                    } else {
                        Exit::SomeFailed
                    };
                    let error = anyhow::Error::new(error).context(path.display().to_string());
                    report("creel-vgm", &error);
                    exit = if exit == Exit::Done { failed } else { exit };
                }
            }
        }
        Ok(exit)
    }
}

fn document(path: String, song: &Song) -> Document<'_> {
    let rate = f64::from(TICKS_PER_SECOND);
    let looped = song.repeat().map_or(0, |repeat| song.ticks() - repeat.tick);
    Document {
        schema: 1,
        song: path,
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
                name: instance.chip.name(),
                second: instance.second,
                clock_hz: song.header.clock(instance).unwrap_or(0),
                writes: song.writes(instance),
            })
            .collect(),
        track: &song.tags.track,
        game: &song.tags.game,
        system: &song.tags.system,
        author: &song.tags.author,
        date: &song.tags.date,
    }
}

fn print(common: &Common, document: &Document<'_>) -> anyhow::Result<()> {
    match common.format {
        Format::Json => output::json_line(document)?,
        Format::Csv => output::csv([row(document)])?,
        Format::Text => output::text(&text(document))?,
    }
    Ok(())
}

/// One song in a table, its chips in one field.
#[derive(Serialize)]
struct Row<'d> {
    song: &'d str,
    seconds: f64,
    loop_seconds: f64,
    chips: String,
    track: &'d str,
    game: &'d str,
    author: &'d str,
}

fn row<'d>(document: &'d Document<'_>) -> Row<'d> {
    let chips: Vec<_> = document.chips.iter().map(|chip| chip.name).collect();
    Row {
        song: &document.song,
        seconds: document.seconds,
        loop_seconds: document.loop_seconds,
        chips: chips.join(" "),
        track: document.track,
        game: document.game,
        author: document.author,
    }
}

fn text(document: &Document<'_>) -> String {
    let mut lines = vec![document.song.clone()];
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("  {name:<8} {value}"));
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
    lines.push(String::new());
    lines.join("\n")
}

//! `creel-vgm units`: what a run would render, for those who spread it over machines.

use std::path::PathBuf;

use clap::Args;
use creel_console::{Common, Exit, Format, output, report};
use creel_vgm::batch::{self, Unit};
use creel_vgm::format::TICKS_PER_SECOND;
use serde::Serialize;

use super::tell_of_folders;

/// List what a run would render, a JSON line a song (or CSV), those first that take longest
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm units -r music -o out
  creel-vgm units album.zip -o out --format csv")]
pub struct Units {
    /// Songs, folders and archives (zip, 7z) of songs, playlists (M3U, XSPF, JSPF)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The folder that the sound files would go to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Look for songs in folders below the folders, too
    #[arg(short, long)]
    recurse: bool,
    /// AU files instead of WAV
    #[arg(long, conflicts_with = "flac")]
    au: bool,
    /// FLAC files instead of WAV
    #[arg(long)]
    flac: bool,
}

/// One song.
#[derive(Serialize)]
struct Line {
    schema: u32,
    song: String,
    output: String,
    /// As the song claims, its loop once.
    samples: u64,
    seconds: f64,
    /// An estimate of one job's time.
    cost_ns: u64,
    /// Whether the sound file is there already.
    exists: bool,
}

impl Units {
    /// Prints all units; what cannot be rendered is told on stderr.
    pub fn run(&self, common: &Common) -> anyhow::Result<Exit> {
        let ending = match (self.au, self.flac) {
            (true, _) => "au",
            (_, true) => "flac",
            _ => "wav",
        };
        let plan = batch::plan(&self.paths, &self.output, ending, self.recurse);
        tell_of_folders(&plan.deeper, &plan.barren);
        match common.format {
            Format::Csv => output::csv(plan.units.iter().map(line))?,
            Format::Text | Format::Json => {
                for unit in &plan.units {
                    output::json_line(&line(unit))?;
                }
            }
        }
        let refused = !plan.refused.is_empty();
        for (path, error) in plan.refused {
            report(
                "creel-vgm",
                &anyhow::anyhow!(
                    "{}: {error}",
                    super::plain::plain(&path.display().to_string())
                ),
            );
        }
        Ok(if refused {
            Exit::SomeFailed
        } else {
            Exit::Done
        })
    }
}

fn line(unit: &Unit) -> Line {
    Line {
        schema: 1,
        song: unit.input.to_string(),
        output: unit.output.display().to_string(),
        samples: unit.claimed,
        seconds: unit.claimed as f64 / f64::from(TICKS_PER_SECOND),
        cost_ns: unit.cost.whole,
        exists: unit.output.exists(),
    }
}

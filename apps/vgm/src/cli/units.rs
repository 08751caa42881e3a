//! `creel-vgm units`: what a run would render, for those who spread it over machines.

use std::path::PathBuf;

use clap::Args;
use creel_console::{Exit, output, report};
use creel_vgm::batch::{self, Unit};
use creel_vgm::format::TICKS_PER_SECOND;
use serde::Serialize;

use super::tell_of_folders;

/// List what a run would render, a JSON line a song, those first that take longest
#[derive(Args, Debug)]
pub struct Units {
    /// Songs, folders of songs, playlists (M3U, XSPF, JSPF)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The folder that the sound files would go to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Look for songs in folders below the folders, too
    #[arg(short, long)]
    recurse: bool,
    /// AU files instead of WAV
    #[arg(long)]
    au: bool,
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
    pub fn run(&self) -> anyhow::Result<Exit> {
        let ending = if self.au { "au" } else { "wav" };
        let plan = batch::plan(&self.paths, &self.output, ending, self.recurse);
        tell_of_folders(&plan.deeper, &plan.barren);
        for unit in &plan.units {
            output::json_line(&line(unit))?;
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

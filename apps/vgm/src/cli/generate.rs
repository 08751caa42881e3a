//! `creel-vgm generate`: the project's own songs, composed anew.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use creel_console::Exit;
use creel_vgm::demo;

use super::create_folder;

/// Compose the songs that the program carries, as .vgz files
#[derive(Args, Debug)]
#[command(after_help = "Example:
  creel-vgm generate -o songs")]
pub struct Generate {
    /// The folder for the songs
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

impl Generate {
    /// Writes all songs.
    pub fn run(&self) -> anyhow::Result<Exit> {
        create_folder(&self.output)?;
        for song in demo::compose() {
            let path = self.output.join(song.name).with_extension("vgz");
            fs::write(&path, song.packed()).with_context(|| path.display().to_string())?;
        }
        Ok(Exit::Done)
    }
}

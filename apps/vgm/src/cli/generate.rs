//! `creel-vgm generate`: composes the demo songs of the project and writes them to files.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use creel_console::Exit;
use creel_vgm::demo;

use super::create_folder;

/// Write the built-in demo songs as .vgz files
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  creel-vgm generate -o songs
  creel-vgm generate -o songs && creel-vgm play songs")]
pub struct Generate {
    /// Write the songs to the folder DIR
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

impl Generate {
    /// Writes all songs.
    pub fn run(&self) -> anyhow::Result<Exit> {
        create_folder(&self.output)?;
        for song in demo::compose() {
            let path = self.output.join(song.name).with_extension("vgz");
            fs::write(&path, song.packed())
                .with_context(|| format!("cannot write the song {}", path.display()))?;
        }
        Ok(Exit::Done)
    }
}

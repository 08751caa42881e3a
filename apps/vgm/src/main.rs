//! The `creel-vgm` program. It plays VGM game music and renders it to sound files.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use creel_console::{Common, args, conclude_by_signal};

/// Play VGM game music, and render it to sound files in parallel
#[derive(Parser, Debug)]
#[command(name = "creel-vgm", version)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Render(Box<cli::render::Render>),
    Play(Box<cli::play::Play>),
    Ctl(cli::ctl::Ctl),
    Serve(cli::serve::Serve),
    Info(cli::info::Info),
    Units(Box<cli::units::Units>),
    Video(Box<cli::video::Draw>),
    Chips(cli::chips::Chips),
    Generate(cli::generate::Generate),
}

fn main() -> ExitCode {
    let cli: Cli = args::parse();
    cli.common.apply();
    let done = match &cli.command {
        Command::Render(render) => render.run(&cli.common),
        Command::Play(play) => play.run(&cli.common),
        Command::Ctl(ctl) => ctl.run(&cli.common),
        Command::Serve(serve) => serve.run(&cli.common),
        Command::Info(info) => info.run(&cli.common),
        Command::Units(units) => units.run(&cli.common),
        Command::Video(video) => video.run(&cli.common),
        Command::Chips(chips) => chips.run(&cli.common),
        Command::Generate(generate) => generate.run(),
    };
    conclude_by_signal("creel-vgm", done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use creel_console::documented;

    #[test]
    fn the_documents_match_the_command_line() {
        documented::check(
            Cli::command(),
            documented::Documents {
                manifest: env!("CARGO_MANIFEST_DIR"),
                own: &[
                    "docs/guide/src/music.md",
                    "docs/guide/src/player.md",
                    "docs/guide/src/video.md",
                ],
                // The flags of other players, which the documents also mention.
                foreign: &[
                    "--loop",
                    "--fadeout-seconds",
                    "--vgm-chip-info",
                    "--render",
                    "--outdir",
                ],
            },
        );
    }
}

//! The subcommands of the program. Each of them prints its results and returns an exit code.

pub mod chips;
pub mod ctl;
pub mod generate;
pub mod info;
pub mod play;
pub mod render;
pub mod serve;
mod sound_flags;
mod stderr;
mod tally;
pub mod units;
pub mod video;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use stderr::{escape_control, report};

/// Creates the output folder if it does not exist.
fn create_folder(output: &Path) -> anyhow::Result<()> {
    let name = output.display();
    ensure!(
        !output.exists() || output.is_dir(),
        "cannot use {name} as the output folder: it is a file. Pass a folder to --output"
    );
    // This normalizes `new/.`, which GNU parallel's {//} creates, to `new`.
    let folder: PathBuf = output.components().collect();
    fs::create_dir_all(folder).with_context(|| format!("cannot create the output folder {name}"))
}

/// Reports folders whose subfolders were not searched, and folders without songs.
fn report_skipped_folders(unsearched: &[PathBuf], empty: &[PathBuf]) {
    let report_folder = |folder: &PathBuf, text: &str| {
        report(&format!(
            "{}: {text}",
            escape_control(&folder.display().to_string())
        ));
    };
    for folder in unsearched {
        report_folder(
            folder,
            "subfolders also contain songs. Use -r to include them",
        );
    }
    for folder in empty {
        report_folder(folder, "contains no songs");
    }
}

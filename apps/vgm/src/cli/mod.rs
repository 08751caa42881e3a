//! The commands of the program: what is printed, and which exit code says how it went.

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

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use stderr::{escape_control, report};

/// Makes the folder that results go to, if it is not there.
fn create_folder(output: &Path) -> anyhow::Result<()> {
    let name = output.display();
    ensure!(
        !output.exists() || output.is_dir(),
        "{name}: is a file; --output takes a folder"
    );
    // `new/.`, as GNU parallel's {//} makes it, is new.
    let folder: PathBuf = output.components().collect();
    fs::create_dir_all(folder).with_context(|| name.to_string())
}

/// Says where songs were not looked for, and where none were.
fn report_skipped_folders(unsearched: &[PathBuf], empty: &[PathBuf]) {
    let report_folder = |folder: &PathBuf, text: &str| {
        report(&format!(
            "{}: {text}",
            escape_control(&folder.display().to_string())
        ));
    };
    for folder in unsearched {
        report_folder(folder, "songs lie in folders below it, too; -r takes them");
    }
    for folder in empty {
        report_folder(folder, "no song lies in it");
    }
}

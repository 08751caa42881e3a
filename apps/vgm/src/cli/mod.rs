//! The commands of the program: what is printed, and which exit code says how it went.

pub mod generate;
pub mod info;
pub mod render;
mod tally;

use anyhow::{Context, ensure};
use std::{fs, path::Path};

/// Makes the folder that results go to, if it is not there.
fn make_folder(output: &Path) -> anyhow::Result<()> {
    let name = output.display();
    ensure!(
        !output.is_file(),
        "{name}: is a file; --output takes a folder"
    );
    fs::create_dir_all(output).with_context(|| name.to_string())
}

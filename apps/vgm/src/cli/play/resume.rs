//! Where queues were left, so that they can be gone on with.
//!
//! One small file, replaced as a whole; a queue is known by the paths that it was made of. A file
//! that cannot be read is one that says nothing.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Queues that are remembered, at most.
const QUEUES_MAX: usize = 100;

#[derive(Debug, Default, Deserialize, Serialize)]
struct Book {
    /// The last that was played comes first.
    queues: Vec<Left>,
}

/// Where a queue was left.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct Left {
    /// The paths it was made of, absolute.
    pub paths: Vec<PathBuf>,
    /// The song.
    pub source: String,
    /// Milliseconds from its start.
    pub ms: u64,
}

/// The file: `$XDG_STATE_HOME/creel-vgm/positions.json`, else below `~/.local/state`.
fn place() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("XDG_STATE_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")))?;
    Some(folder.join("creel-vgm/positions.json"))
}

/// The paths as they are remembered.
pub fn known_as(paths: &[PathBuf]) -> Vec<PathBuf> {
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    paths.iter().map(absolute).collect()
}

fn read(file: &Path) -> Book {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Where the queue of these paths was left.
pub fn left(paths: &[PathBuf]) -> Option<Left> {
    let book = read(&place()?);
    book.queues.into_iter().find(|left| left.paths == paths)
}

/// Remembers it.
///
/// # Errors
///
/// What the system says.
pub fn leave(left: Left) -> io::Result<()> {
    let file = place().ok_or_else(|| io::Error::other("there is no home folder"))?;
    let mut book = read(&file);
    book.queues.retain(|other| other.paths != left.paths);
    book.queues.insert(0, left);
    book.queues.truncate(QUEUES_MAX);
    fs::create_dir_all(file.parent().expect("it has two folders above it"))?;
    let part = file.with_extension(format!("{}.part", std::process::id()));
    fs::write(&part, serde_json::to_vec(&book)?)?;
    fs::rename(&part, &file)
}

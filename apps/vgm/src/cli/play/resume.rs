//! Saved positions for `--resume`.
//!
//! All positions are in one small file, which we replace as a whole. A queue is identified by the
//! paths on its command line. A file that cannot be read counts as empty, because a lost position
//! is not worth an error.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::session::PlayerSession;

/// The maximum number of saved queues.
const QUEUES_MAX: usize = 100;

#[derive(Debug, Default, Deserialize, Serialize)]
struct SavedPositions {
    /// The saved queues, most recently played first.
    queues: Vec<QueuePosition>,
}

/// The saved position of a queue.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct QueuePosition {
    /// The absolute paths of the command line.
    pub paths: Vec<PathBuf>,
    /// The song.
    pub source: String,
    /// The position in the song, in milliseconds.
    pub ms: u64,
}

/// Returns the path of the file: `$XDG_STATE_HOME/creel-vgm/positions.json`, or the same below
/// `~/.local/state` if the variable is not set.
fn file_path() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("XDG_STATE_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")))?;
    Some(folder.join("creel-vgm/positions.json"))
}

/// Returns the paths in the absolute form in which they are saved.
pub fn absolute_paths(paths: &[PathBuf]) -> Vec<PathBuf> {
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    paths.iter().map(absolute).collect()
}

fn read(file: &Path) -> SavedPositions {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// The time between two saves, and therefore about the most that a crash can lose.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

/// Saves the position regularly while the queue plays, in case the player crashes.
pub struct PositionSaver {
    pub paths: Vec<PathBuf>,
    is_asked: bool,
    /// The time of the last save, or of the start.
    at: Instant,
    /// The position of the last save.
    last: Option<QueuePosition>,
}

impl PositionSaver {
    /// Creates a saver for the queue of these paths. It saves nothing unless `is_asked` is set.
    pub fn new(paths: &[PathBuf], is_asked: bool) -> Self {
        PositionSaver {
            paths: absolute_paths(paths),
            is_asked,
            at: Instant::now(),
            last: None,
        }
    }

    /// Saves the position if another song plays, or if the last save was [`SAVE_INTERVAL`] ago.
    pub fn save_if_due(&mut self, session: &PlayerSession) {
        if !self.is_asked {
            return;
        }
        let is_another = |last: &QueuePosition| {
            let now = session.now_playing();
            now.track
                .as_ref()
                .is_some_and(|track| track.source != last.source)
        };
        // We do not save before the first interval has passed, because the first song may still be
        // seeking to its saved position.
        if self.at.elapsed() < SAVE_INTERVAL && !self.last.as_ref().is_some_and(is_another) {
            return;
        }
        self.at = Instant::now();
        let position = current_position(&self.paths, session);
        if let Some(position) = position.filter(|position| Some(position) != self.last.as_ref()) {
            // We ignore an error here. The final save will report it.
            let _ = save(position.clone());
            self.last = Some(position);
        }
    }
}

/// Returns the current position of the queue, or `None` before its first song.
pub fn current_position(paths: &[PathBuf], session: &PlayerSession) -> Option<QueuePosition> {
    let now = session.now_playing();
    let track = now.track.as_ref()?;
    let rate = u64::from(session.controls.sample_rate());
    // A queue that has ended starts from the beginning next time.
    let (source, ms) = match session.controls.is_drained() {
        true => (String::new(), 0),
        false => (track.source.clone(), session.controls.frame() * 1000 / rate),
    };
    Some(QueuePosition {
        paths: paths.to_vec(),
        source,
        ms,
    })
}

/// Returns the saved position of the queue of these paths.
pub fn saved_position(paths: &[PathBuf]) -> Option<QueuePosition> {
    let saved = read(&file_path()?);
    saved
        .queues
        .into_iter()
        .find(|position| position.paths == paths)
}

/// Saves a position.
///
/// # Errors
///
/// Fails if there is no home folder, or if the file cannot be written.
pub fn save(position: QueuePosition) -> io::Result<()> {
    let file = file_path().ok_or_else(|| {
        io::Error::other(
            "there is no home folder to save the position in: set HOME or XDG_STATE_HOME",
        )
    })?;
    let mut saved = read(&file);
    saved.queues.retain(|other| other.paths != position.paths);
    saved.queues.insert(0, position);
    saved.queues.truncate(QUEUES_MAX);
    fs::create_dir_all(file.parent().expect("the path has two parent folders"))?;
    creel_console::AtomicFile::write(&file, &serde_json::to_vec(&saved)?)
}

//! Where queues were left, so that they can be gone on with.
//!
//! One small file, replaced as a whole; a queue is known by the paths that it was made of. A file
//! that cannot be read is one that says nothing.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::session::PlayerSession;

/// Queues that are remembered, at most.
const QUEUES_MAX: usize = 100;

#[derive(Debug, Default, Deserialize, Serialize)]
struct SavedPositions {
    /// The last that was played comes first.
    queues: Vec<QueuePosition>,
}

/// Where a queue was left.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct QueuePosition {
    /// The paths it was made of, absolute.
    pub paths: Vec<PathBuf>,
    /// The song.
    pub source: String,
    /// Milliseconds from its start.
    pub ms: u64,
}

/// The file: `$XDG_STATE_HOME/creel-vgm/positions.json`, else below `~/.local/state`.
fn file_path() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty());
    let folder = set("XDG_STATE_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")))?;
    Some(folder.join("creel-vgm/positions.json"))
}

/// The paths as they are remembered.
pub fn absolute_paths(paths: &[PathBuf]) -> Vec<PathBuf> {
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    paths.iter().map(absolute).collect()
}

fn read(file: &Path) -> SavedPositions {
    let text = fs::read_to_string(file).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// How long a crash may set a listener back.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);

/// Keeps the place while the queue is played, for an end that nobody hears of.
pub struct PositionSaver {
    pub paths: Vec<PathBuf>,
    is_asked: bool,
    /// When it was kept last, or looked at first, and what.
    at: Instant,
    last: Option<QueuePosition>,
}

impl PositionSaver {
    /// Of the queue of these paths; nothing unless asked.
    pub fn new(paths: &[PathBuf], is_asked: bool) -> Self {
        PositionSaver {
            paths: absolute_paths(paths),
            is_asked,
            at: Instant::now(),
            last: None,
        }
    }

    /// Looks whether there is something to be kept: another song, or the place every some seconds.
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
        // The first song may still be on its way to where it was left.
        if self.at.elapsed() < SAVE_INTERVAL && !self.last.as_ref().is_some_and(is_another) {
            return;
        }
        self.at = Instant::now();
        let position = current_position(&self.paths, session);
        if let Some(position) = position.filter(|position| Some(position) != self.last.as_ref()) {
            // What cannot be kept is told at the end.
            let _ = save(position.clone());
            self.last = Some(position);
        }
    }
}

/// Where the queue is now; none before its first song.
pub fn current_position(paths: &[PathBuf], session: &PlayerSession) -> Option<QueuePosition> {
    let now = session.now_playing();
    let track = now.track.as_ref()?;
    let rate = u64::from(session.controls.sample_rate());
    // After the end, it begins anew.
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

/// Where the queue of these paths was left.
pub fn saved_position(paths: &[PathBuf]) -> Option<QueuePosition> {
    let saved = read(&file_path()?);
    saved
        .queues
        .into_iter()
        .find(|position| position.paths == paths)
}

/// Remembers it.
///
/// # Errors
///
/// What the system says.
pub fn save(position: QueuePosition) -> io::Result<()> {
    let file = file_path().ok_or_else(|| io::Error::other("there is no home folder"))?;
    let mut saved = read(&file);
    saved.queues.retain(|other| other.paths != position.paths);
    saved.queues.insert(0, position);
    saved.queues.truncate(QUEUES_MAX);
    fs::create_dir_all(file.parent().expect("it has two folders above it"))?;
    creel_console::AtomicFile::write(&file, &serde_json::to_vec(&saved)?)
}

//! The songs that the workload `render` renders, and a renderer that discards its output.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use creel_vgm::batch::{self, Plan};
use creel_vgm::effects::Effects;
use creel_vgm::format::Song;
use creel_vgm::output::{Job, Outcome, OutputSettings};
use creel_vgm::render::Settings;
use creel_vgm::wav::Layout;

/// The choice of the songs that a sample renders.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Choice {
    /// The songs to play once from beginning to end, or `None` for the included ones.
    pub path: Option<PathBuf>,
    /// Whether to play only the shortest of the included songs, with their loops once instead of
    /// twice.
    pub quick: bool,
}

/// The number of included songs in a quick run.
const QUICK: usize = 4;

impl Choice {
    /// Returns the songs. Each has the path of its output file below `output`. The song that takes
    /// longest comes first.
    ///
    /// # Errors
    ///
    /// Returns an error if a song cannot be read, because results over fewer songs would be wrong.
    pub fn plan(&self, output: &Path) -> creel_vgm::Result<Plan> {
        let mut plan = match &self.path {
            Some(path) => batch::plan(&[path.into()], output, "wav", true),
            None => batch::carried(output, "wav"),
        };
        if let Some((_, error)) = plan.refused.pop() {
            return Err(error);
        }
        if self.quick && self.path.is_none() {
            plan.units.drain(..plan.units.len() - QUICK);
        }
        Ok(plan)
    }

    /// Returns the settings for the songs.
    pub fn settings(&self) -> Settings {
        Settings {
            loops: if self.quick || self.path.is_some() {
                1
            } else {
                2
            },
            fade_seconds: 0.0,
            ..Settings::default()
        }
    }
}

/// Songs in memory. The one that takes longest comes first.
pub struct Album {
    songs: Vec<Song>,
    settings: Settings,
    /// Idle jobs. We use them again for other songs, so that their memory is not allocated again.
    jobs: Mutex<Vec<Job>>,
}

impl Album {
    /// Reads the songs.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Choice::plan`].
    pub fn load(choice: &Choice) -> creel_vgm::Result<Self> {
        let plan = choice.plan(Path::new(""))?;
        let songs = plan.units.iter().map(|unit| unit.input.load());
        Ok(Album {
            songs: songs.collect::<Result<_, _>>()?,
            settings: choice.settings(),
            jobs: Mutex::default(),
        })
    }

    /// Returns the songs. The one that takes longest comes first.
    pub fn songs(&self) -> &[Song] {
        &self.songs
    }

    /// Returns the settings for the songs.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Renders a song as 16-bit WAV, discards it, and returns the number of its frames.
    pub fn render(&self, song: &Song) -> creel_vgm::Result<u64> {
        let idle = self.jobs.lock().expect("no panic while locked").pop();
        let mut job = idle.unwrap_or_default();
        let keep = |bytes: &[u8]| {
            black_box(bytes);
            Ok(())
        };
        let how = OutputSettings {
            settings: &self.settings,
            layout: Layout::default(),
            effects: &Effects::default(),
            gain: None,
            track: None,
            split: None,
        };
        let outcome = job.render(song, how, keep, |_| true);
        self.jobs.lock().expect("no panic while locked").push(job);
        match outcome? {
            Outcome::Done(finished) => Ok(finished.extent.frames),
            Outcome::Cancelled => unreachable!("the job is never cancelled"),
        }
    }
}

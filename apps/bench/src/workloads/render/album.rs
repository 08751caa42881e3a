//! The songs, and rendering one of them into nothing.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use creel_vgm::batch::{self, Plan};
use creel_vgm::effects::Effects;
use creel_vgm::format::Song;
use creel_vgm::output::{Job, Outcome, OutputSettings};
use creel_vgm::render::Settings;
use creel_vgm::wav::Layout;

/// Which songs, and how much of them.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Choice {
    /// Those of a path, once from beginning to end; the carried ones if there is none.
    pub path: Option<PathBuf>,
    /// The quickest of the carried songs alone, once; else their loops twice.
    pub quick: bool,
}

/// Songs taken of the carried ones where it should be quick.
const QUICK: usize = 4;

impl Choice {
    /// The songs, those that take longest first, each with its file below `output`.
    ///
    /// # Errors
    ///
    /// The first song that cannot be read: figures over fewer songs than asked for would be wrong.
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

    /// How the songs are played.
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

/// Songs in memory, those that take longest first.
pub struct Album {
    songs: Vec<Song>,
    settings: Settings,
    /// Jobs that render nothing just now; their memory goes from song to song.
    jobs: Mutex<Vec<Job>>,
}

impl Album {
    /// Reads the songs.
    ///
    /// # Errors
    ///
    /// As [`Choice::plan`].
    pub fn load(choice: &Choice) -> creel_vgm::Result<Self> {
        let plan = choice.plan(Path::new(""))?;
        let songs = plan.units.iter().map(|unit| unit.input.load());
        Ok(Album {
            songs: songs.collect::<Result<_, _>>()?,
            settings: choice.settings(),
            jobs: Mutex::default(),
        })
    }

    /// The songs, those that take longest first.
    pub fn songs(&self) -> &[Song] {
        &self.songs
    }

    /// How they are played.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Renders a song as 16-bit WAV without keeping it, and gives the number of its frames.
    pub fn render(&self, song: &Song) -> creel_vgm::Result<u64> {
        let idle = self.jobs.lock().expect("nobody panics holding it").pop();
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
            split: None,
        };
        let outcome = job.render(song, how, keep, |_| true);
        self.jobs
            .lock()
            .expect("nobody panics holding it")
            .push(job);
        match outcome? {
            Outcome::Done(finished) => Ok(finished.extent.frames),
            Outcome::Cancelled => unreachable!("nobody stops it"),
        }
    }
}

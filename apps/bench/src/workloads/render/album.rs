//! The songs, and rendering one of them into nothing.

use std::cmp::Reverse;
use std::hint::black_box;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use creel_vgm::batch::{self, Cost};
use creel_vgm::format::Song;
use creel_vgm::output::{How, Job};
use creel_vgm::render::Settings;
use creel_vgm::wav::Layout;

/// Songs in memory, those that take longest first.
pub struct Album {
    songs: Vec<Song>,
    settings: Settings,
    frames_max: u64,
    /// Jobs that render nothing just now; their memory goes from song to song.
    jobs: Mutex<Vec<Job>>,
}

impl Album {
    /// The carried songs or those of `path`, of each of which so many frames are rendered at most.
    ///
    /// # Errors
    ///
    /// The first song that cannot be read: figures over fewer songs than asked for would be wrong.
    pub fn load(path: Option<&Path>, frames_max: u64) -> creel_vgm::Result<Self> {
        let output = Path::new("");
        let plan = match path {
            Some(path) => batch::plan(&[path.into()], output, "wav", true),
            None => batch::carried(output, "wav"),
        };
        if let Some((_, error)) = plan.refused.into_iter().next() {
            return Err(error);
        }
        let songs = plan.units.iter().map(|unit| unit.input.load());
        let mut songs: Vec<Song> = songs.collect::<Result<_, _>>()?;
        let settings = Settings {
            loops: 1,
            fade_seconds: 0.0,
            ..Settings::default()
        };
        let frames = |song: &Song| settings.frames(song).0.min(frames_max);
        songs.sort_by_key(|song| Reverse(Cost::of(&song.header, frames(song)).whole));
        Ok(Album {
            songs,
            settings,
            frames_max,
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

    /// So many frames of each are rendered at most.
    pub fn frames_max(&self) -> u64 {
        self.frames_max
    }

    /// Renders a song as 16-bit WAV without keeping it, and gives the number of its frames.
    pub fn render(&self, song: &Song) -> creel_vgm::Result<u64> {
        let idle = self.jobs.lock().expect("nobody panics holding it").pop();
        let mut job = idle.unwrap_or_default();
        // Relaxed: one thread counts.
        let rendered = AtomicU64::new(0);
        let keep = |bytes: &[u8]| {
            black_box(bytes);
            Ok(())
        };
        let go_on =
            |frames| rendered.fetch_add(frames, Ordering::Relaxed) + frames < self.frames_max;
        let how = How {
            settings: &self.settings,
            layout: Layout::default(),
            split: None,
        };
        let outcome = job.render(song, how, keep, go_on);
        self.jobs
            .lock()
            .expect("nobody panics holding it")
            .push(job);
        outcome.map(|_| rendered.into_inner())
    }
}

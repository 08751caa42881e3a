//! Computes the ReplayGain of the songs that the player plays.
//!
//! We measure a song before it starts, which takes up to a second. While it plays, a thread
//! measures the next song, so that the next song starts without a pause. For album gain, we measure
//! all songs of the queue that are in the same folder before the first of them starts.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use creel_vgm::batch::Source;
use creel_vgm::effects::{Effects, Loudness, Measured};
use creel_vgm::output::{Job, OutputSettings};
use creel_vgm::render::Settings;
use creel_vgm::wav::Layout;

/// The measured gains, and the thread that measures the next song.
#[derive(Clone)]
pub struct Gains {
    book: Arc<MeasuredGains>,
    next: Sender<Source>,
}

struct MeasuredGains {
    wanted: Loudness,
    effects: Effects,
    settings: Settings,
    songs: Vec<Source>,
    /// The measurements by the name of the song. It is `None` for a song that cannot be measured.
    /// Such a song is reported when it starts.
    known: Mutex<HashMap<String, Option<Measured>>>,
    /// Whether measuring should stop. `Relaxed` is enough, because no data depends on it.
    stop: AtomicBool,
}

impl Gains {
    /// Creates the gains for these songs and settings. It does not measure any song yet.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot start the thread.
    pub fn new(
        wanted: Loudness,
        effects: &Effects,
        settings: &Settings,
        songs: &[Source],
    ) -> std::io::Result<Gains> {
        let (next, asked) = channel::<Source>();
        let book = Arc::new(MeasuredGains {
            wanted,
            effects: effects.clone(),
            // One pass is enough, because every pass of the loop is equally loud. An endless song
            // could not be measured otherwise.
            settings: Settings {
                loops: 1,
                volume: 1.0,
                ..settings.clone()
            },
            songs: songs.to_vec(),
            known: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        if !matches!(wanted, Loudness::AsIs | Loudness::Tagged) {
            let book = Arc::clone(&book);
            let thread = std::thread::Builder::new().name("gains".into());
            let measure = move || {
                for song in asked {
                    book.gain(&song);
                }
            };
            thread.spawn(measure)?;
        }
        Ok(Gains { book, next })
    }

    /// Returns the factor for a song. It may have to measure the song or its album first, which
    /// takes up to a second per song. It also starts to measure the `next` song on the other
    /// thread.
    pub fn of(&self, song: &Source, next: Option<&Source>) -> f32 {
        let gain = self.book.gain(song);
        if let Some(next) = next {
            // Without ReplayGain there is no thread, and sending fails. We ignore this.
            let _ = self.next.send(next.clone());
        }
        gain
    }

    /// Stops measuring.
    pub fn stop(&self) {
        self.book.stop.store(true, Relaxed);
    }
}

impl MeasuredGains {
    fn gain(&self, song: &Source) -> f32 {
        let mut all = Measured::default();
        match self.wanted {
            Loudness::AsIs | Loudness::Tagged => return 1.0,
            Loudness::Album => {
                let folder = folder(song);
                let of_album = |other: &&Source| self::folder(other) == folder;
                for song in self.songs.iter().filter(of_album) {
                    self.measured(song).iter().for_each(|one| all.add(one));
                }
            }
            _ => self.measured(song).iter().for_each(|one| all.add(one)),
        }
        all.gain(self.wanted, self.effects.soft_clip)
    }

    /// Returns the measurement of a song. Returns `None` if it cannot be played, or if measuring
    /// was stopped.
    fn measured(&self, song: &Source) -> Option<Measured> {
        let name = song.to_string();
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known().get(&name) {
            return known.clone();
        }
        let how = OutputSettings {
            settings: &self.settings,
            effects: &self.effects,
            layout: Layout::default(),
            gain: None,
            track: None,
            split: None,
        };
        let go_on = || !self.stop.load(Relaxed);
        let song = song.load().ok()?;
        let measured = Job::default().measure(&song, how, go_on).ok().flatten();
        if go_on() {
            known().insert(name, measured.clone());
        }
        measured
    }
}

fn folder(song: &Source) -> Option<String> {
    let name = song.to_string();
    let folder = Path::new(&name).parent()?;
    Some(folder.display().to_string())
}

//! ReplayGain while songs play: a song is measured before it begins, which takes a second or less,
//! and the one after it meanwhile, so that it begins without a pause. Of an album, all songs of the
//! queue that lie in one folder are measured before its first begins.

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

/// What was measured, and what is to be measured next.
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
    /// By what songs are called; none of those that cannot be played, which is told when they begin.
    known: Mutex<HashMap<String, Option<Measured>>>,
    /// Relaxed: it carries no data.
    stop: AtomicBool,
}

impl Gains {
    /// Of these songs, played so; nothing is measured yet.
    ///
    /// # Errors
    ///
    /// If the system has no thread for it.
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
            // Another pass of the loop is as loud, and one that is looped for ever has no end.
            settings: Settings {
                loops: 1,
                volume: 1.0,
                ..settings.clone()
            },
            songs: songs.to_vec(),
            known: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        if wanted != Loudness::AsIs {
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

    /// The factor for a song, which may take a second the first time; the one after it is measured
    /// beside.
    pub fn of(&self, song: &Source, next: Option<&Source>) -> f32 {
        let gain = self.book.gain(song);
        if let Some(next) = next {
            // Without anybody who listens, nothing is wanted.
            let _ = self.next.send(next.clone());
        }
        gain
    }

    /// Measures nothing any more.
    pub fn stop(&self) {
        self.book.stop.store(true, Relaxed);
    }
}

impl MeasuredGains {
    fn gain(&self, song: &Source) -> f32 {
        let mut all = Measured::default();
        match self.wanted {
            Loudness::AsIs => return 1.0,
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

    /// What a song has; none if it cannot be played, or nothing is to be measured any more.
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

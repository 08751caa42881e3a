//! Albums measured before they are rendered: the songs whose files lie in one folder.
//!
//! Songs that cannot be read or played are left out here; they fail when they are rendered. Stems of
//! one song are measured as that song, once, so that they still add up to it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Engine, Unit, Watch};
use crate::effects::Measured;
use crate::output::{How, Job};

/// What was measured of each folder's songs.
#[derive(Default)]
pub(super) struct Albums(HashMap<PathBuf, f32>);

impl Albums {
    /// Plays all songs on the engine's jobs. Stops early, with what it has, when the watch says so.
    pub(super) fn measure(engine: &Engine<'_>, units: &[Unit], watch: Watch<'_>) -> Albums {
        let next = AtomicUsize::new(0);
        let albums: Mutex<HashMap<PathBuf, Measured>> = Mutex::default();
        engine.pool.broadcast(|worker| {
            let mut job = Job::default();
            // Relaxed: it hands out numbers, and nothing else.
            while worker < engine.jobs
                && !(watch.stop)()
                && let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed))
            {
                if let Some(measured) = of_song(engine, unit, &mut job, watch) {
                    let mut albums = albums.lock().expect("nothing panics with it");
                    albums.entry(folder(unit)).or_default().add(&measured);
                }
            }
        });
        let bends = engine.effects.soft_clip;
        let gain = |measured: Measured| measured.gain(engine.effects.loudness, bends);
        let albums = albums.into_inner().expect("nothing panics with it");
        Albums(
            albums
                .into_iter()
                .map(|(folder, measured)| (folder, gain(measured)))
                .collect(),
        )
    }

    /// The gain of a song's album, if albums were measured.
    pub(super) fn gain(&self, unit: &Unit) -> Option<f32> {
        self.0.get(&folder(unit)).copied()
    }
}

fn of_song(engine: &Engine<'_>, unit: &Unit, job: &mut Job, watch: Watch<'_>) -> Option<Measured> {
    // Of a song's stems, the first stands for the song.
    if unit.stem.as_ref().is_some_and(|stem| !stem.first) {
        return None;
    }
    let song = unit.input.load().ok()?;
    let how = How {
        settings: engine.settings,
        layout: engine.layout,
        effects: engine.effects,
        gain: None,
        split: None,
    };
    job.measure(&song, how, || !(watch.stop)()).ok().flatten()
}

fn folder(unit: &Unit) -> PathBuf {
    unit.output.parent().map(PathBuf::from).unwrap_or_default()
}

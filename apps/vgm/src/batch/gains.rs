//! Gains that count for more than one file, measured before the first is rendered: an album's, which
//! is what lies in one output folder, and a song's that is rendered as stems, so that they still add
//! up to it.
//!
//! Songs that cannot be read or played are left out here; they fail when they are rendered.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Engine, Observer, Unit};
use crate::effects::{Loudness, Measured};
use crate::output::{Job, OutputSettings};

/// The gain of each group that has one.
#[derive(Default)]
pub(super) struct Gains(HashMap<Group, f32>);

/// Units with one gain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Group {
    Album(PathBuf),
    /// By its place in the input.
    Song(usize),
}

impl Group {
    /// The group of a unit; none where it is measured when it is rendered, or not at all.
    fn of(unit: &Unit, loudness: Loudness) -> Option<Group> {
        match loudness {
            Loudness::AsIs => None,
            Loudness::Album => {
                let folder = unit.output.parent().map(PathBuf::from);
                Some(Group::Album(folder.unwrap_or_default()))
            }
            Loudness::Track | Loudness::Peak => {
                unit.stem.is_some().then_some(Group::Song(unit.order))
            }
        }
    }
}

impl Gains {
    /// Plays all songs of groups of which something is to be rendered, on the engine's jobs. Stops
    /// early, with what it has, when the watch says so.
    pub(super) fn measure(engine: &Engine<'_>, units: &[Unit], watch: Observer<'_>) -> Gains {
        let group = |unit: &Unit| Group::of(unit, engine.effects.loudness);
        let wanted = units.iter().filter(|unit| !engine.is_skipped(unit));
        let wanted: HashSet<Group> = wanted.filter_map(group).collect();
        // Of a song's stems, the first stands for the song.
        let stands = |unit: &&Unit| unit.stem.as_ref().is_none_or(|stem| stem.first);
        let songs = units.iter().filter(stands);
        let songs = songs.filter_map(|unit| Some((unit, group(unit)?)));
        let songs: Vec<_> = songs.filter(|(_, group)| wanted.contains(group)).collect();
        if songs.is_empty() {
            return Gains::default();
        }
        let next = AtomicUsize::new(0);
        let groups: Mutex<HashMap<Group, Measured>> = Mutex::default();
        engine.pool.broadcast(|worker| {
            let mut job = Job::default();
            // Relaxed: it hands out numbers, and nothing else.
            while worker < engine.jobs
                && !(watch.should_stop)()
                && let Some((unit, group)) = songs.get(next.fetch_add(1, Ordering::Relaxed))
            {
                if let Some(measured) = of_song(engine, unit, &mut job, watch) {
                    let mut groups = groups.lock().expect("nothing panics with it");
                    groups.entry(group.clone()).or_default().add(&measured);
                }
            }
        });
        let (wanted, bends) = (engine.effects.loudness, engine.effects.soft_clip);
        let groups = groups.into_inner().expect("nothing panics with it");
        let gains = groups.into_iter();
        Gains(
            gains
                .map(|(group, measured)| (group, measured.gain(wanted, bends)))
                .collect(),
        )
    }

    /// The gain of a unit's group, if it was measured.
    pub(super) fn of(&self, unit: &Unit, loudness: Loudness) -> Option<f32> {
        self.0.get(&Group::of(unit, loudness)?).copied()
    }
}

/// What a song measures, whole.
fn of_song(
    engine: &Engine<'_>,
    unit: &Unit,
    job: &mut Job,
    watch: Observer<'_>,
) -> Option<Measured> {
    let song = unit.input.load().ok()?;
    let how = OutputSettings {
        settings: engine.settings,
        layout: engine.layout,
        effects: engine.effects,
        gain: None,
        split: None,
    };
    job.measure(&song, how, || !(watch.should_stop)())
        .ok()
        .flatten()
}

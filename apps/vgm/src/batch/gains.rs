//! Gains that several files share. We measure them before we render the first file.
//!
//! - An album has one gain. It consists of the songs in one output folder.
//! - The stems of a song have the gain of the whole song, so that they still add up to the song.
//!
//! We leave out songs that cannot be read or played. They fail when they are rendered.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Engine, Observer, Unit};
use crate::effects::{Loudness, Measured};
use crate::output::{Job, OutputSettings};

/// The gain of each group that was measured.
#[derive(Default)]
pub(super) struct Gains(HashMap<Group, f32>);

/// A group of songs or stems that share a gain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Group {
    Album(PathBuf),
    /// A song, identified by its position in the input.
    Song(usize),
}

impl Group {
    /// Returns the group of a song or stem. Returns `None` if we measure it on its own when we
    /// render it, or not at all.
    fn of(unit: &Unit, loudness: Loudness) -> Option<Group> {
        match loudness {
            Loudness::AsIs | Loudness::Tagged => None,
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
    /// Measures the songs of all groups in which at least one song or stem must be rendered, with
    /// the jobs of the engine. If the observer asks to stop, it returns the gains that it has so
    /// far.
    pub(super) fn measure(engine: &Engine<'_>, units: &[Unit], watch: Observer<'_>) -> Gains {
        let group = |unit: &Unit| Group::of(unit, engine.effects.loudness);
        let wanted = units.iter().filter(|unit| !engine.is_skipped(unit));
        let wanted: HashSet<Group> = wanted.filter_map(group).collect();
        // The first stem of a song stands for the whole song, so that we measure it only once.
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
            // `Relaxed` is enough, because the counter only distributes indices.
            while worker < engine.jobs
                && !(watch.should_stop)()
                && let Some((unit, group)) = songs.get(next.fetch_add(1, Ordering::Relaxed))
            {
                if let Some(measured) = of_song(engine, unit, &mut job, watch) {
                    let mut groups = groups
                        .lock()
                        .expect("no thread panics while it holds this lock");
                    groups.entry(group.clone()).or_default().add(&measured);
                }
            }
        });
        let (wanted, bends) = (engine.effects.loudness, engine.effects.soft_clip);
        let groups = groups
            .into_inner()
            .expect("no thread panics while it holds this lock");
        let gains = groups.into_iter();
        Gains(
            gains
                .map(|(group, measured)| (group, measured.gain(wanted, bends)))
                .collect(),
        )
    }

    /// Returns the gain of the group to which a song or stem belongs, if the group was measured.
    pub(super) fn of(&self, unit: &Unit, loudness: Loudness) -> Option<f32> {
        self.0.get(&Group::of(unit, loudness)?).copied()
    }
}

/// Measures a whole song.
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
        track: None,
        split: None,
    };
    job.measure(&song, how, || !(watch.should_stop)())
        .ok()
        .flatten()
}

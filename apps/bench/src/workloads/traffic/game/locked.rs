//! The game with one mutex per junction: a junction applies its effects on other junctions at once,
//! and locks them for this.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use creel_traffic::network::{Ms, Network};
use rayon::ThreadPool;
use rayon::prelude::*;

use super::super::{Run, Sums};
use super::junction::{Effect, Junction};
use super::{Rules, TICK_MS, build, due_times, sums};

/// The smallest number of junctions that a thread takes at once.
const JUNCTIONS_PER_TASK_MIN: usize = 256;

pub(in super::super) struct Locked {
    pool: ThreadPool,
    junctions: Vec<Mutex<Junction>>,
    /// The time of each junction's next event. Relaxed is enough, because it is written only under
    /// the junction's lock, and a time that is written in a tick belongs to a later tick.
    due: Vec<AtomicU32>,
    rules: Arc<Rules>,
    now: Ms,
}

impl Locked {
    pub fn new(network: &Network, rules: Arc<Rules>, pool: ThreadPool) -> Self {
        let junctions = build(network, &rules);
        Self {
            pool,
            due: due_times(&junctions).map(AtomicU32::new).collect(),
            junctions: junctions.into_iter().map(Mutex::new).collect(),
            rules,
            now: 0,
        }
    }

    pub(super) fn junctions(&mut self) -> impl Iterator<Item = &Junction> {
        let all = self.junctions.iter_mut();
        all.map(|junction| &*junction.get_mut().expect("no panic while locked"))
    }
}

impl Run for Locked {
    fn run(&mut self, ticks: u32) {
        let Self {
            junctions,
            due,
            rules,
            pool,
            ..
        } = &*self;
        for tick in 1..=ticks {
            let end = self.now + tick * TICK_MS;
            let visit = |effects: &mut Vec<Effect>, here: usize| {
                if due[here].load(Ordering::Relaxed) >= end {
                    return;
                }
                let mut junction = junctions[here].lock().expect("no panic while locked");
                let next = junction.tick(end, rules, effects);
                due[here].store(next, Ordering::Relaxed);
                // We unlock this junction before we lock the others, because threads that hold one
                // lock at a time cannot deadlock.
                drop(junction);
                for effect in effects.drain(..) {
                    let to = effect.to as usize;
                    let mut other = junctions[to].lock().expect("no panic while locked");
                    let at = other.apply_effect(&effect);
                    due[to].fetch_min(at, Ordering::Relaxed);
                }
            };
            let all = (0..junctions.len())
                .into_par_iter()
                .with_min_len(JUNCTIONS_PER_TASK_MIN);
            pool.install(|| all.for_each_init(Vec::new, visit));
        }
        self.now += ticks * TICK_MS;
    }

    fn sums(&mut self) -> Sums {
        let now = self.now;
        sums(self.junctions(), now)
    }
}

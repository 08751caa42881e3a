//! Collected updates: a part of the map a thread at a time, what happens to others by the part that
//! they are in, and after the loop another one in which each part takes in what is for it.

use std::sync::Arc;

use creel_traffic::network::{Ms, Network};
use rayon::ThreadPool;
use rayon::prelude::*;

use super::super::{Run, Sums};
use super::junction::{Effect, Junction};
use super::{Rules, TICK_MS, build, due_times, sums};

/// Parts for each thread, so that one that is done early finds more to do.
const PARTS: usize = 8;

pub(in super::super) struct Collected {
    pool: ThreadPool,
    junctions: Vec<Junction>,
    due: Vec<Ms>,
    /// How many junctions a part has.
    part: usize,
    /// By the part where it happened, and by the one that it is for.
    effects: Vec<Vec<Vec<Effect>>>,
    rules: Arc<Rules>,
    now: Ms,
}

impl Collected {
    pub fn new(network: &Network, rules: Arc<Rules>, pool: ThreadPool) -> Self {
        let junctions = build(network, &rules);
        let part = junctions.len().div_ceil(pool.current_num_threads() * PARTS);
        let parts = junctions.len().div_ceil(part);
        let none = || (0..parts).map(|_| Vec::new()).collect();
        Self {
            pool,
            due: due_times(&junctions).collect(),
            junctions,
            part,
            effects: (0..parts).map(|_| none()).collect(),
            rules,
            now: 0,
        }
    }

    fn tick(&mut self) {
        let Self {
            junctions,
            due,
            part,
            effects,
            rules,
            now,
            pool,
        } = self;
        let end = *now + TICK_MS;
        let part = *part;
        pool.install(|| {
            let parts = junctions.par_chunks_mut(part).zip(due.par_chunks_mut(part));
            let parts = parts.zip(&mut *effects);
            parts.for_each(|((junctions, due), effects)| {
                let mut new = Vec::new();
                let all = junctions.iter_mut().zip(due);
                for (junction, due) in all.filter(|(_, due)| **due < end) {
                    *due = junction.tick(end, rules, &mut new);
                    for effect in new.drain(..) {
                        effects[effect.to as usize / part].push(effect);
                    }
                }
            });
            let effects = &*effects;
            let parts = junctions.par_chunks_mut(part).zip(due.par_chunks_mut(part));
            parts.enumerate().for_each(|(index, (junctions, due))| {
                for effect in effects.iter().flat_map(|source| &source[index]) {
                    let here = effect.to as usize % part;
                    due[here] = due[here].min(junctions[here].apply_effect(effect));
                }
            });
        });
        self.effects.iter_mut().flatten().for_each(Vec::clear);
        self.now = end;
    }

    #[cfg(test)]
    pub(super) fn junctions(&mut self) -> impl Iterator<Item = &Junction> {
        self.junctions.iter()
    }
}

impl Run for Collected {
    fn run(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.tick();
        }
    }

    fn sums(&mut self) -> Sums {
        sums(self.junctions.iter(), self.now)
    }
}

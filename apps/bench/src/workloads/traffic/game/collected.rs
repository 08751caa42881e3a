//! Collected updates: a parallel loop over parts of the map collects the effects on other
//! junctions, and a second loop applies them.
//!
//! The first loop sorts the effects by the part of their target. In the second loop, each part
//! applies the effects on its own junctions.

use std::sync::Arc;

use creel_traffic::network::{Ms, Network};
use rayon::ThreadPool;
use rayon::prelude::*;

use super::super::{Run, Sums};
use super::junction::{Effect, Junction};
use super::{Rules, TICK_MS, build, due_times, sums};

/// The number of parts per thread. There are several, so that a fast thread can take more of them.
const PARTS: usize = 8;

pub(in super::super) struct Collected {
    pool: ThreadPool,
    junctions: Vec<Junction>,
    due: Vec<Ms>,
    /// The number of junctions of a part.
    part: usize,
    /// The effects that the parts have on each other. The first index is the part of the source,
    /// and the second one is the part of the target.
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

//! Traffic lights alone: 250,000 lights advance in their cycles by a tick per call.
//!
//! A light has two bytes in two arrays, so that a processor can advance many lights at once. A game
//! would use this layout to fast-forward. One core needs about 10 µs for all lights, which is
//! little compared with the cost of sharing the work. Half of the lights stay in a core's
//! second-level cache, if the core gets the same half again.

use creel::{Balance, Placement, Pool, Wait};
use rayon::prelude::*;

use super::rayon;
use crate::harness::{Case, Metric, ONE_THREAD, Subject};
use crate::setting::Setting;
use crate::workloads::loops::floor::in_lockstep;

const SIGNALS: usize = 250_000;

/// The lights: how many ticks of its cycle each has passed, and how long its cycle is.
struct Signals {
    passed: Vec<u8>,
    cycle: Vec<u8>,
}

impl Signals {
    fn new() -> Self {
        let cycle = |index: usize| 40 + (index * 7 % 80) as u8;
        let passed = |index: usize| (index * 31) as u8 % cycle(index);
        Self {
            passed: (0..SIGNALS).map(passed).collect(),
            cycle: (0..SIGNALS).map(cycle).collect(),
        }
    }
}

fn tick((passed, &cycle): (&mut u8, &u8)) {
    let next = *passed + 1;
    *passed = if next == cycle { 0 } else { next };
}

/// Returns the case `fast-forward`, in which all lights advance by one tick per call.
pub(super) fn fast_forward(setting: &Setting) -> Case {
    let workers = setting.workers;
    let creel = |name: &str, balance, placement: Placement| {
        Subject::new(name, move |plan| {
            let builder = Pool::builder().workers(workers).wait(Wait::Adaptive);
            let pool = builder
                .balance(balance)
                .placement(placement.clone())
                .build()?;
            let Signals { mut passed, cycle } = Signals::new();
            let each = |signal: (&mut u8, &u8)| tick(signal);
            Ok(pool.session(|loops| plan.time(|| loops.for_each((&mut passed, &cycle), each))))
        })
    };
    let subjects = vec![
        creel("creel [pinned, sticky]", Balance::Sticky, Placement::Cores),
        creel("creel [neither]", Balance::Shared, Placement::Unpinned),
        Subject::new("bare threads", move |plan| {
            let Signals { mut passed, cycle } = Signals::new();
            let size = SIGNALS.div_ceil(workers);
            let sides = passed.chunks_mut(size).zip(cycle.chunks(size));
            let side = |(passed, cycle): &mut (&mut [u8], &[u8])| {
                passed.iter_mut().zip(*cycle).for_each(tick);
            };
            Ok(in_lockstep(sides, side, |call| plan.time(call)))
        }),
        Subject::new(ONE_THREAD, |plan| {
            let Signals { mut passed, cycle } = Signals::new();
            Ok(plan.time(|| passed.iter_mut().zip(&cycle).for_each(tick)))
        }),
        Subject::new("rayon", move |plan| {
            let pool = rayon(workers)?;
            let Signals { mut passed, cycle } = Signals::new();
            Ok(plan.time(|| pool.install(|| passed.par_iter_mut().zip(&cycle).for_each(tick))))
        }),
        Subject::new("rayon chunks", move |plan| {
            let pool = rayon(workers)?;
            let Signals { mut passed, cycle } = Signals::new();
            let size = SIGNALS.div_ceil(workers);
            let each = |(passed, cycle): (&mut [u8], &[u8])| {
                passed.iter_mut().zip(cycle).for_each(tick);
            };
            Ok(plan.time(|| {
                let chunks = passed.par_chunks_mut(size).zip(cycle.par_chunks(size));
                pool.install(|| chunks.for_each(each));
            }))
        }),
    ];
    Case {
        name: "fast-forward".into(),
        metrics: vec![Metric {
            name: "time",
            unit: "ns a tick",
        }],
        compared: true,
        plan: setting.plan(60, 200).with_overhead_ms(20),
        rounds: setting.rounds(7),
        subjects,
    }
}

//! Lights alone: 250,000 that count down, a tick a call.

use creel::{Balance, Placement, Pool, Wait};
use rayon::prelude::*;

use super::rayon;
use crate::harness::{Case, Metric, ONE_THREAD, Subject};
use crate::setting::Setting;

const SIGNALS: usize = 250_000;

/// A signal: ticks until it changes, its phase, and how long each lasts.
#[derive(Clone, Copy)]
struct Signal {
    left: u16,
    phase: u8,
    lasts: [u8; 2],
}

impl Signal {
    fn tick(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.phase ^= 1;
            self.left = u16::from(self.lasts[usize::from(self.phase)]);
        }
    }
}

fn signals() -> Vec<Signal> {
    let signal = |index: usize| {
        let lasts = [20 + (index * 7 % 40) as u8, 20 + (index * 13 % 40) as u8];
        Signal {
            left: 1 + (index * 31 % 20) as u16,
            phase: (index % 2) as u8,
            lasts,
        }
    };
    (0..SIGNALS).map(signal).collect()
}

/// The case.
pub(super) fn fast_forward(setting: &Setting) -> Case {
    let workers = setting.workers;
    let creel = |name: &str, balance, placement: Placement| {
        Subject::new(name, move |plan| {
            let builder = Pool::builder().workers(workers).wait(Wait::Adaptive);
            let pool = builder
                .balance(balance)
                .placement(placement.clone())
                .build()?;
            let mut signals = signals();
            Ok(pool
                .session(|loops| plan.time(|| loops.each(&mut signals, |_, signal| signal.tick()))))
        })
    };
    let subjects = vec![
        creel("creel [pinned, sticky]", Balance::Sticky, Placement::Cores),
        creel("creel [neither]", Balance::Shared, Placement::Unpinned),
        Subject::new(ONE_THREAD, |plan| {
            let mut signals = signals();
            Ok(plan.time(|| signals.iter_mut().for_each(Signal::tick)))
        }),
        Subject::new("rayon", move |plan| {
            let pool = rayon(workers)?;
            let mut signals = signals();
            Ok(plan.time(|| pool.install(|| signals.par_iter_mut().for_each(Signal::tick))))
        }),
        Subject::new("rayon chunks", move |plan| {
            let pool = rayon(workers)?;
            let mut signals = signals();
            let size = SIGNALS.div_ceil(workers);
            let each = |chunk: &mut [Signal]| chunk.iter_mut().for_each(Signal::tick);
            Ok(plan.time(|| pool.install(|| signals.par_chunks_mut(size).for_each(each))))
        }),
    ];
    Case {
        name: "fast-forward".into(),
        metrics: vec![Metric {
            name: "time",
            unit: "ns a tick",
        }],
        compared: true,
        plan: setting.plan(100, 400),
        rounds: setting.rounds(9),
        subjects,
    }
}

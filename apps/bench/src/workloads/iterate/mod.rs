//! A frame loop's job: touch 100,000 items on all cores, again and again.
//!
//! Items are a game's state in miniature: eight bytes each, 800 kB in all, so that a half stays
//! in a core's second-level cache between calls when the same core gets it again.

mod floor;
mod peers;

use std::hint::black_box;
use std::time::Duration;

use crate::harness::{Case, Metric, Plan, Subject};
use crate::setting::Setting;
use crate::workloads::Workload;

/// The workload's entry.
pub const WORKLOAD: Workload = Workload {
    name: "iterate",
    about: "touch 100,000 items on all cores, again and again",
    cases,
};

const ITEMS: usize = 100_000;
const TIME: Metric = Metric {
    name: "time",
    unit: "ns a call",
};
const BASELINE: &str = "one thread";

/// A loop that every subject runs in its own way: make the items, pause, touch each.
struct Loop<T, F> {
    items: fn() -> Vec<T>,
    each: F,
    /// Between two calls, not counted in a call's time.
    pause: Duration,
}

impl<T, F: Clone> Clone for Loop<T, F> {
    fn clone(&self) -> Self {
        Loop {
            items: self.items,
            each: self.each.clone(),
            pause: self.pause,
        }
    }
}

impl<T, F> Loop<T, F> {
    /// The mean time of `call`, with the pauses between calls left out.
    fn time(&self, plan: &Plan, call: impl FnMut()) -> f64 {
        if self.pause.is_zero() {
            plan.time(call)
        } else {
            plan.time_apart(|| std::thread::sleep(self.pause), call)
        }
    }
}

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    Ok(vec![hot(setting), noop(setting)])
}

fn case(name: &str, plan: Plan, rounds: usize, subjects: Vec<Subject>) -> Case {
    Case {
        name: name.into(),
        metrics: vec![TIME],
        baseline: BASELINE,
        plan,
        rounds,
        subjects,
    }
}

/// One added to each of 100,000 numbers, call after call without a pause.
fn hot(setting: &Setting) -> Case {
    let work = Loop {
        items: || vec![0i64; ITEMS],
        each: |item: &mut i64| *item += 1,
        pause: Duration::ZERO,
    };
    let mut subjects = peers::loops(&work, setting.workers);
    subjects.push(floor::two_halves(&work));
    case("hot", setting.plan(20, 40), setting.rounds(9), subjects)
}

/// Every worker runs an empty function: what a dispatch and a join cost.
fn noop(setting: &Setting) -> Case {
    let mut subjects = peers::empty(setting.workers);
    let work = Loop {
        items: || vec![(); 2],
        each: |item: &mut ()| _ = black_box(item),
        pause: Duration::ZERO,
    };
    subjects.push(floor::two_halves(&work));
    case("noop", setting.plan(10, 20), setting.rounds(9), subjects)
}

//! A loop that the workload `loops` measures, and the rhythm in which a program calls it.

use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::clock::process_cpu_s;
use crate::harness::Plan;

/// A loop that a case measures: its items, the work on each item, and the rhythm of the calls.
/// Every subject runs it in its own way.
#[derive(Clone)]
pub struct Loop<T, F> {
    /// The items at the beginning of each sample.
    pub items: Vec<T>,
    /// The work on each item.
    pub each: F,
    /// The rhythm of the calls.
    pub rhythm: Rhythm,
}

/// The rhythm in which a loop is called. It determines the result.
#[derive(Clone, Copy, Debug)]
pub enum Rhythm {
    /// Calls without a pause. The result is the time of a call in ns.
    Steady,
    /// The caller sleeps for this time before each call. The result is the time of a call in ns,
    /// without the sleep.
    Frames(Duration),
    /// Calls without a pause during the warm-up, and then none. The result is the number of cores
    /// that the process uses from 100 ms after the last call on.
    Idle,
}

impl<T, F> Loop<T, F> {
    /// Makes calls in the rhythm of this loop, and measures them. `call` runs the loop once.
    pub fn measure(&self, plan: &Plan, call: impl FnMut()) -> f64 {
        match self.rhythm {
            Rhythm::Steady => plan.time(call),
            Rhythm::Frames(pause) => plan.time_with_setup(|| sleep(pause), call),
            Rhythm::Idle => burnt_after(plan, call),
        }
    }
}

/// Makes calls during the warm-up, and then none. Returns the number of cores that the process uses
/// from 100 ms after the last call on.
pub fn burnt_after(plan: &Plan, mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    while begin.elapsed() < plan.warm_up {
        call();
    }
    sleep(Duration::from_millis(100));
    cores_burnt(plan.sample)
}

/// Sleeps, and returns the CPU time of all threads of the process divided by the time of the sleep.
fn cores_burnt(asleep: Duration) -> f64 {
    let (cpu, wall) = (process_cpu_s(), Instant::now());
    sleep(asleep);
    (process_cpu_s() - cpu) / wall.elapsed().as_secs_f64()
}

/// Computes a number with `steps` multiplications, each of which needs the result of the previous
/// one. Each takes about 2 ns.
pub fn busy_work(mut number: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        number = (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    black_box(number)
}

//! What is iterated over, and in which rhythm.

use std::hint::black_box;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::clock::process_cpu_s;
use crate::harness::Plan;

/// A loop that every subject runs in its own way.
#[derive(Clone)]
pub struct Loop<T, F> {
    /// The items as each sample finds them.
    pub items: Vec<T>,
    /// What a call does with each item.
    pub each: F,
    /// When it is called.
    pub rhythm: Rhythm,
}

/// When a loop is called, and so what is measured.
#[derive(Clone, Copy, Debug)]
pub enum Rhythm {
    /// Call after call: the time of one, in ns.
    Steady,
    /// The caller sleeps so long before each call: the time of one, in ns, without the sleep.
    Frames(Duration),
    /// Steady during the warm-up, then no calls: the cores that the process burns, from 100 ms
    /// after the last call on.
    Idle,
}

impl<T, F> Loop<T, F> {
    /// Calls in this loop's rhythm.
    pub fn measure(&self, plan: &Plan, call: impl FnMut()) -> f64 {
        match self.rhythm {
            Rhythm::Steady => plan.time(call),
            Rhythm::Frames(pause) => plan.time_with_setup(|| sleep(pause), call),
            Rhythm::Idle => burnt_after(plan, call),
        }
    }
}

/// Calls during the warm-up, then no more: the cores that the process burns, from 100 ms after the
/// last call on.
pub fn burnt_after(plan: &Plan, mut call: impl FnMut()) -> f64 {
    let begin = Instant::now();
    while begin.elapsed() < plan.warm_up {
        call();
    }
    sleep(Duration::from_millis(100));
    cores_burnt(plan.sample)
}

/// The CPU time that all threads of the process use while this one sleeps, over that time.
fn cores_burnt(asleep: Duration) -> f64 {
    let (cpu, wall) = (process_cpu_s(), Instant::now());
    sleep(asleep);
    (process_cpu_s() - cpu) / wall.elapsed().as_secs_f64()
}

/// A number that takes `steps` dependent multiplications to find, about 2 ns each.
pub fn busy_work(mut number: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        number = (number ^ (number >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    black_box(number)
}

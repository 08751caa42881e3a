//! Systems without threads, such as WebAssembly. On them, the caller of `block_on` does the work of
//! the whole pool.
//!
//! There is only one thread. No other thread fires timers, runs the tasks that are bound to a
//! worker, or wakes anything. Loops, joins, scopes, `run_on` and `broadcast` run on their caller,
//! because no worker has a thread (`WorkerSlots::is_threadless`). We do not support code that
//! blocks until another thread does something. The standard library panics in that case.

use super::shared::Shared;
use crate::{
    sync::HAS_THREADS,
    worker::{parts::TimerPart, woken::wake_all},
};
use std::{cell::Cell, thread, time::Duration};

/// The number of tasks between two checks of timers and bound tasks.
const TURN: u32 = 64;

/// The number of tasks that have run since timers and bound tasks were last checked.
#[derive(Default)]
pub(super) struct Steps(Cell<u32>);

impl Steps {
    /// Counts a task, and returns whether it is time to check timers and bound tasks. Call it once
    /// after each task.
    #[inline]
    pub(super) fn enough(&self) -> bool {
        if HAS_THREADS {
            return false;
        }
        let steps = self.0.get() + 1;
        self.0.set(steps % TURN);
        steps == TURN
    }
}

/// Runs the tasks that are bound to a worker, and fires due timers. If there are none and `busy` is
/// false, it sleeps until the next timer. Returns false without doing anything if the system has
/// threads.
///
/// # Panics
///
/// Panics if no task or timer is left that could wake the future. A timer of a manual clock does
/// not count, because no other thread could advance the clock.
pub(super) fn turn(pool: &Shared, busy: bool) -> bool {
    if HAS_THREADS {
        return false;
    }
    let timers = pool.timers.at(0);
    let bound = pool.tasks.run_all_bound();
    if timers.fire(wake_all).count > 0 || bound || busy {
        return true;
    }
    let next = timers.sleep_until().filter(|_| !timers.clock().is_manual());
    let next = next.expect(
        "block_on would wait for ever: this system has no threads, and the pool has no task or timer \
         that could wake the future",
    );
    let now = timers.clock().exact_nanos();
    thread::sleep(Duration::from_nanos(next.saturating_sub(now)));
    true
}

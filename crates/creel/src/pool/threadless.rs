//! A system without threads, WebAssembly: what a caller of `block_on` does there for the whole pool.
//!
//! There is one thread, so nobody else fires timers, runs the tasks that are bound to a worker, or
//! wakes anything. Loops, joins, scopes, `run_on` and `broadcast` run on their caller because no worker
//! has a thread (`WorkerSlots::is_threadless`). Left out: what waits in the middle of other code for
//! something that another thread would have to do. The standard library panics there.

use super::shared::Shared;
use crate::{sync::HAS_THREADS, worker::woken::wake_all};
use std::{cell::Cell, thread, time::Duration};

/// Tasks between two looks at timers and bound tasks.
const TURN: u32 = 64;

/// How many tasks have been run since the last turn.
#[derive(Default)]
pub(super) struct Steps(Cell<u32>);

impl Steps {
    /// Whether it is time for a turn. Called once after each task.
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

/// Runs tasks that are bound to a worker, and fires due timers. If there are none and nothing else is
/// `busy`, it sleeps until the next timer. False: there are threads for all that.
///
/// # Panics
///
/// If nothing is left that could go on.
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

//! How a worker finds a thread to steal from.

use super::{CURRENT, Forker, Forks, PATIENCE_NS};
use crate::{
    loops::protocol::Protocol,
    sync::{local, now_ns, spin_loop},
    worker::slot::WorkerSlot,
};

/// How long a thief that has stolen something looks for more before it becomes idle.
const LOOK_NS: u64 = 5_000;

/// A thread from which something can be stolen.
pub(crate) struct Target<'a> {
    loops: &'a Protocol,
    victim: &'a Forker,
}

impl Forks {
    /// Looks for a thread with a fork that is worth stealing. Waits for a recursion that has only
    /// just begun, and for a while if this worker `stole` something already. Stops if `busy` returns
    /// true, because this worker has something else to do.
    pub(crate) fn hunt<'a>(
        loops: &'a Protocol,
        slot: &WorkerSlot,
        stole: bool,
        busy: impl Fn() -> bool,
    ) -> Option<Target<'a>> {
        let forks = &loops.forks;
        let mut begin = None;
        while forks.any_active() {
            let now = now_ns();
            let begin = *begin.get_or_insert(now);
            let mut young = false;
            for victim in forks.others(slot.index) {
                if victim.deque.has_forks() {
                    if victim.is_old(now) {
                        return Some(Target { loops, victim });
                    }
                    young = true;
                }
            }
            let until = match (young, stole) {
                (true, _) => PATIENCE_NS,
                (false, true) => LOOK_NS,
                (false, false) => 0,
            };
            if now - begin >= until || busy() || cfg!(creel_shuttle) {
                return None;
            }
            spin_loop();
        }
        None
    }
}

impl Target<'_> {
    /// Steals the fork for the worker `slot` and runs it. `begin` is called in between. Returns
    /// false if the fork is gone.
    pub(crate) fn run(self, slot: &WorkerSlot, begin: impl FnOnce()) -> bool {
        let Self { loops, victim } = self;
        // What this worker forks from now on belongs to a recursion that has been running for long.
        let own = loops.forks.worker(loops, slot.index, || 0);
        let Some(prey) = victim.steal(own, None, || true) else {
            // Another thread has just taken it, or is about to.
            spin_loop();
            return false;
        };
        local(&CURRENT, |current| current.set(own));
        begin();
        own.run(prey);
        true
    }
}

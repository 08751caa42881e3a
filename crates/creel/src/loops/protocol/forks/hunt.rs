//! How a worker finds a thread to steal from.

use super::{CURRENT, Forker, Forks, PATIENCE_NS, PAUSES};
use crate::{
    loops::protocol::Protocol,
    sync::{local, now_ns, spin_loop},
    worker::slot::WorkerSlot,
};

/// The time for which a thief that has stolen something looks for more before it becomes idle.
const LOOK_NS: u64 = 5_000;
/// The number of threads with forks that a thief of a large pool compares.
const LOOKS: usize = 16;

/// A thread from which something can be stolen.
pub(crate) struct Target<'a> {
    loops: &'a Protocol,
    victim: &'a Forker,
}

impl Forks {
    /// Looks for a thread with a fork that is worth stealing. If a recursion has only just begun,
    /// it waits until that recursion is old enough. If this worker already `stole` something, it
    /// goes on looking for a while. It stops waiting as soon as `busy` returns true, because this
    /// worker then has something else to do.
    ///
    /// If there are several such threads, it passes over the first `skip` of them, because this
    /// worker has failed to steal from them. In a large pool, it compares the next [`LOOKS`] and
    /// returns the one with the most forks. The oldest fork of a long deque is usually a large piece
    /// of its recursion. With small pieces, the thieves would spend most of their time on steals.
    pub(crate) fn hunt<'a>(
        loops: &'a Protocol,
        slot: &WorkerSlot,
        stole: bool,
        skip: usize,
        busy: impl Fn() -> bool,
    ) -> Option<Target<'a>> {
        let forks = &loops.forks;
        if slot.index == 0 && forks.any_active() && forks.is_worker_0_replaced(&loops.slots) {
            return None;
        }
        let looks = if loops.slots.is_large() { LOOKS } else { 1 };
        let mut begin = None;
        while forks.any_active() {
            let now = now_ns();
            let begin = *begin.get_or_insert(now);
            let (mut young, mut seen) = (false, 0);
            let (mut best, mut most) = (None, 0);
            for victim in forks.others(slot.index) {
                let len = victim.deque.len();
                if len == 0 {
                    continue;
                }
                if !victim.is_old(now) {
                    young = true;
                    continue;
                }
                seen += 1;
                if len > most || seen == skip + 1 {
                    (best, most) = (Some(victim), len);
                }
                if seen >= skip + looks {
                    break;
                }
            }
            if let Some(victim) = best {
                return Some(Target { loops, victim });
            }
            let until = match (young, stole) {
                (true, _) => PATIENCE_NS,
                (false, true) => LOOK_NS,
                (false, false) => 0,
            };
            if now - begin >= until || busy() || cfg!(creel_shuttle) {
                return None;
            }
            for _ in 0..PAUSES {
                spin_loop();
            }
        }
        None
    }
}

impl Target<'_> {
    /// Steals the fork for the worker `slot` and runs it. Between the two, it calls `begin` and
    /// passes whether the victim has more forks. Returns false if it could not steal the fork, for
    /// example because another thread has taken it. If the worker is in the middle of user code,
    /// `is_inside` is true.
    pub(crate) fn run(self, slot: &WorkerSlot, is_inside: bool, begin: impl FnOnce(bool)) -> bool {
        let Self { loops, victim } = self;
        // In the middle of user code, the forker must be counted, because that code may fork as
        // well.
        let begun_ns = is_inside.then_some(|| 0);
        let own = loops.forks.worker(loops, slot.index, begun_ns);
        let Some(prey) = victim.steal(own, None, || true) else {
            // Another thread has just taken it, or is about to.
            spin_loop();
            return false;
        };
        local(&CURRENT, |current| current.set(own));
        begin(victim.deque.has_forks());
        own.run(prey);
        true
    }
}

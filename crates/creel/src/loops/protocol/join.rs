//! The caller's side of a loop: its share, the others' rest, and the wait.

use super::{call::Grain, dispatch::Part};
use crate::{
    sync::{LOOKS, lock, now_ns, spin_loop},
    worker::waiter::Waiter,
};

/// A worker for whom the caller slept long.
#[derive(Clone, Copy, Debug)]
pub(in crate::loops) struct Straggler {
    pub(in crate::loops) slot: usize,
    pub(in crate::loops) slept_ns: u64,
}

/// A caller with fewer units than this may be done before a worker has seen the call.
const QUICK_UNITS: usize = 256;
/// How many pauses such a caller makes for them: about as long as a call takes to get to a worker
/// and back.
const QUICK_LOOKS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

impl Part<'_> {
    /// Works until every share is claimed, then waits until all who are in are out. Tells for
    /// whom it slept longest, if it slept.
    ///
    /// `spin_ns` is how long it spins for each before it sleeps.
    pub(in crate::loops) fn work_and_join(&self, units: usize, spin_ns: u64) -> Option<Straggler> {
        let join = Join {
            part: *self,
            spin_ns,
        };
        self.work();
        let shares = self.call.grain() != Grain::QUEUE;
        if units < QUICK_UNITS && shares && !self.call.wakes() {
            // A look at a share takes its line away from the worker who is about to claim it.
            let is_out = || self.groups().all(|group| self.is_out(group));
            let mut looks = 0..QUICK_LOOKS;
            if looks.any(|_| {
                spin_loop();
                is_out()
            }) {
                return None;
            }
        }
        // Two rounds: nobody is waited for while there is something left to do.
        if shares {
            self.late().for_each(|other| join.sweep(other));
        }
        let slept = self.late().filter_map(|slot| {
            let slept_ns = join.wait_until_left(slot);
            (slept_ns > 0).then_some(Straggler { slot, slept_ns })
        });
        slept.max_by_key(|straggler| straggler.slept_ns)
    }

    /// The workers of the groups that are not out yet.
    fn late(&self) -> impl Iterator<Item = usize> {
        let late = self.groups().filter(|group| !self.is_out(group.clone()));
        late.flat_map(|group| self.workers_in(group))
    }
}

/// How the caller of a loop waits.
struct Join<'a> {
    part: Part<'a>,
    spin_ns: u64,
}

impl Join<'_> {
    /// Sees to it that the share of `other` is claimed to the last block.
    fn sweep(&self, other: usize) {
        let (epoch, grain) = (self.part.call.epoch(), self.part.call.grain());
        let share = self.part.share(other);
        loop {
            if share.is_done(epoch) || share.is_claimed(epoch) {
                return;
            } else if let Some(blocks) = share.claim_back(epoch, grain) {
                self.part.run(other, blocks);
            } else {
                // Its owner is in and takes the crumb that is left.
                self.wait_until_left(other);
            }
        }
    }

    /// Returns how long it slept, in ns.
    fn wait_until_left(&self, other: usize) -> u64 {
        let (epoch, share) = (self.part.call.epoch(), self.part.share(other));
        if !share.is_in(epoch) || !spin_while(|| !share.is_done(epoch), self.spin_ns) {
            return 0;
        }
        let begin = now_ns();
        let waiter = Waiter::current();
        *lock(&self.part.loops.mailbox.caller) = Some(waiter.clone());
        // The bit is set for each sleep anew: another's wake may have ended the last.
        let left = || share.is_done(epoch) || !share.await_leave(epoch);
        waiter.wait_until(left, || false);
        *lock(&self.part.loops.mailbox.caller) = None;
        now_ns() - begin
    }
}

/// Spins while `busy`, for at most `ns`; says whether it still is.
fn spin_while(busy: impl Fn() -> bool, ns: u64) -> bool {
    let mut begin = None;
    loop {
        for look in 0..LOOKS {
            if !busy() {
                return false;
            }
            if look % 4 == 3 {
                spin_loop();
            }
        }
        let now = now_ns();
        if now - *begin.get_or_insert(now) >= ns || cfg!(any(loom, shuttle)) {
            return busy();
        }
    }
}

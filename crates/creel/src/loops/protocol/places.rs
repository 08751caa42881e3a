//! The places in a loop whose workers run other code: any idle worker takes one.
//!
//! A loop is shared out when all its workers are idle. That they are is decided before the loop is
//! published, and one of them may begin something else in between, which may take for ever and may
//! even wait for this loop. So the caller looks again after it has published the loop, and a worker
//! that leaves idleness looks for a loop after it has stored that it does. Both pairs are `SeqCst`, so
//! one of the two sees the other: either the worker takes its share before it begins the other code,
//! or the caller sees it elsewhere. For these the caller offers the loop's places like anything else
//! that it shares (`shared_jobs.rs`): an idle worker is called for them, one that becomes idle finds them,
//! and the watchdog takes over the call of one that does not come.
//!
//! # Who has a place
//!
//! The body knows a worker by its worker's index, and no two threads may have the same one (that is
//! what `Scratch` relies on). A helper runs a share *in its worker's place*, under that index, so it
//! must exclude the worker:
//!
//! | the worker's thread | takes its own place | another takes it |
//! |---|---|---|
//! | idles | by a plain store: a hot loop costs no swap | never |
//! | works | by a swap of `taken` | by the same swap, under the book's lock, if it has not entered |
//! | is absent: the system refused it, or the pool has shrunk | | the same, under the thread's lock |
//!
//! A thread becomes idle under the book's lock, and starts under its own, so after that it sees
//! whether its place was taken.
//!
//! A helper is inside of the offer until it has left the loop, and the caller closes the offer before
//! it returns. So nobody is late here, and what the loop borrows lives.

use super::{
    dispatch::Part,
    shared_jobs::{Open, SharedJob},
};
use crate::{
    sync::{AtomicUsize, Ordering},
    worker::{current, slot::WorkerSlot},
};
use std::ptr::NonNull;

#[repr(C)]
struct Places<'a> {
    shared_job: SharedJob,
    /// The caller's.
    part: Part<'a>,
    /// The next worker whose place a helper looks at. Relaxed: each gets another one, and what they
    /// read beyond is ordered by the lock of the offers' list.
    next: AtomicUsize,
}

/// Whether a worker of the loop, which has been published, runs other code or has no thread. It may
/// not come.
pub(in crate::loops) fn any_elsewhere(part: &Part<'_>) -> bool {
    let slots = &part.loops.slots;
    let mut others = (0..part.call.workers()).filter(|slot| *slot != part.call.caller());
    // In the deterministic mode the caller has no company.
    let absent = |slot: &WorkerSlot| !slot.thread.is_running() && !slots.is_threadless();
    others.any(|slot| {
        let slot = slots.at(slot);
        slot.is_elsewhere() || absent(slot)
    })
}

/// Offers the places of busy and absent workers to idle ones, while `f` runs the caller's part of
/// the loop. When this returns, no helper is in the loop.
pub(in crate::loops) fn offer_while<R>(part: &Part<'_>, f: impl FnOnce() -> R) -> R {
    let (loops, call) = (part.loops, part.call);
    if call.wakes() {
        // A worker that runs other code does not wake the workers below it in the tree.
        (0..call.workers()).for_each(|slot| {
            loops.slots.at(slot).notify();
        });
    }
    let places = Places {
        shared_job: SharedJob::new(Places::help, true),
        part: *part,
        next: AtomicUsize::new(0),
    };
    // SAFETY: it lives until the end of this function, is not moved, is `Sync`, and `open` is dropped
    // before it.
    let open = unsafe { Open::new(loops, NonNull::from(&places).cast()) };
    // One piece per worker: the helper that takes it looks whether that place is free.
    open.add(call.workers());
    let result = f();
    // Everything is claimed, so nobody needs to come any more.
    while loops.shared_jobs.claim(&places.shared_job) {}
    drop(open);
    result
}

impl Places<'_> {
    /// # Safety
    ///
    /// It is a `Places` that begins with the offer, and it is alive.
    unsafe fn help(shared_job: NonNull<SharedJob>) -> bool {
        // SAFETY: validity: it is a `Places` that begins with the offer, and alive, says the caller.
        // Aliasing: it is only shared; what changes in it is atomic.
        let this = unsafe { shared_job.cast::<Places<'_>>().as_ref() };
        let claimed = this.part.loops.shared_jobs.claim(&this.shared_job);
        if claimed {
            this.take(this.next.fetch_add(1, Ordering::Relaxed));
        }
        claimed
    }

    /// Works in the place of this worker, if its worker has not taken it, and runs other code or is
    /// absent. An idle one looks for the loop before it runs anything else.
    fn take(&self, slot: usize) {
        let Part { loops, call, .. } = self.part;
        let share = loops.shares.at(slot);
        let epoch = call.epoch();
        let free = || !share.has_entered(epoch) && share.take_place(epoch);
        let absent = || loops.slots.at(slot).thread.while_absent(free);
        if slot == call.caller() || !loops.slots.idle.while_works(slot, free) && !absent() {
            return;
        }
        let own = current::index_in(&loops.slots);
        let part = Part {
            slot: loops.slots.at(slot),
            counters: own.map_or(self.part.counters, |own| &loops.slots.at(own).counters),
            ..self.part
        };
        part.work();
    }
}

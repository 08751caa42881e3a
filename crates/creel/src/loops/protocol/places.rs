//! The places in a loop of workers that run other code. Any idle worker can take such a place.
//!
//! A loop is divided among the workers if all its workers are idle. The caller checks this before
//! it publishes the loop. However, one of the workers may begin something else in between. That may
//! take forever, and may even wait for this loop. So the caller checks again after it has published
//! the loop. A worker that stops being idle stores that first, and checks for a loop afterwards.
//! All four accesses are `SeqCst`, so at least one of the two threads sees the other's store.
//! Either the worker takes its share before it begins the other code, or the caller sees that the
//! worker is busy. Without this order, the caller could wait for a share that nobody takes.
//!
//! If the worker is busy, the caller publishes the worker's place as a shared job
//! (`shared_jobs.rs`). It notifies an idle worker for it, and a worker that becomes idle finds it.
//! If the notified worker does not arrive, the watchdog takes over its notification.
//!
//! # Which thread has a place
//!
//! The loop body identifies a worker by its index, and no two threads may have the same index,
//! because `Scratch` relies on this. A helper runs a share *in the place of its worker*, with that
//! worker's index. The helper must therefore exclude the worker:
//!
//! | the worker's thread | takes its own place | another thread takes it |
//! |---|---|---|
//! | is idle | by a plain store, so that a frequent loop costs no swap | never |
//! | is running | by a swap of `taken` | by the same swap, under the lock of `Idle`, if the worker has not entered |
//! | is absent, because the OS refused it or the pool has shrunk | | in the same way, under the thread's lock |
//!
//! A thread becomes idle under the lock of `Idle`, and starts under its own lock. After that it
//! sees whether its place was taken.
//!
//! A helper stays inside the shared job until it has left the loop, and the caller closes the job
//! before it returns. Therefore no helper can be late, and everything that the loop borrows stays
//! alive.

use super::{
    dispatch::Part,
    shared_jobs::{Open, SharedJob},
};
use crate::{
    sync::{AtomicUsize, Ordering},
    worker::{current, slot::WorkerSlot, stats::LoopCounters},
};
use std::ptr::NonNull;

#[repr(C)]
struct Places<'a> {
    shared_job: SharedJob,
    /// The caller's part of the loop.
    part: Part<'a>,
    /// The next worker whose place a helper checks. Relaxed is enough. The increment alone gives
    /// each piece a different worker. Everything else that a helper reads was written before the
    /// helper entered the shared job under the lock of the list.
    next: AtomicUsize,
}

/// Returns whether a worker of the loop, which has been published, runs other code or has no
/// thread. Such a worker may never take part.
pub(in crate::loops) fn any_elsewhere(part: &Part<'_>) -> bool {
    let slots = &part.loops.slots;
    let mut others = (0..part.call.workers()).filter(|slot| *slot != part.call.caller());
    // In the deterministic mode, the caller is the only thread.
    let absent = |slot: &WorkerSlot| !slot.thread.is_running() && !slots.is_threadless();
    others.any(|slot| {
        let slot = slots.at(slot);
        slot.is_elsewhere() || absent(slot)
    })
}

/// Shares the places of busy and absent workers with idle ones, while `f` runs the caller's part of
/// the loop. When this function returns, no helper is in the loop.
pub(in crate::loops) fn share_places_while<R>(part: &Part<'_>, f: impl FnOnce() -> R) -> R {
    let (loops, call) = (part.loops, part.call);
    if call.wakes() {
        // A worker that runs other code does not wake the workers below it in the wake tree.
        // Therefore the caller wakes all of these workers itself.
        let others = (0..call.workers()).filter(|slot| *slot != call.caller());
        others.for_each(|slot| {
            loops.slots.at(slot).notify();
        });
    }
    let places = Places {
        shared_job: SharedJob::new(Places::help, true),
        part: *part,
        next: AtomicUsize::new(0),
    };
    // SAFETY: `places` lives until the end of this function, does not move and is `Sync`. `open` is
    // dropped before it.
    let open = unsafe { Open::new(loops, NonNull::from(&places).cast()) };
    // There is one piece per worker. The helper that takes a piece checks whether the place is
    // free.
    open.add(call.workers());
    let result = f();
    // All blocks have been claimed, so helpers are not needed any more.
    while loops.shared_jobs.claim(&places.shared_job) {}
    drop(open);
    result
}

impl Places<'_> {
    /// # Safety
    ///
    /// The pointer must point to a live `Places`, which begins with the shared job.
    unsafe fn help(shared_job: NonNull<SharedJob>, _: &dyn Fn() -> bool) -> bool {
        // SAFETY: validity: the caller guarantees that this is a live `Places`, which begins with
        // the shared job. Aliasing: it is only shared, and its parts that change are atomic.
        let this = unsafe { shared_job.cast::<Places<'_>>().as_ref() };
        let claimed = this.part.loops.shared_jobs.claim(&this.shared_job);
        if claimed {
            this.take(this.next.fetch_add(1, Ordering::Relaxed));
        }
        claimed
    }

    /// Works in the place of this worker, if the worker has not taken its place and is running
    /// other code or is absent. We need not consider an idle worker, because it checks for the loop
    /// before it runs anything else.
    fn take(&self, slot: usize) {
        let Part { loops, call, .. } = self.part;
        let share = loops.shares.at(slot);
        let epoch = call.epoch();
        let free = || !share.has_entered(epoch) && share.take_place(epoch);
        let absent = || loops.slots.at(slot).thread.while_absent(free);
        if slot == call.caller() || !loops.slots.idle.while_works(slot, free) && !absent() {
            return;
        }
        let place = loops.slots.at(slot);
        let work = |counters: &LoopCounters| {
            let part = Part {
                slot: place,
                counters,
                ..self.part
            };
            part.work();
        };
        match current::index_in(&loops.slots) {
            Some(own) => work(&loops.slots.at(own).counters.loops),
            None => {
                let counters = LoopCounters::default();
                work(&counters);
                place.counters.helpers.merge(&counters);
            }
        }
    }
}

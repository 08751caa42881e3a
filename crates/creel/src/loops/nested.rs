//! A loop whose workers are at something else: its blocks are offered to who is idle.
//!
//! So runs what is called while the pool runs another loop, or while one of its workers is in
//! somebody's code and would leave its share to the caller.

use super::protocol::{
    Protocol,
    call::Even,
    closure::Body,
    shared_jobs::{Open, SharedJob},
};
use crate::{
    sync::{AtomicUsize, Ordering},
    worker::panics::FirstPanic,
};
use std::{any::Any, ops::Range, ptr::NonNull};

/// How many blocks a worker the units are cut into, where there are that many.
const BLOCKS_PER_WORKER: usize = 8;

#[repr(C)]
struct Nested<'a> {
    shared_job: SharedJob,
    loops: &'a Protocol,
    body: Body<'a>,
    blocks: usize,
    even: Even,
    /// The next block that nobody has claimed. Relaxed: what the blocks write is ordered by the
    /// list's lock.
    next: AtomicUsize,
    /// Who takes part, in the order of coming; those from `most` on are too many.
    came: AtomicUsize,
    most: usize,
    panic: FirstPanic,
}

// SAFETY: the body's closure is `Sync`, the rest is atomic or not changed.
unsafe impl Sync for Nested<'_> {}

/// Runs all units, with the help of who is idle, on at most `most` threads. Gives what was thrown.
pub(super) fn run(
    loops: &Protocol,
    units: usize,
    most: usize,
    body: Body<'_>,
) -> Option<Box<dyn Any + Send>> {
    let blocks = units.min(loops.slots.workers() * BLOCKS_PER_WORKER).max(1);
    let nested = Nested {
        shared_job: SharedJob::new(Nested::help, true),
        loops,
        body,
        blocks,
        even: Even::new(units, blocks),
        next: AtomicUsize::new(0),
        came: AtomicUsize::new(1),
        most,
        panic: FirstPanic::default(),
    };
    // SAFETY: it lives until the end of this function, is not moved, is `Sync`, and `open` is
    // dropped before.
    let open = unsafe { Open::new(loops, NonNull::from(&nested).cast()) };
    // Before the first block, which may take long, also where nobody idles now: one that becomes
    // idle looks at the offers after it has said so.
    open.add(1);
    while nested.run_block(0) {}
    nested.end();
    drop(open);
    nested.panic.take()
}

impl Nested<'_> {
    /// # Safety
    ///
    /// It is a `Nested` that begins with the offer, and it is alive.
    unsafe fn help(shared_job: NonNull<SharedJob>) -> bool {
        // SAFETY: validity: it is a `Nested` that begins with the offer, and alive, says the
        // caller. Aliasing: it is only shared; what changes in it is atomic.
        let this = unsafe { shared_job.cast::<Nested<'_>>().as_ref() };
        let who = this.came.fetch_add(1, Ordering::Relaxed);
        while who < this.most && this.run_block(who) {}
        this.end();
        false
    }

    /// Claims and runs a block, as the one with the index `who`. False: there is none.
    fn run_block(&self, who: usize) -> bool {
        if self.next.load(Ordering::Relaxed) >= self.blocks {
            return false;
        }
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        if block >= self.blocks {
            return false;
        }
        let units: Range<usize> = self.even.at(block)..self.even.at(block + 1);
        if !self.panic.thrown() {
            self.panic.catch(|| self.body.call(units, who));
        }
        true
    }

    /// Nobody need come any more.
    fn end(&self) {
        self.loops.shared_jobs.claim(&self.shared_job);
    }
}

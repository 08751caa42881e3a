//! A loop that the caller runs in blocks, and that idle workers can help with.
//!
//! We run a loop like this if the pool is already running another loop, or if one of its workers is
//! running user code and would leave its share to the caller.

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

/// The number of blocks per worker that the units are divided into, if there are that many units.
const BLOCKS_PER_WORKER: usize = 8;

#[repr(C)]
struct Nested<'a> {
    shared_job: SharedJob,
    loops: &'a Protocol,
    body: Body<'a>,
    blocks: usize,
    even: Even,
    /// The next block that no thread has claimed. Relaxed, because the lock of the list of shared
    /// jobs orders what the blocks write.
    next: AtomicUsize,
    /// The number of threads that have joined so far. A thread's number is its index in the loop,
    /// and threads with an index of `most` or more do not take part.
    came: AtomicUsize,
    most: usize,
    panic: FirstPanic,
}

// SAFETY: The body's closure is `Sync`, and everything else is atomic or does not change.
unsafe impl Sync for Nested<'_> {}

/// Runs all units on at most `most` threads, with the help of idle workers. Returns the payload of
/// the first panic.
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
    // SAFETY: `nested` lives until the end of this function, is not moved, and is `Sync`. `open` is
    // dropped before it.
    let open = unsafe { Open::new(loops, NonNull::from(&nested).cast()) };
    // We publish the loop before the first block, because a block may take long. We do so even if
    // no worker is idle now, because a worker that becomes idle first adds itself to the idle list
    // and then checks the shared jobs.
    open.add(1);
    while nested.run_block(0) {}
    nested.end();
    drop(open);
    nested.panic.take()
}

impl Nested<'_> {
    /// # Safety
    ///
    /// It is a `Nested` that begins with the shared job, and it is alive.
    unsafe fn help(shared_job: NonNull<SharedJob>) -> bool {
        // SAFETY: Validity: the caller promises that this is a `Nested` that begins with the shared
        // job, and that it is alive. Aliasing: it is only shared, and what changes in it is atomic.
        let this = unsafe { shared_job.cast::<Nested<'_>>().as_ref() };
        let who = this.came.fetch_add(1, Ordering::Relaxed);
        while who < this.most && this.run_block(who) {}
        this.end();
        false
    }

    /// Claims and runs a block, as the thread with the index `who`. Returns false if no block is
    /// left.
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

    /// Withdraws the shared job, because no more helpers are needed.
    fn end(&self) {
        self.loops.shared_jobs.claim(&self.shared_job);
    }
}

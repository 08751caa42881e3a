//! A loop that the caller runs in blocks, and that idle workers can help with.
//!
//! We run a loop like this in two cases. Either the pool is already running another loop, or one of
//! its workers is running user code and would leave its share to the caller.
//!
//! The caller first forks one closure for each further thread, and then takes one block after
//! another. A thread that steals such a closure does the same. If no worker is idle, nobody steals
//! these closures, and the loop costs a few nanoseconds per closure more than a plain one. Only the
//! caller waits for the other threads. A helper that finds no block left is free for other work,
//! although the blocks of other threads may take a long time.

use super::{
    join::Joiner,
    protocol::{call::Even, closure::Body},
};
use crate::{
    pool::Pool,
    sync::{AtomicUsize, Ordering},
    worker::panics::FirstPanic,
};
use std::any::Any;

/// The number of blocks per worker that the units (for example items or chunks) are divided into,
/// if there are that many units.
const BLOCKS_PER_WORKER: usize = 8;

struct Nested<'a> {
    body: Body<'a>,
    blocks: usize,
    /// Whether each block is a single unit.
    few: bool,
    even: Even,
    /// The next block that no thread has claimed. Relaxed is enough. The increment alone gives each
    /// block to one thread, and everything that a block writes happens before the end of the joins
    /// around it.
    next: AtomicUsize,
    /// The maximum number of threads that run the loop.
    most: usize,
    panic: FirstPanic,
}

// SAFETY: the body's closure is `Sync`, and everything else is atomic or does not change.
unsafe impl Sync for Nested<'_> {}

/// Runs all units on at most `most` threads, with the help of idle workers. Returns the payload of
/// the first panic.
pub(super) fn run(
    pool: &Pool,
    units: usize,
    most: usize,
    body: Body<'_>,
) -> Option<Box<dyn Any + Send>> {
    let blocks = units.min(most * BLOCKS_PER_WORKER).max(1);
    let nested = Nested {
        body,
        blocks,
        few: blocks == units,
        even: Even::new(units, blocks),
        next: AtomicUsize::new(0),
        most,
        panic: FirstPanic::default(),
    };
    let helpers = most.min(blocks) - 1;
    pool.recurse(|joiner| nested.work(joiner, helpers));
    nested.panic.take()
}

impl Nested<'_> {
    /// Runs blocks on the calling thread, which is the loop's caller, until none is left. Lets up
    /// to `helpers` threads take part.
    fn work(&self, joiner: Joiner<'_>, helpers: usize) {
        if helpers == 0 {
            return self.run_blocks(0);
        }
        joiner.join_always(
            |joiner| self.work(joiner, helpers - 1),
            |_| self.run_blocks(helpers),
        );
    }

    /// Runs blocks, as the thread with the index `who`, until none is left.
    fn run_blocks(&self, who: usize) {
        loop {
            let next = self.next.load(Ordering::Relaxed);
            if next >= self.blocks {
                return;
            }
            // The first claims are larger, because each claim has a cost. However, if there are few
            // units, we claim them one by one, because they may be long, or wait for each other.
            let more = match self.few {
                true => 1,
                false => ((self.blocks - next) / (2 * self.most)).max(1),
            };
            let from = self.next.fetch_add(more, Ordering::Relaxed);
            let to = (from + more).min(self.blocks);
            if from >= to {
                return;
            }
            if !self.panic.thrown() {
                let units = self.even.at(from)..self.even.at(to);
                self.panic.catch(|| self.body.call(units, who));
            }
        }
    }
}

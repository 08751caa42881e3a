//! The order of tasks in the deterministic mode.
//!
//! A pool created by [`Pool::seeded`](crate::Pool::seeded) starts no thread. Everything runs in
//! `block_on`, on its caller's thread. The seed decides which runnable task runs next, or whether
//! the caller's own future does. If nothing is runnable, the clock advances to the next timer. A
//! program that does not depend on the outside world therefore runs identically for the same seed.
//!
//! Sockets and wake-ups from other threads are not deterministic. They work, but their timing is
//! that of the outside world.

use super::local::LocalContext;
use super::tasks::Tasks;
use crate::sync::{Mutex, lock};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};

/// The state of the random number generator.
pub(crate) struct Seeded(Mutex<u64>);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// Returns a number below `bound`, which must not be 0.
    fn draw(&self, bound: usize) -> usize {
        // This is SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
        // generators", OOPSLA 2014.
        let mut state = lock(&self.0);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Returns whether the caller of `block_on`, whose future was woken, polls it now. Otherwise it
/// runs a task first.
pub(crate) fn own_turn(tasks: &Tasks) -> bool {
    match &tasks.seeded {
        Some(seeded) => seeded.draw(2) == 0,
        None => true,
    }
}

/// Runs one of the runnable tasks. Returns false if no task is runnable.
pub(super) fn step(seeded: &Seeded, context: LocalContext<'_>) -> bool {
    context.gather();
    // In this mode, the caller of `block_on` acts as the thread of the only worker.
    let slot = context.tasks.schedulers.at(0);
    let bound = &slot.bound;
    let (stealable, all) = (context.hints(), context.hints() + bound.len());
    if all == 0 {
        return false;
    }
    let drawn = seeded.draw(all);
    if drawn < stealable {
        context.rotate(drawn);
        return context.step(false);
    }
    for _ in stealable..drawn {
        let Some(task) = bound.pop() else { break };
        bound.push(task);
    }
    let Some(task) = bound.pop() else { return true };
    // SAFETY: the task was just taken from the worker's queue, and this thread acts as the worker's
    // thread, as explained above.
    unsafe { slot.run_bound(task, false) };
    true
}

/// A future of `spawn_local`, which only one thread polls and drops.
///
/// A seeded pool has no thread of its own, because the caller of `block_on` runs its tasks. The
/// pool may move to another thread, which would then poll or drop a future that is not `Send`. On
/// another thread, polling it therefore panics, and dropping it leaks it. The future is in a box,
/// so that its memory is never reused. `Pin` requires this for a future that is not dropped.
pub(super) struct Local<F> {
    /// The future, or `None` once it was leaked.
    future: Option<Pin<Box<F>>>,
    thread: ThreadId,
}

impl<F> Local<F> {
    pub(super) fn new(future: F) -> Self {
        Self {
            future: Some(Box::pin(future)),
            thread: thread::current().id(),
        }
    }

    fn is_here(&self) -> bool {
        self.thread == thread::current().id()
    }
}

impl<F: Future> Future for Local<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        assert!(
            self.is_here(),
            "a task of spawn_local runs on the thread that spawned it: call block_on there"
        );
        match &mut self.future {
            Some(future) => future.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Local<F> {
    fn drop(&mut self) {
        if !self.is_here() {
            mem::forget(self.future.take());
        }
    }
}

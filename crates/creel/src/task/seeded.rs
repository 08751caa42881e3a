//! The order of tasks in the deterministic mode.
//!
//! A pool made by [`Pool::seeded`](crate::Pool::seeded) starts no thread. Everything runs in `block_on`, on its
//! caller: which of the runnable tasks (or the caller's own future) goes next is drawn from the
//! seed, and when nothing is runnable the clock goes to the next timer. So a program that asks
//! nothing of the world outside has the same run for the same seed.
//!
//! Left out: sockets, and wakes from other threads. They work, but come when they come.

use super::local::LocalContext;
use super::tasks::Tasks;
use crate::sync::{Mutex, lock};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};

/// The seed's state.
pub(crate) struct Seeded(Mutex<u64>);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// A number below `bound`, which is not 0.
    fn draw(&self, bound: usize) -> usize {
        // SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
        // generators", OOPSLA 2014.
        let mut state = lock(&self.0);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

/// Whether the caller of `block_on`, whose future was woken, polls it now or runs a task first.
pub(crate) fn own_turn(tasks: &Tasks) -> bool {
    match &tasks.seeded {
        Some(seeded) => seeded.draw(2) == 0,
        None => true,
    }
}

/// Runs one of the runnable tasks; false: there is none.
pub(super) fn step(seeded: &Seeded, context: LocalContext<'_>) -> bool {
    context.gather();
    // In this mode the caller of `block_on` is the one worker's thread.
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
    // SAFETY: just taken from the worker's queue; and this is as good as the worker's thread, see above.
    unsafe { slot.run_bound(task, false) };
    true
}

/// A future of `spawn_local`, which is polled and dropped by one thread only.
///
/// A seeded pool has no thread of its own: whoever calls `block_on` runs its tasks. The pool may
/// move to another thread, which would poll or drop a future that is not `Send`. There, polling it
/// panics, and dropping it leaks it. It lies in a box, so that its memory is never used again, as
/// `Pin` demands of a future that is not dropped.
pub(super) struct Local<F> {
    /// None once it was leaked.
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

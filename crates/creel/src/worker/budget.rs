//! The budget of a poll: how many operations may be ready before the task must give way.
//!
//! A future is polled until it has to wait. One that loops over a channel with a message, or over a
//! socket that is flooded, never has to, and would keep its worker from all other tasks, timers and
//! sockets. So each poll of a task, and of the future of a `block_on`, gets a budget. Every
//! operation that is ready uses up one unit, a system call two. At zero, operations wake their task
//! and are pending without being tried: nothing is taken that could be lost, the task returns to
//! the scheduler, and it goes to the end of the queue as if it had yielded.
//!
//! The budget stays at zero for the rest of the poll, because a future that polls many others (a
//! join, a select, a `FuturesUnordered`) would otherwise go on with the next of them. The exception
//! is a foreign executor that runs inside a task and polls again and again: after `REFUSALS_MAX`
//! refusals there is a new budget, so that it makes progress.
//!
//! Outside of such a poll there is no budget. Under loom, whose threads share what is a thread's
//! own, there is none at all.

use crate::sync::{local, thread_local};
use std::cell::Cell;
use std::task::{Context, Poll};

/// Units a poll.
const PER_POLL: i64 = 128;
/// Refusals in one poll before it gets a new budget.
const REFUSALS_MAX: i64 = 1024;
/// Never used up: 292 years at one operation a nanosecond.
const UNLIMITED: i64 = i64::MAX;

thread_local! {
    /// The units left; below zero, the refusals since there were none.
    static LEFT: Cell<i64> = const { Cell::new(UNLIMITED) };
}

/// Puts back the budget of the poll around this one.
pub(crate) struct Outer(i64);

impl Outer {
    #[inline(always)]
    fn replace(units: i64) -> Self {
        Outer(local(&LEFT, |left| left.replace(units)).unwrap_or(UNLIMITED))
    }
}

impl Drop for Outer {
    #[inline(always)]
    fn drop(&mut self) {
        local(&LEFT, |left| left.set(self.0));
    }
}

/// Runs `poll`, the poll of a task, with a budget of its own.
#[inline(always)]
pub(crate) fn fresh<R>(poll: impl FnOnce() -> R) -> R {
    let _outer = Outer::replace(if cfg!(loom) { UNLIMITED } else { PER_POLL });
    poll()
}

/// Suspends the budget until the returned guard is dropped.
#[inline]
#[must_use = "the budget counts again once it is dropped"]
pub(crate) fn suspend() -> Outer {
    Outer::replace(UNLIMITED)
}

/// Polls an operation, which uses up one unit if it is ready. If there is none left, it is not
/// polled: the task is woken, to go on in its next poll.
#[inline(always)]
pub(crate) fn poll<T>(
    cx: &mut Context<'_>,
    operation: impl FnOnce(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    if is_spent(cx) {
        return Poll::Pending;
    }
    counted(operation(cx))
}

/// Uses up one unit if the operation is ready. Together with [`is_spent`], it does what [`poll`]
/// does, for operations that panic with the location of their caller: a closure cannot have that.
/// The operations of channels and tasks call [`use_up`] where they return what is ready instead,
/// because passing that on to another function copies it.
#[inline(always)]
pub(crate) fn counted<T>(polled: Poll<T>) -> Poll<T> {
    if polled.is_ready() {
        use_up(1);
    }
    polled
}

/// Whether an operation has to be pending because nothing is left. The task has been woken then.
#[inline(always)]
pub(crate) fn is_spent(cx: &mut Context<'_>) -> bool {
    let left = local(&LEFT, Cell::get).unwrap_or(UNLIMITED);
    left <= 0 && refuse(cx, left)
}

/// Uses up units, as far as there are any.
#[inline(always)]
pub(crate) fn use_up(units: i64) {
    local(&LEFT, |left| {
        if left.get() > 0 {
            left.set((left.get() - units).max(0));
        }
    });
}

#[cold]
#[inline(never)]
fn refuse(cx: &mut Context<'_>, left: i64) -> bool {
    if left <= -REFUSALS_MAX {
        local(&LEFT, |place| place.set(PER_POLL));
        return false;
    }
    local(&LEFT, |place| place.set(left - 1));
    cx.waker().wake_by_ref();
    true
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::task::Waker;

    /// How many of `tries` operations are ready.
    fn ready(tries: usize) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let polls = (0..tries).filter(|_| poll(&mut cx, |_| Poll::Ready(())).is_ready());
        polls.count()
    }

    #[test]
    fn a_poll_has_its_units_and_the_one_around_it_keeps_its_own() {
        assert_eq!(ready(1_000), 1_000);
        fresh(|| {
            assert_eq!(ready(28), 28);
            fresh(|| assert_eq!(ready(1_000), 128));
            let suspended = suspend();
            assert_eq!(ready(1_000), 1_000);
            drop(suspended);
            assert_eq!(ready(1_000), 100);
        });
        assert_eq!(ready(1_000), 1_000);
    }

    #[test]
    fn an_operation_that_waits_uses_up_nothing() {
        let mut cx = Context::from_waker(Waker::noop());
        fresh(|| {
            for _ in 0..1_000 {
                assert!(poll(&mut cx, |_| Poll::<()>::Pending).is_pending());
            }
            assert_eq!(ready(1_000), 128);
        });
    }

    #[test]
    fn a_loop_that_polls_on_after_refusals_makes_progress() {
        fresh(|| {
            let mut tried = 0;
            while ready(1) == 1 {}
            while ready(1) == 0 {
                tried += 1;
                assert!(tried <= REFUSALS_MAX);
            }
        });
    }
}

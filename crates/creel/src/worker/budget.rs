//! The budget of a poll, which limits how many operations may be ready before the task must give
//! way.
//!
//! A future is polled until it has to wait. However, some futures never have to wait, for example
//! one that loops over a channel that always contains a message, or over a socket that is flooded.
//! Such a future would keep its worker from all other tasks, timers and sockets. Therefore we give
//! each poll of a task, and each poll of the future of a `block_on`, a budget. Every operation that
//! is ready uses up one unit, and a system call uses up two. At zero, operations wake their task
//! and return pending without being tried. They take nothing that could be lost. The task returns
//! to the scheduler and goes to the end of the queue, as if it had yielded.
//!
//! The budget stays at zero for the rest of the poll. Otherwise a future that polls many others,
//! for example a join or a `FuturesUnordered`, would continue with the next of them. There is one
//! exception, because a foreign executor may run inside a task and poll again and again. After
//! `REFUSALS_MAX` refusals the poll gets a new budget, so that such an executor makes progress.
//!
//! Outside of such a poll there is no budget. Under loom there is none at all, because loom's
//! threads share thread-locals.

use crate::sync::{local, thread_local};
use std::cell::Cell;
use std::task::{Context, Poll};

/// The number of units in the budget of a poll.
const PER_POLL: i64 = 128;
/// The number of refusals in one poll after which it gets a new budget.
const REFUSALS_MAX: i64 = 1024;
/// A budget that is never used up. At one operation per nanosecond, it lasts for 292 years.
const UNLIMITED: i64 = i64::MAX;

thread_local! {
    /// The number of units left in the budget of the current poll. If it is negative, its absolute
    /// value is the number of refusals since no unit was left.
    static LEFT: Cell<i64> = const { Cell::new(UNLIMITED) };
}

/// A guard that restores the budget of the surrounding poll when it is dropped.
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

/// Runs `poll`, which is one poll of a task or of the future of a `block_on`, with a budget of its
/// own.
#[inline(always)]
pub(crate) fn fresh<R>(poll: impl FnOnce() -> R) -> R {
    let _outer = Outer::replace(if cfg!(creel_loom) {
        UNLIMITED
    } else {
        PER_POLL
    });
    poll()
}

/// Suspends the budget until the returned guard is dropped.
#[inline]
#[must_use = "the budget counts again once it is dropped"]
pub(crate) fn suspend() -> Outer {
    Outer::replace(UNLIMITED)
}

/// Polls an operation. If the operation is ready, it uses up one unit. If no unit is left, the
/// operation is not polled. The task is then woken, so that it continues in its next poll.
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

/// Uses up one unit if the operation is ready. Together with [`is_spent`] it does what [`poll`]
/// does. We need both for operations that panic with the location of their caller, which does not
/// work in a closure. The operations of channels and tasks call [`use_up`] instead where they
/// return their result, because passing the result on to another function copies it.
#[inline(always)]
pub(crate) fn counted<T>(polled: Poll<T>) -> Poll<T> {
    if polled.is_ready() {
        use_up(1);
    }
    polled
}

/// Returns whether an operation must return pending because no unit is left. If so, it has woken
/// the task.
#[inline(always)]
pub(crate) fn is_spent(cx: &mut Context<'_>) -> bool {
    let left = local(&LEFT, Cell::get).unwrap_or(UNLIMITED);
    left <= 0 && refuse(cx, left)
}

/// Uses up `units` units. This is one subtraction without a branch. If fewer units are left, the
/// difference counts as refusals, which changes nothing but the number of further refusals.
#[inline(always)]
pub(crate) fn use_up(units: i64) {
    local(&LEFT, |left| left.set(left.get() - units));
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

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Returns how many of `tries` operations are ready.
    fn ready(tries: usize) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let polls = (0..tries).filter(|_| poll(&mut cx, |_| Poll::Ready(())).is_ready());
        polls.count()
    }

    #[test]
    fn a_nested_poll_has_a_budget_of_its_own_and_the_outer_poll_keeps_the_rest() {
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
    fn an_operation_that_waits_uses_no_budget() {
        let mut cx = Context::from_waker(Waker::noop());
        fresh(|| {
            for _ in 0..1_000 {
                assert!(poll(&mut cx, |_| Poll::<()>::Pending).is_pending());
            }
            assert_eq!(ready(1_000), 128);
        });
    }

    #[test]
    fn polling_again_after_refusals_eventually_succeeds() {
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

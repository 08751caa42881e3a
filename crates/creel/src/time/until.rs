//! A future with a limit. The limit is another future. If the limit is ready first, the future is
//! dropped.
//!
//! [`timeout`](super::timeout) uses it with a timer as the limit, and
//! `CancellationToken::run_until` with a token.

use crate::worker::budget;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls a future until `limit` is ready. This struct stores the future only once. An `async` block
/// would store it twice: as its argument and as the future that it awaits.
pub(crate) struct Until<F, L, M> {
    /// The future. It is `None` once it is ready or was dropped because of the limit.
    future: Option<F>,
    limit: L,
    order: Order,
    /// Makes the result from the output of the future, or from `None` if the limit was ready first.
    /// In that case the future has been dropped.
    make: M,
}

/// Whether the future or the limit is polled first. If both are ready, the one that is polled first
/// wins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The limit is not polled if the future is ready at its first poll.
    FutureFirst,
    LimitFirst,
}

impl<F, L, M, O> Until<F, L, M>
where
    F: Future,
    L: Future<Output = ()> + Unpin,
    M: Fn(Option<F::Output>) -> O + Unpin,
{
    pub(crate) fn new(future: F, limit: L, order: Order, make: M) -> Self {
        Until {
            future: Some(future),
            limit,
            order,
            make,
        }
    }
}

impl<F, L, M, O> Future for Until<F, L, M>
where
    F: Future,
    L: Future<Output = ()> + Unpin,
    M: Fn(Option<F::Output>) -> O + Unpin,
{
    type Output = O;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<O> {
        // We check the task's budget before we poll, because the limit is polled without a budget.
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        // SAFETY: `future` is never moved, because it is polled and dropped in place. The other
        // fields are `Unpin`.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: validity: the reference is borrowed from a pinned value. The future stays in
        // place until it is dropped, because only `set` below and the drop of this value end it.
        let mut future = unsafe { Pin::new_unchecked(&mut this.future) };
        let mut is_over = this.order == Order::LimitFirst && is_ready(&mut this.limit, cx);
        if !is_over {
            let polled = future.as_mut().as_pin_mut().map(|it| it.poll(cx));
            let output = polled.expect("a future is not polled again once it was ready");
            if let Poll::Ready(output) = output {
                future.set(None);
                return Poll::Ready((this.make)(Some(output)));
            }
            is_over = this.order == Order::FutureFirst && is_ready(&mut this.limit, cx);
        }
        if !is_over {
            return Poll::Pending;
        }
        future.set(None);
        Poll::Ready((this.make)(None))
    }
}

#[track_caller]
fn is_ready<L: Future<Output = ()> + Unpin>(limit: &mut L, cx: &mut Context<'_>) -> bool {
    // We poll the limit even if the future has just used up the budget. Otherwise a future that
    // uses up the budget in each poll would never reach its limit.
    let suspended = budget::suspend();
    let is_ready = Pin::new(limit).poll(cx).is_ready();
    drop(suspended);
    if is_ready {
        budget::use_up(1);
    }
    is_ready
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[test]
    fn a_future_with_a_limit_is_little_larger_than_the_future_alone() {
        let array = [0_u64; 64];
        let future = async move {
            pending::<()>().await;
            array[0]
        };
        let alone = size_of_val(&future);
        let until = Until::new(future, ready(()), Order::FutureFirst, |it| it);
        assert!(size_of_val(&until) <= alone + 24);
    }

    #[test]
    fn if_both_futures_are_ready_the_one_polled_first_wins() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        for (order, output) in [(Order::FutureFirst, Some(7)), (Order::LimitFirst, None)] {
            let mut both = Until::new(ready(7), ready(()), order, |it| it);
            assert_eq!(Pin::new(&mut both).poll(&mut cx), Poll::Ready(output));
        }
    }

    #[test]
    fn a_future_that_lost_is_dropped_at_once() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let held = std::rc::Rc::new(());
        let copy = std::rc::Rc::clone(&held);
        let future = async move {
            pending::<()>().await;
            drop(copy);
        };
        let until = Until::new(future, ready(()), Order::FutureFirst, |it| it);
        let mut until = Box::pin(until);
        assert_eq!(until.as_mut().poll(&mut cx), Poll::Ready(None));
        assert_eq!(std::rc::Rc::strong_count(&held), 1);
    }
}

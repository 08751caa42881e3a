#![doc = include_str!("../README.md")]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![forbid(unsafe_code)]

pub mod control;
pub mod leaky;

mod blocking;
mod send_queue;
mod wakers;

pub use send_queue::SendQueue;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

/// Polls an operation as part of the budget of the task that polls it, so that a task for which
/// every operation is ready gives way to the others.
#[inline]
fn in_budget<T>(
    cx: &mut Context<'_>,
    operation: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    pin!(creel::task::budgeted(poll_fn(operation))).poll(cx)
}

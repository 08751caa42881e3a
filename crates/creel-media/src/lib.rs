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

/// Polls an operation and counts it in the budget of the task that polls it. Without the budget, a
/// task whose operations are always ready would never give way to other tasks.
#[inline]
fn in_budget<T>(
    cx: &mut Context<'_>,
    operation: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    pin!(creel::task::budgeted(poll_fn(operation))).poll(cx)
}

//! Time: sleeping, intervals with a tolerance, time-outs, and the clock behind them.
//!
//! Each worker has a wheel of timers, which it fires by the batch, a batch a turn of its
//! loop. Arming, firing and cancelling are O(1), and re-arming allocates
//! nothing, so that a worker can keep ten thousand streams ticking. Timers
//! are never early; how late they may be is the worker's way to wait: a tick
//! of 66 µs when it parks, the quantum when it is throttled.
//!
//! Left out: calendar time, and timers that call a function (spawn a task).

mod clock;
#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(loom, shuttle, miri))
))]
mod counter;
mod interval;
mod level;
mod pending_timers;
mod sleep;
pub(crate) mod timers;
pub(crate) mod until;
mod wheel;

#[cfg(test)]
mod tests;

pub use clock::Clock;
pub use interval::{Interval, Tick, interval};
pub use sleep::{Elapsed, Sleep, sleep, sleep_until, timeout};

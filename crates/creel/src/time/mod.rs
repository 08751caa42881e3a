//! Timers: sleeping, intervals with a tolerance, timeouts, and the clock that they use.
//!
//! Each worker has its own timer wheel. In each turn of its loop, the worker fires one batch of the
//! timers that are due. Arming, firing and cancelling a timer take constant time, and re-arming
//! does not allocate. Therefore one worker can serve ten thousand periodic streams.
//!
//! A timer never fires early, unless its interval allows that ([`Interval::early`]). How late it
//! can fire depends on how the worker waits. For example, the resolution is one tick of 66 µs while
//! the worker parks, and one quantum if the pool is throttled.
//!
//! We leave out calendar time and timers that call a function. Spawn a task that sleeps instead.

#[cfg(feature = "stream")]
mod as_stream;
mod clock;
#[cfg(all(
    target_os = "linux",
    target_arch = "x86_64",
    not(any(creel_loom, creel_shuttle, creel_sim, miri))
))]
mod counter;
mod interval;
mod level;
mod part;
mod pending_timers;
mod sleep;
pub(crate) mod timers;
pub(crate) mod until;
mod wheel;

#[cfg(test)]
mod tests;

pub use clock::Clock;
pub use interval::{Interval, Tick, interval};
pub use sleep::{Elapsed, Sleep, now, sleep, sleep_until, timeout};

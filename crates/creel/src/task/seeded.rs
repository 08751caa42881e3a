//! The deterministic mode: one thread, an order of tasks drawn from a seed, a clock that jumps.
//!
//! A pool made by [`Pool::seeded`] starts no thread. Everything runs in `block_on`, on its
//! caller: which of the runnable tasks (or the caller's own future) goes next is drawn from the
//! seed, and when nothing is runnable the clock goes to the next timer. So a program that asks
//! nothing of the world outside has the same run for the same seed.
//!
//! Left out: sockets, and wakes from other threads. They work, but come when they come.

use super::cell::Ran;
use super::desk::Held;
use crate::pool::shared::Shared;
use crate::pool::woken::wake_all;
use crate::pool::{Builder, Pool};
use crate::sync::{Mutex, Ordering, lock};
use crate::time::Clock;
use std::sync::Arc;
use std::time::Duration;

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

impl Pool {
    /// A pool for tests: no thread but the caller of `block_on`, tasks in an order drawn from the
    /// seed, and a clock of its own that jumps to the next timer when nothing is runnable. The
    /// same seed gives the same run.
    ///
    /// ```
    /// use creel::{Pool, channel::ring, task, time};
    /// use std::time::Duration;
    ///
    /// let run = |seed| {
    ///     let pool = Pool::seeded(seed);
    ///     pool.block_on(async {
    ///         let (tx, rx) = ring::channel(8);
    ///         for name in ["a", "b", "c"] {
    ///             let tx = tx.clone();
    ///             task::spawn(async move { tx.send(name).await }).detach();
    ///         }
    ///         time::sleep(Duration::from_secs(3600)).await; // takes no time
    ///         [rx.recv().await, rx.recv().await, rx.recv().await]
    ///     })
    /// };
    /// assert_eq!(run(7), run(7));
    /// assert!((0..100).any(|seed| run(seed) != run(7)));
    /// ```
    pub fn seeded(seed: u64) -> Pool {
        let built = Builder::seeded(seed, Clock::driven()).build();
        built.unwrap_or_else(|e| unreachable!("one worker is in range: {e}"))
    }
}

/// Whether the caller of `block_on`, whose future was woken, polls it now or runs a task first.
pub(super) fn own_turn(pool: &Shared) -> bool {
    match &pool.tasks.seeded {
        Some(seeded) => seeded.draw(2) == 0,
        None => true,
    }
}

/// Runs one of the runnable tasks; false: there is none.
pub(super) fn step(seeded: &Seeded, held: Held<'_>) -> bool {
    held.gather();
    // In this mode the caller of `block_on` is the one seat's thread.
    let seat = &held.pool.seats.at(0).desk;
    let bound = &seat.bound;
    let (stealable, all) = (held.hints(), held.hints() + bound.len());
    if all == 0 {
        return false;
    }
    let drawn = seeded.draw(all);
    if drawn < stealable {
        held.rotate(drawn);
        return held.step(false);
    }
    for _ in stealable..drawn {
        let Some(task) = bound.pop() else { break };
        bound.push(task);
    }
    let Some(task) = bound.pop() else { return true };
    let claim = task.state().claim_queued();
    seat.bound_counters.polls.add(1);
    // SAFETY: just claimed; and this is as good as the seat's thread, see above.
    match unsafe { task.run(claim, &seat.bound_counters) } {
        Ran::Idle => {}
        Ran::Again => bound.push(task),
        Ran::Complete => {
            seat.bound_alive.fetch_sub(1, Ordering::SeqCst);
        }
    }
    true
}

/// Moves the clock to the next timer and fires it; false: there is none.
pub(super) fn jump(pool: &Arc<Shared>) -> bool {
    if pool.tasks.seeded.is_none() {
        return false;
    }
    let timers = &pool.seats.at(0).timers;
    let Some(at) = timers.sleep_until() else {
        return false;
    };
    let clock = timers.clock();
    clock.advance(Duration::from_nanos(at.saturating_sub(clock.nanos())));
    while timers.fire(wake_all).more {}
    true
}

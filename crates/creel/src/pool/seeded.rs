//! The deterministic mode: one thread, an order of tasks that is drawn from a seed, and a clock
//! that jumps.
//!
//! `task/seeded.rs` selects the next task. This module advances the clock to the next timer when no
//! task is runnable.

use super::{Pool, PoolBuilder, shared::Shared};
use crate::{
    time::Clock,
    worker::{parts::TimerPart, woken::wake_all},
};
use std::time::Duration;

impl Pool {
    /// Creates a deterministic pool for tests. Its only thread is the caller of `block_on`. It runs
    /// tasks in an order that is drawn from the seed. It also has its own clock, which jumps to the
    /// next timer when no task is runnable. The same seed produces the same run.
    ///
    /// Loops, joins, scopes, `run_on` and `broadcast` run on the thread that calls them. Tasks only
    /// run inside `block_on`. If neither a task nor a timer will wake the future, `block_on` waits
    /// for another thread to wake it, as on any other pool.
    ///
    /// ```
    /// use creel::{Pool, channel::bounded, task, time};
    /// use std::time::Duration;
    ///
    /// let run = |seed| {
    ///     let pool = Pool::seeded(seed);
    ///     pool.block_on(async {
    ///         let (tx, rx) = bounded::channel(8);
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
        let built = PoolBuilder::seeded(seed, Clock::manual()).build();
        built.unwrap_or_else(|e| unreachable!("one worker is in range: {e}"))
    }
}

/// Advances the clock to the next timer and fires it. Returns false if no timer is armed, or if the
/// pool is not in the deterministic mode.
pub(super) fn jump(pool: &Shared) -> bool {
    if pool.tasks.seeded.is_none() {
        return false;
    }
    let timers = pool.timers.at(0);
    let fires_at = |nanos: u64| {
        let clock = timers.clock();
        clock.advance(Duration::from_nanos(nanos.saturating_sub(clock.nanos())));
        let mut fired = 0;
        loop {
            let turn = timers.fire(wake_all);
            fired += turn.count;
            if !turn.more {
                return fired > 0;
            }
        }
    };
    // The first attempt may fire nothing, because the timer wheel only knows a lower bound for a
    // timer that is far away.
    let Some(next) = timers.sleep_until() else {
        return false;
    };
    fires_at(next) || timers.first().is_some_and(fires_at)
}

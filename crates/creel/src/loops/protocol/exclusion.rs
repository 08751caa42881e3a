//! Exclusion of stragglers. A worker that lost its CPU in the middle of a loop is kept out of
//! sticky loops for a while. It still takes part in loops with another balance, whose units may
//! wait for each other.
//!
//! A worker that is preempted inside a share that it has begun delays the loop by a whole time
//! slice. A time slice is thousands of times longer than a short loop. This is likely to happen
//! again, because another process uses that CPU. The first time may be chance, so we exclude the
//! worker for two milliseconds of loops. If it happens again before the worker has saved several
//! times what it cost, the exclusion becomes longer each time.
//!
//! Invariant: the time lost by excluding a worker is in proportion to the time lost by waiting for
//! it. For example, if a machine is free except for a process that runs briefly a few times a
//! second, the worker stays. If another process never ends, loops wait for the worker only once in
//! a while.

use super::join::Straggler;
use super::share::Share;
use crate::worker::table::Table;
use crossbeam_utils::CachePadded;

/// The shares of all workers, by the index of the worker.
type Shares = Table<CachePadded<Share>>;

/// If a caller slept for a worker for less than this time, in ns, the worker is not a straggler.
const SLEPT_NS: u64 = 400_000;
/// If a caller slept for a worker for less than this many times the duration of the loop on one
/// thread, the worker is not a straggler.
const SLEPT_TIMES: u64 = 8;
const OUT_NS_MIN: u64 = 2_000_000;
const OUT_NS_MAX: u64 = 320_000_000;
/// The factor by which the next exclusion is longer if a worker loses its CPU again *soon*.
const OUT_TIMES: u64 = 4;
/// If a worker loses its CPU, we compare two times: how long the caller slept for the worker, and
/// how much time the worker has saved since its last exclusion. *Soon* means that the second time
/// is less than this many times the first.
const SAVED_TIMES: u64 = 4;

/// The state of the exclusion. It belongs to the thread that holds the loop lock.
#[derive(Default)]
pub(in crate::loops) struct Exclusion {
    /// The number of workers that are excluded.
    out: usize,
    /// The duration of loops that is left until all workers may come back, in ns on one thread.
    left_ns: u64,
    /// The duration of the last exclusion, in ns.
    last_ns: u64,
    /// The duration of all loops since the last exclusion ended, in ns on one thread.
    calm_ns: u64,
}

impl Exclusion {
    /// Records that a loop begins that takes `ns` on one thread. Returns the number of workers that
    /// are excluded.
    pub(in crate::loops) fn pass(&mut self, ns: u64, shares: &Shares) -> usize {
        if self.out == 0 {
            self.calm_ns = self.calm_ns.saturating_add(ns);
            return 0;
        }
        self.left_ns = self.left_ns.saturating_sub(ns);
        if self.left_ns == 0 {
            shares.made().for_each(|share| share.exclusion(false));
            self.out = 0;
        }
        self.out
    }

    /// Excludes the straggler if it is worth it. The caller slept for it in a loop on `slots`
    /// workers that takes `total_ns` on one thread.
    pub(in crate::loops) fn judge(
        &mut self,
        straggler: Straggler,
        total_ns: u64,
        slots: usize,
        shares: &Shares,
    ) {
        let share = shares.at(straggler.slot);
        if self.leaves_out(straggler.slept_ns, total_ns, slots) && !share.is_excluded() {
            share.exclusion(true);
            self.out += 1;
        }
    }

    /// Returns whether to exclude a worker for which the caller slept. If so, it sets the duration
    /// of the exclusion.
    fn leaves_out(&mut self, slept: u64, total_ns: u64, slots: usize) -> bool {
        if total_ns == 0 || slept < SLEPT_NS || slept / SLEPT_TIMES < total_ns {
            return false;
        }
        // With all workers, a loop takes 1/`slots` of its time on one thread. Without one of them,
        // it takes 1/(`slots` − 1) of that time. The worker has saved the difference in each loop.
        let slots = slots as u64;
        let saved = self.calm_ns / (slots * (slots - 1)).max(1);
        let longer = match saved / SAVED_TIMES < slept {
            true => self.last_ns * OUT_TIMES,
            false => 0,
        };
        self.last_ns = longer.clamp(OUT_NS_MIN, OUT_NS_MAX);
        self.left_ns = self.last_ns;
        self.calm_ns = 0;
        true
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// The duration of a loop on one thread, in ns. On two threads it takes half as long.
    const LOOP_NS: u64 = 20_000;

    fn shares() -> Shares {
        Table::new(|_| CachePadded::new(Share::new()))
    }

    /// Runs loops of [`LOOP_NS`] on two workers for `span` ns of simulated time. Returns the time
    /// per loop, divided by its duration on one thread. If another process has the CPU of the
    /// second worker, `taken(now)` returns the time at which the worker gets its CPU back.
    fn over_one_thread(span: u64, taken: impl Fn(u64) -> Option<u64>) -> f64 {
        let (mut exclusion, shares) = (Exclusion::default(), shares());
        let (mut now, mut done) = (0, 0);
        while now < span {
            if exclusion.pass(LOOP_NS, &shares) > 0 {
                now += LOOP_NS;
            } else if let Some(until) = taken(now) {
                // The worker had begun its share, which ends when the worker has its CPU back.
                let slept_ns = until - now;
                now = until;
                let straggler = Straggler { slot: 1, slept_ns };
                exclusion.judge(straggler, LOOP_NS, 2, &shares);
            } else {
                now += LOOP_NS / 2;
            }
            done += LOOP_NS;
        }
        now as f64 / done as f64
    }

    /// Returns a function for a process that takes the CPU for `slice` ns, once in every `period`.
    fn once_in(period: u64, slice: u64) -> impl Fn(u64) -> Option<u64> {
        move |now| (now % period < slice).then(|| now - now % period + slice)
    }

    #[test]
    fn a_short_lived_process_does_not_exclude_the_worker() {
        assert_eq!(over_one_thread(1000 * MS, |_| None), 0.5);
        for hits in [5, 10, 20] {
            let took = over_one_thread(4000 * MS, once_in(1000 * MS / hits, 4 * MS));
            // If a worker is never excluded, it loses the time slices and nothing more.
            let never = 0.5 / (1.0 - hits as f64 * 0.004);
            assert!(
                took < never * 1.05,
                "{hits} a second: {took} against {never}"
            );
        }
    }

    #[test]
    fn a_second_process_that_never_ends_does_not_delay_the_loops() {
        for slice in [3, 4, 8] {
            // The other process and the worker take turns on the CPU.
            let took = over_one_thread(4000 * MS, once_in(2 * slice * MS, slice * MS));
            assert!(took < 1.05, "slices of {slice} ms: {took}");
        }
    }
}

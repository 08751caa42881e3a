//! Who is kept out of loops for a while, because it lost its CPU in the middle of one.
//!
//! A worker that is preempted inside a started share holds up the loop for a whole time slice,
//! thousands of times longer than a short loop takes. It is likely to happen again: somebody
//! else has a use for that CPU. So it is left out, for two milliseconds' worth of calls at first
//! (once is chance), for longer each time it happens again before the worker has brought in what it
//! cost.
//!
//! The invariant: what is lost by leaving a worker out is in proportion to what was lost by waiting
//! for it. A machine that is free but for a passing process some times a second keeps its worker;
//! one with a neighbour that never ends does not wait for it more than once in a while.

use super::join::Straggler;
use super::share::Share;
use crate::worker::table::Table;
use crossbeam_utils::CachePadded;

/// The lines of all workers.
type Shares = Table<CachePadded<Share>>;

/// A caller that slept less for a worker has no reason to complain.
const SLEPT_NS: u64 = 400_000;
/// ... nor one that slept less than this many times what the loop takes on one thread.
const SLEPT_TIMES: u64 = 8;
const OUT_NS_MIN: u64 = 2_000_000;
const OUT_NS_MAX: u64 = 320_000_000;
/// How many times longer it is left out when it happens soon again.
const OUT_TIMES: u64 = 4;
/// Soon is before the worker has saved so many times what the caller slept for it.
const SAVED_TIMES: u64 = 4;

/// The workers that are out. Belongs to who holds the loop slot.
#[derive(Default)]
pub(in crate::loops) struct Exclusion {
    /// How many workers are out.
    out: usize,
    /// How much loop time is left until all may come back.
    left_ns: u64,
    /// How long the last one was sent out for.
    last_ns: u64,
    /// Loop time since all were in.
    calm_ns: u64,
}

impl Exclusion {
    /// A loop begins that takes `ns` on one thread; how many workers are out.
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

    /// A caller slept for a worker, in a loop on so many workers that takes `total_ns` on one thread.
    pub(in crate::loops) fn judge(
        &mut self,
        straggler: Straggler,
        total_ns: u64,
        slots: usize,
        shares: &Shares,
    ) {
        let share = shares.at(straggler.slot);
        if self.leaves_out(straggler.slept_ns, total_ns, slots) && !share.sits_out() {
            share.exclusion(true);
            self.out += 1;
        }
    }

    /// Whether a worker that was slept for is to be left out; for how long is decided here.
    fn leaves_out(&mut self, slept: u64, total_ns: u64, slots: usize) -> bool {
        if total_ns == 0 || slept < SLEPT_NS || slept / SLEPT_TIMES < total_ns {
            return false;
        }
        // With one of them less, what takes a `slots`th of the time takes a `slots - 1`th.
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// The time that a loop takes on one thread. On two threads it takes half of that.
    const LOOP_NS: u64 = 20_000;

    fn shares() -> Shares {
        Table::new(|_| CachePadded::new(Share::new()))
    }

    /// Returns how long loops of `span` ns take on two workers, relative to one thread.
    ///
    /// A process that is on the second worker's CPU at `now` keeps it from the worker's thread
    /// until `taken(now)`.
    fn over_one_thread(span: u64, taken: impl Fn(u64) -> Option<u64>) -> f64 {
        let (mut exclusion, shares) = (Exclusion::default(), shares());
        let (mut now, mut done) = (0, 0);
        while now < span {
            if exclusion.pass(LOOP_NS, &shares) > 0 {
                now += LOOP_NS;
            } else if let Some(until) = taken(now) {
                // The share was begun, so it ends only when its worker has its CPU back.
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

    /// A process that takes the CPU for `slice` ns once per `period`.
    fn once_in(period: u64, slice: u64) -> impl Fn(u64) -> Option<u64> {
        move |now| (now % period < slice).then(|| now - now % period + slice)
    }

    #[test]
    fn a_short_lived_process_does_not_exclude_the_worker() {
        assert_eq!(over_one_thread(1000 * MS, |_| None), 0.5);
        for hits in [5, 10, 20] {
            let took = over_one_thread(4000 * MS, once_in(1000 * MS / hits, 4 * MS));
            // A worker that is never excluded loses these slices and nothing more.
            let never = 0.5 / (1.0 - hits as f64 * 0.004);
            assert!(
                took < never * 1.05,
                "{hits} a second: {took} against {never}"
            );
        }
    }

    #[test]
    fn a_neighbour_that_never_ends_does_not_delay_the_loops() {
        for slice in [3, 4, 8] {
            // The process and the worker have the CPU in turns.
            let took = over_one_thread(4000 * MS, once_in(2 * slice * MS, slice * MS));
            assert!(took < 1.05, "slices of {slice} ms: {took}");
        }
    }
}

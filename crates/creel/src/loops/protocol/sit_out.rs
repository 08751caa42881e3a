//! Who is kept out of loops for a while, because it lost its CPU in the middle of one.
//!
//! A worker that is preempted inside a started share holds up the loop for a whole time slice,
//! thousands of times longer than a short loop takes. It is likely to happen again: somebody
//! else has a use for that CPU. So it is left out, for two milliseconds' worth of calls at first
//! (once is chance), for longer each time it happens soon again.

use super::join::Laggard;
use super::share::Share;
use crate::seat::table::Table;
use crossbeam_utils::CachePadded;

/// The lines of all seats.
type Shares = Table<CachePadded<Share>>;

/// A caller that slept less for a worker has no reason to complain.
const SLEPT_NS: u64 = 400_000;
/// ... nor one that slept less than this many times what the loop takes on one thread.
const SLEPT_TIMES: u64 = 8;
const OUT_NS_MIN: u64 = 2_000_000;
const OUT_NS_MAX: u64 = 320_000_000;
/// How many times longer it is left out when it happens soon again.
const OUT_TIMES: u64 = 4;

/// The seats that are out. Belongs to who holds the loop slot.
#[derive(Default)]
pub(in crate::loops) struct SitOut {
    /// How many seats are out.
    out: usize,
    /// How much loop time is left until all may come back.
    left_ns: u64,
    /// How long the last one was sent out for.
    last_ns: u64,
    /// Loop time since all were in, up to [`OUT_NS_MAX`].
    calm_ns: u64,
}

impl SitOut {
    /// A loop begins that takes `ns` on one thread; how many seats are out.
    pub(in crate::loops) fn pass(&mut self, ns: u64, shares: &Shares) -> usize {
        if self.out == 0 {
            self.calm_ns = (self.calm_ns + ns).min(OUT_NS_MAX);
            return 0;
        }
        self.left_ns = self.left_ns.saturating_sub(ns);
        if self.left_ns == 0 {
            shares.made().for_each(|share| share.sit_out(false));
            self.out = 0;
        }
        self.out
    }

    /// A caller slept for a worker, in a loop that takes `total_ns` on one thread.
    pub(in crate::loops) fn judge(&mut self, laggard: Laggard, total_ns: u64, shares: &Shares) {
        let slept = laggard.slept_ns;
        if total_ns == 0 || slept < SLEPT_NS || slept / SLEPT_TIMES < total_ns {
            return;
        }
        let longer = if self.calm_ns < OUT_NS_MAX {
            self.last_ns * OUT_TIMES
        } else {
            0
        };
        self.last_ns = longer.clamp(OUT_NS_MIN, OUT_NS_MAX);
        self.left_ns = self.last_ns;
        self.calm_ns = 0;
        let share = shares.at(laggard.seat);
        if !share.sits_out() {
            share.sit_out(true);
            self.out += 1;
        }
    }
}

//! The cutoff of a recursion: the depth from which a join is two plain calls.
//!
//! A fork that nobody steals costs a few nanoseconds. If the closures themselves take only a few
//! nanoseconds, even this is too much. Most of the cost is indirect: the processor looks ahead over
//! fewer of the program's own instructions, and therefore waits longer for memory. A recursion
//! usually has many more small forks than large ones, so we do not offer the small ones.
//!
//! We find the depth by measuring, again in each outermost join:
//!
//! 1. The first [`LEARN`] forks are all offered. After that we time forks, and still offer all of
//!    them. Once [`TINY_FIRST`] of them were shorter than [`LEAF`], the cutoff lies just below the
//!    last of these.
//! 2. From then on we time each fork at the *edge*, which is the last level above the cutoff. If
//!    these forks are short, the edge moves up. If one is long, the edge moves down.
//! 3. If more than [`CREDIT`] joins happen below one fork at the edge, the recursion is deeper
//!    there than elsewhere, and the edge moves down at once.
//!
//! Therefore we leave a fork unoffered only if the forks at its place have just been measured, and
//! each of them took less than a few microseconds. A thief would need as long as that to steal the
//! fork.

use crate::sync::{AtomicBool, AtomicUsize, Ordering};

/// The time that the first closure of a fork at the edge (the last level at which forks are
/// offered) should take, in units of [`stamp`]. It is one to two microseconds.
const LEAF: u64 = 2_000;
/// The number of forks at the beginning of a recursion that are offered in any case.
const LEARN: usize = 64;
/// The number of short forks after which we set the cutoff, and the number after which we move it
/// up.
const TINY_FIRST: usize = 4;
const TINY: usize = 8;
/// The maximum number of joins below one fork at the edge. After more joins, the edge moves down.
const CREDIT: usize = 1_024;
/// If a fork shows that the edge is much too high, the cutoff moves to this number of levels below
/// that fork.
const DOWN: usize = 4;

/// The cutoff of the recursion that a thread is in. Only this thread writes it. A thief reads `at`,
/// so that it begins with its victim's cutoff. Relaxed is enough, because all values are only
/// hints.
pub(in crate::loops) struct Cutoff {
    /// The number of joins of this recursion that enclose the running code and are above the
    /// cutoff.
    depth: AtomicUsize,
    /// The depth from which forks are not offered. It is 0 while the thread is learning.
    at: AtomicUsize,
    /// The number of joins that may still happen below the current fork at the edge. It is 0 while
    /// the code is not below such a fork. While it is not 0, a join only calls its two closures one
    /// after the other.
    credit: AtomicUsize,
    /// Whether the code is below a fork at the edge. It stays true when the credit of that fork is
    /// used up.
    below: AtomicBool,
    /// The number of forks so far, while the thread is learning.
    forks: AtomicUsize,
    /// The number of timed forks that were short. It returns to 0 when the cutoff is set or moves
    /// up. After the cutoff is set, a timed fork at the edge that is not short resets it as well.
    tiny: AtomicUsize,
}

/// A place in a recursion of joins: the depth, and the cutoff that is known there.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    depth: usize,
    at: usize,
}

#[inline(always)]
fn get(value: &AtomicUsize) -> usize {
    value.load(Ordering::Relaxed)
}

#[inline(always)]
fn set(value: &AtomicUsize, to: usize) {
    value.store(to, Ordering::Relaxed);
}

/// Returns the depth to which the cutoff moves up from depth `from`, which is at least 1. A fork
/// just above the cutoff took `time`. In a balanced recursion, a fork takes twice as long one level
/// up, and we stop one level before a fork would take [`LEAF`].
fn up(from: usize, time: u64) -> usize {
    let levels = (LEAF / time.max(1)).max(1).ilog2() as usize;
    from.saturating_sub(levels.max(1)).max(1)
}

/// Returns a time in units of roughly half a nanosecond to a nanosecond.
#[inline(always)]
pub(in crate::loops) fn stamp() -> u64 {
    #[cfg(all(
        target_arch = "x86_64",
        not(miri),
        not(creel_loom),
        not(creel_shuttle),
        not(creel_sim)
    ))]
    // SAFETY: every x86-64 processor has this instruction.
    return unsafe { std::arch::x86_64::_rdtsc() } / 2;
    #[cfg(not(all(
        target_arch = "x86_64",
        not(miri),
        not(creel_loom),
        not(creel_shuttle),
        not(creel_sim)
    )))]
    return crate::sync::now_ns();
}

impl Cutoff {
    pub(super) fn new() -> Self {
        Self {
            depth: AtomicUsize::new(0),
            at: AtomicUsize::new(0),
            credit: AtomicUsize::new(0),
            below: AtomicBool::new(false),
            forks: AtomicUsize::new(0),
            tiny: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    pub(in crate::loops) fn depth(&self) -> usize {
        get(&self.depth)
    }

    /// Returns the place of a fork at this depth.
    pub(super) fn place(&self, depth: usize) -> Place {
        let at = get(&self.at);
        Place { depth, at }
    }

    /// Moves the thread to another place in a recursion. Returns the place at which the thread was
    /// before.
    pub(super) fn go_to(&self, to: Place) -> Place {
        let from = self.place(self.depth());
        set(&self.depth, to.depth);
        set(&self.at, to.at);
        self.set_credit(0);
        set(&self.forks, 0);
        set(&self.tiny, 0);
        from
    }

    /// Returns whether the next join is two plain calls, because it is below a fork at the edge. If
    /// so, takes one of the joins that may still happen there.
    #[inline(always)]
    pub(in crate::loops) fn is_below(&self) -> bool {
        let credit = get(&self.credit);
        if credit == 0 {
            return false;
        }
        set(&self.credit, credit - 1);
        true
    }

    /// Begins a fork at this depth. Returns whether it is timed.
    #[inline(always)]
    pub(in crate::loops) fn begin(&self, depth: usize) -> bool {
        set(&self.depth, depth + 1);
        get(&self.at) <= depth + 1 && self.begin_at_edge(depth)
    }

    /// Begins a fork at or below the edge, or a fork of a thread that is still learning.
    #[cold]
    #[inline(never)]
    fn begin_at_edge(&self, depth: usize) -> bool {
        let at = get(&self.at);
        if at == 0 {
            let forks = get(&self.forks) + 1;
            set(&self.forks, forks);
            return forks > LEARN;
        }
        if !self.below.load(Ordering::Relaxed) {
            self.set_credit(CREDIT);
            return true;
        }
        // More than `CREDIT` joins happened below the current fork at the edge. Therefore the edge
        // is too high in this part of the recursion.
        set(&self.at, depth + DOWN);
        false
    }

    fn set_credit(&self, credit: usize) {
        set(&self.credit, credit);
        self.below.store(credit > 0, Ordering::Relaxed);
    }

    /// Ends a fork at this depth.
    #[inline(always)]
    pub(in crate::loops) fn end(&self, depth: usize) {
        set(&self.depth, depth);
        self.set_credit(0);
    }

    /// Updates the cutoff after a timed fork at `depth`, whose first closure took `time`.
    #[cold]
    #[inline(never)]
    pub(in crate::loops) fn learn(&self, depth: usize, time: u64) {
        let at = get(&self.at);
        if at == 0 {
            if time < LEAF && self.is_tiny(TINY_FIRST) {
                set(&self.at, up(depth + 2, time));
            }
            return;
        }
        if at > depth + 1 {
            // This fork is above the edge. It was timed before the cutoff was known, or the cutoff
            // has moved since.
            return;
        }
        self.set_credit(CREDIT);
        if time < LEAF / 2 {
            if at == depth + 1 && depth > 0 && self.is_tiny(TINY) {
                set(&self.at, up(at, time));
            }
            return;
        }
        set(&self.tiny, 0);
        if time > 8 * LEAF {
            set(&self.at, depth + DOWN);
        } else if time > 2 * LEAF {
            set(&self.at, depth + 2);
        }
    }

    /// Counts a short fork. Returns true once there have been `enough` short forks.
    fn is_tiny(&self, enough: usize) -> bool {
        let tiny = get(&self.tiny) + 1;
        set(&self.tiny, tiny % enough);
        tiny == enough
    }
}

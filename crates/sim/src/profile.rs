//! Shows what the threads of a simulation wait for: accesses to shared memory, wakes, starts of
//! threads, and readings of the clock.

use crate::arena;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::Location;

/// The steps from one position in the source, in all threads of all simulations.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// The position in the source.
    pub at: &'static Location<'static>,
    /// The number of steps.
    pub steps: u64,
    /// The number of cache lines that they accessed, which is 0 for system calls.
    pub lines: usize,
    /// The time in nanoseconds for which threads waited, or which a buffered store took.
    pub ns: u64,
    /// The part of `ns` that the first thread of the simulation spent. In the curves, this thread
    /// is the caller.
    pub first_ns: u64,
}

#[derive(Default)]
struct Counted {
    steps: u64,
    ns: u64,
    first_ns: u64,
    lines: std::collections::HashSet<usize>,
}

type Counts = HashMap<&'static Location<'static>, Counted>;

thread_local! {
    static COUNTS: RefCell<Option<Counts>> = const { RefCell::new(None) };
    /// Whether steps are not counted now. [`profile_only`] sets this when its closure has ended.
    static STOPPED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, and counts the steps of the simulations in it. Returns the positions with the
/// longest waits first.
pub fn profile<R>(f: impl FnOnce() -> R) -> (R, Vec<Waited>) {
    COUNTS.set(Some(Counts::new()));
    STOPPED.set(false);
    let result = f();
    let counts = COUNTS.take().unwrap_or_default();
    let waited = |(at, counted): (_, Counted)| Waited {
        at,
        steps: counted.steps,
        lines: counted.lines.len(),
        ns: counted.ns,
        first_ns: counted.first_ns,
    };
    let mut all: Vec<_> = counts.into_iter().map(waited).collect();
    all.sort_by_key(|waited| std::cmp::Reverse((waited.ns, waited.steps)));
    (result, all)
}

/// Runs `f`, and restricts the profile to the steps that are made while `f` runs. If you call this
/// function several times, the profile contains the last call only.
pub fn profile_only<R>(f: impl FnOnce() -> R) -> R {
    COUNTS.with_borrow_mut(|counts| {
        if let Some(counts) = counts {
            arena::paused(|| counts.clear());
        }
    });
    STOPPED.set(false);
    let result = f();
    STOPPED.set(true);
    result
}

/// Adds a step of `ns` nanoseconds at the caller's position to the profile, if one is being made.
/// `is_first` is true if the first thread of the simulation made the step.
#[track_caller]
pub(crate) fn count(address: Option<usize>, ns: u64, is_first: bool) {
    let at = Location::caller();
    if STOPPED.get() {
        return;
    }
    COUNTS.with_borrow_mut(|counts| {
        let Some(counts) = counts else { return };
        arena::paused(|| {
            let counted = counts.entry(at).or_default();
            counted.steps += 1;
            counted.ns += ns;
            counted.first_ns += if is_first { ns } else { 0 };
            counted.lines.extend(address.map(|address| address / 64));
        });
    });
}

//! Shows which accesses to shared memory a simulation waits for.

use crate::arena;
use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;

/// The accesses from one position in the source, in all threads of all simulations.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// The position in the source.
    pub at: &'static Location<'static>,
    /// The number of accesses.
    pub accesses: u64,
    /// The number of cache lines that were accessed.
    pub lines: usize,
    /// The time in nanoseconds for which threads waited, or for which a store was buffered.
    pub ns: u64,
}

#[derive(Default)]
struct Counted {
    accesses: u64,
    ns: u64,
    lines: std::collections::HashSet<usize>,
}

type Counts = HashMap<&'static Location<'static>, Counted>;

thread_local! {
    static COUNTS: RefCell<Option<Counts>> = const { RefCell::new(None) };
}

/// Runs `f`, and counts the accesses of the simulations in it. Returns the positions with the
/// longest waits first.
pub fn profile<R>(f: impl FnOnce() -> R) -> (R, Vec<Waited>) {
    COUNTS.set(Some(Counts::new()));
    let result = f();
    let counts = COUNTS.take().unwrap_or_default();
    let waited = |(at, counted): (_, Counted)| Waited {
        at,
        accesses: counted.accesses,
        lines: counted.lines.len(),
        ns: counted.ns,
    };
    let mut all: Vec<_> = counts.into_iter().map(waited).collect();
    all.sort_by_key(|waited| std::cmp::Reverse((waited.ns, waited.accesses)));
    (result, all)
}

/// Counts an access to `address` that took `ns`, if a profile is being made.
#[track_caller]
pub(crate) fn count(address: usize, ns: u64) {
    let at = Location::caller();
    COUNTS.with_borrow_mut(|counts| {
        let Some(counts) = counts else { return };
        arena::paused(|| {
            let counted = counts.entry(at).or_default();
            counted.accesses += 1;
            counted.ns += ns;
            counted.lines.insert(address / 64);
        });
    });
}

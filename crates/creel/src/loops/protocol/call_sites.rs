//! The call sites of loops. For each place that calls a loop, we remember its cost and the bounds
//! of its shares.
//!
//! The sites are in a small table of fixed size. The key consists of the place in the source, the
//! closure's code, the number of units, the number of workers, and a number that the caller may
//! choose ([`Pool::with_site`]). The code is part of the key because a generic function has one
//! place but many closures. The caller's number is part of it because a function that takes a
//! function pointer has one closure for many loops. If a site is not in the table, its loop is
//! divided evenly, and the site replaces the one in its set that was used least recently. The table
//! never changes a result. It only decides which worker visits which items.
//!
//! A loop may not be worth waking the sleeping workers on its own. All sites together decide
//! whether to wake them ([`Alone`]), because a program often calls small loops one after the other
//! from many places.
//!
//! [`Pool::with_site`]: crate::Pool::with_site

use super::call::{Even, Grain};
use std::panic::Location;

/// The size of the table: the number of sets, and the number of sites in each set.
const SETS: usize = 16;
const SITES_PER_SET: usize = 4;
/// The first `TIMED_AT_FIRST` calls of a site are all timed, and then one in `TIMED_EVERY`. Of the
/// calls that their caller runs alone, we also time one in `INLINE_TIMED_EVERY`, because a call
/// that has become long is only noticed when it is timed. Of the tiny calls we time only one in
/// `INLINE_TIMED_EVERY`. This number is odd, because two loops that share a site often take turns.
const TIMED_AT_FIRST: u64 = 4;
const TIMED_EVERY: u64 = 32;
const INLINE_TIMED_EVERY: u64 = 31;
/// The shortest duration in ns for which a loop is spread over workers. It is about twice what it
/// costs to publish a loop to workers that spin.
const SPREAD_NS: u64 = 300;
/// Calls that find the workers asleep, and follow each other within this time in ns, count as one
/// long call.
const FOLLOWING_NS: u64 = 20_000;
/// We wake the workers after calls that found them asleep have taken a certain time in total. These
/// are the smallest and largest values of this time, as multiples of the cost of a wake-up.
const WAKES_MIN: u64 = 1;
const WAKES_MAX: u64 = 1024;
/// The number of timed calls after which we decide whether the shares are even.
const SAMPLES: u32 = 4;
/// The amount of work, in ns, that a claim should be worth at least.
const CLAIM_NS: u64 = 1_000;
/// `MOVES_MAX` is how often the shares of a site are moved before only stealing evens them out.
/// `MOVE_AGAIN` is the number of timed calls after which they may be moved once more.
const MOVES_MAX: u32 = 12;
const MOVE_AGAIN: u64 = 64;

/// The call sites. The hash of a site's key selects a set, and the site is in one of the places of
/// this set.
#[derive(Default)]
pub(in crate::loops) struct Sites {
    sites: Vec<Site>,
    /// The number of lookups in the table so far.
    looks: u64,
    alone: Alone,
}

/// The key that identifies a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::loops) struct Key {
    /// The addresses of the place in the source and of the closure's code.
    place: usize,
    code: usize,
    /// The number that the caller has chosen, or 0.
    chosen: u64,
    units: usize,
    slots: usize,
}

/// Loops that found the workers asleep, if they follow each other closely. Their callers ran them
/// alone.
///
/// We use the rule of the rent-or-buy problem. When such loops have taken as long as a wake-up
/// costs, we wake the workers. If the workers are asleep again before another loop has found them
/// awake, the loops must take four times as long the next time.
#[derive(Debug)]
pub(in crate::loops) struct Alone {
    /// The time at which the last loop that found the workers asleep began.
    last_ns: u64,
    /// The duration of that loop on one thread, in ns.
    last_took_ns: u64,
    /// The total duration on one thread, in ns, of the consecutive loops that found the workers
    /// asleep.
    spent_ns: u64,
    /// When the consecutive loops have taken this long in total, we wake the workers. It is a
    /// multiple of the cost of a wake-up.
    wakes: u64,
}

/// The data that we remember of one call site.
#[derive(Default)]
pub(in crate::loops) struct Site {
    key: Key,
    /// The number of the lookup that last used this site, so that we can replace the site that was
    /// used least recently.
    looked: u64,
    calls: u64,
    /// The average duration of a call of this loop on one thread, in ns.
    total_ns: u64,
    /// The duration of the last timed call in ns, if it was far above the average or far below it,
    /// and otherwise 0. In the first case we time the next call, and believe both durations if they
    /// agree.
    jumped_ns: u64,
    /// The shortest duration of each share in the last few timed calls. We use the minimum, because
    /// disturbances only increase the duration.
    costs: Vec<u64>,
    samples: u32,
    bounds: Vec<usize>,
    /// The value of `bounds` when the shares were last moved. We keep it to reuse its memory.
    bounds_before: Vec<usize>,
    moves: u32,
    uneven: bool,
}

/// The way in which a call is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::loops) enum Plan {
    /// The caller runs the loop alone, because sharing it would cost more than it saves.
    Inline {
        /// Whether to measure the loop's duration.
        timed: bool,
    },
    /// All workers of the loop run it.
    Spread {
        /// The smallest number of blocks that is claimed at once.
        grain: Grain,
        /// Whether to measure the duration of each share.
        timed: bool,
    },
}

impl Key {
    /// Creates a key. `code` is the address of the closure's code, and `chosen` the number that the
    /// caller has chosen.
    pub(in crate::loops) fn new(
        place: &'static Location<'static>,
        code: usize,
        chosen: u64,
        units: usize,
        slots: usize,
    ) -> Self {
        Self {
            place: std::ptr::from_ref(place).addr(),
            code,
            chosen,
            units,
            slots,
        }
    }

    /// Returns the index of the set for this key.
    fn set(self) -> usize {
        let addresses =
            self.place as u64 ^ (self.code as u64).rotate_left(23) ^ self.chosen.rotate_left(47);
        let numbers = self.units as u64 ^ (self.slots as u64).rotate_left(41);
        let mixed = addresses.wrapping_add(numbers.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SETS.ilog2())) as usize
    }
}

impl Sites {
    /// Returns the site with this key, and the data that all sites share.
    pub(in crate::loops) fn find(&mut self, key: Key) -> (&mut Site, &mut Alone) {
        if self.sites.is_empty() {
            self.sites.resize_with(SETS * SITES_PER_SET, Site::default);
        }
        self.looks += 1;
        let first = key.set() * SITES_PER_SET;
        let set = &mut self.sites[first..first + SITES_PER_SET];
        let at = set.iter().position(|site| site.key == key);
        let at = at.unwrap_or_else(|| {
            let least = (0..SITES_PER_SET).min_by_key(|at| set[*at].looked);
            let least = least.expect("a set has places");
            set[least].reset(key);
            least
        });
        let site = &mut set[at];
        site.looked = self.looks;
        (site, &mut self.alone)
    }
}

impl Default for Alone {
    fn default() -> Self {
        Self {
            last_ns: 0,
            last_took_ns: 0,
            spent_ns: 0,
            wakes: WAKES_MIN,
        }
    }
}

impl Alone {
    /// Returns whether to wake the sleeping workers for a loop that is called at `now` and takes
    /// `total_ns` on one thread. A wake-up costs `wake_ns`. We wake them if enough such loops
    /// follow each other.
    fn wakes(&mut self, now: u64, total_ns: u64, wake_ns: u64) -> bool {
        let soon = now.saturating_sub(self.last_ns) < FOLLOWING_NS + self.last_took_ns;
        self.spent_ns = if soon { self.spent_ns } else { 0 } + total_ns;
        (self.last_ns, self.last_took_ns) = (now, total_ns);
        let wake = self.spent_ns > self.wakes * wake_ns;
        if wake {
            self.spent_ns = 0;
            self.wakes = (self.wakes * 4).min(WAKES_MAX);
        }
        wake
    }

    /// Records that a loop has found the workers awake.
    fn hot(&mut self) {
        self.wakes = WAKES_MIN;
    }
}

impl Site {
    fn reset(&mut self, key: Key) {
        let Key { units, slots, .. } = key;
        let take = std::mem::take::<Vec<usize>>;
        let (mut bounds, mut bounds_before) =
            (take(&mut self.bounds), take(&mut self.bounds_before));
        let mut costs = std::mem::take(&mut self.costs);
        costs.clear();
        costs.resize(slots, 0);
        bounds.clear();
        let even = Even::new(units, slots);
        bounds.extend((0..=slots).map(|share| even.at(share)));
        bounds_before.clone_from(&bounds);
        *self = Self {
            key,
            costs,
            bounds,
            bounds_before,
            ..Self::default()
        };
    }

    /// Returns whether the caller can simply run the call that begins now, because it is known to
    /// be small and need not be measured this time. Otherwise [`plan`](Self::plan) decides how to
    /// run it.
    pub(in crate::loops) fn is_tiny(&mut self) -> bool {
        let known = self.calls >= TIMED_AT_FIRST && !self.calls.is_multiple_of(INLINE_TIMED_EVERY);
        let tiny = known && self.total_ns < SPREAD_NS && self.jumped_ns == 0;
        self.calls += u64::from(tiny);
        tiny
    }

    /// Returns the average duration of a call of this loop on one thread, in ns.
    pub(in crate::loops) fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Returns the index at which each share begins, followed by the end of the last one.
    pub(in crate::loops) fn bounds(&self) -> &[usize] {
        &self.bounds
    }

    /// Decides how to run the next call. `cold` is `None` if no worker sleeps. Otherwise it is the
    /// duration on one thread, in ns, from which a loop is worth a wake-up. `now_ns` returns the
    /// time.
    pub(in crate::loops) fn plan(
        &mut self,
        alone: &mut Alone,
        cold: Option<u64>,
        now_ns: impl Fn() -> u64,
    ) -> Plan {
        let call = self.calls;
        self.calls += 1;
        let learning = self.uneven && self.moves < MOVES_MAX;
        let small = self.total_ns < SPREAD_NS;
        let timed = call < TIMED_AT_FIRST
            || learning
            || call.is_multiple_of(TIMED_EVERY)
            || self.jumped_ns > 0;
        if call >= TIMED_AT_FIRST {
            let wake_pays = cold.is_none_or(|pays_ns| {
                self.total_ns > pays_ns || !small && alone.wakes(now_ns(), self.total_ns, pays_ns)
            });
            if small || !wake_pays {
                let timed = timed || call.is_multiple_of(INLINE_TIMED_EVERY);
                return Plan::Inline { timed };
            }
        }
        if cold.is_none() {
            alone.hot();
        }
        let grain = self.grain(cold.is_some());
        Plan::Spread { grain, timed }
    }

    /// Returns the grain. Shares that are known to be short are claimed as a whole. The other
    /// shares are claimed in smaller pieces in three cases: in the first call, if they are uneven
    /// or were moved, and if the call wakes workers. Woken workers come late, so the others must be
    /// able to help.
    fn grain(&self, cold: bool) -> Grain {
        let share_ns = self.total_ns / self.costs.len() as u64;
        let known = self.calls > 1;
        if known && share_ns < 2 * CLAIM_NS {
            Grain::WHOLE
        } else if known && !self.uneven && self.moves == 0 && !cold {
            Grain(4)
        } else {
            let claim = (CLAIM_NS << 6) / share_ns.max(CLAIM_NS);
            Grain(claim.next_power_of_two().ilog2().min(4))
        }
    }

    /// Learns the duration of a call on one thread.
    ///
    /// A single bad measurement, for example because the thread was preempted, must not count for
    /// much. However, if two in a row are far from the average on the same side, the loop has
    /// changed.
    pub(in crate::loops) fn learn_total(&mut self, ns: u64) {
        let (total, before) = (self.total_ns, self.jumped_ns);
        let is_above = |ns: u64| ns > 4 * total + CLAIM_NS;
        let is_below = |ns: u64| 4 * ns + CLAIM_NS < total;
        self.jumped_ns = 0;
        self.total_ns = if total == 0 {
            ns
        } else if is_above(ns) && is_above(before) {
            ns.min(before)
        } else if is_below(ns) && before > 0 && is_below(before) {
            ns.max(before)
        } else {
            if is_above(ns) || is_below(ns) {
                self.jumped_ns = ns.max(1);
            }
            (3 * total + ns.min(4 * total + CLAIM_NS)) / 4
        };
    }

    /// Learns the duration of each share of a call, and moves the shares if that is worth it.
    pub(in crate::loops) fn learn(&mut self, cost: impl Fn(usize) -> u64) {
        let mut total = 0;
        for (slot, least) in self.costs.iter_mut().enumerate() {
            let ns = cost(slot);
            total += ns;
            *least = if self.samples == 0 {
                ns
            } else {
                ns.min(*least)
            };
        }
        self.learn_total(total);
        self.samples += 1;
        if self.samples < SAMPLES {
            return;
        }
        self.samples = 0;
        let total: u64 = self.costs.iter().sum();
        let most = self.costs.iter().copied().max().unwrap_or(0);
        // Shares that were never moved stay as they are until the longest takes a quarter more than
        // the mean, because their data is in the caches. After the first move, an eighth is the
        // limit.
        let parts = if self.moves == 0 { 4 } else { 8 };
        self.uneven = most * self.costs.len() as u64 * parts > total * (parts + 1);
        if self.uneven && self.moves < MOVES_MAX {
            self.move_shares(total);
        } else if self.calls / TIMED_EVERY > MOVE_AGAIN {
            self.calls = TIMED_AT_FIRST;
            self.moves = self.moves.min(MOVES_MAX - 1);
        }
    }

    /// Moves the bounds half of the way to where all shares would take equally long, if the cost
    /// were spread evenly inside each share.
    fn move_shares(&mut self, total: u64) {
        let slots = self.costs.len();
        self.bounds_before.clone_from(&self.bounds);
        let old = &self.bounds_before;
        let (mut share, mut before) = (0, 0);
        for bound in 1..slots {
            let goal = (u128::from(total) * bound as u128 / slots as u128) as u64;
            while share + 1 < slots && before + self.costs[share] < goal {
                before += self.costs[share];
                share += 1;
            }
            let len = (old[share + 1] - old[share]) as f64;
            let part = (goal - before) as f64 / self.costs[share].max(1) as f64;
            let at = old[share] + (len * part.min(1.0)) as usize;
            self.bounds[bound] = (old[bound] + at).div_ceil(2).max(self.bounds[bound - 1]);
        }
        self.moves += 1;
    }
}

#[cfg(all(test, not(any(creel_loom, creel_shuttle))))]
mod tests {
    use super::*;

    /// The cost of a wake-up, and the duration of one loop in these tests on one thread, in ns.
    const WAKE_NS: u64 = 14_000;
    const LOOP_NS: u64 = 8_000;

    fn key(code: usize) -> Key {
        Key::new(Location::caller(), code, 0, 256, 2)
    }

    /// Calls the sites of `closures` closures, until the table knows all of them.
    fn cache(sites: &mut Sites, closures: usize) {
        for _ in 0..=TIMED_AT_FIRST {
            for code in 0..closures {
                let (site, alone) = sites.find(key(code));
                site.plan(alone, None, || 0);
                site.learn_total(LOOP_NS);
            }
        }
    }

    /// Calls loops one after the other for `span` ns, with `pause` ns in between, from `closures`
    /// sites. The workers sleep unless they were woken, and then stay awake for `awake` loops.
    /// Returns the number of loops that the workers missed, the number of all loops, and how often
    /// the workers were woken.
    fn calls(closures: usize, pause: u64, span: u64, awake: u64) -> (u64, u64, u64) {
        let mut sites = Sites::default();
        cache(&mut sites, closures);
        let (mut now, mut loops, mut missed, mut wakes, mut awake_for) = (1 << 40, 0, 0, 0, 0);
        let end = now + span;
        while now < end {
            let (site, alone) = sites.find(key(loops as usize % closures));
            let cold = (awake_for == 0).then_some(WAKE_NS);
            match site.plan(alone, cold, || now) {
                Plan::Inline { .. } => missed += 1,
                Plan::Spread { .. } if cold.is_some() => (wakes, awake_for) = (wakes + 1, awake),
                Plan::Spread { .. } => awake_for -= 1,
            }
            loops += 1;
            now += LOOP_NS + pause;
        }
        (missed, loops, wakes)
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn consecutive_loops_wake_the_workers_from_any_call_site() {
        for closures in [1, 3, 20] {
            let (missed, _, wakes) = calls(closures, 300, SECOND, u64::MAX);
            assert!(
                missed * LOOP_NS <= WAKE_NS && wakes == 1,
                "{closures}: {missed}"
            );
            // Now the workers fall asleep again after 100 loops. Each time, they miss only loops
            // that together take about as long as a wake-up costs.
            let (missed, loops, wakes) = calls(closures, 300, SECOND, 100);
            assert!(
                missed <= wakes * WAKE_NS.div_ceil(LOOP_NS),
                "{closures}: {missed}"
            );
            assert!(missed * 40 < loops, "{closures}: {missed} of {loops}");
        }
    }

    #[test]
    fn a_small_loop_runs_on_its_caller_except_timed_calls() {
        let mut sites = Sites::default();
        for (ns, small) in [(SPREAD_NS / 2, true), (SPREAD_NS * 2, false)] {
            let (mut tiny, code) = (0, ns as usize);
            for _ in 0..INLINE_TIMED_EVERY {
                let (site, alone) = sites.find(key(code));
                if site.is_tiny() {
                    tiny += 1;
                } else {
                    site.plan(alone, None, || 0);
                    site.learn_total(ns);
                }
            }
            let most = INLINE_TIMED_EVERY - TIMED_AT_FIRST;
            assert_eq!(tiny, if small { most } else { 0 }, "{ns} ns");
        }
    }

    /// Two loops may share a site, for example if they are called through a function pointer.
    #[test]
    fn a_loop_that_becomes_long_is_shared_after_a_few_calls() {
        // The first duration is too short to share, the second is not worth a wake-up.
        for short_ns in [SPREAD_NS / 8, SPREAD_NS * 2] {
            becomes_long(short_ns);
        }
    }

    fn becomes_long(short_ns: u64) {
        const LONG_NS: u64 = 1_000_000;
        let mut sites = Sites::default();
        let (mut shared, mut calls) = (None, 0);
        for call in 0..200 {
            let (site, alone) = sites.find(key(1));
            let ns = if call < 40 { short_ns } else { LONG_NS };
            let plan = match site.is_tiny() {
                true => continue,
                false => site.plan(alone, Some(WAKE_NS), || call * LONG_NS),
            };
            if call >= 40 && matches!(plan, Plan::Spread { .. }) {
                shared.get_or_insert(call - 40);
                calls += 1;
            }
            let (Plan::Inline { timed } | Plan::Spread { timed, .. }) = plan;
            if timed {
                site.learn_total(ns);
            }
        }
        let first = shared.expect("the long loop must be shared");
        assert!(
            first <= INLINE_TIMED_EVERY + 2,
            "shared after {first} calls"
        );
        assert_eq!(calls, 160 - first, "and every time from then on");
    }

    #[test]
    fn a_single_outlier_hardly_changes_the_measured_duration() {
        let mut site = Site::default();
        site.reset(key(1));
        for _ in 0..4 {
            site.learn_total(LOOP_NS);
        }
        site.learn_total(1000 * LOOP_NS);
        assert!(site.total_ns() < 2 * LOOP_NS, "{}", site.total_ns());
        site.learn_total(LOOP_NS);
        site.learn_total(1000 * LOOP_NS);
        assert!(site.total_ns() < 3 * LOOP_NS, "{}", site.total_ns());
    }

    #[test]
    fn no_worker_is_woken_without_work() {
        let (missed, loops, wakes) = calls(3, 100_000, SECOND, 0);
        assert_eq!((missed, wakes), (loops, 0), "each is alone");
        let (_, loops, wakes) = calls(3, 300, SECOND, 0);
        assert!(
            wakes < 100,
            "{wakes} of {loops}, and never awake by the next"
        );
    }

    #[test]
    fn call_sites_of_one_set_do_not_evict_each_other() {
        let set = key(0).set();
        let same = (0..10_000).filter(|code| key(*code).set() == set);
        let same: Vec<usize> = same.take(SITES_PER_SET + 1).collect();
        let mut sites = Sites::default();
        for call in 0..100 {
            for code in &same[..SITES_PER_SET] {
                assert_eq!(sites.find(key(*code)).0.calls, call);
                sites.find(key(*code)).0.calls += 1;
            }
        }
        // One more site replaces the one that was used least recently.
        assert_eq!(sites.find(key(same[SITES_PER_SET])).0.calls, 0);
        assert_eq!(sites.find(key(same[1])).0.calls, 100);
        assert_eq!(sites.find(key(same[0])).0.calls, 0);
    }
}

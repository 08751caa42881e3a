//! What is remembered of each place that calls a loop: what it costs, where its shares lie.
//!
//! A small fixed table, keyed by the place in the source, the closure's code (a generic function
//! has one place and many closures) and the number of units. A miss is an even split; a new site
//! takes the place of the one that was called least lately. Nothing here changes an outcome: only
//! which worker visits which items.
//!
//! Whether to wake workers who sleep for a loop that is not worth it alone is a matter of all sites
//! together ([`Alone`]): a program's small loops come one after the other, from many places.

use super::call::{Even, Grain};
use std::panic::Location;

/// The table: so many sets of so many sites.
const SETS: usize = 16;
const SITES_PER_SET: usize = 4;
/// The first calls of a site are all timed, and then one in so many.
const TIMED_AT_FIRST: u64 = 4;
const TIMED_EVERY: u64 = 32;
/// A loop is spread only if it takes longer than this: about twice what it costs to call
/// workers that spin.
const SPREAD_NS: u64 = 300;
/// Cold calls that follow each other within this time are as good as one long one.
const FOLLOWING_NS: u64 = 20_000;
/// How many times what a wake costs they may take in all before the workers are woken.
const WAKES_MIN: u64 = 1;
const WAKES_MAX: u64 = 1024;
/// How many timed calls tell whether the shares are even.
const SAMPLES: u32 = 4;
/// A claim should be worth at least this much work.
const CLAIM_NS: u64 = 1_000;
/// How often the shares of a site are moved before stealing alone must even them out, and
/// after how many timed calls they may be moved once more.
const MOVES_MAX: u32 = 12;
const MOVE_AGAIN: u64 = 64;

/// The sites, each in one of the places of the set that its key's hash gives.
#[derive(Default)]
pub(in crate::loops) struct Sites {
    sites: Vec<Site>,
    /// How many sites were looked for.
    looks: u64,
    alone: Alone,
}

/// What tells a site from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::loops) struct Key {
    /// The addresses of its place in the source, and of its closure's code.
    place: usize,
    code: usize,
    units: usize,
    slots: usize,
}

/// The loops that their callers ran alone because the workers slept, one soon after the other.
///
/// The rule is that of who rents or buys: when such loops have taken as long as a wake costs, the
/// workers are woken. If they are asleep again before another loop has found them awake, it takes
/// four times as much the next time.
#[derive(Debug)]
pub(in crate::loops) struct Alone {
    /// When the last one began, and what it takes.
    last_ns: u64,
    last_took_ns: u64,
    /// What they have taken in all.
    spent_ns: u64,
    /// How many wakes' cost they must take.
    wakes: u64,
}

/// What is remembered of one site.
#[derive(Default)]
pub(in crate::loops) struct Site {
    key: Key,
    /// When it was last looked for, in looks.
    looked: u64,
    calls: u64,
    /// What a call takes in all, on one thread; an average.
    total_ns: u64,
    /// What each share took at least, of the last few timed calls: what disturbs a call only
    /// adds to it.
    costs: Vec<u64>,
    samples: u32,
    bounds: Vec<usize>,
    /// What `bounds` were when the shares were moved last; kept for its memory.
    bounds_before: Vec<usize>,
    moves: u32,
    uneven: bool,
}

/// How a call is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::loops) enum Plan {
    /// By its caller alone: sharing it would cost more than it brings.
    Inline {
        /// Whether to measure what it takes.
        timed: bool,
    },
    /// On all its workers.
    Spread {
        /// The fewest blocks claimed at once.
        grain: Grain,
        /// Whether to measure what each share takes.
        timed: bool,
    },
}

impl Key {
    /// `code` is where the closure's code is.
    pub(in crate::loops) fn new(
        place: &'static Location<'static>,
        code: usize,
        units: usize,
        slots: usize,
    ) -> Self {
        Self {
            place: std::ptr::from_ref(place).addr(),
            code,
            units,
            slots,
        }
    }

    /// Which set it is in.
    fn set(self) -> usize {
        let addresses = self.place as u64 ^ (self.code as u64).rotate_left(23);
        let numbers = self.units as u64 ^ (self.slots as u64).rotate_left(41);
        let mixed = addresses.wrapping_add(numbers.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - SETS.ilog2())) as usize
    }
}

impl Sites {
    /// The site with this key, and what all sites share.
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
    /// A loop that takes `total_ns` on one thread is called at `now`, and somebody sleeps, whom to
    /// wake costs `wake_ns`: whether to wake them, because such loops follow each other.
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

    /// A loop has found the workers awake.
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

    /// Whether its caller just runs the call that begins now: it is known to be small, and need not
    /// be measured this time. If not, [`plan`](Self::plan) tells how.
    pub(in crate::loops) fn is_tiny(&mut self) -> bool {
        let cache = self.calls >= TIMED_AT_FIRST && !self.calls.is_multiple_of(TIMED_EVERY);
        let tiny = cache && self.total_ns < SPREAD_NS;
        self.calls += u64::from(tiny);
        tiny
    }

    /// What a call takes in all, on one thread.
    pub(in crate::loops) fn total_ns(&self) -> u64 {
        self.total_ns
    }

    /// Where the shares begin, and the last one's end.
    pub(in crate::loops) fn bounds(&self) -> &[usize] {
        &self.bounds
    }

    /// How the next call is to be run. `cold`: somebody sleeps, and to wake them pays for loops
    /// that take longer than so many ns on one thread; `now_ns` tells the time.
    pub(in crate::loops) fn plan(
        &mut self,
        alone: &mut Alone,
        cold: Option<u64>,
        now_ns: impl Fn() -> u64,
    ) -> Plan {
        let call = self.calls;
        self.calls += 1;
        let learning = self.uneven && self.moves < MOVES_MAX;
        let timed = call < TIMED_AT_FIRST || learning || call.is_multiple_of(TIMED_EVERY);
        if call >= TIMED_AT_FIRST {
            let small = self.total_ns < SPREAD_NS;
            let wake_pays = cold.is_none_or(|pays_ns| {
                self.total_ns > pays_ns || !small && alone.wakes(now_ns(), self.total_ns, pays_ns)
            });
            if small || !wake_pays {
                return Plan::Inline { timed };
            }
        }
        if cold.is_none() {
            alone.hot();
        }
        let grain = self.grain(cold.is_some());
        Plan::Spread { grain, timed }
    }

    /// Who was woken comes late, so the others must be able to help: cut finely then.
    fn grain(&self, cold: bool) -> Grain {
        let share_ns = self.total_ns / self.costs.len() as u64;
        let cache = self.calls > 1;
        if cache && share_ns < 2 * CLAIM_NS {
            Grain::WHOLE
        } else if cache && !self.uneven && self.moves == 0 && !cold {
            Grain(4)
        } else {
            let claim = (CLAIM_NS << 6) / share_ns.max(CLAIM_NS);
            Grain(claim.next_power_of_two().ilog2().min(4))
        }
    }

    /// Learns what a call that ran inline took.
    pub(in crate::loops) fn learn_total(&mut self, ns: u64) {
        self.total_ns = match self.total_ns {
            0 => ns,
            // One bad measurement (the thread was preempted) must not count for much.
            total => (3 * total + ns.min(4 * total + CLAIM_NS)) / 4,
        };
    }

    /// Learns what each share of a call took, and moves the shares if that pays.
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
        // Shares that were never moved stay, and with them what is in the caches, until the
        // longest takes a quarter more than the mean. Once moved, an eighth is too much.
        let parts = if self.moves == 0 { 4 } else { 8 };
        self.uneven = most * self.costs.len() as u64 * parts > total * (parts + 1);
        if self.uneven && self.moves < MOVES_MAX {
            self.move_shares(total);
        } else if self.calls / TIMED_EVERY > MOVE_AGAIN {
            self.calls = TIMED_AT_FIRST;
            self.moves = self.moves.min(MOVES_MAX - 1);
        }
    }

    /// Moves the bounds half-way to where the shares would take equally long, if the cost were
    /// spread evenly inside each.
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// The cost of a wake-up, and the time that the loops here take on one thread.
    const WAKE_NS: u64 = 14_000;
    const LOOP_NS: u64 = 8_000;

    fn key(code: usize) -> Key {
        Key::new(Location::caller(), code, 256, 2)
    }

    /// Fills the sites of `closures` closures, each of which has been called often enough to be
    /// known.
    fn cache(sites: &mut Sites, closures: usize) {
        for _ in 0..=TIMED_AT_FIRST {
            for code in 0..closures {
                let (site, alone) = sites.find(key(code));
                site.plan(alone, None, || 0);
                site.learn_total(LOOP_NS);
            }
        }
    }

    /// Calls loops one after the other for `span` ns, `pause` ns apart, from `closures` sites.
    ///
    /// The workers sleep unless they were woken, and then stay awake for `awake` loops. Returns how
    /// many loops they missed, the number of loops, and how often the workers were woken.
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
            // The workers may also fall asleep now and then.
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
            for _ in 0..TIMED_EVERY {
                let (site, alone) = sites.find(key(code));
                if site.is_tiny() {
                    tiny += 1;
                } else {
                    site.plan(alone, None, || 0);
                    site.learn_total(ns);
                }
            }
            let most = TIMED_EVERY - TIMED_AT_FIRST;
            assert_eq!(tiny, if small { most } else { 0 }, "{ns} ns");
        }
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
        // One more site replaces the one that was called least recently.
        assert_eq!(sites.find(key(same[SITES_PER_SET])).0.calls, 0);
        assert_eq!(sites.find(key(same[1])).0.calls, 100);
        assert_eq!(sites.find(key(same[0])).0.calls, 0);
    }
}

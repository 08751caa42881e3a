//! What is remembered of each place that calls a loop: what it costs, where its shares lie.
//!
//! A small fixed table, keyed by the place in the source and the number of units. A miss is an
//! even split; a new site takes an old one's place. Nothing here changes an outcome: only which
//! worker visits which items.

use super::call::{Even, Grain};
use std::panic::Location;

const SITES: usize = 64;
/// The first calls of a site are all timed, and then one in so many.
const TIMED_AT_FIRST: u64 = 4;
const TIMED_EVERY: u64 = 32;
/// A loop is spread only if it takes longer than this: about twice what it costs to call
/// workers that spin.
const SPREAD_NS: u64 = 300;
/// Cold calls that follow each other within this time are as good as one long one.
const FOLLOWING_NS: u64 = 20_000;
const FOLLOWING_MIN: u32 = 4;
const FOLLOWING_MAX: u32 = 4096;
/// How many timed calls tell whether the shares are even.
const SAMPLES: u32 = 4;
/// A claim should be worth at least this much work.
const CLAIM_NS: u64 = 1_000;
/// How often the shares of a site are moved before stealing alone must even them out, and
/// after how many timed calls they may be moved once more.
const MOVES_MAX: u32 = 12;
const MOVE_AGAIN: u64 = 64;

/// The sites, each in the place that its key's hash gives.
#[derive(Default)]
pub(in crate::loops) struct Sites(Vec<Site>);

/// What is remembered of one site.
#[derive(Default)]
pub(in crate::loops) struct Site {
    key: (usize, usize, usize),
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
    /// When the last cold call came, and how many have followed each other.
    last_cold_ns: u64,
    following: u32,
    /// How many must before the workers are woken for them.
    following_needed: u32,
}

/// How a call is to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::loops) enum Plan {
    /// By its caller alone: sharing it would cost more than it brings.
    Inline {
        /// Whether to measure what it takes.
        timed: bool,
    },
    /// On all its seats.
    Spread {
        /// The fewest blocks claimed at once.
        grain: Grain,
        /// Whether to measure what each share takes.
        timed: bool,
    },
}

impl Sites {
    /// The site of this place, for so many units on so many seats.
    pub(in crate::loops) fn find(
        &mut self,
        place: &'static Location<'static>,
        units: usize,
        seats: usize,
    ) -> &mut Site {
        if self.0.is_empty() {
            self.0.resize_with(SITES, Site::default);
        }
        let key = (std::ptr::from_ref(place).addr(), units, seats);
        let mixed = (key.0 / 8)
            .wrapping_add(units.wrapping_mul(31))
            .wrapping_add(seats);
        let hash = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize) >> (usize::BITS - 6);
        let site = &mut self.0[hash];
        if site.key != key {
            site.reset(key);
        }
        site
    }
}

impl Site {
    fn reset(&mut self, key: (usize, usize, usize)) {
        let (_, units, seats) = key;
        let take = std::mem::take::<Vec<usize>>;
        let (mut bounds, mut bounds_before) =
            (take(&mut self.bounds), take(&mut self.bounds_before));
        let mut costs = std::mem::take(&mut self.costs);
        costs.clear();
        costs.resize(seats, 0);
        bounds.clear();
        let even = Even::new(units, seats);
        bounds.extend((0..=seats).map(|share| even.at(share)));
        bounds_before.clone_from(&bounds);
        *self = Self {
            key,
            costs,
            bounds,
            bounds_before,
            following_needed: FOLLOWING_MIN,
            ..Self::default()
        };
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
    pub(in crate::loops) fn plan(&mut self, cold: Option<u64>, now_ns: impl Fn() -> u64) -> Plan {
        let call = self.calls;
        self.calls += 1;
        let learning = self.uneven && self.moves < MOVES_MAX;
        let timed = call < TIMED_AT_FIRST || learning || call.is_multiple_of(TIMED_EVERY);
        if call >= TIMED_AT_FIRST {
            let small = self.total_ns < SPREAD_NS;
            let wake_pays = cold.is_none_or(|pays_ns| self.total_ns > pays_ns);
            if small || !wake_pays && !self.follows(now_ns()) {
                return Plan::Inline { timed };
            }
        }
        if cold.is_none() {
            self.following_needed = FOLLOWING_MIN;
        }
        let grain = self.grain(cold.is_some());
        Plan::Spread { grain, timed }
    }

    /// Whether this cold call comes so soon after others that the workers had better be awake.
    /// If they went back to sleep the last time, more calls must follow each other first.
    fn follows(&mut self, now: u64) -> bool {
        let soon = now.saturating_sub(self.last_cold_ns) < FOLLOWING_NS + self.total_ns;
        self.following = if soon { self.following + 1 } else { 0 };
        self.last_cold_ns = now;
        let wake = self.following >= self.following_needed;
        if wake {
            self.following = 0;
            self.following_needed = (self.following_needed * 4).min(FOLLOWING_MAX);
        }
        wake
    }

    /// Who was woken comes late, so the others must be able to help: cut finely then.
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
        for (seat, least) in self.costs.iter_mut().enumerate() {
            let ns = cost(seat);
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
        let seats = self.costs.len();
        self.bounds_before.clone_from(&self.bounds);
        let old = &self.bounds_before;
        let (mut share, mut before) = (0, 0);
        for bound in 1..seats {
            let goal = (u128::from(total) * bound as u128 / seats as u128) as u64;
            while share + 1 < seats && before + self.costs[share] < goal {
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

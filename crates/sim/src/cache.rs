//! The state of each cache line, and the cost of an access.
//!
//! The states are those of MESI, seen by a directory: one core owns the cache line (modified or
//! exclusive), or several cores share it, or none has it. A transfer makes the cache line busy, so
//! that accesses by several cores to one cache line are served one after another. A core that has
//! the cache line keeps it until the request of another core reaches it, which takes half of the
//! time of the transfer.
//!
//! A core has an unlimited number of cache lines. We leave evictions out, because the data
//! structures of a scheduler are small.

use crate::arena;
use crate::machine::Costs;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// The binary logarithm of the number of bytes of a cache line.
const LINE_BITS: u32 = 6;

/// The number of former owners of a cache line that we always remember.
const FORMER_MIN: usize = 4;

/// The place of a core in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) core: u32,
    pub(crate) l3: u32,
    pub(crate) package: u32,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Load,
    /// A store that the core buffers. The thread continues while the cache line arrives.
    Store,
    /// A read-modify-write or a sequentially consistent store. The thread waits for it.
    Exchange,
}

/// The maximum number of cores of a machine. A cache line has one bit per core, which says whether
/// the core shares the cache line.
pub(crate) const CORES_MAX: usize = 512;

#[derive(Default)]
struct Line {
    /// The core that owns the cache line, plus 1. 0 if no core owns it.
    owner: u32,
    /// The PU that wrote to the cache line last, plus 1. It is 0 if no PU has written to it, or if
    /// the cache line has moved to a core that has only read it.
    writer: u32,
    sharers: Cores,
    busy_until: u64,
    /// The time when the cache line arrives at `owner`.
    arrives_at: u64,
    /// The cores that owned the cache line before `owner`, or have requested it and will own it
    /// before `owner` does. The last ones come first.
    former: VecDeque<Former>,
    /// The cores that shared the cache line before a core requested it in order to write, and the
    /// time until which they have it.
    former_sharers: (Cores, u64),
}

/// A set of cores, with one bit for each.
type Cores = [u64; CORES_MAX / 64];

/// A core that owned a cache line from the time `arrives_at` to `leaves_at`.
#[derive(Clone, Copy)]
struct Former {
    /// The core, plus 1, as in `Line::owner`.
    core: u32,
    arrives_at: u64,
    leaves_at: u64,
}

fn has(cores: &Cores, core: u32) -> bool {
    cores[core as usize / 64] >> (core % 64) & 1 == 1
}

impl Line {
    fn has(&self, core: u32) -> bool {
        self.owner == core + 1 || has(&self.sharers, core)
    }

    /// Returns whether the core that owns the cache line has written to it.
    fn is_modified(&self) -> bool {
        self.owner != 0 && self.writer != 0
    }

    /// Returns the time from which a core that has lost the cache line can still make an access
    /// that it issues at `issued`.
    fn kept(&self, kind: Access, core: u32, issued: u64) -> Option<u64> {
        let owned = self
            .former
            .iter()
            .find(|former| former.core == core + 1 && issued < former.leaves_at);
        let (sharers, leaves_at) = &self.former_sharers;
        let shared = kind == Access::Load && has(sharers, core) && issued < *leaves_at;
        owned
            .map(|former| former.arrives_at)
            .or(shared.then_some(0))
    }

    /// Remembers the cores that lose the cache line at `leaves_at`, because of a request that was
    /// issued at `issued`.
    fn leave(&mut self, kind: Access, issued: u64, leaves_at: u64) {
        if self.owner != 0 {
            let former = Former {
                core: self.owner,
                arrives_at: self.arrives_at,
                leaves_at,
            };
            arena::paused(|| self.former.push_front(former));
            // If many cores wait for the cache line, those in the middle of the queue have yet to
            // get it. The others have lost it. We keep some of them, because the prefetcher of a
            // core may issue a request earlier than the last one.
            while self.former.len() > FORMER_MIN
                && self
                    .former
                    .back()
                    .is_some_and(|last| last.leaves_at <= issued)
            {
                self.former.pop_back();
            }
        } else if kind != Access::Load {
            self.former_sharers = (self.sharers, leaves_at);
        }
    }

    fn share(&mut self, core: u32) {
        self.sharers[core as usize / 64] |= 1 << (core % 64);
    }

    fn sharers(&self) -> impl Iterator<Item = u32> + '_ {
        self.sharers.iter().zip(0..).flat_map(|(&word, index)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(index * 64 + bit)
            })
        })
    }
}

/// A quick hash of the number of a cache line.
#[derive(Default)]
pub(crate) struct LineHash(u64);

impl Hasher for LineHash {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_usize(usize::from(*byte)));
    }
    fn write_usize(&mut self, value: usize) {
        self.0 = (self.0 ^ value as u64)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(26);
    }
}

/// A map whose keys are addresses or numbers of cache lines.
pub(crate) type AddressMap<T> = HashMap<usize, T, BuildHasherDefault<LineHash>>;

/// All cache lines that the program has used.
pub(crate) struct Cache {
    lines: AddressMap<Line>,
    /// The place of each core.
    places: Vec<Place>,
    costs: Costs,
    pub(crate) transfers: u64,
}

impl Cache {
    pub(crate) fn new(places: Vec<Place>, costs: Costs) -> Self {
        assert!(
            places.len() <= CORES_MAX,
            "a machine has at most {CORES_MAX} cores"
        );
        Self {
            lines: AddressMap::default(),
            places,
            costs,
            transfers: 0,
        }
    }

    fn distance(&self, a: u32, b: u32) -> u64 {
        let (a, b) = (self.places[a as usize], self.places[b as usize]);
        if a.core == b.core {
            self.costs.same_core
        } else if a.l3 == b.l3 {
            self.costs.same_l3
        } else if a.package == b.package {
            self.costs.same_package
        } else {
            self.costs.other_package
        }
    }

    /// Makes an access by PU `pu` of `core`, and returns the time when the access is complete. The
    /// thread issues it at `issued`. The access begins at `now`, which is later if it has to wait
    /// for earlier stores of the core or for a prefetched cache line.
    pub(crate) fn access(
        &mut self,
        at: usize,
        kind: Access,
        (pu, core): (u32, u32),
        issued: u64,
        now: u64,
    ) -> u64 {
        let costs = self.costs;
        let mut line = std::mem::take(self.lines.entry(at >> LINE_BITS).or_default());
        let own = match kind {
            Access::Exchange => costs.rmw,
            Access::Load | Access::Store => costs.hit,
        };
        let enough = match kind {
            Access::Load => line.has(core),
            Access::Store | Access::Exchange => line.owner == core + 1,
        };
        if let Some(arrives_at) = line.kept(kind, core, issued)
            && !enough
        {
            self.lines.insert(at >> LINE_BITS, line);
            return now.max(arrives_at) + own;
        }
        let end = if enough {
            // The other hardware thread may have written the cache line.
            let sibling = line.writer != 0 && line.writer != pu + 1 && line.owner == core + 1;
            let cost = if sibling {
                costs.same_core.max(own)
            } else {
                own
            };
            match kind {
                // The cache line may still be on its way, because a buffered store requested it.
                Access::Exchange => now.max(line.busy_until) + cost,
                // A load takes the value from the store buffer.
                Access::Load | Access::Store => now + cost,
            }
        } else {
            let (cost, occupied) = self.transfer(&line, kind, core);
            self.transfers += 1;
            let begin = now.max(line.busy_until);
            line.busy_until = begin + occupied;
            line.leave(kind, issued, begin + cost / 2);
            line.arrives_at = begin + cost;
            begin + cost + own
        };
        match kind {
            Access::Load if !enough && costs.migrates == 1 && line.is_modified() => {
                line.owner = core + 1;
                line.writer = 0;
            }
            Access::Load if !enough => {
                if line.owner != 0 {
                    let owner = line.owner - 1;
                    line.share(owner);
                    line.owner = 0;
                }
                line.share(core);
                // A cache line that only one core has is exclusive.
                if line.sharers().count() == 1 {
                    line.sharers = Default::default();
                    line.owner = core + 1;
                }
            }
            Access::Load => (),
            Access::Store | Access::Exchange => {
                line.sharers = Default::default();
                line.owner = core + 1;
                line.writer = pu + 1;
            }
        }
        self.lines.insert(at >> LINE_BITS, line);
        end
    }

    /// Returns the cost of a transfer, and the time for which the cache line is busy.
    fn transfer(&self, line: &Line, kind: Access, core: u32) -> (u64, u64) {
        if line.owner != 0 {
            let cost = self.distance(core, line.owner - 1);
            return (cost, cost);
        }
        let distances = line
            .sharers()
            .filter(|s| *s != core)
            .map(|s| self.distance(core, s));
        match kind {
            // The nearest copy answers.
            Access::Load => match distances.min() {
                Some(cost) => (cost, self.costs.read_gap),
                None => (self.costs.memory, self.costs.memory),
            },
            // All copies must confirm that they are invalid, including the farthest.
            Access::Store | Access::Exchange => {
                let cost = distances.max().unwrap_or(self.costs.memory);
                (cost, cost)
            }
        }
    }
}

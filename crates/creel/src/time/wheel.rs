//! The timer wheel. It has two levels of slots: the near level is exact, and the far level is
//! hashed.
//!
//! A worker with thousands of intervals arms one timer for each buffer that it sends. Therefore
//! arming, firing and cancelling must take constant time and must not allocate. The links of the
//! slots' lists are in the entries themselves. An entry lives as long as the timer that owns it,
//! regardless of how often it is armed.
//!
//! One *tick* is 65,536 ns, so that we can use a shift instead of a division. An operating system
//! delays a sleep by about this much anyway.
//!
//! - The **near** [level](super::level) has a slot for each of the next 1,024 ticks (67 ms), so
//!   that all entries of a slot have the same tick.
//! - The **far** level has a slot for each block of 1,024 ticks. It hashes, because an entry that
//!   is more than 1,024 blocks (69 s) away shares its slot with a nearer block. We skip such an
//!   entry until its round comes. When time enters a block, the entries of that block move to the
//!   near level.
//!
//! Invariants:
//!
//! - An entry fires once for each time it is armed, and never before its tick.
//! - The entries of the near level are within `[now, now + 1024)`. Those of the far level are in
//!   blocks after the block of `now`.
//! - A key that was returned, or whose entry was disarmed since, arms nothing, because its
//!   generation has passed.
//!
//! We leave out locks, clocks and wakers. `timers.rs` adds them.

use super::level::{Level, NONE, SLOT_BITS, SLOT_MASK, SLOTS};

/// The binary logarithm of a tick's length in nanoseconds.
const TICK_SHIFT: u32 = 16;

/// The number of ticks in the far level before slots are shared.
const ROUND: u64 = (SLOTS as u64) << SLOT_BITS;

/// Returns the first tick that is not before `nanos`.
#[inline]
pub(super) fn tick_at_or_after(nanos: u64) -> u64 {
    (nanos >> TICK_SHIFT) + u64::from(nanos & ((1 << TICK_SHIFT) - 1) != 0)
}

/// Returns the last tick that is not after `nanos`.
#[inline]
pub(super) fn tick_at_or_before(nanos: u64) -> u64 {
    nanos >> TICK_SHIFT
}

/// Returns the nanosecond at which `tick` begins.
pub(super) fn tick_nanos(tick: u64) -> u64 {
    tick.saturating_mul(1 << TICK_SHIFT)
}

/// Returns the tick in `lo..=hi` with the most trailing zero bits.
///
/// Timers with a tolerance choose this tick, so that timers with overlapping tolerances share few
/// ticks without knowing each other. For example, the result for `5..=8` is 8.
#[inline]
pub(super) fn roundest(lo: u64, hi: u64) -> u64 {
    if lo == 0 || lo >= hi {
        return lo;
    }
    let differ = (lo - 1) ^ hi;
    let bit = 63 - differ.leading_zeros();
    hi & !((1 << bit) - 1)
}

/// Identifies an entry of one wheel. Its owner returns it with [`Wheel::remove`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    index: u32,
    generation: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// No timer owns the entry. It is in the free list, linked by `next`.
    Free,
    /// A timer owns the entry, and the entry is in no slot because it is not armed.
    Idle,
    Near,
    Far,
}

struct Entry<T> {
    tick: u64,
    /// The neighbours in the list of the slot, which is circular.
    next: u32,
    prev: u32,
    /// The generation of the keys that are valid for this entry.
    generation: u32,
    place: Place,
    payload: Option<T>,
}

/// A timer wheel: its two levels and the slab of their entries. Each entry has a payload (a waker)
/// while it is armed.
pub(super) struct Wheel<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    near: Level,
    far: Level,
    /// The tick up to which all entries have fired. The tick itself may fire again.
    now: u64,
}

impl<T> Wheel<T> {
    /// Creates an empty wheel at tick `now`.
    pub(super) fn new(now: u64) -> Self {
        Wheel {
            entries: Vec::new(),
            free: NONE,
            near: Level::new(),
            far: Level::new(),
            now,
        }
    }

    /// Returns whether no entry is armed.
    pub(super) fn is_empty(&self) -> bool {
        self.near.len() + self.far.len() == 0
    }

    /// Creates an entry that is not armed. This is the only operation that may allocate.
    pub(super) fn insert(&mut self) -> Key {
        if self.free == NONE {
            return self.grow();
        }
        let index = self.free;
        let entry = &mut self.entries[index as usize];
        self.free = entry.next;
        entry.place = Place::Idle;
        Key {
            index,
            generation: entry.generation,
        }
    }

    #[cold]
    fn grow(&mut self) -> Key {
        self.near.make();
        self.far.make();
        let index = u32::try_from(self.entries.len()).unwrap_or(NONE);
        assert!(index != NONE, "a timer wheel holds less than 2^32 timers");
        self.entries.push(Entry {
            tick: 0,
            next: NONE,
            prev: NONE,
            generation: 0,
            place: Place::Idle,
            payload: None,
        });
        Key {
            index,
            generation: 0,
        }
    }

    /// Removes the entry. Returns its payload if it was armed.
    pub(super) fn remove(&mut self, mut key: Key) -> Option<T> {
        let payload = self.disarm(&mut key);
        let free = self.free;
        let entry = &mut self.entries[key.index as usize];
        entry.place = Place::Free;
        entry.next = free;
        self.free = key.index;
        payload
    }

    /// Arms the entry to fire at `tick`, or immediately if that tick has passed. Returns the
    /// payload of an earlier arming that did not fire. If the generation of the key has passed,
    /// returns `payload`.
    #[inline]
    pub(super) fn arm(&mut self, key: Key, tick: u64, payload: T) -> Option<T> {
        let entry = &self.entries[key.index as usize];
        if entry.generation != key.generation {
            return Some(payload);
        }
        if entry.place != Place::Idle {
            self.unlink(key.index);
        }
        self.link(key.index, tick.max(self.now));
        self.entries[key.index as usize].payload.replace(payload)
    }

    /// Takes the entry off the wheel. Returns its payload if it was armed. From then on, only the
    /// new key is valid.
    pub(super) fn disarm(&mut self, key: &mut Key) -> Option<T> {
        self.unlink(key.index);
        let entry = &mut self.entries[key.index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        key.generation = entry.generation;
        entry.payload.take()
    }

    /// Moves the time to `now` and appends the payloads that are due to `due`, in the order of
    /// their ticks. Stops when `due` holds `room` payloads, and returns true if there may be more.
    pub(super) fn fire(&mut self, now: u64, due: &mut Vec<T>, room: usize) -> bool {
        loop {
            let near = self.next_near();
            let block = self.next_block();
            match (near, block) {
                (near, Some(block)) if block <= now && near.is_none_or(|near| block <= near) => {
                    self.now = block;
                    if !self.enter_block() {
                        self.skip_rounds(now);
                    }
                }
                (Some(near), _) if near <= now => {
                    self.now = near;
                    if !self.fire_slot(due, room) {
                        return true;
                    }
                }
                _ => {
                    self.now = self.now.max(now);
                    return false;
                }
            }
        }
    }

    /// Returns a tick before which no entry fires. An entry may fire at this tick.
    pub(super) fn next(&self) -> Option<u64> {
        match (self.next_near(), self.next_block()) {
            (Some(near), Some(block)) => Some(near.min(block)),
            (near, block) => near.or(block),
        }
    }

    /// Returns the exact tick of the first entry. Scans all entries if the first entry may be in
    /// the far level.
    pub(super) fn first(&self) -> Option<u64> {
        match (self.next_near(), self.next_block()) {
            (Some(near), block) if block.is_none_or(|block| near < block) => Some(near),
            (near, _) => near.into_iter().chain(self.first_far()).min(),
        }
    }

    /// Returns the exact tick of the next entries in the near level.
    fn next_near(&self) -> Option<u64> {
        let from = (self.now & SLOT_MASK) as usize;
        self.near.distance(from).map(|steps| self.now + steps)
    }

    /// Returns the first tick of the next block whose slot in the far level is in use.
    fn next_block(&self) -> Option<u64> {
        let block = (self.now >> SLOT_BITS) + 1;
        let steps = self.far.distance((block & SLOT_MASK) as usize)?;
        Some((block + steps) << SLOT_BITS)
    }

    /// Fires the slot of `self.now`, starting at its head. Returns false if there was no room for
    /// all entries.
    ///
    /// The entries that fire leave the list as a whole, and not link by link, because their
    /// neighbours fire as well.
    fn fire_slot(&mut self, due: &mut Vec<T>, room: usize) -> bool {
        let slot = (self.now & SLOT_MASK) as usize;
        let head = self.near.head(slot);
        if head == NONE {
            return true;
        }
        let before = due.len();
        let last = self.entries[head as usize].prev;
        let mut index = head;
        let done = loop {
            if due.len() == room {
                break false;
            }
            let entry = &mut self.entries[index as usize];
            entry.place = Place::Idle;
            due.extend(entry.payload.take());
            if index == last {
                break true;
            }
            index = entry.next;
        };
        self.near.forget(due.len() - before);
        if done {
            self.near.set_head(slot, NONE);
        } else {
            self.near.set_head(slot, index);
            self.entries[index as usize].prev = last;
            self.entries[last as usize].next = index;
        }
        done
    }

    /// Handles a jump of time by more than one round. It continues at the block of the first entry
    /// immediately, instead of at each block on the way whose slot is in use.
    #[cold]
    fn skip_rounds(&mut self, now: u64) {
        if self.near.len() == 0 && now - self.now > ROUND {
            let first = self.first_far().unwrap_or(u64::MAX);
            let before = (first & !SLOT_MASK).saturating_sub(1);
            self.now = before.clamp(self.now, now);
        }
    }

    /// Returns the tick of the first entry in the far level. Scans all entries.
    fn first_far(&self) -> Option<u64> {
        let far = |entry: &&Entry<T>| entry.place == Place::Far;
        self.entries.iter().filter(far).map(|e| e.tick).min()
    }

    /// Moves the entries of the block that begins at `self.now` to the near level. Returns false if
    /// the block has no entries.
    fn enter_block(&mut self) -> bool {
        let block = self.now >> SLOT_BITS;
        let before = self.far.len();
        let head = self.far.head((block & SLOT_MASK) as usize);
        if head == NONE {
            return false;
        }
        // The circular list loses entries during this loop. However, it does not lose the entry
        // that is last now before we reach it.
        let last = self.entries[head as usize].prev;
        let mut index = head;
        loop {
            let Entry { tick, next, .. } = self.entries[index as usize];
            if tick >> SLOT_BITS == block {
                self.unlink(index);
                self.link(index, tick);
            }
            if index == last {
                return self.far.len() < before;
            }
            index = next;
        }
    }

    fn level(&mut self, place: Place, tick: u64) -> Option<(&mut Level, usize)> {
        match place {
            Place::Near => Some((&mut self.near, (tick & SLOT_MASK) as usize)),
            Place::Far => Some((&mut self.far, (tick >> SLOT_BITS & SLOT_MASK) as usize)),
            Place::Free | Place::Idle => None,
        }
    }

    /// Appends an idle entry to the slot of `tick`, which is not before `self.now`.
    #[inline]
    fn link(&mut self, index: u32, tick: u64) {
        let near = tick - self.now < SLOTS as u64;
        let place = if near { Place::Near } else { Place::Far };
        let Some((level, slot)) = self.level(place, tick) else {
            return;
        };
        let head = level.add(slot, index);
        let (prev, next) = if head == NONE {
            (index, index)
        } else {
            (self.entries[head as usize].prev, head)
        };
        let entry = &mut self.entries[index as usize];
        entry.tick = tick;
        entry.place = place;
        entry.prev = prev;
        entry.next = next;
        if head != NONE {
            self.entries[prev as usize].next = index;
            self.entries[head as usize].prev = index;
        }
    }

    /// Takes the entry out of its slot, if it is in a slot.
    fn unlink(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        let place = std::mem::replace(&mut entry.place, Place::Idle);
        let Entry {
            tick, next, prev, ..
        } = *entry;
        let Some((level, slot)) = self.level(place, tick) else {
            return;
        };
        level.forget(1);
        if next == index {
            level.set_head(slot, NONE);
            return;
        }
        if level.head(slot) == index {
            level.set_head(slot, next);
        }
        self.entries[prev as usize].next = next;
        self.entries[next as usize].prev = prev;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A small random number generator (splitmix64), so that you can repeat a failure from its
    /// seed.
    struct Random(u64);

    impl Random {
        fn next(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % below
        }

        /// Returns a delay that is mostly short and sometimes beyond the round of the far level.
        fn delay(&mut self) -> u64 {
            let reach = [3, 900, 1100, 80_000, 3_000_000, 1 << 40][self.next(6) as usize];
            self.next(reach)
        }
    }

    /// The wheel together with a sorted map, which holds the tick and the key of all armed entries.
    struct Model {
        wheel: Wheel<u32>,
        armed: BTreeMap<(u64, u32), ()>,
        ticks: Vec<Option<u64>>,
        keys: Vec<Key>,
        now: u64,
    }

    impl Model {
        fn arm(&mut self, timer: u32, delay: u64) {
            let tick = self.now + delay;
            let old = self.wheel.arm(self.keys[timer as usize], tick, timer);
            let was = self.ticks[timer as usize].replace(tick);
            assert_eq!(old.is_some(), was.is_some());
            if let Some(was) = was {
                self.armed.remove(&(was, timer));
            }
            self.armed.insert((tick, timer), ());
        }

        fn cancel(&mut self, timer: u32) {
            let was = self.ticks[timer as usize].take();
            let old = self.wheel.remove(self.keys[timer as usize]);
            assert_eq!(old.is_some(), was.is_some());
            self.keys[timer as usize] = self.wheel.insert();
            if let Some(was) = was {
                self.armed.remove(&(was, timer));
            }
        }

        fn advance(&mut self, by: u64, room: usize) {
            self.now += by;
            let mut fired = Vec::new();
            loop {
                let mut due = Vec::new();
                let more = self.wheel.fire(self.now, &mut due, room);
                assert!(due.len() <= room);
                fired.extend(due);
                if !more {
                    break;
                }
            }
            let ticks: Vec<u64> = fired
                .iter()
                .map(|&timer| self.ticks[timer as usize].expect("fired without being armed"))
                .collect();
            assert!(ticks.is_sorted(), "out of order: {ticks:?}");
            let later = self.armed.split_off(&(self.now + 1, 0));
            let due = std::mem::replace(&mut self.armed, later);
            fired.sort_unstable();
            let mut expected: Vec<u32> = due.keys().map(|&(_, timer)| timer).collect();
            expected.sort_unstable();
            assert_eq!(fired, expected);
            for timer in fired {
                self.ticks[timer as usize] = None;
            }
        }

        fn check_next(&self) {
            assert_eq!(
                self.wheel.near.len() + self.wheel.far.len(),
                self.armed.len()
            );
            let first = self.armed.keys().next().map(|&(tick, _)| tick);
            let next = self.wheel.next();
            assert_eq!(next.is_some(), first.is_some());
            if let (Some(next), Some(first)) = (next, first) {
                assert!(next <= first, "sleeps past {first} until {next}");
                assert!(next >= self.now);
                if first - self.now < SLOTS as u64 && first >> SLOT_BITS == self.now >> SLOT_BITS {
                    assert_eq!(next, first);
                }
            }
        }
    }

    #[test]
    fn the_wheel_fires_the_same_timers_as_a_sorted_map() {
        for seed in 0..40 {
            eprintln!("seed {seed}");
            let mut random = Random(seed);
            let start = random.next(1 << 40);
            let mut wheel = Wheel::new(start);
            let timers = 1 + random.next(200) as u32;
            let keys = (0..timers).map(|_| wheel.insert()).collect();
            let mut model = Model {
                wheel,
                armed: BTreeMap::new(),
                ticks: vec![None; timers as usize],
                keys,
                now: start,
            };
            for _ in 0..3_000 {
                let timer = random.next(u64::from(timers)) as u32;
                match random.next(10) {
                    0 => model.cancel(timer),
                    1..=3 => {
                        let by = random.delay();
                        model.advance(by, 1 + random.next(50) as usize);
                    }
                    _ => model.arm(timer, random.delay()),
                }
                model.check_next();
            }
        }
    }

    #[test]
    fn the_wheel_skips_centuries_at_once() {
        let mut wheel = Wheel::new(0);
        let century = tick_at_or_after(3_155_760_000 * 1_000_000_000);
        let ticks = [century, century + 1, 3 * century, 5 * century];
        for (timer, tick) in ticks.into_iter().enumerate() {
            let key = wheel.insert();
            wheel.arm(key, tick, timer);
        }
        // If the wheel moved in steps of one block, this jump would take some hundred million
        // steps.
        let mut due = Vec::new();
        assert_eq!(wheel.first(), Some(century));
        assert!(!wheel.fire(century - 1, &mut due, 8));
        assert_eq!(due, []);
        assert!(wheel.fire(4 * century, &mut due, 2));
        assert!(!wheel.fire(4 * century, &mut due, 8));
        assert_eq!(due, [0, 1, 2]);
        assert!(!wheel.fire(5 * century, &mut due, 8));
        assert_eq!(due, [0, 1, 2, 3]);
    }

    #[test]
    fn a_tick_in_the_past_fires_at_the_next_turn() {
        let mut wheel = Wheel::new(5_000);
        let key = wheel.insert();
        wheel.arm(key, 17, 'a');
        let mut due = Vec::new();
        assert!(!wheel.fire(5_000, &mut due, 8));
        assert_eq!(due, ['a']);
    }

    #[test]
    fn an_outdated_key_arms_no_timer() {
        let mut wheel = Wheel::new(0);
        let first = wheel.insert();
        let mut second = first;
        assert_eq!(wheel.disarm(&mut second), None);
        assert_eq!(wheel.arm(first, 1, 'a'), Some('a'));
        assert_eq!(wheel.remove(second), None);
        let third = wheel.insert();
        assert_eq!(wheel.arm(second, 1, 'b'), Some('b'));
        assert_eq!(wheel.arm(third, 1, 'c'), None);
        let mut due = Vec::new();
        wheel.fire(9, &mut due, 8);
        assert_eq!(due, ['c']);
    }

    #[test]
    fn rearming_does_not_grow_the_slab() {
        let mut wheel = Wheel::new(0);
        let keys: Vec<Key> = (0..100).map(|_| wheel.insert()).collect();
        let capacity = wheel.entries.capacity();
        let mut due = Vec::with_capacity(100);
        for turn in 0..1_000_u64 {
            for &key in &keys {
                wheel.arm(key, turn * 300 + u64::from(key.index), ());
            }
            due.clear();
            wheel.fire(turn * 300 + 100, &mut due, usize::MAX);
            assert_eq!(due.len(), 100);
        }
        assert_eq!(wheel.entries.capacity(), capacity);
    }

    #[test]
    fn the_roundest_tick_has_the_most_trailing_zeros_in_its_window() {
        assert_eq!(roundest(5, 5), 5);
        assert_eq!(roundest(5, 7), 6);
        assert_eq!(roundest(5, 8), 8);
        assert_eq!(roundest(8, 15), 8);
        assert_eq!(roundest(0, 9), 0);
        let mut random = Random(1);
        for _ in 0..10_000 {
            let lo = 1 + random.next(1 << 20);
            let hi = lo + random.next(1 << 10);
            let best = (lo..=hi).max_by_key(|tick| tick.trailing_zeros());
            assert_eq!(Some(roundest(lo, hi)), best);
        }
    }

    #[test]
    fn ticks_are_never_early() {
        for nanos in [0, 1, 65_535, 65_536, 65_537, u64::MAX] {
            assert!(u128::from(tick_at_or_after(nanos)) << TICK_SHIFT >= u128::from(nanos));
            assert!(tick_nanos(tick_at_or_before(nanos)) <= nanos);
        }
    }
}

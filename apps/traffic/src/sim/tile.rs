//! A tile of the map, and how it runs alone for a window of ticks.
//!
//! All that happens at a junction happens in the order of (time, kind, road, car), whatever tile it
//! is in: what comes from elsewhere comes as a car or a hole that was sent a window ago or earlier.
//! So neither the cut of the tiles nor the length of windows nor the workers show in an outcome.

use super::records::*;
use super::wheel::{Entry, NONE, SLOT_MS, Slab, TIMER, Wheel};
use super::{Happening, NO_ROAD, Rules, Tally, What};
use crate::network::Ms;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Kinds of what is due, in the order in which they come at one instant. The first three are timers.
const WAKE: u32 = 0;
const RETRY: u32 = 1;
const STUCK: u32 = 2;
const ARRIVE: u32 = 3;
const DEPART: u32 = 4;

/// A tile: its records, its cars and what is due.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tile {
    pub first_junction: u32,
    /// The road of its first tail; the others follow.
    pub first_link: u32,
    pub crossings: Vec<Crossing>,
    pub heads: Vec<Head>,
    pub tails: Vec<Tail>,
    pub cuts: Vec<Cut>,
    pub slab: Slab,
    pub wheel: Wheel,
    pub holes: Vec<Hole>,
    pub free_hole: u32,
    pub calendar: BinaryHeap<Reverse<Departure>>,
    pub driveways: Vec<Driveway>,
    pub tally: Tally,
    /// What happened, where somebody wants to know.
    #[serde(skip)]
    pub record: Option<Vec<Happening>>,
    /// What is due in the slot that is being worked on, the next last. Kept for its memory.
    #[serde(skip)]
    due: Vec<u64>,
}

impl Tile {
    pub fn new(first_junction: u32, first_link: u32) -> Self {
        Self {
            first_junction,
            first_link,
            crossings: Vec::new(),
            heads: Vec::new(),
            tails: Vec::new(),
            cuts: Vec::new(),
            slab: Slab::new(),
            wheel: Wheel::new(),
            holes: Vec::new(),
            free_hole: NONE,
            calendar: BinaryHeap::new(),
            driveways: Vec::new(),
            tally: Tally::default(),
            record: None,
            due: Vec::new(),
        }
    }

    /// Walks over what a window will touch here and there, in order, which a cache takes in four times
    /// as fast.
    pub fn warm_up(&self) {
        const LINE: usize = 64;
        let heads = self
            .heads
            .iter()
            .step_by(LINE / size_of::<Head>())
            .map(|head| head.free_at);
        let tails = self
            .tails
            .iter()
            .step_by(LINE / size_of::<Tail>())
            .map(|tail| tail.next_in);
        let crossings = self
            .crossings
            .iter()
            .step_by(LINE / size_of::<Crossing>())
            .map(|c| c.busy_until);
        let holes = self
            .holes
            .iter()
            .step_by(LINE / size_of::<Hole>())
            .map(|hole| hole.at);
        let all = heads
            .chain(tails)
            .chain(crossings)
            .chain(holes)
            .chain(self.slab.each_line());
        std::hint::black_box(all.fold(0, Ms::wrapping_add));
    }

    /// Runs it from `from` to `until`, both whole ticks. What leaves goes into `mail`, by neighbour.
    pub fn run(&mut self, from: Ms, until: Ms, rules: &Rules, mail: &mut [Vec<Message>]) {
        let end = until / SLOT_MS;
        let mut slot = from / SLOT_MS;
        while slot < end {
            let calendar = self
                .calendar
                .peek()
                .map(|Reverse(departure)| departure.at / SLOT_MS);
            let until = calendar.map_or(end, |due| due.clamp(slot, end));
            match self
                .wheel
                .next(slot, until)
                .or(calendar.filter(|_| until < end))
            {
                None => break,
                Some(next) => {
                    slot = next.max(slot);
                    Work {
                        slot,
                        rules,
                        mail,
                        tile: self,
                    }
                    .run();
                    slot += 1;
                }
            }
        }
    }

    /// Takes in what a neighbour sent.
    pub fn receive(&mut self, message: Message, now: Ms) {
        if message.car == NONE {
            return self.hole(message.to, message.at, now, None);
        }
        let place = self.slab.add(Entry {
            car: message.car,
            at: message.at,
            next: NONE,
            turns: message.turns,
            of: message.to,
            word: message.word,
        });
        self.wheel.push(&mut self.slab, place);
    }

    /// The road of a head.
    pub fn link_of_head(&self, head: u16) -> u32 {
        self.link_of_up(self.heads[usize::from(head)].up)
    }

    fn link_of_up(&self, up: u32) -> u32 {
        if up & CUT == 0 {
            self.first_link + up
        } else {
            self.cuts[(up & !CUT) as usize].link
        }
    }

    /// Counts the holes as room that are here at `now`.
    #[inline]
    fn gather(&mut self, tail: u16, now: Ms) {
        let tail = &mut self.tails[usize::from(tail)];
        while tail.holes != NONE {
            let last = tail.holes;
            let first = self.holes[last as usize].next;
            let hole = &mut self.holes[first as usize];
            if hole.at > now {
                break;
            }
            tail.room += 1;
            let next = std::mem::replace(&mut hole.next, self.free_hole);
            self.free_hole = first;
            if first == last {
                tail.holes = NONE;
            } else {
                self.holes[last as usize].next = next;
            }
        }
    }

    /// A hole is on its way to a tail. `slot` is the one at work, if one is.
    fn hole(&mut self, tail: u16, at: Ms, now: Ms, slot: Option<Ms>) {
        self.gather(tail, now);
        let place = if self.free_hole == NONE {
            if self.holes.len() == self.holes.capacity() {
                self.holes.reserve_exact((self.holes.len() / 4).max(64));
            }
            self.holes.push(Hole { at, next: NONE });
            self.holes.len() as u32 - 1
        } else {
            let place = self.free_hole;
            self.free_hole = self.holes[place as usize].next;
            place
        };
        let last = std::mem::replace(&mut self.tails[usize::from(tail)].holes, place);
        let next = if last == NONE {
            place
        } else {
            std::mem::replace(&mut self.holes[last as usize].next, place)
        };
        self.holes[place as usize] = Hole { at, next };
        if self.tails[usize::from(tail)].waiters != NONE16 {
            self.wake_when_due(tail, now, slot);
        }
    }

    /// Sets a timer for when there will be room on a road that some wait for, if that is known.
    fn wake_when_due(&mut self, tail: u16, now: Ms, slot: Option<Ms>) {
        let record = &mut self.tails[usize::from(tail)];
        if record.wakes {
            return;
        }
        let room_at = match record.holes {
            _ if record.room > 0 => now,
            NONE => return,
            last => self.holes[self.holes[last as usize].next as usize].at,
        };
        record.wakes = true;
        let at = record.next_in.max(room_at).max(now);
        self.timer(WAKE, tail, at, slot);
    }

    fn timer(&mut self, kind: u32, of: u16, at: Ms, slot: Option<Ms>) {
        let place = self.slab.add(Entry {
            car: TIMER + kind,
            at,
            next: NONE,
            turns: 0,
            of,
            word: 0,
        });
        if slot == Some(at / SLOT_MS) {
            let key = key(kind, of, at, place);
            let before = self.due.partition_point(|&other| other < key);
            self.due.insert(before, key);
        } else {
            self.wheel.push(&mut self.slab, place);
        }
    }

    /// Puts `who` behind those that wait for a road.
    fn queue_up(&mut self, tail: u16, who: u16) {
        let last = std::mem::replace(&mut self.tails[usize::from(tail)].waiters, who);
        let first = if last == NONE16 {
            who
        } else {
            self.after(tail, last, who)
        };
        self.after(tail, who, first);
    }

    /// Sets who waits after `who`, and gives back who did.
    fn after(&mut self, tail: u16, who: u16, next: u16) -> u16 {
        let slot = match who {
            DRIVEWAY => &mut self.tails[usize::from(tail)].driveway_next,
            head => &mut self.heads[usize::from(head)].next_waiter,
        };
        std::mem::replace(slot, next)
    }

    fn next_waiter(&self, tail: u16, who: u16) -> u16 {
        match who {
            DRIVEWAY => self.tails[usize::from(tail)].driveway_next,
            head => self.heads[usize::from(head)].next_waiter,
        }
    }

    /// Takes the first of those that wait for a road.
    fn call_first(&mut self, tail: u16) -> u16 {
        let last = self.tails[usize::from(tail)].waiters;
        let first = self.next_waiter(tail, last);
        self.leave_queue(tail, last, first);
        first
    }

    /// Takes out `who`, who stands behind `before`.
    fn leave_queue(&mut self, tail: u16, before: u16, who: u16) {
        let next = self.next_waiter(tail, who);
        let last = self.tails[usize::from(tail)].waiters;
        if before == who {
            self.tails[usize::from(tail)].waiters = NONE16;
        } else {
            self.after(tail, before, next);
            if last == who {
                self.tails[usize::from(tail)].waiters = before;
            }
        }
    }

    /// Takes out `who`, wherever it stands.
    fn give_up(&mut self, tail: u16, who: u16) {
        let mut before = self.tails[usize::from(tail)].waiters;
        while self.next_waiter(tail, before) != who {
            before = self.next_waiter(tail, before);
        }
        self.leave_queue(tail, before, who);
    }

    fn tell(&mut self, at: Ms, car: u32, what: What, link: u32) {
        if let Some(record) = &mut self.record {
            record.push(Happening {
                at_ms: at,
                car,
                link,
                what,
            });
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.crossings.capacity() * size_of::<Crossing>()
            + self.heads.capacity() * size_of::<Head>()
            + self.tails.capacity() * size_of::<Tail>()
            + self.cuts.capacity() * size_of::<Cut>()
            + self.wheel.bytes()
            + self.due.capacity() * 8
            + self.car_bytes()
    }

    /// Those of them that are for cars and their holes.
    pub fn car_bytes(&self) -> usize {
        self.slab.bytes()
            + self.holes.capacity() * size_of::<Hole>()
            + self.calendar.capacity() * size_of::<Departure>()
            + self.driveways.capacity() * size_of::<Driveway>()
    }
}

/// What is due, as a number whose order is that of events. The place is for finding it; events that
/// are alike but for it are cars, and go by their number.
#[inline]
fn key(kind: u32, of: u16, at: Ms, place: u32) -> u64 {
    // The latest first, so that the next is at the end; of a place there is no order.
    let order = u64::from(at % SLOT_MS) << 19 | u64::from(kind) << 16 | u64::from(of);
    (order ^ 0xFFFF_FFFF) << 32 | u64::from(place)
}

#[inline]
fn of_key(key: u64) -> (u32, u16, Ms, u32) {
    let order = (key >> 32) ^ 0xFFFF_FFFF;
    (
        (order >> 16) as u32 & 7,
        order as u16,
        (order >> 19) as Ms,
        key as u32,
    )
}

/// One slot of a tile, while it is worked on.
struct Work<'a> {
    slot: Ms,
    rules: &'a Rules,
    mail: &'a mut [Vec<Message>],
    tile: &'a mut Tile,
}

impl Work<'_> {
    fn run(&mut self) {
        self.collect();
        let begin = self.slot * SLOT_MS;
        while let Some(key) = self.tile.due.pop() {
            let (kind, of, at, place) = of_key(key);
            let now = begin + at;
            match kind {
                WAKE => {
                    self.tile.slab.remove(place);
                    self.wake(of, now);
                }
                RETRY => {
                    self.tile.slab.remove(place);
                    self.tile.heads[usize::from(of)].flags &= !Head::RETRIES;
                    self.serve(of, now, false);
                }
                STUCK => {
                    self.tile.slab.remove(place);
                    self.look_after(of, now);
                }
                ARRIVE => self.arrive(of, place, now),
                _ => {
                    let entry = self.tile.slab[place];
                    self.tile.slab.remove(place);
                    self.depart(entry.car, of, entry.word, now);
                }
            }
        }
    }

    /// Gathers what is due in the slot, in order, the next last.
    fn collect(&mut self) {
        let tile = &mut *self.tile;
        let due = &mut tile.due;
        tile.wheel.drain(&mut tile.slab, self.slot, |place, entry| {
            let kind = if entry.car < TIMER {
                ARRIVE
            } else {
                entry.car - TIMER
            };
            due.push(key(kind, entry.of, entry.at, place));
        });
        let end = (self.slot + 1) * SLOT_MS;
        while let Some(&Reverse(departure)) = tile.calendar.peek().filter(|next| next.0.at < end) {
            tile.calendar.pop();
            let Departure {
                at,
                car,
                junction,
                word,
            } = departure;
            let place = tile.slab.add(Entry {
                car,
                at,
                next: NONE,
                turns: 0,
                of: junction,
                word,
            });
            due.push(key(DEPART, junction, at, place));
        }
        if tile.calendar.capacity() > 4 * tile.calendar.len() + 64 {
            tile.calendar.shrink_to(2 * tile.calendar.len());
        }
        due.sort_unstable();
        // Cars that come over the same road at the same instant go by their number.
        let mut begin = 0;
        while begin + 1 < due.len() {
            let alike = |a: u64, b: u64| a >> 32 == b >> 32;
            let mut end = begin + 1;
            while end < due.len() && alike(due[begin], due[end]) {
                end += 1;
            }
            if end - begin > 1 {
                let slab = &tile.slab;
                due[begin..end].sort_unstable_by_key(|&key| Reverse(slab[key as u32].car));
            }
            begin = end;
        }
    }

    /// A car has come to the end of its road.
    fn arrive(&mut self, head: u16, place: u32, now: Ms) {
        let record = &mut self.tile.heads[usize::from(head)];
        let last = std::mem::replace(&mut record.last, place);
        if last == NONE {
            record.since = now;
            self.tile.slab[place].next = place;
            debug_assert_eq!(
                record.flags & (Head::RETRIES | Head::WAITS),
                0,
                "nobody is there to wait"
            );
            self.serve(head, now, false);
        } else {
            let first = std::mem::replace(&mut self.tile.slab[last].next, place);
            self.tile.slab[place].next = first;
        }
    }

    /// Lets the first car of a road go, if it may; else sees to it that it is tried again. Who was
    /// called goes before those that still wait for the same road.
    fn serve(&mut self, head: u16, now: Ms, called: bool) {
        loop {
            let record = self.tile.heads[usize::from(head)];
            if record.last == NONE {
                return;
            }
            let crossing = self.tile.crossings[usize::from(record.junction)];
            let allowed = record.free_at.max(self.allowed(&crossing, head, now));
            if allowed > now {
                return self.retry(head, allowed);
            }
            let place = self.tile.slab[record.last].next;
            let car = self.tile.slab[place];
            let (mut turns, mut word) = (car.turns, car.word);
            if turns == 1 {
                word += 1;
                turns = self.rules.plans.word(car.car, word);
                let entry = &mut self.tile.slab[place];
                (entry.turns, entry.word) = (turns, word);
            }
            if turns == 0 {
                self.leave(head, now);
                self.tile.slab.remove(place);
                self.finish(car.car, head, word, now);
                continue;
            }
            let turn = turns & ((1 << crossing.turn_bits) - 1);
            let tail = crossing.first_tail + turn as u16;
            let first = called || self.tile.tails[usize::from(tail)].waiters == NONE16;
            if !(first && self.has_room(tail, now)) {
                return self.wait(head, tail, now);
            }
            self.leave(head, now);
            self.tile.slab[place].turns = turns >> crossing.turn_bits;
            self.tile.tally.crossings += 1;
            self.enter(tail, place, now);
        }
    }

    /// From when on the junction lets a road's first car cross, as far as is known now.
    #[inline]
    fn allowed(&self, crossing: &Crossing, head: u16, now: Ms) -> Ms {
        let approach = self.tile.heads[usize::from(head)].approach;
        match crossing.rule {
            Rule::Free => 0,
            Rule::Signal => {
                let program = &self.rules.programs[usize::from(crossing.program)];
                program.green(approach, crossing.offset_ms, now)
            }
            Rule::Priority if approach > 0 => 0,
            Rule::Priority => crossing.busy_until,
            Rule::Stop => crossing.busy_until + self.before(crossing, head),
        }
    }

    /// How many came to a stop before this road's first car and may still go: it tries as many
    /// milliseconds after them.
    fn before(&self, crossing: &Crossing, head: u16) -> Ms {
        let rank = |h: u16| (self.tile.heads[usize::from(h)].since, h);
        let heads = crossing.first_head..crossing.first_head + crossing.heads;
        let goes = |&h: &u16| {
            let other = &self.tile.heads[usize::from(h)];
            other.last != NONE && other.flags & Head::WAITS == 0 && rank(h) < rank(head)
        };
        heads.filter(goes).count() as Ms
    }

    fn retry(&mut self, head: u16, at: Ms) {
        let record = &mut self.tile.heads[usize::from(head)];
        if record.flags & Head::RETRIES == 0 {
            record.flags |= Head::RETRIES;
            self.tile.timer(RETRY, head, at, Some(self.slot));
        }
    }

    #[inline]
    fn has_room(&mut self, tail: u16, now: Ms) -> bool {
        if self.tile.tails[usize::from(tail)].room == 0 {
            self.tile.gather(tail, now);
        }
        let record = &self.tile.tails[usize::from(tail)];
        record.room > 0 && record.next_in <= now
    }

    /// The first car of `head` waits for room.
    fn wait(&mut self, head: u16, tail: u16, now: Ms) {
        let record = &mut self.tile.heads[usize::from(head)];
        let watched = record.flags & Head::WATCHED != 0;
        record.flags |= Head::WAITS | Head::WATCHED;
        let limit = record.since + self.rules.physics.stuck_ms;
        self.tile.queue_up(tail, head);
        self.tile.wake_when_due(tail, now, Some(self.slot));
        if !watched {
            self.tile
                .timer(STUCK, head, limit.max(now), Some(self.slot));
        }
    }

    /// There may be room on a road that some wait for.
    fn wake(&mut self, tail: u16, now: Ms) {
        self.tile.tails[usize::from(tail)].wakes = false;
        self.tile.gather(tail, now);
        while self.tile.tails[usize::from(tail)].waiters != NONE16 {
            if !self.has_room(tail, now) {
                return self.tile.wake_when_due(tail, now, Some(self.slot));
            }
            match self.tile.call_first(tail) {
                DRIVEWAY => self.pull_out(tail, now),
                head => {
                    self.tile.heads[usize::from(head)].flags &= !Head::WAITS;
                    self.serve(head, now, true);
                }
            }
        }
    }

    /// The first of the cars beside a road enters it.
    fn pull_out(&mut self, tail: u16, now: Ms) {
        let index = self.driveway(tail).expect("cars wait beside the road");
        let last = self.tile.driveways[index].last;
        let first = self.tile.slab[last].next;
        if first == last {
            self.tile.driveways.remove(index);
        } else {
            self.tile.slab[last].next = self.tile.slab[first].next;
            self.tile.queue_up(tail, DRIVEWAY);
        }
        self.tile.tally.beside -= 1;
        self.tile.tally.delay_ms += u64::from(now - self.tile.slab[first].at);
        self.begin(tail, first, now);
    }

    fn driveway(&self, tail: u16) -> Result<usize, usize> {
        self.tile
            .driveways
            .binary_search_by_key(&tail, |driveway| driveway.tail)
    }

    /// A car comes onto the roads from beside one.
    fn begin(&mut self, tail: u16, place: u32, now: Ms) {
        self.tile.tally.moving += 1;
        self.tile.tally.vehicle_ms -= i64::from(now);
        self.enter(tail, place, now);
    }

    /// A car waits beside a road to enter it.
    fn stand_beside(&mut self, tail: u16, place: u32, now: Ms) {
        self.tile.slab[place].at = now;
        self.tile.tally.beside += 1;
        match self.driveway(tail) {
            Ok(index) => {
                let driveway = &mut self.tile.driveways[index];
                let last = std::mem::replace(&mut driveway.last, place);
                let first = std::mem::replace(&mut self.tile.slab[last].next, place);
                self.tile.slab[place].next = first;
            }
            Err(index) => {
                self.tile.slab[place].next = place;
                self.tile
                    .driveways
                    .insert(index, Driveway { tail, last: place });
                self.tile.queue_up(tail, DRIVEWAY);
                self.tile.wake_when_due(tail, now, Some(self.slot));
            }
        }
    }

    /// A car enters a road that has room.
    fn enter(&mut self, tail: u16, place: u32, now: Ms) {
        let record = &mut self.tile.tails[usize::from(tail)];
        record.room -= 1;
        record.next_in = now + Ms::from(record.headway_ms);
        let (down, at) = (record.down, now + record.free_flow_ms);
        let link = self.tile.first_link + u32::from(tail);
        let entry = &mut self.tile.slab[place];
        entry.at = at;
        let entry = *entry;
        self.tile.tell(now, entry.car, What::Entered, link);
        if down & CUT == 0 {
            self.tile.slab[place].of = down as u16;
            self.tile.wheel.push(&mut self.tile.slab, place);
        } else {
            let cut = self.tile.cuts[(down & !CUT) as usize];
            self.tile.slab.remove(place);
            self.mail[usize::from(cut.neighbour)].push(Message {
                to: cut.there,
                word: entry.word,
                car: entry.car,
                at,
                turns: entry.turns,
            });
        }
    }

    /// The first car of a road leaves it, and its space goes upstream. Its entry is kept.
    fn leave(&mut self, head: u16, now: Ms) {
        let record = &mut self.tile.heads[usize::from(head)];
        let last = record.last;
        let first = self.tile.slab[last].next;
        if first == last {
            record.last = NONE;
        } else {
            self.tile.slab[last].next = self.tile.slab[first].next;
        }
        record.free_at = now + Ms::from(record.headway_ms);
        record.since = now;
        let (up, at, approach) = (record.up, now + record.hole_ms, record.approach);
        let crossing = &mut self.tile.crossings[usize::from(record.junction)];
        if crossing.rule == Rule::Stop || (crossing.rule == Rule::Priority && approach > 0) {
            crossing.busy_until = now + self.rules.physics.gap_ms;
        }
        let entry = self.tile.slab[first];
        self.tile.tally.delay_ms += u64::from(now - entry.at);
        if self.tile.record.is_some() {
            let link = self.tile.link_of_head(head);
            self.tile.tell(now, entry.car, What::Left, link);
        }
        if up & CUT == 0 {
            self.tile.hole(up as u16, at, now, Some(self.slot));
        } else {
            let cut = self.tile.cuts[(up & !CUT) as usize];
            let message = Message {
                to: cut.there,
                word: 0,
                car: NONE,
                at,
                turns: 0,
            };
            self.mail[usize::from(cut.neighbour)].push(message);
        }
    }

    /// A road's first car may have waited for too long: it steps aside, and waits beside its next road.
    fn look_after(&mut self, head: u16, now: Ms) {
        let record = &mut self.tile.heads[usize::from(head)];
        record.flags &= !Head::WATCHED;
        if record.flags & Head::WAITS == 0 {
            return;
        }
        let limit = record.since + self.rules.physics.stuck_ms;
        if now < limit {
            record.flags |= Head::WATCHED;
            return self.tile.timer(STUCK, head, limit, Some(self.slot));
        }
        record.flags &= !Head::WAITS;
        let (last, crossing) = (
            record.last,
            self.tile.crossings[usize::from(record.junction)],
        );
        let place = self.tile.slab[last].next;
        let turns = self.tile.slab[place].turns;
        let tail = crossing.first_tail + (turns & ((1 << crossing.turn_bits) - 1)) as u16;
        self.tile.give_up(tail, head);
        self.leave(head, now);
        self.tile.slab[place].turns = turns >> crossing.turn_bits;
        self.tile.tally.stepped_aside += 1;
        self.tile.tally.moving -= 1;
        self.tile.tally.vehicle_ms += i64::from(now);
        let link = self.tile.first_link + u32::from(tail);
        self.tile
            .tell(now, self.tile.slab[place].car, What::SteppedAside, link);
        self.stand_beside(tail, place, now);
        self.serve(head, now, false);
    }

    /// A car is at the end of its trip.
    fn finish(&mut self, car: u32, head: u16, word: u16, now: Ms) {
        self.tile.tally.moving -= 1;
        self.tile.tally.vehicle_ms += i64::from(now);
        self.tile.tally.arrived += 1;
        let link = self.tile.link_of_head(head);
        self.tile.tell(now, car, What::Arrived, link);
        let junction = self.tile.heads[usize::from(head)].junction;
        self.next_trip(car, junction, word + 1, now);
    }

    /// Begins the trip at `word`, or puts it on the calendar.
    fn next_trip(&mut self, car: u32, junction: u16, word: u16, now: Ms) {
        match self.rules.plans.departure(car, word) {
            None => self.tile.tally.done += 1,
            Some((at, word)) if at > now => {
                self.tile.tally.idle += 1;
                self.tile.calendar.push(Reverse(Departure {
                    at,
                    car,
                    junction,
                    word,
                }));
            }
            Some((_, word)) => {
                self.tile.tally.idle += 1;
                self.depart(car, junction, word, now);
            }
        }
    }

    /// A trip begins.
    fn depart(&mut self, car: u32, junction: u16, word: u16, now: Ms) {
        self.tile.tally.idle -= 1;
        self.tile.tally.begun += 1;
        let word = word + 1;
        let turns = self.rules.plans.word(car, word);
        if turns == 0 {
            self.tile.tally.arrived += 1;
            self.tile.tell(now, car, What::Arrived, NO_ROAD);
            self.tile.tell(now, car, What::Departed, NO_ROAD);
            return self.next_trip(car, junction, word + 1, now);
        }
        let crossing = &self.tile.crossings[usize::from(junction)];
        let (bits, first) = (crossing.turn_bits, crossing.first_tail);
        let tail = first + (turns & ((1 << bits) - 1)) as u16;
        let link = self.tile.first_link + u32::from(tail);
        self.tile.tell(now, car, What::Departed, link);
        let entry = Entry {
            car,
            at: now,
            next: NONE,
            turns: turns >> bits,
            of: 0,
            word,
        };
        let place = self.tile.slab.add(entry);
        if self.tile.tails[usize::from(tail)].waiters == NONE16 && self.has_room(tail, now) {
            self.begin(tail, place, now);
        } else {
            self.stand_beside(tail, place, now);
        }
    }
}

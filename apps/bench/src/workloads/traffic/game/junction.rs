//! A junction with both ends of its roads, and what happens there in a tick.
//!
//! EffectKind is due is found by looking at all of the junction's few roads. Events are taken in the order
//! of (time, kind, road), as creel-traffic's are.

use std::collections::VecDeque;

use creel_traffic::network::{Flow, Ms};

use super::{BACK, Rules};

/// Roads into a junction, and out of it, at most.
pub(super) const ROADS: usize = 4;
pub(super) const NEVER: Ms = Ms::MAX;
/// Among those that wait for a road: the cars beside it.
const ENTRY_QUEUE: u8 = ROADS as u8;

/// Kinds of what is due, in the order in which they come at one instant.
const WAKE: u64 = 0;
const RETRY: u64 = 1;
const ARRIVE: u64 = 2;
const DEPART: u64 = 3;

#[derive(Clone, Copy)]
pub(super) struct Car {
    /// The rest of the word of its route that it is in.
    pub turns: u64,
    /// The place of the next word.
    pub next: u32,
    /// When it is at the end of its road.
    pub at: Ms,
}

/// A road's end.
pub(super) struct LinkExit {
    /// All that are on the road, in order.
    queue: VecDeque<Car>,
    free_at: Ms,
    pub hole_ms: Ms,
    headway_ms: u16,
    approach: u8,
    /// The junction where the road begins, and which of its entries it is.
    up: (u32, u8),
}

/// A road's begin.
pub(super) struct LinkEntry {
    /// When space is free here that cars have left at the end.
    pub holes: VecDeque<Ms>,
    next_in: Ms,
    free_flow_ms: Ms,
    pub free_storage: u16,
    headway_ms: u16,
    down: (u32, u8),
}

/// EffectKind is looked at to find what is due stands together, so that a look is a line or two of the cache.
pub(super) struct Junction {
    /// By exit: when its first car may go, as far as is known; never while it waits for room.
    try_at: [Ms; ROADS],
    /// By exit: whether that is when the car comes to the end of the road.
    arrives: [bool; ROADS],
    /// By entry: when there is room for those that wait, if that is known.
    wake_at: [Ms; ROADS],
    pub exits: [LinkExit; ROADS],
    pub entries: [LinkEntry; ROADS],
    /// The program and how late it begins.
    signal: Option<(u16, Ms)>,
    /// Which entry, and who waits for it: exits, or the cars beside it. In the order of coming.
    waiting: Vec<(u8, u8)>,
    /// Cars beside the roads that begin here.
    entry_queue: VecDeque<(u8, Car)>,
    /// Trips to come: when, whose, the car. The next is the last.
    pub trips: Vec<(Ms, u32, Car)>,
    pub moving: i64,
    pub vehicle_ms: i64,
    pub crossings: u64,
}

/// EffectKind a junction does to another: a car comes to one of its exits, or a hole to one of its entries.
pub(super) struct Effect {
    pub to: u32,
    road: u8,
    kind: EffectKind,
}

enum EffectKind {
    Car(Car),
    Hole(Ms),
}

impl LinkExit {
    pub fn new(up: (u32, u8), approach: u8, flow: &Flow) -> Self {
        Self {
            queue: VecDeque::new(),
            free_at: 0,
            hole_ms: flow.hole_ms,
            headway_ms: flow.headway_ms,
            approach,
            up,
        }
    }
}

impl LinkEntry {
    pub fn new(down: (u32, u8), flow: &Flow) -> Self {
        Self {
            holes: VecDeque::new(),
            next_in: 0,
            free_flow_ms: flow.free_flow_ms,
            free_storage: flow.storage,
            headway_ms: flow.headway_ms,
            down,
        }
    }

    fn accepts_car(&mut self, now: Ms) -> bool {
        while self.holes.front().is_some_and(|&at| at <= now) {
            self.holes.pop_front();
            self.free_storage += 1;
        }
        self.free_storage > 0 && self.next_in <= now
    }
}

impl Junction {
    /// One without roads.
    pub fn new(signal: Option<(u16, Ms)>) -> Self {
        let none = Flow {
            free_flow_ms: 0,
            hole_ms: 0,
            headway_ms: 0,
            storage: 0,
        };
        Self {
            try_at: [NEVER; ROADS],
            arrives: [false; ROADS],
            wake_at: [NEVER; ROADS],
            exits: std::array::from_fn(|_| LinkExit::new((0, 0), 0, &none)),
            entries: std::array::from_fn(|_| LinkEntry::new((0, 0), &none)),
            signal,
            waiting: Vec::new(),
            entry_queue: VecDeque::new(),
            trips: Vec::new(),
            moving: 0,
            vehicle_ms: 0,
            crossings: 0,
        }
    }

    /// All that is due before `end`; gives when something is due next. EffectKind happens to others goes
    /// into `effects`.
    pub fn tick(&mut self, end: Ms, rules: &Rules, effects: &mut Vec<Effect>) -> Ms {
        loop {
            let next = self.next();
            let now = (next >> 8) as Ms;
            if now >= end {
                return now;
            }
            let road = next as usize & 15;
            match next >> 4 & 15 {
                WAKE => self.wake(road, now, rules, effects),
                RETRY | ARRIVE => self.serve(road, now, false, rules, effects),
                _ => {
                    let (_, _, car) = self.trips.pop().expect("it is due");
                    self.depart(car, now, effects);
                }
            }
        }
    }

    /// EffectKind is due first: when, its kind and its road, in one number.
    fn next(&self) -> u64 {
        let key = |at: Ms, kind, road| u64::from(at) << 8 | kind << 4 | road as u64;
        let first = self
            .trips
            .last()
            .map_or(u64::MAX, |trip| key(trip.0, DEPART, 0));
        let entries = self.wake_at.iter().enumerate();
        let entries = entries.map(|(road, &at)| key(at, WAKE, road));
        let exits = self.try_at.iter().zip(self.arrives).enumerate();
        let exits =
            exits.map(|(road, (&at, arrives))| key(at, if arrives { ARRIVE } else { RETRY }, road));
        entries.chain(exits).fold(first, u64::min)
    }

    /// Takes in what another does, and gives when this has something to do for it.
    pub fn apply_effect(&mut self, effect: &Effect) -> Ms {
        let road = usize::from(effect.road);
        match effect.kind {
            EffectKind::Car(car) => {
                let exit = &mut self.exits[road];
                if exit.queue.is_empty() {
                    (self.try_at[road], self.arrives[road]) = (car.at, true);
                }
                exit.queue.push_back(car);
                self.try_at[road]
            }
            EffectKind::Hole(at) => {
                self.entries[road].holes.push_back(at);
                if self.has_waiters(road) {
                    self.set_wake(road, 0);
                }
                self.wake_at[road]
            }
        }
    }

    /// Lets the first car of a road go, if it may; else it is tried again.
    fn serve(
        &mut self,
        road: usize,
        now: Ms,
        has_turn: bool,
        rules: &Rules,
        effects: &mut Vec<Effect>,
    ) {
        loop {
            let exit = &mut self.exits[road];
            let Some(mut car) = exit.queue.front().copied() else {
                self.try_at[road] = NEVER;
                return;
            };
            let earliest = car.at.max(exit.free_at);
            if earliest > now {
                (self.try_at[road], self.arrives[road]) = (earliest, earliest == car.at);
                return;
            }
            if let Some((program, offset_ms)) = self.signal {
                let program = &rules.programs[usize::from(program)];
                let green = program.green(exit.approach, offset_ms, now);
                if green > now {
                    (self.try_at[road], self.arrives[road]) = (green, false);
                    return;
                }
            }
            if car.turns == 1 {
                let word = rules.routes[car.next as usize];
                if word & BACK != 0 {
                    let begin = (word & !BACK) as usize;
                    self.leave(road, now, effects);
                    self.moving -= 1;
                    self.vehicle_ms += i64::from(now);
                    car.turns = rules.routes[begin];
                    car.next = begin as u32 + 1;
                    self.depart(car, now, effects);
                    continue;
                }
                car.turns = word;
                car.next += 1;
                exit.queue[0] = car;
            }
            let to = car.turns as usize & 3;
            let next = has_turn || !self.has_waiters(to);
            if !(next && self.entries[to].accepts_car(now)) {
                self.try_at[road] = NEVER;
                return self.wait(to, road as u8, now);
            }
            self.leave(road, now, effects);
            self.crossings += 1;
            car.turns >>= 2;
            self.enter(to, car, now, effects);
        }
    }

    /// Somebody waits: sets when there is room, if that is known and not set.
    fn set_wake(&mut self, to: usize, now: Ms) {
        let entry = &self.entries[to];
        let storage_at = if entry.free_storage > 0 {
            Some(now)
        } else {
            entry.holes.front().copied()
        };
        if let Some(storage_at) = storage_at.filter(|_| self.wake_at[to] == NEVER) {
            self.wake_at[to] = entry.next_in.max(storage_at).max(now);
        }
    }

    fn has_waiters(&self, to: usize) -> bool {
        self.waiting.iter().any(|&(of, _)| usize::from(of) == to)
    }

    fn wait(&mut self, to: usize, who: u8, now: Ms) {
        self.waiting.push((to as u8, who));
        self.set_wake(to, now);
    }

    /// There may be room on a road that some wait for.
    fn wake(&mut self, to: usize, now: Ms, rules: &Rules, effects: &mut Vec<Effect>) {
        self.wake_at[to] = NEVER;
        let first = |&(of, _): &(u8, u8)| usize::from(of) == to;
        while let Some(place) = self.waiting.iter().position(first) {
            if !self.entries[to].accepts_car(now) {
                return self.set_wake(to, now);
            }
            match self.waiting.remove(place).1 {
                ENTRY_QUEUE => self.leave_entry_queue(to, now, effects),
                exit => self.serve(usize::from(exit), now, true, rules, effects),
            }
        }
    }

    /// A trip begins here.
    fn depart(&mut self, mut car: Car, now: Ms, effects: &mut Vec<Effect>) {
        let to = car.turns as usize & 3;
        car.turns >>= 2;
        if !self.has_waiters(to) && self.entries[to].accepts_car(now) {
            self.begin(to, car, now, effects);
        } else {
            if !self
                .entry_queue
                .iter()
                .any(|&(of, _)| usize::from(of) == to)
            {
                self.wait(to, ENTRY_QUEUE, now);
            }
            self.entry_queue.push_back((to as u8, car));
        }
    }

    /// The first of the cars beside a road enters it.
    fn leave_entry_queue(&mut self, to: usize, now: Ms, effects: &mut Vec<Effect>) {
        let here = |&(of, _): &(u8, Car)| usize::from(of) == to;
        let place = self
            .entry_queue
            .iter()
            .position(here)
            .expect("somebody waits");
        let (_, car) = self.entry_queue.remove(place).expect("its place");
        if self.entry_queue.iter().any(here) {
            self.waiting.push((to as u8, ENTRY_QUEUE));
        }
        self.begin(to, car, now, effects);
    }

    fn begin(&mut self, to: usize, car: Car, now: Ms, effects: &mut Vec<Effect>) {
        self.moving += 1;
        self.vehicle_ms -= i64::from(now);
        self.enter(to, car, now, effects);
    }

    fn enter(&mut self, to: usize, car: Car, now: Ms, effects: &mut Vec<Effect>) {
        let entry = &mut self.entries[to];
        entry.free_storage -= 1;
        entry.next_in = now + Ms::from(entry.headway_ms);
        let at = now + entry.free_flow_ms;
        effects.push(Effect {
            to: entry.down.0,
            road: entry.down.1,
            kind: EffectKind::Car(Car { at, ..car }),
        });
    }

    fn leave(&mut self, road: usize, now: Ms, effects: &mut Vec<Effect>) {
        let exit = &mut self.exits[road];
        exit.queue.pop_front();
        exit.free_at = now + Ms::from(exit.headway_ms);
        effects.push(Effect {
            to: exit.up.0,
            road: exit.up.1,
            kind: EffectKind::Hole(now + exit.hole_ms),
        });
    }
}

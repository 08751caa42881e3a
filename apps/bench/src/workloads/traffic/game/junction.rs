//! A junction with the ends of its roads, and its events in a tick.
//!
//! A junction has only a few roads, so it finds its next event by checking all of them. Events are
//! handled in the order of (time, kind, road), as in creel-traffic.

use std::collections::VecDeque;

use creel_traffic::network::{Flow, Ms};

use super::{BACK, Rules};

/// The largest number of roads into a junction, and out of it.
pub(super) const ROADS: usize = 4;
pub(super) const NEVER: Ms = Ms::MAX;
/// In the list of waiters, this stands for the cars that wait next to a road.
const ENTRY_QUEUE: u8 = ROADS as u8;

/// The kinds of events, in the order in which they are handled at the same time.
const WAKE: u64 = 0;
const RETRY: u64 = 1;
const ARRIVE: u64 = 2;
const DEPART: u64 = 3;

#[derive(Clone, Copy)]
pub(super) struct Car {
    /// The turns that are left in the current word of the car's route.
    pub turns: u64,
    /// The index of the next word of the car's route.
    pub next: u32,
    /// The time at which the car reaches the end of its road.
    pub at: Ms,
}

/// The end of a road, which leads into this junction.
pub(super) struct LinkExit {
    /// The cars on the road, in order.
    queue: VecDeque<Car>,
    free_at: Ms,
    pub hole_ms: Ms,
    headway_ms: Ms,
    approach: u8,
    /// The junction where the road begins, and the index of the road's entry there.
    up: (u32, u8),
}

/// The begin of a road, which leads out of this junction.
pub(super) struct LinkEntry {
    /// The times at which holes arrive here. A hole is the space of a car that has left the road.
    pub holes: VecDeque<Ms>,
    next_in: Ms,
    free_flow_ms: Ms,
    pub free_storage: u16,
    headway_ms: Ms,
    down: (u32, u8),
}

/// A junction. The fields that determine the next event are next to each other, so that finding it
/// reads only one or two cache lines.
pub(super) struct Junction {
    /// For each exit, the earliest time at which its first car may go, or never while the car waits
    /// for space.
    try_at: [Ms; ROADS],
    /// For each exit, whether `try_at` is the time at which the car reaches the end of the road.
    arrives: [bool; ROADS],
    /// For each entry, the time at which there is space for a waiting car, if it is known.
    wake_at: [Ms; ROADS],
    pub exits: [LinkExit; ROADS],
    pub entries: [LinkEntry; ROADS],
    /// The program of the traffic light, and the offset by which its cycle starts later.
    signal: Option<(u16, Ms)>,
    /// The waiters in the order of their arrival. A waiter is a pair of the entry that is full, and
    /// of the exit whose first car waits for it. [`ENTRY_QUEUE`] stands for the cars next to the
    /// road.
    waiting: Vec<(u8, u8)>,
    /// The cars that wait next to the roads that begin here.
    entry_queue: VecDeque<(u8, Car)>,
    /// The future trips. Each entry has the time of departure, the index of the car, and the car.
    /// They are sorted so that the next trip is at the end, where removing it is cheap.
    pub trips: Vec<(Ms, u32, Car)>,
    pub moving: i64,
    pub vehicle_ms: i64,
    pub crossings: u64,
}

/// An effect on another junction: a car arrives at one of its exits, or a hole at one of its
/// entries.
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
    /// Creates a junction without roads.
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

    /// Handles all events before `end`, and returns the time of the next event. Effects on other
    /// junctions are added to `effects`.
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
                    let (_, _, car) = self.trips.pop().expect("a trip is due");
                    self.depart(car, now, effects);
                }
            }
        }
    }

    /// Returns the next event: its time, its kind and its road, in one number.
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

    /// Applies an effect of another junction. Returns the time of the next event at the road end
    /// that it changes.
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

    /// Lets the cars of a road go, as long as the first one may. Otherwise, sets when to try again.
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

    /// Sets the time at which there is space for a waiting car, if it is known and not set yet.
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

    fn wait(&mut self, to: usize, waiter: u8, now: Ms) {
        self.waiting.push((to as u8, waiter));
        self.set_wake(to, now);
    }

    /// Lets waiting cars enter a road, as long as it has space.
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

    /// Begins a trip. The car enters the road, or waits next to it.
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

    /// Lets the first car that waits next to a road enter it.
    fn leave_entry_queue(&mut self, to: usize, now: Ms, effects: &mut Vec<Effect>) {
        let here = |&(of, _): &(u8, Car)| usize::from(of) == to;
        let place = self
            .entry_queue
            .iter()
            .position(here)
            .expect("a car waits next to the road");
        let (_, car) = self
            .entry_queue
            .remove(place)
            .expect("the position is valid");
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
        entry.next_in = now + entry.headway_ms;
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
        exit.free_at = now + exit.headway_ms;
        effects.push(Effect {
            to: exit.up.0,
            road: exit.up.1,
            kind: EffectKind::Hole(now + exit.hole_ms),
        });
    }
}

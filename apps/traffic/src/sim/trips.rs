//! The begin and the end of trips: cars that depart or wait in an entry queue, and cars that have
//! arrived at their destination.

use super::events::Work;
use super::records::*;
use super::slab::NONE;
use super::{EventKind, NO_ROAD};
use crate::demand::is_turns;
use crate::network::Ms;

impl Work<'_> {
    /// Begins the trip at a place of the plans. A trip without links ends at once, so we also begin
    /// the trips after it that are due.
    pub fn depart(&mut self, place: u32, junction: u16, now: Ms) {
        let mut next = Some(place);
        while let Some(place) = next {
            next = self.depart_once(place, junction, now);
        }
    }

    /// Begins one trip. If it has no links and the next trip of the car begins at once, returns the
    /// place of that trip in the plans.
    fn depart_once(&mut self, place: u32, junction: u16, now: Ms) -> Option<u32> {
        self.tile.tally.idle -= 1;
        self.tile.tally.begun += 1;
        let place = place + 1;
        let turns = self.rules.plans.word(place);
        if !is_turns(turns) {
            self.tile.tally.arrived += 1;
            self.record_event(now, place - 1, EventKind::Departed, NO_ROAD);
            self.record_event(now, place - 1, EventKind::Arrived, NO_ROAD);
            return self.next_trip(place, junction, now);
        }
        let node = &self.tile.nodes[usize::from(junction)];
        let (bits, first) = (node.turn_bits, node.first_entry);
        let entry = first + (turns & ((1 << bits) - 1)) as u16;
        let link = self.tile.first_link + u32::from(entry);
        self.record_event(now, place, EventKind::Departed, link);
        let car = self.tile.cars.add(Car {
            at: now,
            next: NONE,
            turns: turns >> bits,
            place,
            exit: 0,
        });
        if self.tile.entries[usize::from(entry)].last_waiter == NONE16
            && self.accepts_car(ENTRY_QUEUE, entry, now)
        {
            self.begin(entry, car, now);
        } else {
            self.join_entry_queue(entry, car, now);
        }
        None
    }

    /// Lets a car enter its link, from a departure or from an entry queue.
    fn begin(&mut self, entry: u16, car: u32, now: Ms) {
        self.tile.tally.moving += 1;
        self.tile.tally.vehicle_ms -= i64::from(now);
        self.enter(entry, car, now);
    }

    /// Adds a car to the entry queue of a link.
    pub fn join_entry_queue(&mut self, entry: u16, car: u32, now: Ms) {
        let tile = &mut *self.tile;
        tile.cars[car].at = now;
        tile.tally.waiting_to_enter += 1;
        match tile.entry_queue(entry) {
            Ok(index) => {
                let entry_queue = &mut tile.entry_queues[index];
                entry_queue.last = tile.cars.append(entry_queue.last, car);
            }
            Err(index) => {
                let last = tile.cars.append(NONE, car);
                let next_waiter = NONE16;
                let entry_queue = EntryQueue {
                    last,
                    entry,
                    next_waiter,
                    tag: None,
                };
                tile.entry_queues.insert(index, entry_queue);
                tile.push_waiter(entry, ENTRY_QUEUE);
                tile.wake_when_due(entry, now, Some(self.end));
            }
        }
    }

    /// Lets the first car of an entry queue enter the link.
    pub fn leave_entry_queue(&mut self, entry: u16, now: Ms) {
        let index = self
            .tile
            .entry_queue(entry)
            .expect("a waiting entry queue contains cars");
        let entry_queue = &mut self.tile.entry_queues[index];
        let first = self.tile.cars[entry_queue.last].next;
        entry_queue.last = self.tile.cars.unlink_first(entry_queue.last);
        if entry_queue.last == NONE {
            self.tile.entry_queues.remove(index);
        } else {
            self.tile.push_waiter(entry, ENTRY_QUEUE);
        }
        self.tile.tally.waiting_to_enter -= 1;
        self.tile.tally.delay_ms += u64::from(now - self.tile.cars[first].at);
        self.begin(entry, first, now);
    }

    /// Lets a car that has stepped aside drive past a full link, in the time of free flow.
    ///
    /// The car waits in the entry queue instead if the link is closed, if it has room, or if its
    /// capacity is so low that it is normal to wait. Otherwise more cars than the capacity of the
    /// link would pass.
    pub fn drive_past(&mut self, entry: u16, car: u32, now: Ms) {
        self.tile.absorb_holes(entry, now);
        let needed = self.tile.needed_places(ENTRY_QUEUE, entry);
        let record = &self.tile.entries[usize::from(entry)];
        let is_slow = record.headway_ms > self.rules.physics.stuck_ms / 10;
        if record.next_in == LinkEntry::CLOSED || is_slow || record.free_storage >= needed {
            return self.join_entry_queue(entry, car, now);
        }
        let (down, at) = (record.down, now + record.free_flow_ms());
        self.tile.tally.waiting_to_enter += 1;
        let car_record = &mut self.tile.cars[car];
        car_record.at = at;
        if down & CUT == 0 {
            car_record.exit = (down & INDEX) as u16 | ASIDE16;
            if at < self.end {
                self.tile
                    .insert_arrival((down & INDEX) as u16 | ASIDE16, at, car);
            } else {
                self.tile.arrival_wheel.push(&mut self.tile.cars, car);
            }
        } else {
            let Car { turns, place, .. } = *car_record;
            let cut = self.tile.cuts[(down & INDEX) as usize];
            self.tile.cars.remove(car);
            self.mail[usize::from(cut.neighbour)].push(Message {
                at,
                turns,
                place,
                to: cut.there | ASIDE16,
            });
        }
    }

    /// Lets a car that has driven past a link enter the next one. If there is no room, the car
    /// drives past that link as well.
    pub fn return_to_road(&mut self, exit: u16, car: u32, now: Ms) {
        self.tile.tally.waiting_to_enter -= 1;
        let junction = self.tile.exits[usize::from(exit & !ASIDE16)].junction;
        let node = self.tile.nodes[usize::from(junction)];
        let record = self.tile.cars[car];
        let (mut turns, mut place) = (record.turns, record.place);
        if turns == 1 {
            let (next, word) = self.rules.follow(place + 1);
            if !is_turns(word) {
                self.tile.cars.remove(car);
                return self.end_trip(next, exit, now);
            }
            (turns, place) = (word, next);
        }
        let entry = node.first_entry + (turns & ((1 << node.turn_bits) - 1)) as u16;
        let record = &mut self.tile.cars[car];
        (record.turns, record.place) = (turns >> node.turn_bits, place);
        let has_turn = self.tile.entries[usize::from(entry)].last_waiter == NONE16;
        if has_turn && self.accepts_car(ENTRY_QUEUE, entry, now) {
            self.begin(entry, car, now);
        } else {
            self.drive_past(entry, car, now);
        }
    }

    /// Ends the trip of a car at the end of its link. `place` is the place in the plans after the
    /// trip.
    pub fn finish(&mut self, place: u32, exit: u16, now: Ms) {
        self.tile.tally.moving -= 1;
        self.tile.tally.vehicle_ms += i64::from(now);
        self.end_trip(place, exit, now);
    }

    fn end_trip(&mut self, place: u32, exit: u16, now: Ms) {
        self.tile.tally.arrived += 1;
        if self.tile.recorded_events.is_some() {
            let link = self.tile.link_of_exit(exit);
            self.record_event(now, place - 1, EventKind::Arrived, link);
        }
        let junction = self.tile.exits[usize::from(exit & !ASIDE16)].junction;
        if let Some(next) = self.next_trip(place, junction, now) {
            self.depart(next, junction, now);
        }
    }

    /// Schedules the next trip of a car. If the trip begins at once, returns its place in the plans
    /// instead.
    fn next_trip(&mut self, place: u32, junction: u16, now: Ms) -> Option<u32> {
        let Some((at, place)) = self.rules.plans.departure(place) else {
            self.tile.tally.done += 1;
            return None;
        };
        self.tile.tally.idle += 1;
        if at <= now {
            return Some(place);
        }
        self.schedule(Departure {
            at,
            place,
            junction,
        });
        None
    }
}

//! Moves cars onto a link (a road in one direction) and off it.

use super::EventKind;
use super::events::Work;
use super::records::*;
use super::slab::NONE;
use crate::network::Ms;

impl Work<'_> {
    /// Returns whether a link can take a car now. It needs free storage, and enough time must have
    /// passed since the last car. `exit` is the exit at which the car waits, or [`ENTRY_QUEUE`].
    #[inline]
    pub fn accepts_car(&mut self, exit: u16, entry: u16, now: Ms) -> bool {
        let needed = self.tile.needed_places(exit, entry);
        if self.tile.entries[usize::from(entry)].free_storage < needed {
            self.tile.absorb_holes(entry, now);
        }
        let record = &self.tile.entries[usize::from(entry)];
        record.free_storage >= needed && record.next_in <= now
    }

    /// Handles the wake timer of a link that cars wait for. Lets waiting cars enter while there is
    /// storage.
    pub fn wake(&mut self, entry: u16, now: Ms) {
        self.tile.entries[usize::from(entry)].set_wakes(false);
        self.tile.absorb_holes(entry, now);
        while self.tile.entries[usize::from(entry)].last_waiter != NONE16 {
            let (before, waiter) = self.tile.choose_waiter(entry);
            if !self.accepts_car(waiter, entry, now) {
                return self.tile.wake_when_due(entry, now, Some(self.end));
            }
            self.tile.pop_waiter(entry, (before, waiter));
            match waiter {
                ENTRY_QUEUE => self.leave_entry_queue(entry, now),
                exit => {
                    self.tile.exits[usize::from(exit)].flags &= !LinkExit::BLOCKED;
                    self.serve(exit, now, true);
                }
            }
        }
    }

    /// Lets a car enter a link. The link must have free storage.
    pub fn enter(&mut self, entry: u16, place: u32, now: Ms) {
        let record = &mut self.tile.entries[usize::from(entry)];
        record.free_storage -= 1;
        record.next_in = now + record.headway_ms;
        let (down, mut at) = (record.down, now + record.free_flow_ms());
        if self.rules.roads.is_some() {
            at = self.arrival_among_slow_cars(entry, place, now);
        }
        let car = &mut self.tile.cars[place];
        car.at = at;
        let car = *car;
        if down & CUT == 0 {
            let exit = (down & INDEX) as u16;
            self.tile.cars[place].exit = exit;
            if at < self.end {
                self.tile.insert_arrival(exit, at, place);
            } else {
                self.tile.arrival_wheel.push(&mut self.tile.cars, place);
            }
            if down & WATCHED != 0 {
                self.tile.watch(exit, place);
            }
        } else {
            let cut = self.tile.cuts[(down & INDEX) as usize];
            let watched = if down & WATCHED != 0 { WATCHED16 } else { 0 };
            self.tile.cars.remove(place);
            self.mail[usize::from(cut.neighbour)].push(Message {
                at,
                turns: car.turns,
                place: car.place,
                to: cut.there | watched,
            });
        }
        let link = self.tile.first_link + u32::from(entry);
        self.record_event(now, car.place, EventKind::Entered, link);
    }

    /// Removes the first car from a link, and sends a hole to the beginning of the link. Keeps the
    /// record of the car, because the car enters its next link or ends its trip.
    pub fn leave(&mut self, exit: u16, now: Ms) {
        let record = &mut self.tile.exits[usize::from(exit)];
        let first = self.tile.cars[record.last].next;
        record.last = self.tile.cars.unlink_first(record.last);
        record.free_at = now + record.headway_ms;
        record.since = now;
        let (up, at) = (record.up, now + record.hole_ms);
        let node = &mut self.tile.nodes[usize::from(record.junction)];
        if node.rule == Rule::Stop {
            node.busy_until = now + self.rules.physics.gap_ms;
        }
        let car = self.tile.cars[first];
        let late_ms = now - car.at;
        self.tile.tally.delay_ms += u64::from(late_ms);
        self.tile.tally.waiting -= 1;
        self.tile.tally.waited_ms += i64::from(now);
        if let Some(lateness) = self.tile.lateness.get_mut(usize::from(exit)) {
            lateness.sum_ms += u64::from(late_ms);
            lateness.cars += 1;
        }
        if self.tile.recorded_events.is_some() {
            let link = self.tile.link_of_exit(exit);
            self.record_event(now, car.place, EventKind::Left, link);
        }
        if up & CUT == 0 {
            self.tile.hole(up as u16, at, now, Some(self.end));
        } else {
            let cut = self.tile.cuts[(up & INDEX) as usize];
            self.mail[usize::from(cut.neighbour)].push(Message {
                at,
                turns: 0,
                place: NONE,
                to: cut.there,
            });
        }
    }
}

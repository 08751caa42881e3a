//! The end of a link: cars that arrive there, and how the junction lets the first of them cross. We
//! compute the state of traffic lights when a car asks for it, so lights need no events.

use super::EventKind;
use super::events::{RETRY, STUCK, Work};
use super::records::*;
use super::slab::NONE;
use crate::demand::is_turns;
use crate::network::Ms;

impl Work<'_> {
    /// Handles a car that arrives at the end of its link.
    pub fn arrive(&mut self, exit: u16, car: u32, now: Ms) {
        if exit & ASIDE16 != 0 {
            return self.return_to_road(exit, car, now);
        }
        self.tile.tally.waiting += 1;
        self.tile.tally.waited_ms -= i64::from(now);
        if self.tile.exits[usize::from(exit)].flags & LinkExit::WATCHED != 0 {
            self.tile.unwatch(exit, car);
        }
        let record = &mut self.tile.exits[usize::from(exit)];
        let last = record.last;
        record.last = self.tile.cars.append(last, car);
        if last == NONE {
            record.since = now;
            debug_assert_eq!(
                record.flags & (LinkExit::RETRY_TIMER | LinkExit::BLOCKED),
                0,
                "an empty link has no waiting car"
            );
            self.serve(exit, now, false);
        }
    }

    /// Lets cars at the end of a link cross while they may. Otherwise sets a timer or queues the
    /// link for storage, so that the first car tries again. `has_turn` means that the link has just
    /// been taken from the queue for storage, so its car precedes the links that still wait there.
    pub fn serve(&mut self, exit: u16, now: Ms, has_turn: bool) {
        loop {
            let record = self.tile.exits[usize::from(exit)];
            if record.last == NONE {
                return;
            }
            let node = self.tile.nodes[usize::from(record.junction)];
            let allowed = record.free_at.max(self.allowed(&node, exit, now));
            if allowed > now {
                return self.retry(exit, allowed);
            }
            let first = self.tile.cars[record.last].next;
            let car = self.tile.cars[first];
            let mut turns = car.turns;
            if turns == 1 {
                let (place, word) = self.rules.follow(car.place + 1);
                if !is_turns(word) {
                    self.leave(exit, now);
                    self.tile.cars.remove(first);
                    self.finish(place, exit, now);
                    continue;
                }
                turns = word;
                let car = &mut self.tile.cars[first];
                (car.turns, car.place) = (turns, place);
            }
            let turn = turns & ((1 << node.turn_bits) - 1);
            let entry = node.first_entry + turn as u16;
            let movement = match node.rule {
                Rule::Priority => self.tile.right_of_way.find(exit, entry),
                _ => None,
            };
            if let Some(movement) = movement {
                let allowed = self.right_of_way(&node, exit, movement, now);
                if allowed > now {
                    return self.retry(exit, allowed);
                }
            }
            let next = has_turn || self.tile.entries[usize::from(entry)].last_waiter == NONE16;
            if !(next && self.accepts_car(exit, entry, now)) {
                return self.wait(exit, entry, now);
            }
            self.leave(exit, now);
            if let Some(movement) = movement {
                self.note_crossing(exit, movement, now);
            }
            self.tile.cars[first].turns = turns >> node.turn_bits;
            self.tile.tally.crossings += 1;
            self.enter(entry, first, now);
        }
    }

    /// Returns the earliest time at which the control of the junction, such as a traffic light,
    /// lets the first car cross. The time can change later, for example if another car crosses
    /// first.
    #[inline]
    fn allowed(&self, node: &Node, exit: u16, now: Ms) -> Ms {
        let approach = self.tile.exits[usize::from(exit)].approach;
        match node.rule {
            Rule::Free | Rule::Priority => 0,
            Rule::Signal => {
                let program = &self.rules.programs[usize::from(node.program)];
                program.green(approach, node.offset_ms, now)
            }
            Rule::Stop => node.busy_until + self.before(exit),
        }
    }

    /// Returns the number of cars that arrived at a stop before the first car of this link and are
    /// not blocked. The first car tries that number of milliseconds later, so that the others go
    /// first.
    fn before(&self, exit: u16) -> Ms {
        let junction = usize::from(self.tile.exits[usize::from(exit)].junction);
        let [here, after] = [junction, junction + 1].map(|j| self.tile.nodes[j].first_exit);
        let rank = |h: u16| (self.tile.exits[usize::from(h)].since, h);
        let goes = |&h: &u16| {
            let other = &self.tile.exits[usize::from(h)];
            other.last != NONE && other.flags & LinkExit::BLOCKED == 0 && rank(h) < rank(exit)
        };
        (here..after).filter(goes).count() as Ms
    }

    fn retry(&mut self, exit: u16, at: Ms) {
        let record = &mut self.tile.exits[usize::from(exit)];
        if record.flags & LinkExit::RETRY_TIMER == 0 {
            record.flags |= LinkExit::RETRY_TIMER;
            self.set_timer(RETRY, exit, at);
        }
    }

    /// Queues the first car of `exit` for storage on the next link.
    fn wait(&mut self, exit: u16, entry: u16, now: Ms) {
        let record = &mut self.tile.exits[usize::from(exit)];
        let has_stuck_timer = record.flags & LinkExit::STUCK_TIMER != 0;
        record.flags |= LinkExit::BLOCKED | LinkExit::STUCK_TIMER;
        let limit = record.since + self.rules.physics.stuck_ms;
        self.tile.push_waiter(entry, exit);
        self.tile.wake_when_due(entry, now, Some(self.end));
        if !has_stuck_timer {
            self.set_timer(STUCK, exit, limit.max(now));
        }
    }

    /// Handles the stuck timer. If the first car has been blocked for too long, it steps aside: it
    /// leaves the link and drives past the next one.
    pub fn on_stuck_timeout(&mut self, exit: u16, now: Ms) {
        let record = &mut self.tile.exits[usize::from(exit)];
        record.flags &= !LinkExit::STUCK_TIMER;
        if record.flags & LinkExit::BLOCKED == 0 {
            return;
        }
        let limit = record.since + self.rules.physics.stuck_ms;
        if now < limit {
            record.flags |= LinkExit::STUCK_TIMER;
            return self.set_timer(STUCK, exit, limit);
        }
        record.flags &= !LinkExit::BLOCKED;
        let (last, junction) = (record.last, record.junction);
        let node = self.tile.nodes[usize::from(junction)];
        let first = self.tile.cars[last].next;
        let car = self.tile.cars[first];
        let entry = node.first_entry + (car.turns & ((1 << node.turn_bits) - 1)) as u16;
        self.tile.remove_waiter(entry, exit);
        self.leave(exit, now);
        self.tile.cars[first].turns = car.turns >> node.turn_bits;
        self.tile.tally.stepped_aside += 1;
        self.tile.tally.moving -= 1;
        self.tile.tally.vehicle_ms += i64::from(now);
        let link = self.tile.first_link + u32::from(entry);
        self.record_event(now, car.place, EventKind::SteppedAside, link);
        self.drive_past(entry, first, now);
        self.serve(exit, now, false);
    }
}

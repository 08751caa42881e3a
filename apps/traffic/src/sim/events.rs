//! Processes the events of one slot of a tile in order.
//!
//! At the beginning of a slot, we collect and sort its arrivals, timers and departures. A timer
//! that is set for the same slot during processing is inserted at its position. We process them in
//! the order of (time, kind, link, car), because the results must not depend on the tiles.

use super::records::*;
use super::tile::Tile;
use super::wheel::SLOT_MS;
use super::{Event, EventKind, Rules};
use crate::network::Ms;
use std::cmp::Reverse;

/// The kinds of events, in the order in which they are processed at one instant. The first three
/// are timers.
pub(super) const WAKE: u16 = 0;
pub(super) const RETRY: u16 = 1;
pub(super) const STUCK: u16 = 2;
const ARRIVE: u16 = 3;
const DEPART: u16 = 4;

/// Encodes an event as a number. The numbers are in the reverse order of the events. The next event
/// is therefore the last element of a sorted list, where removing it is cheap. The lower half holds
/// the payload of the event, for example the place of a car.
#[inline]
fn event_key(kind: u16, of: u16, at: Ms, payload: u32) -> u64 {
    let order = u64::from(at % SLOT_MS) << 19 | u64::from(kind) << 16 | u64::from(of);
    (order ^ 0xFFFF_FFFF) << 32 | u64::from(payload)
}

#[inline]
fn decode_event(event_key: u64) -> (u16, u16, Ms, u32) {
    let order = (event_key >> 32) ^ 0xFFFF_FFFF;
    (
        (order >> 16) as u16 & 7,
        order as u16,
        (order >> 19) as Ms,
        event_key as u32,
    )
}

impl Tile {
    /// Sets a timer of this kind for the exit or entry `of`. `end` is the end of the time slot that
    /// is being processed, if there is one.
    pub fn set_timer(&mut self, kind: u16, of: u16, at: Ms, end: Option<Ms>) {
        if end.is_some_and(|end| at < end) {
            return self.insert_event(event_key(kind, of, at, 0));
        }
        let place = self.timers.add(Timer::new(at, kind, of));
        self.timer_wheel.push(&mut self.timers, place);
    }

    /// Adds the arrival of a car at an exit within the time slot that is being processed.
    pub fn insert_arrival(&mut self, exit: u16, at: Ms, car: u32) {
        self.insert_event(event_key(ARRIVE, exit, at, car));
    }

    fn insert_event(&mut self, event_key: u64) {
        let before = self.due_events.partition_point(|&other| other < event_key);
        self.due_events.insert(before, event_key);
    }
}

/// The context for processing the events of a tile in one time slot, which is an eighth of a
/// second.
pub(super) struct Work<'a> {
    pub slot: Ms,
    /// The end of the slot, or the time at which the run ends, if that is earlier.
    pub end: Ms,
    pub rules: &'a Rules,
    pub mail: &'a mut [Vec<Message>],
    pub tile: &'a mut Tile,
}

impl Work<'_> {
    pub fn run(&mut self) {
        self.collect_due();
        let begin = self.slot * SLOT_MS;
        while let Some(event) = self.tile.due_events.pop() {
            let (kind, of, at, payload) = decode_event(event);
            let now = begin + at;
            match kind {
                WAKE => self.wake(of, now),
                RETRY => {
                    self.tile.exits[usize::from(of)].flags &= !LinkExit::RETRY_TIMER;
                    self.serve(of, now, false);
                }
                STUCK => self.on_stuck_timeout(of, now),
                ARRIVE => self.arrive(of, payload, now),
                _ => self.depart(!payload, of, now),
            }
        }
    }

    /// Collects the events of the slot and sorts them, with the next event last.
    fn collect_due(&mut self) {
        let Tile {
            cars,
            arrival_wheel,
            timers,
            timer_wheel,
            departures,
            due_events,
            ..
        } = &mut *self.tile;
        arrival_wheel.drain(cars, self.slot, self.end, |_, place, car| {
            due_events.push(event_key(ARRIVE, car.exit, car.at, place));
        });
        let arrived = due_events.len();
        timer_wheel.drain(timers, self.slot, self.end, |timers, place, timer| {
            due_events.push(event_key(timer.kind(), timer.of(), timer.at, 0));
            timers.remove(place);
        });
        let end = self.end;
        while let Some(&Reverse(next)) = departures.peek().filter(|next| next.0.at < end) {
            departures.pop();
            due_events.push(event_key(DEPART, next.junction, next.at, !next.place));
        }
        if departures.capacity() > 4 * departures.len() + 64 {
            departures.shrink_to(2 * departures.len());
        }
        due_events.sort_unstable();
        if arrived < 2 {
            return;
        }
        // We order cars that arrive from the same link at the same instant by their number, because
        // the order must not depend on the tiles.
        let mut begin = 0;
        while begin + 1 < due_events.len() {
            let alike = |a: u64, b: u64| a >> 32 == b >> 32;
            let mut end = begin + 1;
            while end < due_events.len() && alike(due_events[begin], due_events[end]) {
                end += 1;
            }
            if end - begin > 1 && decode_event(due_events[begin]).0 == ARRIVE {
                let number =
                    |&event_key: &u64| Reverse(self.rules.order(cars[event_key as u32].place));
                due_events[begin..end].sort_unstable_by_key(number);
            }
            begin = end;
        }
    }

    pub fn set_timer(&mut self, kind: u16, of: u16, at: Ms) {
        self.tile.set_timer(kind, of, at, Some(self.end));
    }

    /// Schedules a trip for its departure time.
    pub fn schedule(&mut self, departure: Departure) {
        let Departure {
            at,
            place,
            junction,
        } = departure;
        if at < self.end {
            self.tile
                .insert_event(event_key(DEPART, junction, at, !place));
        } else {
            self.tile.departures.push(Reverse(departure));
        }
    }

    /// Records an event of the car whose plan contains `place`, if recording is enabled.
    #[inline]
    pub fn record_event(&mut self, at_ms: Ms, place: u32, kind: EventKind, link: u32) {
        if let Some(record) = &mut self.tile.recorded_events {
            record.push(Event {
                at_ms,
                car: self.rules.traveller(place),
                link,
                kind,
            });
        }
    }
}

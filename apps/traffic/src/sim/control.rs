//! Changes to the cars of a running simulation, between two steps. `roads.rs` changes roads and
//! traffic lights.
//!
//! A change depends only on the state and its arguments. Therefore two copies that make the same
//! changes at the same times stay equal, which `hash` confirms.

use super::events::RETRY;
use super::records::*;
use super::slab::NONE;
use super::tile::Tile;
use super::{Event, EventKind, Simulation};
use crate::demand::{Route, Traveller, is_turns};
use crate::network::{Ms, NetworkError};
use creel::Pool;
use std::cmp::Reverse;
use std::sync::Arc;

/// The place of a car at the present time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// The car waits for the departure of its next trip.
    Idle,
    /// The car waits to enter this link.
    Entering(u32),
    /// The car is on this link.
    OnRoad(u32),
    /// The car was blocked for longer than [`Physics::stuck_ms`](crate::network::Physics), so it
    /// has left the road. It drives past this link without using its storage, and returns to the
    /// road where there is room.
    Aside(u32),
    /// The car has ended its last trip, or it was removed.
    Done,
}

/// The list in which we have found a car, and the place of the car in it. The four lists are trips
/// that have not begun, an entry queue, the cars on links, and the cars that wait at the end of a
/// link.
#[derive(Clone, Copy)]
enum Found {
    Departure { tile: usize, index: u32 },
    Queue { tile: usize, index: usize, car: u32 },
    Driving { tile: usize, car: u32 },
    Waiting { tile: usize, exit: u16, car: u32 },
}

pub(super) fn fail<T>(text: String) -> Result<T, NetworkError> {
    Err(NetworkError(text))
}

impl Simulation {
    /// Returns the place of a car, or `None` if there is no car with this number. The method
    /// searches all cars, which takes a millisecond for 100,000 cars. If you need many positions,
    /// use [`positions`](Self::positions).
    pub fn whereabouts(&self, car: u32) -> Option<Whereabouts> {
        if car as usize >= self.rules.plans.len() {
            return None;
        }
        Some(match self.find(car) {
            None => Whereabouts::Done,
            Some(Found::Departure { .. }) => Whereabouts::Idle,
            Some(Found::Queue { tile, index, .. }) => {
                let tile = &self.tiles[tile];
                let entry = u32::from(tile.entry_queues[index].entry);
                Whereabouts::Entering(tile.first_link + entry)
            }
            Some(Found::Driving { tile, car }) => {
                let tile = &self.tiles[tile];
                let link = tile.link_of_exit(tile.cars[car].exit);
                match tile.cars[car].is_aside() {
                    true => Whereabouts::Aside(link),
                    false => Whereabouts::OnRoad(link),
                }
            }
            Some(Found::Waiting { tile, exit, .. }) => {
                Whereabouts::OnRoad(self.tiles[tile].link_of_exit(exit))
            }
        })
    }

    fn find(&self, car: u32) -> Option<Found> {
        let plan = self.rules.plans.places_of(car);
        let is_car = |place: u32| plan.contains(&self.rules.order(place));
        for (number, tile) in self.tiles.iter().enumerate() {
            let mut found = None;
            tile.arrival_wheel.each(&tile.cars, |car| {
                if is_car(tile.cars[car].place) {
                    found = Some(Found::Driving { tile: number, car });
                }
            });
            for (exit, record) in (0..).zip(&tile.exits) {
                let mut waiting = tile.cars.ring(record.last);
                if let Some(car) = waiting.find(|&car| is_car(tile.cars[car].place)) {
                    let tile = number;
                    found = Some(Found::Waiting { tile, exit, car });
                }
            }
            for (index, queue) in tile.entry_queues.iter().enumerate() {
                let mut waiting = tile.cars.ring(queue.last);
                if let Some(car) = waiting.find(|&car| is_car(tile.cars[car].place)) {
                    let tile = number;
                    found = Some(Found::Queue { tile, index, car });
                }
            }
            let mut trips = tile.departures.iter();
            if let Some(Reverse(trip)) = trips.find(|trip| is_car(trip.0.place)) {
                let (tile, index) = (number, trip.place);
                found = Some(Found::Departure { tile, index });
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns the tile of the junction at which a link begins, and the index of the link's entry
    /// in this tile.
    pub(super) fn entry_of(&self, link: u32) -> Result<(usize, u16), NetworkError> {
        let Some(road) = self.network.links().get(link as usize) else {
            return fail(format!("there is no road number {link}"));
        };
        let tile = self.tile_of(road.from);
        Ok((tile, (link - self.tiles[tile].first_link) as u16))
    }

    /// Returns the tile that contains a junction.
    pub(super) fn tile_of(&self, junction: u32) -> usize {
        self.tiles
            .partition_point(|tile| tile.first_junction <= junction)
            - 1
    }

    /// Returns the current free-flow travel time of a link. After [`set_speed`](Self::set_speed),
    /// it can be longer than that of the network. It is 0 if the link does not exist.
    pub fn current_free_flow_ms(&self, link: u32) -> Ms {
        match self.entry_of(link) {
            Ok((tile, entry)) => self.tiles[tile].entries[usize::from(entry)].free_flow_ms(),
            Err(_) => 0,
        }
    }

    /// Returns the current speed limit of a link in metres per second. After
    /// [`set_speed`](Self::set_speed), it can be lower than that of the network. It is 0 if the
    /// link does not exist.
    pub fn current_speed(&self, link: u32) -> f64 {
        let Some(road) = self.network.links().get(link as usize) else {
            return 0.0;
        };
        let own_ms = self.network.flow(link, &self.rules.physics).free_flow_ms;
        let longer_ms = self.current_free_flow_ms(link) - own_ms;
        let length = f64::from(road.length_mm);
        length / (length * 1000.0 / f64::from(road.speed_mm_s) + f64::from(longer_ms))
    }

    /// Adds a car that departs now and drives along `links`. Returns its number.
    ///
    /// The plans of all cars are shared with clones of this simulation, so the first new car after
    /// a clone copies them.
    ///
    /// # Errors
    /// Returns an error if there are no links, if they do not follow each other, or after twelve
    /// days.
    pub fn spawn(&mut self, links: &[u32]) -> Result<u32, NetworkError> {
        let route = Route::pack(&self.network, links)?;
        let Some(&first) = links.first() else {
            return fail("cannot add a car: its route has no road".into());
        };
        let origin = self.network.links()[first as usize].from;
        let plans = Arc::make_mut(&mut self.rules.plans);
        let number = plans.len() as u32;
        let place = plans.end() - 1;
        plans.push(
            &Traveller {
                origin,
                trips: vec![(self.now_ms, route)],
                repeats: false,
            },
            number,
        )?;
        self.numbers.take();
        let tile = self.tile_of(origin);
        let tile = &mut self.tiles[tile];
        tile.tally.idle += 1;
        tile.departures.push(Reverse(Departure {
            at: self.now_ms,
            place: place + 1,
            junction: (origin - tile.first_junction) as u16,
        }));
        Ok(number)
    }

    /// Removes a car, wherever it is. It counts as done from now on, but its trip does not count as
    /// arrived. Returns whether the car was still there.
    pub fn remove(&mut self, car: u32) -> bool {
        let Some(found) = ((car as usize) < self.rules.plans.len())
            .then(|| self.find(car))
            .flatten()
        else {
            return false;
        };
        let now = self.now_ms;
        let (number, link) = match found {
            Found::Departure { tile, index } => {
                let place = index;
                let tile = &mut self.tiles[tile];
                tile.departures.retain(|trip| trip.0.place != place);
                tile.tally.idle -= 1;
                tile.tally.done += 1;
                return true;
            }
            Found::Queue { tile, index, car } => {
                let number = tile;
                let tile = &mut self.tiles[tile];
                let queue = &mut tile.entry_queues[index];
                let entry = queue.entry;
                queue.last = tile.cars.unlink(queue.last, car);
                if queue.last == NONE {
                    tile.remove_waiter(entry, ENTRY_QUEUE);
                    tile.entry_queues.remove(index);
                }
                tile.cars.remove(car);
                tile.tally.waiting_to_enter -= 1;
                (number, tile.first_link + u32::from(entry))
            }
            Found::Driving { tile, car } => {
                let number = tile;
                let tile = &mut self.tiles[tile];
                let Car { exit, .. } = tile.cars[car];
                let is_aside = tile.cars[car].is_aside();
                tile.arrival_wheel.remove(&mut tile.cars, car);
                if !is_aside && tile.exits[usize::from(exit)].flags & LinkExit::WATCHED != 0 {
                    tile.unwatch(exit, car);
                }
                tile.cars.remove(car);
                let link = tile.link_of_exit(exit);
                match is_aside {
                    true => tile.tally.waiting_to_enter -= 1,
                    false => self.free_place(number, exit),
                }
                (number, link)
            }
            Found::Waiting { tile, exit, car } => {
                let number = tile;
                let tile = &mut self.tiles[tile];
                tile.release(exit, car, now);
                let record = &mut tile.exits[usize::from(exit)];
                if tile.cars[record.last].next == car {
                    record.since = now;
                }
                record.last = tile.cars.unlink(record.last, car);
                if record.last == NONE && record.flags & LinkExit::RETRY_TIMER != 0 {
                    record.flags &= !LinkExit::RETRY_TIMER;
                    tile.cancel_timer(RETRY, exit);
                }
                tile.cars.remove(car);
                tile.tally.waiting -= 1;
                tile.tally.waited_ms += i64::from(now);
                let link = tile.link_of_exit(exit);
                self.free_place(number, exit);
                (number, link)
            }
        };
        let tile = &mut self.tiles[number];
        tile.tally.done += 1;
        if let Some(events) = &mut tile.recorded_events {
            events.push(Event {
                at_ms: now,
                car,
                kind: EventKind::Removed,
                link,
            });
        }
        true
    }

    /// Frees the place of a car that was removed from a link. The hole arrives at the beginning of
    /// the link as if the car had left at the end.
    fn free_place(&mut self, tile: usize, exit: u16) {
        let now = self.now_ms;
        let one = &mut self.tiles[tile];
        one.tally.moving -= 1;
        one.tally.vehicle_ms += i64::from(now);
        let hole_ms = one.exits[usize::from(exit)].hole_ms;
        let link = one.link_of_exit(exit);
        if let Ok((tile, entry)) = self.entry_of(link) {
            self.tiles[tile].hole(entry, now + hole_ms, now, None);
        }
    }

    /// Gives a car a new route, which begins at the end of the link that the car is on, or that it
    /// waits to enter. If the car has further trips, the route must end where its current trip
    /// ends.
    ///
    /// # Errors
    /// Returns an error if the car is not on its way, or if the route does not fit.
    pub fn set_route(&mut self, car: u32, links: &[u32]) -> Result<(), NetworkError> {
        let name = car + 1;
        let found = match (car as usize) < self.rules.plans.len() {
            true => self.find(car),
            false => None,
        };
        let (number, place) = match found {
            Some(
                Found::Queue { tile, car, .. }
                | Found::Driving { tile, car }
                | Found::Waiting { tile, car, .. },
            ) => (tile, car),
            _ => {
                return fail(format!(
                    "cannot change the route of car {name}: the car is not on a trip now"
                ));
            }
        };
        let link = match found {
            Some(Found::Queue { tile, index, .. }) => {
                let tile = &self.tiles[tile];
                tile.first_link + u32::from(tile.entry_queues[index].entry)
            }
            _ => {
                let tile = &self.tiles[number];
                tile.link_of_exit(tile.cars[place].exit)
            }
        };
        let from = self.network.links()[link as usize].to;
        let begin = links
            .first()
            .map(|&link| self.network.links().get(link as usize));
        if begin.is_some_and(|road| road.is_none_or(|road| road.from != from)) {
            return fail(format!(
                "cannot change the route: its first road must begin where the car's present road \
                 ends (road {})",
                self.network.link_name(link)
            ));
        }
        let route = Route::pack(&self.network, links)?;
        if self.rules.detours.is_full() {
            self.collect_detours();
        }
        let record = self.tiles[number].cars[place];
        let (back, goal) = self.end_of_trip(from, record);
        let end = links
            .last()
            .map_or(from, |&link| self.network.links()[link as usize].to);
        if end != goal && self.rules.plans.departure(back).is_some() {
            return fail(format!(
                "cannot change the route of car {name}: the route must end where the car's next \
                 trip begins"
            ));
        }
        let now = self.now_ms;
        let tile = &mut self.tiles[number];
        if let Some(Found::Waiting { exit, car, .. }) = found {
            tile.release(exit, car, now);
        }
        let words = match route.words() {
            [] => &[1],
            words => words,
        };
        let car = &mut tile.cars[place];
        car.turns = words[0];
        car.place = self.rules.detours.add(words, back);
        tile.tally.rerouted += 1;
        if let Some(events) = &mut tile.recorded_events {
            events.push(Event {
                at_ms: now,
                car: name - 1,
                kind: EventKind::Rerouted,
                link,
            });
        }
        Ok(())
    }

    /// Returns the place in the plans at which the trip of a car ends, and the junction there.
    fn end_of_trip(&self, from: u32, car: Car) -> (u32, u32) {
        let network = &*self.network;
        let mut junction = from;
        let mut follow = |word| {
            junction = crate::demand::follow_turns(network, junction, word).unwrap_or(junction);
        };
        follow(car.turns);
        let mut place = car.place;
        loop {
            let (next, word) = self.rules.follow(place + 1);
            if !is_turns(word) {
                return (next, junction);
            }
            follow(word);
            place = next;
        }
    }

    /// Returns the remaining links of the trip of a car that is on a link or waits to enter it,
    /// without that link.
    pub fn route_of(&self, car: u32) -> Option<Vec<u32>> {
        match self.find(car)? {
            Found::Driving { tile, car } | Found::Waiting { tile, car, .. } => {
                let tile = &self.tiles[tile];
                let car = tile.cars[car];
                Some(self.rest_of_trip(car, tile.link_of_exit(car.exit)).0)
            }
            Found::Queue { tile, index, car } => {
                let tile = &self.tiles[tile];
                let link = tile.first_link + u32::from(tile.entry_queues[index].entry);
                Some(self.rest_of_trip(tile.cars[car], link).0)
            }
            Found::Departure { .. } => None,
        }
    }

    /// Sends a car to another junction on the quickest route in free flow. The route contains a
    /// closed road only if every other route takes more than a day, or if no other route exists.
    ///
    /// # Errors
    /// Returns an error if there is no such route, or if [`set_route`](Self::set_route) fails.
    pub fn set_destination(
        &mut self,
        pool: &Pool,
        car: u32,
        junction: u32,
    ) -> Result<(), NetworkError> {
        let from = match self.whereabouts(car) {
            Some(
                Whereabouts::OnRoad(link) | Whereabouts::Entering(link) | Whereabouts::Aside(link),
            ) => link,
            _ => {
                return fail(format!(
                    "cannot change the destination of car {}: the car is not on a trip now",
                    car + 1
                ));
            }
        };
        let from = self.network.links()[from as usize].to;
        let router = self.router_now(pool);
        let path = router.shortest_path(&self.network, &mut router.query(), from, junction);
        match path {
            Some(path) => self.set_route(car, &path),
            None => fail(format!("car {} cannot reach its new destination", car + 1)),
        }
    }
}

impl Tile {
    /// Calls `f` with the place of each car on a link that ends in this tile.
    pub(super) fn for_each_place(&self, mut f: impl FnMut(u32)) {
        self.arrival_wheel.each(&self.cars, &mut f);
        for exit in &self.exits {
            self.cars.ring(exit.last).for_each(&mut f);
        }
    }

    /// Removes a timer of an exit or an entry before the timer is due.
    pub(super) fn cancel_timer(&mut self, kind: u16, of: u16) {
        let mut found = None;
        self.timer_wheel.each(&self.timers, |place| {
            let timer = self.timers[place];
            if (timer.kind(), timer.of()) == (kind, of) {
                found = Some(place);
            }
        });
        if let Some(place) = found {
            self.timer_wheel.remove(&mut self.timers, place);
            self.timers.remove(place);
        }
    }

    /// Lets the first car of a link try to cross at the beginning of the next step.
    pub(super) fn retry_now(&mut self, exit: u16, now: Ms) {
        let record = &mut self.exits[usize::from(exit)];
        if record.flags & LinkExit::RETRY_TIMER != 0 {
            self.cancel_timer(RETRY, exit);
        }
        self.exits[usize::from(exit)].flags |= LinkExit::RETRY_TIMER;
        self.set_timer(RETRY, exit, now, None);
    }

    /// Prepares the queue of a link for the removal of a car, or for a new route of this car. Only
    /// the first car of the queue needs this. The link then no longer waits for storage on the next
    /// link of this car. In the next step, whichever car is the first one then tries to cross.
    fn release(&mut self, exit: u16, car: u32, now: Ms) {
        let record = self.exits[usize::from(exit)];
        if self.cars[record.last].next != car {
            return;
        }
        if record.flags & LinkExit::BLOCKED != 0 {
            let node = self.nodes[usize::from(record.junction)];
            let turn = self.cars[car].turns & ((1 << node.turn_bits) - 1);
            self.remove_waiter(node.first_entry + turn as u16, exit);
            self.exits[usize::from(exit)].flags &= !LinkExit::BLOCKED;
        }
        self.retry_now(exit, now);
    }
}

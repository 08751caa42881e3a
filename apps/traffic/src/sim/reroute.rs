//! Rerouting: late cars search for a quicker route, based on recent travel times.
//!
//! Rerouting takes place in rounds, between two ticks. Each tile knows the mean delay at the end of
//! each of its links, in which recent rounds weigh most. Each car on a link draws a random number,
//! except the first car of each queue. If the remaining trip of a selected car takes too long
//! compared with free flow, we search for the quickest route. The car takes this route if it saves
//! at least a twentieth of the time. All of this depends only on the state, so the result does not
//! depend on the workers.

use super::detours::{DETOURS, Detours};
use super::records::{Car, LinkEntry};
use super::tile::Tile;
use super::{Event, EventKind, Simulation, TICK_MS};
use crate::demand::{Route, is_turns, unpack};
use crate::network::{Ms, Network, NetworkError};
use crate::random::Stream;
use crate::route::{RouteQuery, Router, free_flow_times};
use creel::Pool;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The parameters of rerouting. For example, `every_ticks: 60` with `share_ppm: 100_000` lets a
/// tenth of the late cars search once per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerouting {
    /// The time between two rounds in ticks.
    pub every_ticks: Ms,
    /// The share of late cars that search in one round, in parts per million.
    pub share_ppm: u32,
    /// A car is late if the rest of its trip takes more than this many percent longer than in free
    /// flow.
    pub late_percent: u32,
    /// The seed of the random selection.
    pub seed: u64,
}

impl Rerouting {
    /// Checks the range of each parameter.
    ///
    /// # Errors
    /// Returns an error for the first value that is out of range.
    pub fn check(&self) -> Result<(), NetworkError> {
        let fail = |what: &str| Err(NetworkError(what.into()));
        match self {
            Self { every_ticks, .. } if !(1..=86_400).contains(every_ticks) => {
                fail("the interval of rerouting must be 1 s to 1 day")
            }
            Self { share_ppm, .. } if *share_ppm > 1_000_000 => {
                fail("the share of rerouted cars must be at most 100 percent")
            }
            Self { late_percent, .. } if *late_percent > 1_000_000 => {
                fail("the lateness for rerouting must be at most 1,000,000 percent")
            }
            _ => Ok(()),
        }
    }
}

/// The delay of the cars that have left a link, compared with free flow.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Lateness {
    /// The sum of the delays of the cars that have left the link since the last round of rerouting.
    pub sum_ms: u64,
    pub cars: u32,
    /// The mean delay of the cars that have left the link, or the time for which the first car has
    /// been waiting if that is longer. In each round of rerouting, the weight of all earlier rounds
    /// is halved.
    pub mean_ms: Ms,
}

impl Lateness {
    /// Ends a round. `waits_ms` is the time for which the first car has been waiting.
    fn end_round(&mut self, waits_ms: Ms) {
        let fresh = match self.cars {
            0 => waits_ms,
            cars => waits_ms.max((self.sum_ms / u64::from(cars)).min(1 << 30) as Ms),
        };
        *self = Self {
            mean_ms: self.mean_ms / 2 + fresh.div_ceil(2),
            ..Self::default()
        };
    }
}

/// The travel time of a closed road for the router. It is more than a day, so a route contains the
/// road only if every open route takes even longer, or if no open route exists.
pub(super) const CLOSED_ROAD_MS: Ms = 100_000_000;

/// A car with its new route: the place of its record, the words of the route, and the place in the
/// plans to which the route leads back.
struct Change {
    car: u32,
    words: Vec<u32>,
    back: u32,
}

impl Simulation {
    /// Enables rerouting from now on, or disables it. [`run_with`](Self::run_with) does not
    /// reroute.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range.
    pub fn set_rerouting(&mut self, rerouting: Option<Rerouting>) -> Result<(), NetworkError> {
        rerouting.iter().try_for_each(Rerouting::check)?;
        self.rerouting = rerouting;
        for tile in &mut self.tiles {
            let exits = if rerouting.is_some() {
                tile.exits.len()
            } else {
                0
            };
            tile.lateness.resize(exits, Lateness::default());
        }
        Ok(())
    }

    /// Returns the time of the next round.
    pub(super) fn next_round_ms(&self) -> Ms {
        self.rerouting.map_or(Ms::MAX, |rerouting| {
            let every_ms = rerouting.every_ticks * TICK_MS;
            (self.now_ms / every_ms + 1).saturating_mul(every_ms)
        })
    }

    /// Runs a round of rerouting. All messages must have been delivered.
    pub(super) fn reroute(&mut self, loops: &Pool) {
        let Some(rerouting) = self.rerouting else {
            return;
        };
        let now = self.now_ms;
        loops.for_each(&mut self.tiles, |tile| tile.end_round(now));
        self.collect_detours();
        let free = free_flow_times(&self.network);
        let mut times = free.clone();
        for tile in &self.tiles {
            for (exit, lateness) in tile.lateness.iter().enumerate() {
                let time = &mut times[tile.link_of_exit(exit as u16) as usize];
                *time = time.saturating_add(lateness.mean_ms);
            }
            for (entry, record) in (tile.first_link..).zip(&tile.entries) {
                let time = &mut times[entry as usize];
                match record.next_in {
                    LinkEntry::CLOSED => *time = CLOSED_ROAD_MS,
                    _ => *time += record.free_flow_ms() - free[entry as usize],
                }
            }
        }
        let late: Vec<Vec<u32>> = loops.map(&self.tiles, |tile| {
            self.late(tile, &rerouting, &free, &times)
        });
        if late.iter().all(Vec::is_empty) {
            return;
        }
        let network = &self.network;
        let free_flow_router = self
            .router
            .get_or_init(|| Arc::new(Router::from_times(loops, network, free)));
        let router = free_flow_router.with_times(network, times);
        let mut queries = loops.scratch(|_| router.query());
        let changes: Vec<Vec<Change>> =
            loops.map((&self.tiles, &late, &mut queries), |(tile, late, query)| {
                let faster_path = |&car: &u32| self.faster_path(tile, car, &router, query);
                late.iter().filter_map(faster_path).collect()
            });
        for (tile, changes) in self.tiles.iter_mut().zip(changes) {
            for change in changes {
                let car = &mut tile.cars[change.car];
                car.turns = change.words[0];
                car.place = self.rules.detours.add(&change.words, change.back);
                let (place, exit) = (car.place, car.exit);
                tile.tally.rerouted += 1;
                if tile.recorded_events.is_some() {
                    let event = Event {
                        at_ms: now,
                        car: self.rules.traveller(place),
                        kind: EventKind::Rerouted,
                        link: tile.link_of_exit(exit),
                    };
                    tile.recorded_events
                        .iter_mut()
                        .for_each(|all| all.push(event));
                }
            }
        }
    }

    /// Removes the detours that no car uses any more.
    pub(super) fn collect_detours(&mut self) {
        let mut kept = Detours::default();
        for tile in &mut self.tiles {
            for place in tile.cars_out() {
                let car = &mut tile.cars[place];
                if car.place >= DETOURS {
                    let (words, back) = self.rules.detours.rest(car.place);
                    car.place = kept.add(words, back);
                }
            }
        }
        self.rules.detours = kept.collected();
    }

    /// Returns the cars of a tile that are late and have been selected at random.
    fn late(&self, tile: &Tile, rerouting: &Rerouting, free: &[Ms], times: &[Ms]) -> Vec<u32> {
        let is_selected = |car: &u32| {
            let order = self.rules.order(tile.cars[*car].place);
            let mut lot = Stream::of(rerouting.seed, "another way", u64::from(order));
            lot.mix(u64::from(self.now_ms));
            lot.below(1_000_000) < u64::from(rerouting.share_ppm)
        };
        let is_late = |car: &u32| {
            let car = tile.cars[*car];
            let path = self.rest_of_trip(car, tile.link_of_exit(car.exit)).0;
            let takes = sum(times, &path) * 100;
            takes > sum(free, &path) * u64::from(100 + rerouting.late_percent)
        };
        let mut cars = tile.cars_behind();
        cars.retain(|car| is_selected(car) && is_late(car));
        cars
    }

    /// Returns the rest of the trip of a car that is on a link: the remaining links, the place in
    /// the plans at which the trip ends, and the junctions at which the first of these links begins
    /// and the last one ends.
    pub(super) fn rest_of_trip(&self, car: Car, link: u32) -> (Vec<u32>, u32, [u32; 2]) {
        let network: &Network = &self.network;
        let mut junction = network.links()[link as usize].to;
        let from = junction;
        let mut links: Vec<u32> = unpack(network, &mut junction, car.turns).collect();
        let mut place = car.place;
        loop {
            let (next, word) = self.rules.follow(place + 1);
            if !is_turns(word) {
                return (links, next, [from, junction]);
            }
            links.extend(unpack(network, &mut junction, word));
            place = next;
        }
    }

    fn faster_path(
        &self,
        tile: &Tile,
        car: u32,
        router: &Router,
        query: &mut RouteQuery,
    ) -> Option<Change> {
        let record = tile.cars[car];
        let (path, back, [from, to]) = self.rest_of_trip(record, tile.link_of_exit(record.exit));
        let candidate = router.shortest_path(&self.network, query, from, to)?;
        // A new route must save at least a twentieth to be worth the change.
        let saves = sum(router.times(), &candidate) * 20 < sum(router.times(), &path) * 19;
        let route = Route::pack(&self.network, &candidate).ok()?;
        let words = route.words().to_vec();
        (saves && !words.is_empty()).then_some(Change { car, words, back })
    }
}

fn sum(times: &[Ms], path: &[u32]) -> u64 {
    path.iter()
        .map(|&link| u64::from(times[link as usize]))
        .sum()
}

impl Tile {
    /// Ends a round of rerouting for the links of this tile, by updating their mean delays.
    fn end_round(&mut self, now: Ms) {
        for (exit, lateness) in self.exits.iter().zip(&mut self.lateness) {
            let first = self.cars.ring(exit.last).next();
            lateness.end_round(first.map_or(0, |first| now - self.cars[first].at));
        }
    }

    /// Returns the cars of a tile that are on links, except the first car of each queue.
    fn cars_behind(&self) -> Vec<u32> {
        let mut cars = Vec::new();
        self.arrival_wheel
            .each(&self.cars, |place| cars.push(place));
        for exit in &self.exits {
            cars.extend(self.cars.ring(exit.last).skip(1));
        }
        cars
    }

    /// Returns all cars of a tile that are on links or in entry queues.
    fn cars_out(&self) -> Vec<u32> {
        let mut cars = self.cars_behind();
        let firsts = self.exits.iter().map(|exit| exit.last);
        cars.extend(firsts.filter_map(|last| self.cars.ring(last).next()));
        for entry_queue in &self.entry_queues {
            cars.extend(self.cars.ring(entry_queue.last));
        }
        cars
    }
}

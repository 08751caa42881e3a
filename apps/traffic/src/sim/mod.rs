//! The simulation: tiles that run alone for as long as nothing can come from elsewhere, then exchange.
//!
//! docs/design/traffic.md has the model, the layout, and why outcomes do not depend on the workers.

mod build;
mod detours;
mod events;
mod external;
mod hash;
mod junction;
mod link;
mod records;
mod reroute;
mod slab;
mod snapshot;
mod storage;
mod tile;
mod trips;
mod validate;
mod wheel;

pub use external::TileWindow;
pub use reroute::Rerouting;
pub use snapshot::SnapshotError;

use crate::demand::Plans;
use crate::network::{LINK_TIME_MS_MIN, Ms, Network, NetworkError, Physics, Program};
use crate::route::Router;
use creel::Pool;
use detours::Detours;
use records::Message;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};
use tile::Tile;

/// A tick: outcomes can be looked at between two.
pub const TICK_MS: Ms = 1000;
/// A tile runs alone for at most so many ticks.
const WINDOW_TICKS_MAX: Ms = 32;
/// A simulation ends no later, so that no time wraps.
pub const END_MS_MAX: Ms = 3_000_000_000;

/// What all tiles look at while they run.
#[derive(Clone, Debug)]
struct Rules {
    plans: Arc<Plans>,
    detours: Detours,
    programs: Vec<Program>,
    physics: Physics,
}

/// What happened, in sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Cars on roads. (Of one tile it may be negative, for cars come and go.)
    pub moving: i64,
    /// Cars beside a road, which wait to enter it.
    pub waiting_to_enter: i64,
    /// Cars between two trips, or before the first.
    pub idle: i64,
    /// Cars that have made their last trip.
    pub done: u64,
    /// Trips begun.
    pub begun: u64,
    /// Trips ended.
    pub arrived: u64,
    /// Junctions crossed.
    pub crossings: u64,
    /// Cars that stepped aside, for they had found no room for too long: the way out of gridlock.
    pub stepped_aside: u64,
    /// Cars that took another way than they had planned.
    pub rerouted: u64,
    /// What cars waited at the ends of roads and beside them, but for those that still wait: see
    /// [`Simulation::delay_seconds`].
    pub delay_ms: u64,
    /// Time that cars were on roads, but for those that are: each of these adds what it is late.
    vehicle_ms: i64,
    /// Cars that wait at the ends of roads.
    waiting: i64,
    /// Time that cars waited there, as `vehicle_ms` is counted.
    waited_ms: i64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.moving += other.moving;
        self.waiting_to_enter += other.waiting_to_enter;
        self.idle += other.idle;
        self.done += other.done;
        self.begun += other.begun;
        self.arrived += other.arrived;
        self.crossings += other.crossings;
        self.stepped_aside += other.stepped_aside;
        self.rerouted += other.rerouted;
        self.delay_ms += other.delay_ms;
        self.vehicle_ms += other.vehicle_ms;
        self.waiting += other.waiting;
        self.waited_ms += other.waited_ms;
    }
}

/// The road of a trip that has none.
pub const NO_ROAD: u32 = u32::MAX;

/// Something that happened to a car.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When.
    pub at_ms: Ms,
    /// To whom.
    pub car: u32,
    /// What.
    pub kind: EventKind,
    /// On which road: for [`EventKind::Departed`] the one that it wants to enter, for [`EventKind::Arrived`]
    /// the one that it came on; [`NO_ROAD`] where a trip has none.
    pub link: u32,
}

/// What may happen to a car.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// It left a road at its end.
    Left,
    /// It gave up its place at the exit of a road, and waits beside the one that it wants to enter.
    SteppedAside,
    /// A trip ended.
    Arrived,
    /// A trip began.
    Departed,
    /// It entered a road.
    Entered,
}

/// From where a tile gets mail: a tile, and which of its neighbours it is to that one.
type Sources = Vec<(u32, u16)>;
/// What a tile sends in a window, by neighbour.
type Mail = Vec<Vec<Message>>;

/// Cars on roads, at a time.
#[derive(Debug)]
pub struct Simulation {
    network: Arc<Network>,
    rules: Rules,
    tiles: Vec<Tile>,
    sources: Vec<Sources>,
    /// What was sent in the last window, and room for the next.
    mail: [Vec<Mail>; 2],
    now_ms: Ms,
    window_ms: Ms,
    rerouting: Option<Rerouting>,
    /// Of roads without cars, from which others are made.
    router: OnceLock<Router>,
}

impl Simulation {
    /// All cars where they begin, at time 0.
    ///
    /// # Errors
    /// Plans that are not of this network, or physics out of range.
    pub fn new(
        loops: &Pool,
        network: Arc<Network>,
        plans: Arc<Plans>,
        physics: Physics,
    ) -> Result<Self, NetworkError> {
        physics.check()?;
        if !plans.fits(&network, loops) {
            return Err(NetworkError("the plans are not of this network".into()));
        }
        let built = build::build(&network, &plans, &physics);
        let mail = || {
            built
                .neighbours
                .iter()
                .map(|&n| vec![Vec::new(); n])
                .collect::<Vec<Mail>>()
        };
        let window = built.look_ahead_ms / TICK_MS;
        Ok(Self {
            mail: [mail(), mail()],
            rules: Rules {
                plans,
                detours: Detours::default(),
                programs: network.programs().to_vec(),
                physics,
            },
            network,
            tiles: built.tiles,
            sources: built.sources,
            now_ms: 0,
            window_ms: window.clamp(LINK_TIME_MS_MIN / TICK_MS, WINDOW_TICKS_MAX) * TICK_MS,
            rerouting: None,
            router: OnceLock::new(),
        })
    }

    /// The network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// The plans.
    pub fn plans(&self) -> &Arc<Plans> {
        &self.rules.plans
    }

    /// What cars are like.
    pub fn physics(&self) -> &Physics {
        &self.rules.physics
    }

    /// The time, in whole ticks.
    pub fn now_ms(&self) -> Ms {
        self.now_ms
    }

    /// How long a tile runs alone.
    pub fn window_ms(&self) -> Ms {
        self.window_ms
    }

    /// Lets tiles run alone for no longer than so many ticks. Outcomes do not depend on it.
    pub fn set_window(&mut self, ticks: Ms) {
        self.window_ms = self.window_ms.min(ticks.max(1).saturating_mul(TICK_MS));
    }

    /// Lets the cars of a road follow each other so far apart from now on, at both its ends, as works or
    /// a narrow lane would; `None`: as the network says. It is a part of the state, saved and hashed.
    ///
    /// # Errors
    /// A road that is not there.
    pub fn set_headway(&mut self, link: u32, headway_ms: Option<u16>) -> Result<(), NetworkError> {
        let Some(&road) = self.network.links().get(link as usize) else {
            return Err(NetworkError(format!("there is no road {link}")));
        };
        let own = self.network.flow(link, &self.rules.physics).headway_ms;
        let headway_ms = headway_ms.unwrap_or(own).max(1);
        let first_of = |tile: &Tile| tile.first_junction;
        let tile_of = |junction: u32| {
            self.tiles
                .partition_point(|tile| first_of(tile) <= junction)
                - 1
        };
        let (begin, end) = (tile_of(road.from), tile_of(road.to));
        let begin = &mut self.tiles[begin];
        begin.set_entry_headway((link - begin.first_link) as u16, headway_ms, self.now_ms);
        let end = &mut self.tiles[end];
        let exits = 0..end.exits.len() as u16;
        let exit = exits
            .into_iter()
            .find(|&exit| end.link_of_exit(exit) == link);
        let exit = exit.expect("a road ends in the tile of its junction");
        end.exits[usize::from(exit)].headway_ms = headway_ms;
        Ok(())
    }

    /// Sets after how long a car steps aside from now on, also for those that wait already.
    ///
    /// # Errors
    /// A time out of range.
    pub fn set_stuck_time(&mut self, stuck_ms: Ms) -> Result<(), NetworkError> {
        let physics = Physics {
            stuck_ms,
            ..self.rules.physics
        };
        physics.check()?;
        self.rules.physics = physics;
        for tile in &mut self.tiles {
            tile.set_stuck_time(stuck_ms, self.now_ms);
        }
        Ok(())
    }

    /// Runs for so many ticks, in one session. Blocks until it is done.
    ///
    /// # Panics
    /// If it would go on after [`END_MS_MAX`].
    pub fn run(&mut self, pool: &Pool, ticks: Ms) {
        pool.session(|loops| self.run_in(loops, ticks));
    }

    /// The same inside somebody's session.
    ///
    /// # Panics
    /// If it would go on after [`END_MS_MAX`].
    pub fn run_in(&mut self, loops: &Pool, ticks: Ms) {
        let until = self.until(ticks);
        while self.now_ms < until {
            let to_round = self.ticks_to_round().saturating_mul(TICK_MS);
            let round = self.now_ms.saturating_add(to_round);
            while self.now_ms < until.min(round) {
                let next = until.min(round).min(self.now_ms + self.window_ms);
                self.run_window(loops, next);
            }
            self.receive_messages(loops);
            if self.now_ms == round {
                self.reroute(loops);
            }
        }
    }

    /// When so many ticks are over.
    fn until(&self, ticks: Ms) -> Ms {
        let until = ticks
            .checked_mul(TICK_MS)
            .and_then(|ms| ms.checked_add(self.now_ms));
        until
            .filter(|&until| until <= END_MS_MAX)
            .expect("a time within a month")
    }

    /// One window: each tile takes in what it was sent, and runs alone.
    fn run_window(&mut self, loops: &Pool, until: Ms) {
        let Self {
            rules,
            tiles,
            sources,
            mail: [incoming, outgoing],
            now_ms,
            ..
        } = self;
        let (incoming, from) = (&*incoming, *now_ms);
        loops.for_each_indexed((tiles, outgoing), |index, (tile, outgoing)| {
            tile.prefetch();
            receive_messages(tile, &sources[index], incoming, from);
            outgoing.iter_mut().for_each(Vec::clear);
            tile.run(from, until, rules, outgoing);
        });
        self.mail.swap(0, 1);
        self.now_ms = until;
    }

    /// Takes in what was sent in the last window, so that all is in the tiles.
    fn receive_messages(&mut self, loops: &Pool) {
        let Self {
            tiles,
            sources,
            mail: [incoming, _],
            now_ms,
            ..
        } = self;
        loops.for_each_indexed(tiles, |index, tile| {
            receive_messages(tile, &sources[index], incoming, *now_ms);
        });
        incoming.iter_mut().flatten().for_each(Vec::clear);
    }

    /// What happened so far.
    pub fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        self.tiles.iter().for_each(|tile| sum.add(&tile.tally));
        sum
    }

    /// How long all cars together were on roads.
    pub fn vehicle_seconds(&self) -> f64 {
        let tally = self.tally();
        (tally.vehicle_ms + tally.moving * i64::from(self.now_ms)) as f64 / 1000.0
    }

    /// The same without the time that they waited at the ends of roads: how long the ways that they came
    /// would have taken each of them alone.
    pub fn free_flow_seconds(&self) -> f64 {
        let tally = self.tally();
        let drive = tally.moving - tally.waiting;
        let free_ms = tally.vehicle_ms - tally.waited_ms + drive * i64::from(self.now_ms);
        free_ms as f64 / 1000.0
    }

    /// How long all cars together have waited so far: at the ends of roads, which is what
    /// [`vehicle_seconds`](Self::vehicle_seconds) has beyond [`free_flow_seconds`](Self::free_seconds), and
    /// beside them. Those who still wait count until now.
    pub fn delay_seconds(&self) -> f64 {
        let of_tile = |tile: &Tile| {
            let waits = |last| {
                let ring = tile.cars.ring(last);
                ring.map(|place| u64::from(self.now_ms - tile.cars[place].at))
                    .sum::<u64>()
            };
            let on_links: u64 = tile.exits.iter().map(|exit| waits(exit.last)).sum();
            let waiting_to_enter: u64 = tile
                .entry_queues
                .iter()
                .map(|queue| waits(queue.last))
                .sum();
            tile.tally.delay_ms + on_links + waiting_to_enter
        };
        self.tiles.iter().map(of_tile).sum::<u64>() as f64 / 1000.0
    }

    /// Notes what happens from now on, or no longer.
    pub fn record_events(&mut self, on: bool) {
        for tile in &mut self.tiles {
            tile.recorded_events = on.then(|| tile.recorded_events.take().unwrap_or_default());
        }
    }

    /// What happened since this was last called, in an order that does not depend on the workers.
    pub fn take_events(&mut self) -> Vec<Event> {
        let recordings = self
            .tiles
            .iter_mut()
            .filter_map(|tile| tile.recorded_events.as_mut());
        let mut all: Vec<Event> = recordings.flat_map(|events| events.drain(..)).collect();
        // What happens to one car at one instant is at one junction, and so is noted in its order.
        all.sort_by_key(|event| (event.at_ms, event.car));
        all
    }

    /// Who is on roads now: that and when each entered the one that it is on, in the order of
    /// [`events`](Self::take_events).
    pub fn vehicles_on_links(&self) -> Vec<Event> {
        let mut all = Vec::new();
        for tile in &self.tiles {
            tile.for_each_car(|car| {
                let link = tile.link_of_exit(car.exit);
                let flow = self.network.flow(link, &self.rules.physics);
                all.push(Event {
                    at_ms: car.at - flow.free_flow_ms,
                    car: self.rules.traveller(car.place),
                    kind: EventKind::Entered,
                    link,
                });
            });
        }
        all.sort_by_key(|event| (event.at_ms, event.car));
        all
    }

    /// Of each road, how many cars are on it now; into memory that is reused.
    pub fn occupancy(&self, into: &mut Vec<u16>) {
        into.clear();
        into.resize(self.network.links().len(), 0);
        for tile in &self.tiles {
            for (index, entry) in tile.entries.iter().enumerate() {
                let link = tile.first_link + index as u32;
                let storage = self.network.flow(link, &self.rules.physics).storage;
                into[link as usize] = storage - entry.free_storage - tile.holes_of(entry) as u16;
            }
        }
    }

    /// How many cars are on roads whose first car has found no room for a minute or longer; or for half
    /// of the time after which it steps aside, where that is less.
    pub fn gridlocked(&self) -> u64 {
        let long_ms = (self.rules.physics.stuck_ms / 2).min(60_000);
        let of_tile = |tile: &Tile| {
            let stuck = tile.exits.iter().filter(|exit| {
                exit.flags & records::LinkExit::BLOCKED != 0 && self.now_ms - exit.since >= long_ms
            });
            stuck
                .map(|exit| tile.cars.ring(exit.last).count() as u64)
                .sum::<u64>()
        };
        self.tiles.iter().map(of_tile).sum()
    }

    /// Bytes that roads and junctions take while they run, and those that cars take (without plans).
    pub fn bytes(&self) -> (usize, usize) {
        let tiles: usize = self.tiles.iter().map(Tile::bytes).sum();
        let cars: usize = self.tiles.iter().map(Tile::car_bytes).sum();
        let mail: usize = self
            .mail
            .iter()
            .flatten()
            .flatten()
            .map(|box_| box_.capacity() * size_of::<Message>())
            .sum();
        (tiles - cars + mail, cars + self.rules.detours.bytes())
    }
}

/// Takes in all that neighbours have sent to a tile.
fn receive_messages(tile: &mut Tile, sources: &Sources, incoming: &[Mail], now: Ms) {
    for &(source, slot) in sources {
        for &message in &incoming[source as usize][usize::from(slot)] {
            tile.receive(message, now);
        }
    }
}

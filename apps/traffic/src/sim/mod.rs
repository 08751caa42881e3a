//! The simulation. The network is divided into tiles. Each tile runs alone for a window, which is
//! so short that nothing that leaves another tile in this window can arrive before the end of the
//! window. Then all tiles exchange messages.
//!
//! docs/design/traffic.md explains the model, the data layout, and why the results do not depend on
//! the workers.

mod build;
mod control;
mod copy;
mod detours;
mod events;
mod external;
mod hash;
mod junction;
mod link;
mod positions;
mod priority;
mod records;
mod reroute;
mod roads;
mod slab;
mod slow;
mod snapshot;
mod storage;
mod tile;
mod trips;
mod validate;
mod wheel;

pub use control::Whereabouts;
pub use external::TileWindow;
pub use positions::{CarPosition, Region};
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

/// The length of a tick, which is the step of [`Simulation::run`].
pub const TICK_MS: Ms = 1000;
/// The maximum length of a window in ticks.
const WINDOW_TICKS_MAX: Ms = 32;
/// The maximum simulated time. It is limited so that sums of times never overflow.
pub const END_MS_MAX: Ms = 3_000_000_000;

/// The data that all tiles read while they run, for example the plans. It never changes during a
/// window.
#[derive(Clone, Debug)]
struct Rules {
    plans: Arc<Plans>,
    detours: Detours,
    programs: Arc<Vec<Program>>,
    physics: Physics,
    /// What the travel time of a slow car depends on, by link. `None` if there are no slow cars.
    roads: Option<Arc<Vec<slow::Road>>>,
}

/// Totals of what has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// The number of cars on links. The value of a single tile can be negative, because cars move
    /// between tiles.
    pub moving: i64,
    /// The number of cars in entry queues, and of cars that drive past full links because they have
    /// stepped aside.
    pub waiting_to_enter: i64,
    /// The number of cars between two trips, or before their first trip.
    pub idle: i64,
    /// The number of cars without a further trip, because they have finished their last one, had
    /// none, or were removed.
    pub done: u64,
    /// The number of trips that have begun.
    pub begun: u64,
    /// The number of trips that have reached their destination.
    pub arrived: u64,
    /// The number of junction crossings.
    pub crossings: u64,
    /// The number of times that a car stepped aside because it was blocked for too long. This
    /// resolves gridlock.
    pub stepped_aside: u64,
    /// The number of times that a car was rerouted.
    pub rerouted: u64,
    /// The time that cars have waited at the ends of links and in entry queues, or have lost behind
    /// a slow car. It excludes cars that are still waiting, see [`Simulation::delay_seconds`].
    pub delay_ms: u64,
    /// The time that cars have spent on links. We subtract the current time when a car enters a
    /// link, and add it when the car leaves. The part of a car that is still on a link is therefore
    /// incomplete until we add the present time, see
    /// [`vehicle_seconds`](Simulation::vehicle_seconds).
    vehicle_ms: i64,
    /// The number of cars that wait at the ends of links.
    waiting: i64,
    /// The time that cars have waited at the ends of links, counted like `vehicle_ms`.
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

/// The link of an event of a trip without links.
pub const NO_ROAD: u32 = u32::MAX;

/// An event of a car.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The time of the event.
    pub at_ms: Ms,
    /// The car.
    pub car: u32,
    /// The kind of event.
    pub kind: EventKind,
    /// The link. For [`EventKind::Departed`] and [`EventKind::SteppedAside`] it is the link that
    /// the car wants to enter. For [`EventKind::Arrived`] it is the link that the car came from. It
    /// is [`NO_ROAD`] if the trip has no links.
    pub link: u32,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// The car left a link at its end.
    Left,
    /// The car was blocked for too long. It left the link and drives past the full links ahead.
    SteppedAside,
    /// A trip ended.
    Arrived,
    /// A trip began.
    Departed,
    /// The car entered a link.
    Entered,
    /// [`Simulation::remove`] removed the car from this link, or from its entry queue.
    Removed,
    /// The car, which is on this link or in its entry queue, got another route.
    Rerouted,
}

/// The sources of a tile's messages: a neighbouring tile, and the index of this tile among that
/// tile's neighbours.
type Sources = Vec<(u32, u16)>;
/// The messages that a tile sends in a window, one list per neighbour.
type Mail = Vec<Vec<Message>>;

/// The state of a simulation at one time. You advance it with [`run`](Self::run), and you can
/// inspect and change it between two calls.
///
/// A clone is a copy of the state in memory. It shares the network and the plans, so it is cheap
/// enough for each frame of a game, for example to go back when the input of another player arrives
/// late.
#[derive(Debug)]
pub struct Simulation {
    network: Arc<Network>,
    rules: Rules,
    tiles: Vec<Tile>,
    sources: Arc<Vec<Sources>>,
    /// The messages sent in the last window, and the buffers for the next one.
    mail: [Vec<Mail>; 2],
    now_ms: Ms,
    window_ms: Ms,
    rerouting: Option<Rerouting>,
    /// The router for free-flow times. Routers for other times are derived from it.
    router: OnceLock<Arc<Router>>,
    /// The geometry of the links, from which we compute the positions of cars.
    lines: OnceLock<Arc<positions::Lines>>,
    /// The numbers of the cars by place, which we need for the positions of cars.
    numbers: OnceLock<Arc<positions::Numbers>>,
}

impl Simulation {
    /// Creates a simulation at time 0, with all cars at their origins.
    ///
    /// # Errors
    /// Returns an error if the plans of the cars do not fit the network, or if a parameter of
    /// `physics` is out of range.
    pub fn new(
        loops: &Pool,
        network: Arc<Network>,
        plans: Arc<Plans>,
        physics: Physics,
    ) -> Result<Self, NetworkError> {
        physics.check()?;
        if !plans.fits(&network, loops) {
            return Err(NetworkError(
                "the plans do not fit this network, because they were made for another network"
                    .into(),
            ));
        }
        network.check_storage(&physics)?;
        let built = build::build(&network, &plans, &physics);
        let mail = || {
            built
                .neighbours
                .iter()
                .map(|&n| vec![Vec::new(); n])
                .collect::<Vec<Mail>>()
        };
        let window = built.look_ahead_ms / TICK_MS;
        let mut simulation = Self {
            mail: [mail(), mail()],
            rules: Rules {
                roads: slow::roads(&network, &plans, &physics),
                plans,
                detours: Detours::default(),
                programs: Arc::new(network.programs().to_vec()),
                physics,
            },
            network,
            tiles: built.tiles,
            sources: Arc::new(built.sources),
            now_ms: 0,
            window_ms: window.clamp(LINK_TIME_MS_MIN / TICK_MS, WINDOW_TICKS_MAX) * TICK_MS,
            rerouting: None,
            router: OnceLock::new(),
            lines: OnceLock::new(),
            numbers: OnceLock::new(),
        };
        simulation.notice_slow_cars();
        Ok(simulation)
    }

    /// Returns the network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Returns the plans.
    pub fn plans(&self) -> &Arc<Plans> {
        &self.rules.plans
    }

    /// Returns the parameters of the car-following model.
    pub fn physics(&self) -> &Physics {
        &self.rules.physics
    }

    /// Returns the current time.
    pub fn now_ms(&self) -> Ms {
        self.now_ms
    }

    /// Returns the length of a window, for which a tile runs alone.
    pub fn window_ms(&self) -> Ms {
        self.window_ms
    }

    /// Limits windows to `ticks` ticks. The results do not depend on it. You can use this to
    /// measure the cost of windows, for example.
    pub fn set_window(&mut self, ticks: Ms) {
        self.window_ms = self.window_ms.min(ticks.max(1).saturating_mul(TICK_MS));
    }

    /// Sets the time after which a blocked car steps aside. This also applies to cars that are
    /// already waiting. If you choose a short time, cars seldom get stuck, but more of them step
    /// aside.
    ///
    /// # Errors
    /// Returns an error if the time is out of range.
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

    /// Runs for `ticks` ticks in one session of the pool. Blocks until it is done. If you call it
    /// in a loop, for example once per frame, open one session yourself and use
    /// [`run_in`](Self::run_in).
    ///
    /// # Panics
    /// Panics if the simulation would continue after [`END_MS_MAX`].
    pub fn run(&mut self, pool: &Pool, ticks: Ms) {
        pool.session(|loops| self.run_in(loops, ticks));
    }

    /// Like [`run`](Self::run), but within a session that is already open.
    ///
    /// # Panics
    /// Panics if the simulation would continue after [`END_MS_MAX`].
    pub fn run_in(&mut self, loops: &Pool, ticks: Ms) {
        let step_ms = ticks.checked_mul(TICK_MS);
        self.run_ms_in(loops, step_ms.unwrap_or(Ms::MAX));
    }

    /// Runs for `step_ms` milliseconds. The result does not depend on how you divide a period into
    /// steps. For example, a game can run 16 ms or 50 ms per frame.
    ///
    /// # Panics
    /// Panics if the simulation would continue after [`END_MS_MAX`].
    pub fn run_ms(&mut self, pool: &Pool, step_ms: Ms) {
        pool.session(|loops| self.run_ms_in(loops, step_ms));
    }

    /// Like [`run_ms`](Self::run_ms), but within a session that is already open.
    ///
    /// # Panics
    /// Panics if the simulation would continue after [`END_MS_MAX`].
    pub fn run_ms_in(&mut self, loops: &Pool, step_ms: Ms) {
        let until = self.until(step_ms);
        while self.now_ms < until {
            let round = self.next_round_ms();
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

    /// Returns the time at which a step of `step_ms` ends.
    fn until(&self, step_ms: Ms) -> Ms {
        let until = self.now_ms.checked_add(step_ms);
        until
            .filter(|&until| until <= END_MS_MAX)
            .expect("the simulation ends before END_MS_MAX (34 days)")
    }

    /// Runs one window. Each tile receives its messages and then runs alone.
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

    /// Delivers the messages of the last window, so that the tiles contain the whole state.
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

    /// Returns the totals so far.
    pub fn tally(&self) -> Tally {
        let mut sum = Tally::default();
        self.tiles.iter().for_each(|tile| sum.add(&tile.tally));
        sum
    }

    /// Returns the total time that all cars have spent on links.
    pub fn vehicle_seconds(&self) -> f64 {
        let tally = self.tally();
        (tally.vehicle_ms + tally.moving * i64::from(self.now_ms)) as f64 / 1000.0
    }

    /// Returns the total time that all cars have spent on links, without the time that they waited
    /// at the ends. This is what they would have needed in free flow, plus the time that they have
    /// lost behind slow cars.
    pub fn free_flow_seconds(&self) -> f64 {
        let tally = self.tally();
        let drive = tally.moving - tally.waiting;
        let free_ms = tally.vehicle_ms - tally.waited_ms + drive * i64::from(self.now_ms);
        free_ms as f64 / 1000.0
    }

    /// Returns the total time that all cars have lost so far. It is the waiting time at the ends of
    /// links (the difference between [`vehicle_seconds`](Self::vehicle_seconds) and
    /// [`free_flow_seconds`](Self::free_flow_seconds)), the waiting time in entry queues, and the
    /// time lost behind slow cars. Cars that are still waiting count until now.
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

    /// Starts or stops recording events.
    pub fn record_events(&mut self, on: bool) {
        for tile in &mut self.tiles {
            tile.recorded_events = on.then(|| tile.recorded_events.take().unwrap_or_default());
        }
    }

    /// Returns all events since the last call. Their order does not depend on the workers. You must
    /// enable [`record_events`](Self::record_events) first. Take the events regularly, because they
    /// use memory until you do.
    pub fn take_events(&mut self) -> Vec<Event> {
        let recordings = self
            .tiles
            .iter_mut()
            .filter_map(|tile| tile.recorded_events.as_mut());
        let mut all: Vec<Event> = recordings.flat_map(|events| events.drain(..)).collect();
        // The sort is stable, so events of one car at one instant keep their order. This order is
        // right, because all of them happen in one tile, which records them in order.
        all.sort_by_key(|event| (event.at_ms, event.car));
        all
    }

    /// Returns one event for each car that is on a link now: the time at which the car entered that
    /// link. If the speed of the link has changed since then, it is the time at which a car with
    /// the current speed would have entered. The order is that of
    /// [`take_events`](Self::take_events).
    pub fn vehicles_on_links(&self) -> Vec<Event> {
        let mut all = Vec::new();
        for tile in &self.tiles {
            tile.for_each_car(|car| {
                if car.is_aside() {
                    return;
                }
                let link = tile.link_of_exit(car.exit);
                let road_ms = self.current_free_flow_ms(link);
                let takes_ms = self.rules.travel_ms(link, car.place, road_ms);
                all.push(Event {
                    at_ms: car.at.saturating_sub(takes_ms).min(self.now_ms),
                    car: self.rules.traveller(car.place),
                    kind: EventKind::Entered,
                    link,
                });
            });
        }
        all.sort_by_key(|event| (event.at_ms, event.car));
        all
    }

    /// Writes the number of cars on each link into `into`, and reuses its memory. You can pass the
    /// same vector each time.
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

    /// Returns the number of cars on links whose first car is blocked and has been the first one
    /// for a minute or longer. If the stuck time is less than two minutes, half of the stuck time
    /// is used instead of a minute.
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

    /// Returns the memory size in bytes of links and junctions, and of cars (without plans).
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

/// Delivers all messages from a tile's neighbours.
fn receive_messages(tile: &mut Tile, sources: &Sources, incoming: &[Mail], now: Ms) {
    for &(source, slot) in sources {
        for &message in &incoming[source as usize][usize::from(slot)] {
            tile.receive(message, now);
        }
    }
}

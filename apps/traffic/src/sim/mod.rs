//! The simulation: tiles that run alone for as long as nothing can come from elsewhere, then exchange.
//!
//! docs/design/traffic.md has the model, the layout, and why outcomes do not depend on the workers.

mod build;
mod hash;
mod records;
mod snapshot;
mod tile;
mod wheel;

pub use snapshot::SnapshotError;

use crate::demand::Plans;
use crate::network::{LEAST_MS, Ms, Network, NetworkError, Physics, Program};
use creel::Pool;
use records::Message;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
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
    programs: Vec<Program>,
    physics: Physics,
}

/// What happened, in sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Cars on roads. (Of one tile it may be negative, for cars come and go.)
    pub moving: i64,
    /// Cars beside a road, which wait to enter it.
    pub beside: i64,
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
    /// What cars waited at the ends of roads and beside them.
    pub delay_ms: u64,
    /// Time that cars were on roads, but for those that are: each of these adds what it is late.
    vehicle_ms: i64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.moving += other.moving;
        self.beside += other.beside;
        self.idle += other.idle;
        self.done += other.done;
        self.begun += other.begun;
        self.arrived += other.arrived;
        self.crossings += other.crossings;
        self.stepped_aside += other.stepped_aside;
        self.delay_ms += other.delay_ms;
        self.vehicle_ms += other.vehicle_ms;
    }
}

/// The road of a trip that has none.
pub const NO_ROAD: u32 = u32::MAX;

/// Something that happened to a car.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Happening {
    /// When.
    pub at_ms: Ms,
    /// To whom.
    pub car: u32,
    /// What.
    pub what: What,
    /// On which road: for [`What::Departed`] the one that it wants to enter, for [`What::Arrived`]
    /// the one that it came on; [`NO_ROAD`] where a trip has none.
    pub link: u32,
}

/// What may happen to a car.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// It left a road at its end.
    Left,
    /// It gave up its place at the head of a road, and waits beside the one that it wants to enter.
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
                programs: network.programs().to_vec(),
                physics,
            },
            network,
            tiles: built.tiles,
            sources: built.sources,
            now_ms: 0,
            window_ms: window.clamp(LEAST_MS / TICK_MS, WINDOW_TICKS_MAX) * TICK_MS,
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
        let until = ticks
            .checked_mul(TICK_MS)
            .and_then(|ms| ms.checked_add(self.now_ms));
        let until = until
            .filter(|&until| until <= END_MS_MAX)
            .expect("a time within a month");
        while self.now_ms < until {
            let next = until.min(self.now_ms + self.window_ms);
            self.window(loops, next);
        }
        self.take_in(loops);
    }

    /// One window: each tile takes in what it was sent, and runs alone.
    fn window(&mut self, loops: &Pool, until: Ms) {
        let Self {
            rules,
            tiles,
            sources,
            mail: [sent, room],
            now_ms,
            ..
        } = self;
        let (sent, from) = (&*sent, *now_ms);
        loops.each((tiles, room), |index, (tile, room)| {
            tile.warm_up();
            take_in(tile, &sources[index], sent, from);
            room.iter_mut().for_each(Vec::clear);
            tile.run(from, until, rules, room);
        });
        self.mail.swap(0, 1);
        self.now_ms = until;
    }

    /// Takes in what was sent in the last window, so that all is in the tiles.
    fn take_in(&mut self, loops: &Pool) {
        let Self {
            tiles,
            sources,
            mail: [sent, _],
            now_ms,
            ..
        } = self;
        loops.each(tiles, |index, tile| {
            take_in(tile, &sources[index], sent, *now_ms)
        });
        sent.iter_mut().flatten().for_each(Vec::clear);
    }

    /// Runs for so many ticks by somebody else's threads: `all` is to call what it is given once for
    /// each part, in any order. Beside Creel's loops, for comparison.
    ///
    /// # Panics
    /// If it would go on after [`END_MS_MAX`].
    pub fn run_by(
        &mut self,
        ticks: Ms,
        mut all: impl FnMut(&mut [Part<'_>], &(dyn Fn(&mut Part<'_>) + Sync)),
    ) {
        let until = self.now_ms + ticks * TICK_MS;
        assert!(until <= END_MS_MAX, "a time within a month");
        while self.now_ms <= until {
            let next = until.min(self.now_ms + self.window_ms);
            let (from, rules) = (self.now_ms, &self.rules);
            let [sent, room] = &mut self.mail;
            let sent = &*sent;
            let mine = self.tiles.iter_mut().zip(room).zip(&self.sources);
            let mut parts: Vec<Part<'_>> = mine
                .map(|((tile, room), sources)| Part {
                    tile,
                    room,
                    sources,
                })
                .collect();
            all(&mut parts, &|part| {
                part.tile.warm_up();
                take_in(part.tile, part.sources, sent, from);
                part.room.iter_mut().for_each(Vec::clear);
                part.tile.run(from, next, rules, part.room);
            });
            self.mail.swap(0, 1);
            if from == until {
                return;
            }
            self.now_ms = next;
        }
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

    /// Notes what happens from now on, or no longer.
    pub fn record(&mut self, on: bool) {
        for tile in &mut self.tiles {
            tile.record = on.then(|| tile.record.take().unwrap_or_default());
        }
    }

    /// What happened since this was last called, in an order that does not depend on the workers.
    pub fn happenings(&mut self) -> Vec<Happening> {
        let records = self
            .tiles
            .iter_mut()
            .filter_map(|tile| tile.record.as_mut());
        let mut all: Vec<Happening> = records.flat_map(|record| record.drain(..)).collect();
        // Of one car at one instant, in the order of `What`: it leaves before it enters.
        all.sort_unstable();
        all
    }

    /// Of each road, how many cars are on it now; into memory that is reused.
    pub fn occupancy(&self, into: &mut Vec<u16>) {
        into.clear();
        into.resize(self.network.links().len(), 0);
        for tile in &self.tiles {
            for (index, tail) in tile.tails.iter().enumerate() {
                let link = tile.first_link + index as u32;
                let storage = self.network.flow(link, &self.rules.physics).storage;
                into[link as usize] = storage - tail.room - tile.holes_of(tail) as u16;
            }
        }
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
        (tiles - cars + mail, cars)
    }
}

/// A tile in a window that somebody else runs: see [`Simulation::run_by`].
#[derive(Debug)]
pub struct Part<'a> {
    tile: &'a mut Tile,
    room: &'a mut Mail,
    sources: &'a Sources,
}

/// Takes in all that neighbours have sent to a tile.
fn take_in(tile: &mut Tile, sources: &Sources, sent: &[Mail], now: Ms) {
    for &(source, slot) in sources {
        for &message in &sent[source as usize][usize::from(slot)] {
            tile.receive(message, now);
        }
    }
}

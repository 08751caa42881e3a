//! Positions of cars, for programs that draw them each frame.
//!
//! A moving car is as far along its link as its travel time says, but not beyond the end of the
//! queue. A waiting car stands at its place in the queue. This needs no history, in contrast to the
//! positions of floating car data (`output/queue.rs`), and costs a few nanoseconds per car.

use super::Simulation;
use super::records::NONE16;
use super::tile::Tile;
use crate::demand::Plans;
use crate::network::{Ms, Network};

/// The position of a car.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct CarPosition {
    /// The coordinate to the east, in the unit of the network.
    pub x: f64,
    /// The coordinate to the north, in the unit of the network.
    pub y: f64,
    /// The number of the car.
    pub car: u32,
    /// The link that the car is on.
    pub link: u32,
    /// The direction in radians, counterclockwise from east.
    pub heading: f32,
    /// The speed in metres per second. It is 0 if the car waits.
    pub speed: f32,
}

/// A rectangle of the map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// The limits to the west and to the east.
    pub x: [f64; 2],
    /// The limits to the south and to the north.
    pub y: [f64; 2],
}

impl Region {
    /// The whole map.
    pub const ALL: Self = Self {
        x: [f64::NEG_INFINITY, f64::INFINITY],
        y: [f64::NEG_INFINITY, f64::INFINITY],
    };

    fn contains(&self, x: f64, y: f64) -> bool {
        (self.x[0]..=self.x[1]).contains(&x) && (self.y[0]..=self.y[1]).contains(&y)
    }

    fn overlaps(&self, other: &Self) -> bool {
        let overlap = |a: [f64; 2], b: [f64; 2]| a[0] <= b[1] && b[0] <= a[1];
        overlap(self.x, other.x) && overlap(self.y, other.y)
    }
}

/// The geometry of a link, and the values that are needed to place a car on it.
#[derive(Clone, Copy, Debug)]
struct Line {
    from: [f64; 2],
    along: [f64; 2],
    heading: f32,
    speed: f32,
    free_flow_ms: f32,
    /// The length of road that a standing car occupies, as a share of the link.
    step: f32,
    link: u32,
    lanes: u32,
}

/// The geometry of all links, which follows from the network and the car model, and their current
/// speeds.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    /// The geometry of the links of each tile, ordered by their exits (the ends of the links).
    tiles: Vec<Vec<Line>>,
    /// The rectangle that contains the links of each tile.
    bounds: Vec<Region>,
}

impl Lines {
    fn new(network: &Network, simulation: &Simulation) -> Self {
        let spacing_m = f64::from(simulation.rules.physics.spacing_mm) / 1000.0;
        let line = |link: u32| {
            let road = network.links()[link as usize];
            let [a, b] = [road.from, road.to].map(|end| network.junctions()[end as usize]);
            let along = [b.x - a.x, b.y - a.y];
            let length_m = f64::from(road.length_mm) / 1000.0;
            Line {
                from: [a.x, a.y],
                along,
                heading: libm::atan2(along[1], along[0]) as f32,
                speed: simulation.current_speed(link) as f32,
                free_flow_ms: simulation.current_free_flow_ms(link) as f32,
                step: (spacing_m / length_m) as f32,
                link,
                lanes: u32::from(road.lanes).max(1),
            }
        };
        let of_tile = |tile: &Tile| -> Vec<Line> {
            let exits = 0..tile.exits.len() as u16;
            exits.map(|exit| line(tile.link_of_exit(exit))).collect()
        };
        let tiles: Vec<Vec<Line>> = simulation.tiles.iter().map(of_tile).collect();
        let bounds = |lines: &Vec<Line>| {
            let mut bounds = Region {
                x: [f64::INFINITY, f64::NEG_INFINITY],
                y: [f64::INFINITY, f64::NEG_INFINITY],
            };
            for line in lines {
                for share in [0.0, 1.0] {
                    let [x, y] = [0, 1].map(|axis| line.from[axis] + share * line.along[axis]);
                    bounds.x = [bounds.x[0].min(x), bounds.x[1].max(x)];
                    bounds.y = [bounds.y[0].min(y), bounds.y[1].max(y)];
                }
            }
            bounds
        };
        let bounds = tiles.iter().map(bounds).collect();
        Self { tiles, bounds }
    }

    /// Sets the speed of the link that ends at an exit of a tile.
    pub fn set_speed(&mut self, (tile, exit): (usize, u16), free_flow_ms: Ms, speed: f32) {
        let line = &mut self.tiles[tile][usize::from(exit)];
        (line.free_flow_ms, line.speed) = (free_flow_ms as f32, speed);
    }
}

/// A table with which we find the number of the traveller at a place of the plans in constant time.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// One bit per place, set if a plan begins there.
    begins: Vec<u64>,
    /// The number of plans that begin before each word of `begins`.
    before: Vec<u32>,
}

impl Numbers {
    fn new(plans: &Plans) -> Self {
        let mut begins = vec![0_u64; plans.end() as usize / 64 + 1];
        for place in plans.plan_starts() {
            begins[place as usize / 64] |= 1 << (place % 64);
        }
        let mut sum = 0;
        let count = |word: &u64| {
            let before = sum;
            sum += word.count_ones();
            before
        };
        let before = begins.iter().map(count).collect();
        Self { begins, before }
    }

    #[inline]
    fn get(&self, place: u32) -> u32 {
        let word = place as usize / 64;
        let upto = self.begins[word] & (u64::MAX >> (63 - place % 64));
        self.before[word] + upto.count_ones() - 1
    }
}

impl Simulation {
    /// Writes the positions of all cars within a region into `into`, and reuses its memory. Cars
    /// that wait to enter a link are not on the map. The order of the cars does not depend on the
    /// workers.
    ///
    /// The first call computes the geometry of all links, and takes longer.
    pub fn positions(&self, region: &Region, into: &mut Vec<CarPosition>) {
        into.clear();
        let lines = self
            .lines
            .get_or_init(|| std::sync::Arc::new(Lines::new(&self.network, self)));
        let plans = &self.rules.plans;
        let numbers = self
            .numbers
            .get_or_init(|| std::sync::Arc::new(Numbers::new(plans)));
        let mut queued = Vec::new();
        let tiles = self.tiles.iter().zip(&lines.tiles).zip(&lines.bounds);
        for ((tile, lines), _) in tiles.filter(|(_, bounds)| bounds.overlaps(region)) {
            queued.clear();
            queued.resize(lines.len(), 0_u32);
            let mut add = |place: u32, line: &Line, share: f32, speed: f32| {
                let share = f64::from(share);
                let [x, y] = [0, 1].map(|axis| line.from[axis] + share * line.along[axis]);
                if region.contains(x, y) {
                    into.push(CarPosition {
                        x,
                        y,
                        car: numbers.get(self.rules.order(place)),
                        link: line.link,
                        heading: line.heading,
                        speed,
                    });
                }
            };
            for ((exit, line), queued) in tile.exits.iter().zip(lines).zip(&mut queued) {
                for car in tile.cars.ring(exit.last) {
                    let share = 1.0 - (*queued / line.lanes) as f32 * line.step;
                    add(tile.cars[car].place, line, share.max(0.0), 0.0);
                    *queued += 1;
                }
            }
            let mut drivers = Vec::new();
            tile.arrival_wheel.each(&tile.cars, |place| {
                let car = tile.cars[place];
                if car.is_aside() {
                    return;
                }
                if self.rules.roads.is_some() {
                    return drivers.push(car);
                }
                let (line, queued) = (&lines[usize::from(car.exit)], queued[usize::from(car.exit)]);
                let left_ms = car.at.saturating_sub(self.now_ms) as f32;
                let behind = 1.0 - (queued / line.lanes) as f32 * line.step;
                let share = (1.0 - left_ms / line.free_flow_ms).min(behind).max(0.0);
                add(car.place, line, share, line.speed);
            });
            // If there are slow cars, each car has its own speed. A car that arrives later than its
            // own speed allows follows the car ahead.
            drivers.sort_unstable_by_key(|car| (car.exit, car.at, self.rules.order(car.place)));
            let mut ahead = (NONE16, 0.0);
            for car in drivers {
                let (line, queued) = (&lines[usize::from(car.exit)], queued[usize::from(car.exit)]);
                let left_ms = car.at.saturating_sub(self.now_ms) as f32;
                let road_ms = line.free_flow_ms as Ms;
                let mut takes_ms = self.rules.travel_ms(line.link, car.place, road_ms) as f32;
                if left_ms > takes_ms && ahead.0 == car.exit {
                    takes_ms = takes_ms.max(ahead.1);
                }
                ahead = (car.exit, takes_ms);
                let behind = 1.0 - (queued / line.lanes) as f32 * line.step;
                let share = (1.0 - left_ms / takes_ms).min(behind).max(0.0);
                let speed = line.speed * line.free_flow_ms / takes_ms;
                add(car.place, line, share, speed);
            }
        }
    }
}

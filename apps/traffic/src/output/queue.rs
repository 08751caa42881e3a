//! Where the cars of a road are on it, which the simulation itself need not know: from when they entered
//! and left.
//!
//! It is Newell's rule, which the model's storage and holes come from: who follows does what the car in
//! front did, a reaction later and a spacing behind. So who waits stands at its place in the queue, and
//! a queue starts from its front.

use crate::network::{Ms, Network, Physics};
use std::collections::VecDeque;

/// What is the same for all cars of a road; metres and seconds.
#[derive(Clone, Copy, Debug)]
struct Shape {
    length: f64,
    speed: f64,
    /// From one standing car of a lane to the next.
    spacing: f64,
    reaction: f64,
    lanes: usize,
    /// For so long who left still matters to those behind.
    matters_ms: Ms,
}

impl Shape {
    fn of(network: &Network, link: u32, physics: &Physics) -> Self {
        let (road, flow) = (network.links()[link as usize], network.flow(link, physics));
        let length = f64::from(road.length_mm) / 1000.0;
        let speed = length * 1000.0 / f64::from(flow.free_flow_ms);
        let rows = flow.storage.div_ceil(u16::from(road.lanes));
        // A road so short that it holds more cars than would fit has them closer.
        let spacing =
            (f64::from(physics.spacing_mm) / 1000.0).min(length / f64::from(rows.max(2) - 1));
        let reaction = f64::from(physics.reaction_ms) / 1000.0;
        let matters = f64::from(rows) * (reaction + spacing / speed);
        Self {
            length,
            speed,
            spacing,
            reaction,
            lanes: usize::from(road.lanes),
            matters_ms: (matters * 1000.0).ceil() as Ms,
        }
    }
}

/// A car that is on a road, or was.
#[derive(Clone, Copy, Debug)]
struct Passage {
    entered_ms: Ms,
    left_ms: Option<Ms>,
}

/// Where a car is on its road.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    /// How far from the begin, in metres.
    pub pos: f64,
    /// Metres a second.
    pub speed: f64,
    /// From the right.
    pub lane: u8,
}

/// The cars of a road in the order in which they entered it, which is that in which they leave; they
/// take its lanes in turn.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    shape: Shape,
    /// The number of the first of `cars`, counted from the first that ever was.
    first: u64,
    cars: VecDeque<Passage>,
}

impl Queue {
    pub fn new(network: &Network, link: u32, physics: &Physics) -> Self {
        Self {
            shape: Shape::of(network, link, physics),
            first: 0,
            cars: VecDeque::new(),
        }
    }

    /// A car enters; its number here.
    pub fn enter(&mut self, at_ms: Ms) -> u64 {
        self.cars.push_back(Passage {
            entered_ms: at_ms,
            left_ms: None,
        });
        self.first + self.cars.len() as u64 - 1
    }

    /// The car with a number leaves.
    pub fn leave(&mut self, car: u64, at_ms: Ms) {
        self.cars[(car - self.first) as usize].left_ms = Some(at_ms);
        let matters = self.shape.matters_ms;
        let gone = |car: &Passage| car.left_ms.is_some_and(|left| at_ms - left > matters);
        while self.cars.front().is_some_and(gone) {
            self.cars.pop_front();
            self.first += 1;
        }
    }

    /// Where the car with a number is, which is on the road.
    pub fn spot(&self, car: u64, now_ms: Ms) -> Spot {
        let Shape {
            length,
            speed,
            spacing,
            reaction,
            lanes,
            ..
        } = self.shape;
        let seconds = |since_ms: Ms| f64::from(now_ms - since_ms) / 1000.0;
        let mut index = (car - self.first) as usize;
        // Nobody in the way; then no further than each in front lets it, itself the first of them.
        let mut pos = seconds(self.cars[index].entered_ms) * speed;
        let mut drives = speed;
        let mut rows = 0.0;
        loop {
            let since = |left_ms| seconds(left_ms) - rows * reaction;
            let started = self.cars[index].left_ms.map(since).filter(|&s| s > 0.0);
            let most = length - rows * spacing + started.unwrap_or(0.0) * speed;
            if most <= pos {
                pos = most;
                drives = if started.is_some() { speed } else { 0.0 };
            }
            if index < lanes {
                break;
            }
            index -= lanes;
            rows += 1.0;
        }
        Spot {
            pos: pos.max(0.0),
            speed: drives,
            lane: (car % lanes as u64) as u8,
        }
    }
}

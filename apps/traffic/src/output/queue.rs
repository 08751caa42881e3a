//! Computes the positions of cars on a link from the times at which they entered and left it. The
//! simulation itself does not need positions.
//!
//! We use Newell's car-following model, which the simulation's storage and holes are derived from
//! as well. A car repeats the movement of the car in front, one reaction time later and one spacing
//! behind. Therefore a waiting car stands at its place in the queue, and a queue starts to move
//! from its front.

use crate::network::{Ms, Network, Physics};
use std::collections::VecDeque;

/// The parameters that all cars of a link share. Lengths are in metres and times in seconds, except
/// for `matters_ms`.
#[derive(Clone, Copy, Debug)]
struct Shape {
    length: f64,
    speed: f64,
    /// The distance between two standing cars in a lane.
    spacing: f64,
    reaction: f64,
    lanes: usize,
    /// The time for which a car that has left still influences the cars behind it. After that, we
    /// forget the car.
    matters_ms: Ms,
}

impl Shape {
    fn of(network: &Network, link: u32, physics: &Physics, free_flow_ms: Ms) -> Self {
        let (road, flow) = (network.links()[link as usize], network.flow(link, physics));
        let length = f64::from(road.length_mm) / 1000.0;
        let speed = length * 1000.0 / f64::from(free_flow_ms);
        let rows = flow.storage.div_ceil(u16::from(road.lanes));
        // The storage of a short link can be larger than its length allows (see `Flow::storage`).
        // In this case we place its cars closer together.
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

/// A free speed, and the time since which it is valid.
#[derive(Clone, Copy, Debug)]
struct Speed {
    since: f64,
    /// The distance that a car at free speed drives from time 0 to `since`.
    driven: f64,
    speed: f64,
}

/// A car that is or was on the link.
#[derive(Clone, Copy, Debug)]
struct Passage {
    /// The distance that a car at free speed would have driven from time 0 to the entry of this
    /// car. The difference of two such distances is the way of the car in free flow, even if the
    /// speed has changed.
    entered: f64,
    /// If the car is slower than the road allows, the time at which it entered and its speed.
    slow: Option<(f64, f64)>,
    left_ms: Option<Ms>,
}

/// The position of a car on its link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spot {
    /// The distance from the beginning of the link in metres.
    pub pos: f64,
    /// The speed in metres per second.
    pub speed: f64,
    /// The lane, counted from the right.
    pub lane: u8,
}

/// The cars of a link in the order in which they entered it. They leave in the same order, unless a
/// car overtakes a slow one or is removed. They use the lanes in turn.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    shape: Shape,
    free_flow_ms: Ms,
    /// The free speeds so far. The first one is valid from time 0 on.
    speeds: Vec<Speed>,
    /// The number of the first car in `cars`. Cars are counted from the first car that ever
    /// entered.
    first: u64,
    cars: VecDeque<Passage>,
}

impl Queue {
    pub fn new(network: &Network, link: u32, physics: &Physics, free_flow_ms: Ms) -> Self {
        let shape = Shape::of(network, link, physics, free_flow_ms);
        Self {
            shape,
            free_flow_ms,
            speeds: vec![Speed {
                since: 0.0,
                driven: 0.0,
                speed: shape.speed,
            }],
            first: 0,
            cars: VecDeque::new(),
        }
    }

    /// Sets the free-flow time, and thereby the speed, from `at_ms` on.
    pub fn set_free_flow_ms(&mut self, free_flow_ms: Ms, at_ms: Ms) {
        if free_flow_ms == self.free_flow_ms {
            return;
        }
        let driven = self.driven_until(f64::from(at_ms) / 1000.0);
        self.free_flow_ms = free_flow_ms;
        self.shape.speed = self.shape.length * 1000.0 / f64::from(free_flow_ms);
        self.speeds.push(Speed {
            since: f64::from(at_ms) / 1000.0,
            driven,
            speed: self.shape.speed,
        });
    }

    /// Returns the distance that a car at free speed drives from time 0 to `at`.
    fn driven_until(&self, at: f64) -> f64 {
        let index = self.speeds.partition_point(|speed| speed.since <= at);
        let speed = self.speeds[index.max(1) - 1];
        speed.driven + (at - speed.since) * speed.speed
    }

    /// Returns the time at which a car that has driven at free speed since time 0 has covered this
    /// distance.
    fn time_of(&self, driven: f64) -> f64 {
        let index = self.speeds.partition_point(|speed| speed.driven <= driven);
        let speed = self.speeds[index.max(1) - 1];
        speed.since + (driven - speed.driven) / speed.speed
    }

    /// Returns the time in seconds at which the front of a car passes a place, if it is known. The
    /// place may be behind the end of the link, because the rear of a car follows its front.
    pub fn passes(&self, car: u64, pos: f64) -> Option<f64> {
        let shape = self.shape;
        let mut index = usize::try_from(car.checked_sub(self.first)?).ok()?;
        let mut at = self.time_of(self.cars.get(index)?.entered + pos.min(shape.length));
        let mut rows = 0.0;
        loop {
            // A slow car takes longer, and so do the cars that cannot overtake it.
            let slow = self.cars[index]
                .slow
                .filter(|_| rows == 0.0 || shape.lanes == 1);
            if let Some((entered, speed)) = slow {
                let way = pos.min(shape.length) + rows * shape.spacing;
                at = at.max(entered + rows * shape.reaction + way / speed);
            }
            // The front of the car can reach this place only after the car ahead has left the link.
            let most = shape.length - rows * shape.spacing;
            if most < pos {
                let left = f64::from(self.cars[index].left_ms?) / 1000.0;
                at = at.max(left + rows * shape.reaction + (pos - most) / shape.speed);
            }
            if index < shape.lanes {
                return Some(at);
            }
            index -= shape.lanes;
            rows += 1.0;
        }
    }

    /// Returns the current free speed in metres per second.
    pub fn speed(&self) -> f64 {
        self.shape.speed
    }

    /// Returns the lane of a car.
    pub fn lane(&self, car: u64) -> u8 {
        (car % self.shape.lanes as u64) as u8
    }

    /// Adds a car that enters and takes `travel_ms` in free flow. Returns its number.
    pub fn enter(&mut self, at_ms: Ms, travel_ms: Ms) -> u64 {
        let at = f64::from(at_ms) / 1000.0;
        let speed = self.shape.length * 1000.0 / f64::from(travel_ms);
        self.cars.push_back(Passage {
            entered: self.driven_until(at),
            slow: (travel_ms > self.free_flow_ms).then_some((at, speed)),
            left_ms: None,
        });
        self.first + self.cars.len() as u64 - 1
    }

    /// Marks a car as having left. We keep it for a while, because it still influences the cars
    /// behind it.
    pub fn leave(&mut self, car: u64, at_ms: Ms) {
        self.cars[(car - self.first) as usize].left_ms = Some(at_ms);
        let matters = self.shape.matters_ms;
        let gone = |car: &Passage| car.left_ms.is_some_and(|left| at_ms - left > matters);
        while self.cars.front().is_some_and(gone) {
            self.cars.pop_front();
            self.first += 1;
        }
    }

    /// Returns the position of a car that is on the link.
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
        // We start with the position in free flow, and each round of the loop lowers it to a limit.
        // The first limit is the end of the link. Each further limit comes from the next car ahead
        // in the same lane, and is one spacing behind the limit before. If a car ahead has left the
        // link, its limit moves forward at free speed. For each row between the two cars, it starts
        // to move one reaction time later.
        let mut pos = self.driven_until(f64::from(now_ms) / 1000.0) - self.cars[index].entered;
        let mut drives = speed;
        let mut rows = 0.0;
        loop {
            let slow = self.cars[index].slow.filter(|_| rows == 0.0 || lanes == 1);
            if let Some((entered, slow_speed)) = slow {
                let drives_for = f64::from(now_ms) / 1000.0 - rows * reaction - entered;
                let most = drives_for * slow_speed - rows * spacing;
                if most < pos {
                    (pos, drives) = (most, slow_speed);
                }
            }
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
            lane: self.lane(car),
        }
    }
}

//! What others read of a simulation: events, means a road, and cars in motion.
//!
//! All are made of events, in the order in which [`take_events`](crate::sim::Simulation::take_events)
//! gives them, so a file has the same bytes on any number of workers. Whole dumps have made other
//! simulators ten times slower: a [`Filter`] says what is wanted.

mod edges;
mod events;
mod fcd;
mod picture;
mod queue;

pub use edges::Edges;
pub use events::{Events, Table};
pub use fcd::Fcd;
pub use picture::Picture;

use crate::network::write::escaped;
use crate::network::{Ms, Names, Network};
use crate::sim::{Event, NO_ROAD};
use std::io;

/// What roads and cars are called.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The roads.
    pub network: &'a Network,
    /// The cars' names, or none: then they are called by their numbers from 1.
    pub cars: &'a Names,
}

impl Labels<'_> {
    /// A road's name, fit for an attribute.
    fn road(&self, link: u32) -> String {
        if link == NO_ROAD {
            return String::new();
        }
        escaped(&self.network.link_name(link)).into_owned()
    }

    /// A car's name, fit for an attribute.
    fn car(&self, car: u32) -> String {
        escaped(&self.cars.get(car)).into_owned()
    }
}

/// A file that is being written.
pub trait Report {
    /// Takes in what happened until `until_ms`, since it was last called.
    ///
    /// # Errors
    /// The stream's.
    fn take(&mut self, labels: Labels<'_>, events: &[Event], until_ms: Ms) -> io::Result<()>;

    /// Writes what is left, and the end.
    ///
    /// # Errors
    /// The stream's.
    fn finish(&mut self, labels: Labels<'_>) -> io::Result<()>;

    /// Whether it must know what happened before the period that is wanted: who is where when that
    /// begins.
    fn needs_history(&self) -> bool {
        false
    }

    /// Whether it must know of all cars on the roads that are wanted, and itself leaves out those that
    /// are not.
    fn needs_all_vehicles(&self) -> bool {
        false
    }
}

/// Which events are wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter {
    /// From when on.
    pub from_ms: Ms,
    /// Until when.
    pub until_ms: Ms,
    /// Roads that begin in this part of the map: west, south, east, north.
    pub region: Option<[f64; 4]>,
    /// Roads of at least so many lanes.
    pub lanes: u8,
    /// Roads on which one may drive at least so fast, in mm/s.
    pub speed_mm_s: u32,
    /// Cars whose number this divides.
    pub every: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            from_ms: 0,
            until_ms: Ms::MAX,
            region: None,
            lanes: 0,
            speed_mm_s: 0,
            every: 1,
        }
    }
}

impl Filter {
    /// Whether what happens to a car is wanted.
    pub fn matches_vehicle(&self, car: u32) -> bool {
        car.is_multiple_of(self.every.max(1))
    }

    /// Whether what happens on a road is wanted. What happens on none is, where no roads are
    /// picked.
    pub fn matches_link(&self, network: &Network, link: u32) -> bool {
        let Self {
            region,
            lanes,
            speed_mm_s,
            ..
        } = *self;
        match network.links().get(link as usize) {
            None => region.is_none() && lanes == 0 && speed_mm_s == 0,
            Some(road) => {
                let place = network.junctions()[road.from as usize];
                let inside = |[west, south, east, north]: [f64; 4]| {
                    (west..=east).contains(&place.x) && (south..=north).contains(&place.y)
                };
                road.lanes >= lanes && road.speed_mm_s >= speed_mm_s && region.is_none_or(inside)
            }
        }
    }
}

/// Seconds with three places, as all these files have them.
fn seconds(ms: Ms) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

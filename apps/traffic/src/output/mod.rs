//! Reports for other programs: events, edge data, trips, floating car data and pictures.
//!
//! All reports are built from events in the order of
//! [`take_events`](crate::sim::Simulation::take_events), so a file has the same content for any
//! number of workers. Complete dumps have made other simulators ten times slower. A [`Filter`]
//! therefore selects the events that you need.

mod detectors;
mod edges;
mod events;
mod fcd;
#[cfg(feature = "cli")]
mod picture;
mod queue;
mod trips;
mod turns;

pub use detectors::{Detector, Detectors, Kind, detectors};
pub use edges::Edges;
pub use events::{Events, Table};
pub use fcd::Fcd;
#[cfg(feature = "cli")]
pub use picture::Picture;
pub use trips::Trips;
pub use turns::Turns;

use crate::network::write::escaped;
use crate::network::{Ms, Names, Network};
use crate::sim::{Event, NO_ROAD, Simulation};
use std::io;

/// The names of links and cars.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// The network with the names of its links.
    pub network: &'a Network,
    /// The names of the cars. If empty, cars are named by their numbers from 1.
    pub cars: &'a Names,
    /// The simulation, after the events that the report takes. Its roads may have other speeds than
    /// those of the network. Without it, reports use the speeds of the network.
    pub simulation: Option<&'a Simulation>,
}

impl Labels<'_> {
    /// Returns the name of a link, escaped for an XML attribute.
    fn road(&self, link: u32) -> String {
        if link == NO_ROAD {
            return String::new();
        }
        escaped(&self.network.link_name(link)).into_owned()
    }

    /// Returns the free-flow time of a link, which is the travel time of a car that nothing holds
    /// up. It has been the same for all events since the last call of [`Report::take`], because a
    /// speed can change only between two steps.
    fn free_flow_ms(&self, link: u32) -> Ms {
        match self.simulation {
            Some(simulation) => simulation.current_free_flow_ms(link),
            None => self.network.free_flow_ms(link),
        }
    }

    /// Like [`free_flow_ms`](Self::free_flow_ms), for a car that may be slower than the road allows.
    fn travel_ms(&self, car: u32, link: u32) -> Ms {
        match self.simulation {
            Some(simulation) => simulation.travel_ms(car, link),
            None => self.network.free_flow_ms(link),
        }
    }

    /// Returns the name of a car, escaped for an XML attribute.
    fn car(&self, car: u32) -> String {
        escaped(&self.cars.get(car)).into_owned()
    }
}

/// A report that is written while the simulation runs. Call [`take`](Self::take) after each part of
/// a run, and [`finish`](Self::finish) once at the end.
pub trait Report {
    /// Adds the events since the last call. All events before `until_ms` are then known.
    ///
    /// # Errors
    /// Returns the error of the stream.
    fn take(&mut self, labels: Labels<'_>, events: &[Event], until_ms: Ms) -> io::Result<()>;

    /// Writes the rest of the report.
    ///
    /// # Errors
    /// Returns the error of the stream.
    fn finish(&mut self, labels: Labels<'_>) -> io::Result<()>;

    /// Returns whether the report needs events from before the requested period, to know which car
    /// is where when the period begins.
    fn needs_history(&self) -> bool {
        false
    }

    /// Returns whether the report needs the events of all cars. Such a report filters the cars
    /// itself.
    fn needs_all_vehicles(&self) -> bool {
        false
    }
}

/// Selects events. The default selects all of them. For example, you can restrict it to one part of
/// the map, or to every tenth car.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter {
    /// The start of the period, which is included.
    pub from_ms: Ms,
    /// The end of the period, which is excluded.
    pub until_ms: Ms,
    /// The part of the map in which a link must begin: west, south, east, north.
    pub region: Option<[f64; 4]>,
    /// The minimum number of lanes.
    pub lanes: u8,
    /// The minimum speed limit in mm/s.
    pub speed_mm_s: u32,
    /// Selects the cars whose number is a multiple of this number.
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
    /// Returns whether the events of a car are selected.
    pub fn matches_vehicle(&self, car: u32) -> bool {
        car.is_multiple_of(self.every.max(1))
    }

    /// Returns whether the events on a link are selected. Events without a link are selected only
    /// if the filter does not restrict the links.
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

/// Formats a time in seconds, with three decimals.
fn seconds(ms: Ms) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

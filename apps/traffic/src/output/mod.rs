//! What others read of a simulation: events, means a road, and cars in motion.
//!
//! All are made of happenings, in the order in which [`happenings`](crate::sim::Simulation::happenings)
//! gives them, so a file has the same bytes on any number of workers. Whole dumps have made other
//! simulators ten times slower: a [`Filter`] says what is wanted.

mod edges;
mod events;
mod fcd;

pub use edges::Edges;
pub use events::{Events, Table};
pub use fcd::Fcd;

use crate::network::{Ms, Network};
use crate::sim::{Happening, NO_ROAD};
use std::io;

/// A file that is being written.
pub trait Report {
    /// Takes in what happened until `until_ms`, since it was last called.
    ///
    /// # Errors
    /// The stream's.
    fn take(&mut self, network: &Network, happenings: &[Happening], until_ms: Ms)
    -> io::Result<()>;

    /// Writes what is left, and the end.
    ///
    /// # Errors
    /// The stream's.
    fn finish(&mut self, network: &Network) -> io::Result<()>;
}

/// Which happenings are wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter {
    /// From when on.
    pub from_ms: Ms,
    /// Until when.
    pub until_ms: Ms,
    /// Roads that begin in this part of the map: west, south, east, north.
    pub region: Option<[f64; 4]>,
    /// Cars whose number this divides.
    pub every: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            from_ms: 0,
            until_ms: Ms::MAX,
            region: None,
            every: 1,
        }
    }
}

impl Filter {
    /// Whether a happening is wanted.
    pub fn wants(&self, network: &Network, happening: &Happening) -> bool {
        let in_region = || {
            let Some([west, south, east, north]) = self.region else {
                return true;
            };
            let Some(link) = network.links().get(happening.link as usize) else {
                return false;
            };
            let place = network.junctions()[link.from as usize];
            (west..=east).contains(&place.x) && (south..=north).contains(&place.y)
        };
        (self.from_ms..self.until_ms).contains(&happening.at_ms)
            && happening.car.is_multiple_of(self.every.max(1))
            && in_region()
    }
}

/// A road's name, fit for an attribute.
fn road(network: &Network, link: u32) -> String {
    if link == NO_ROAD {
        return String::new();
    }
    quick_xml::escape::escape(network.link_name(link)).into_owned()
}

/// Seconds with three places, as all these files have them.
fn seconds(ms: Ms) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

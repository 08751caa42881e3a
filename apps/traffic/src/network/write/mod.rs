//! Writes road networks for other programs.
//!
//! Junctions and roads are written in the order of the file that they came from, with the names
//! that they had there. Whatever a format cannot store is left out, see [`Format::keeps_control`].

mod matsim;
mod numbers;
mod sumo;

use super::{Network, Physics};
use std::io::{self, Write};
use std::path::Path;

/// An output format for road networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SUMO's `net.xml`, without internal lanes.
    Sumo,
    /// MATSim's `network.xml`.
    Matsim,
    /// DIMACS `.gr`, which stores lengths only.
    Dimacs,
    /// TNTP.
    Tntp,
}

impl Format {
    /// Returns the format that a file name selects, compressed or not.
    pub fn of(path: &Path) -> Option<Self> {
        let name = unpacked_name(path)?;
        [
            (".net.xml", Self::Sumo),
            (".xml", Self::Matsim),
            (".gr", Self::Dimacs),
            (".tntp", Self::Tntp),
        ]
        .into_iter()
        .find_map(|(end, format)| name.ends_with(end).then_some(format))
    }

    /// Returns whether the format stores traffic lights, stops and priorities.
    pub fn keeps_control(self) -> bool {
        self == Self::Sumo
    }

    /// Returns whether the format stores the number of lanes and coordinates.
    pub fn keeps_lanes(self) -> bool {
        matches!(self, Self::Sumo | Self::Matsim)
    }

    /// Returns whether the format stores speeds.
    pub fn keeps_speeds(self) -> bool {
        self != Self::Dimacs
    }
}

/// Writes a network in a format. `unit_mm` is the unit of lengths in DIMACS files, in mm.
///
/// # Errors
/// Returns the error of the stream.
pub fn network(
    network: &Network,
    physics: &Physics,
    unit_mm: u32,
    format: Format,
    to: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Sumo => sumo::write(network, to),
        Format::Matsim => matsim::write(network, physics, to),
        Format::Dimacs => numbers::dimacs(network, unit_mm.max(1), to),
        Format::Tntp => numbers::tntp(network, physics, to),
    }
}

/// Returns a file's name in lower case, without the `.gz` of a compressed file.
pub(crate) fn unpacked_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    Some(name.strip_suffix(".gz").unwrap_or(&name).to_owned())
}

/// Escapes a text for use in an XML attribute.
pub(crate) fn escaped(text: &str) -> std::borrow::Cow<'_, str> {
    quick_xml::escape::escape(text)
}

impl Network {
    /// Returns all junctions and all links in the order of their file.
    fn in_order_of_file(&self) -> (Vec<u32>, Vec<u32>) {
        let mut junctions: Vec<u32> = (0..self.junctions().len() as u32).collect();
        junctions.sort_unstable_by_key(|&junction| self.junction_file_index(junction));
        let mut links: Vec<u32> = (0..self.links().len() as u32).collect();
        links.sort_unstable_by_key(|&link| self.link_file_index(link));
        (junctions, links)
    }
}

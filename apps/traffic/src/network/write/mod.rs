//! Roads as files that others read.
//!
//! Junctions and roads are written in the order of the file that they came from, by the names that
//! they had there. What a format has no place for is left out: see [`Format::keeps_control`].

mod matsim;
mod numbers;
mod sumo;

use super::{Network, Physics};
use std::io::{self, Write};
use std::path::Path;

/// A format that roads can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SUMO's `net.xml`, without internal lanes.
    Sumo,
    /// MATSim's `network.xml`.
    Matsim,
    /// DIMACS `.gr`: lengths only.
    Dimacs,
    /// TNTP.
    Tntp,
}

impl Format {
    /// The format that a file's name tells, packed or not.
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

    /// Whether lights, stops and priorities are kept.
    pub fn keeps_control(self) -> bool {
        self == Self::Sumo
    }

    /// Whether lanes and places are kept.
    pub fn keeps_lanes(self) -> bool {
        matches!(self, Self::Sumo | Self::Matsim)
    }

    /// Whether speeds are kept.
    pub fn keeps_speeds(self) -> bool {
        self != Self::Dimacs
    }
}

/// Writes roads. Of DIMACS files lengths are counted in so many mm.
///
/// # Errors
/// The stream's.
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

/// A file's name in small letters, without what tells that it is packed.
pub(crate) fn unpacked_name(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    Some(name.strip_suffix(".gz").unwrap_or(&name).to_owned())
}

/// A text, fit for an attribute.
pub(crate) fn escaped(text: &str) -> std::borrow::Cow<'_, str> {
    quick_xml::escape::escape(text)
}

impl Network {
    /// Junctions, then roads, in the order of their file.
    fn in_order_of_file(&self) -> (Vec<u32>, Vec<u32>) {
        let mut junctions: Vec<u32> = (0..self.junctions().len() as u32).collect();
        junctions.sort_unstable_by_key(|&junction| self.junction_file_index(junction));
        let mut links: Vec<u32> = (0..self.links().len() as u32).collect();
        links.sort_unstable_by_key(|&link| self.link_file_index(link));
        (junctions, links)
    }
}

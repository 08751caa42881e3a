//! Writes MATSim's `network.xml`.
//!
//! Source: `network_v2.dtd`.

use super::escaped;
use crate::network::{Network, Physics};
use std::io::{self, Write};

pub(super) fn write(network: &Network, physics: &Physics, to: &mut dyn Write) -> io::Result<()> {
    let (junctions, links) = network.in_order_of_file();
    to.write_all(
        b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!DOCTYPE network SYSTEM \"http://www.matsim.org/files/dtd/network_v2.dtd\">\n<network>\n  <nodes>\n",
    )?;
    for junction in junctions {
        let place = network.junctions()[junction as usize];
        let name = network.junction_name(junction);
        let id = escaped(&name);
        writeln!(
            to,
            "    <node id=\"{id}\" x=\"{}\" y=\"{}\"/>",
            place.x, place.y
        )?;
    }
    let cell_m = f64::from(physics.spacing_mm) / 1000.0;
    writeln!(
        to,
        "  </nodes>\n  <links capperiod=\"01:00:00\" effectivecellsize=\"{cell_m}\" effectivelanewidth=\"3.75\">"
    )?;
    for link in links {
        let road = network.links()[link as usize];
        let capacity = 3_600_000.0 / f64::from(network.flow(link, physics).headway_ms);
        let name = network.link_name(link);
        let [from, to_junction] = [road.from, road.to].map(|j| network.junction_name(j));
        writeln!(
            to,
            "    <link id=\"{}\" from=\"{}\" to=\"{}\" length=\"{}\" freespeed=\"{}\" capacity=\"{capacity}\" permlanes=\"{}\" oneway=\"1\" modes=\"car\"/>",
            escaped(&name),
            escaped(&from),
            escaped(&to_junction),
            f64::from(road.length_mm) / 1000.0,
            f64::from(road.speed_mm_s) / 1000.0,
            road.lanes,
        )?;
    }
    to.write_all(b"  </links>\n</network>\n")
}

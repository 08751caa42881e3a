//! Writes DIMACS graphs and TNTP networks. Both number junctions from 1.

use crate::network::{Network, Physics};
use std::io::{self, Write};

pub(super) fn dimacs(network: &Network, unit_mm: u32, to: &mut dyn Write) -> io::Result<()> {
    let (junctions, links) = network.in_order_of_file();
    writeln!(to, "p sp {} {}", junctions.len(), links.len())?;
    for link in links {
        let road = network.links()[link as usize];
        let [from, end] = [road.from, road.to].map(|j| network.junction_file_index(j) + 1);
        let length = (road.length_mm.saturating_add(unit_mm / 2) / unit_mm).max(1);
        writeln!(to, "a {from} {end} {length}")?;
    }
    Ok(())
}

/// Writes a TNTP network. Times are in minutes and capacities in cars per hour. The volume-delay
/// function is the standard BPR function (0.15, 4).
pub(super) fn tntp(network: &Network, physics: &Physics, to: &mut dyn Write) -> io::Result<()> {
    let (junctions, links) = network.in_order_of_file();
    let (nodes, roads) = (junctions.len(), links.len());
    writeln!(
        to,
        "<NUMBER OF ZONES> {nodes}\n<NUMBER OF NODES> {nodes}\n<FIRST THRU NODE> 1\n<NUMBER OF LINKS> {roads}\n<END OF METADATA>\n\n~\tinit\tterm\tcapacity\tlength\tfree flow time\tb\tpower\tspeed\ttoll\ttype\t;"
    )?;
    for link in links {
        let road = network.links()[link as usize];
        let [from, end] = [road.from, road.to].map(|j| network.junction_file_index(j) + 1);
        let capacity = 3_600_000.0 / f64::from(network.flow(link, physics).headway_ms);
        let minutes = f64::from(road.length_mm) / f64::from(road.speed_mm_s) / 60.0;
        let (km, km_h) = (
            f64::from(road.length_mm) / 1e6,
            f64::from(road.speed_mm_s) * 0.0036,
        );
        writeln!(
            to,
            "\t{from}\t{end}\t{capacity}\t{km}\t{minutes}\t0.15\t4\t{km_h}\t0\t1\t;"
        )?;
    }
    Ok(())
}

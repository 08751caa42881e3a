//! Writes demand for other programs.
//!
//! A plan that repeats for ever is written as a single round, because no format can store the
//! repetition.

use super::{CarSpeed, Plans};
use crate::network::write::{escaped, unpacked_name};
use crate::network::{Ms, Names, Network};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// An output format for demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// SUMO's `rou.xml`, with one vehicle per trip, ordered by departure time.
    Sumo,
    /// MATSim's `plans.xml`.
    Matsim,
    /// A TNTP trip table.
    Tntp,
}

impl Format {
    /// Returns the format that a file name selects, compressed or not.
    pub fn of(path: &Path) -> Option<Self> {
        let name = unpacked_name(path)?;
        [
            (".rou.xml", Self::Sumo),
            (".xml", Self::Matsim),
            (".tntp", Self::Tntp),
        ]
        .into_iter()
        .find_map(|(end, format)| name.ends_with(end).then_some(format))
    }
}

/// Writes the plans in a format.
///
/// # Errors
/// Returns the error of the stream.
pub fn plans(
    network: &Network,
    plans: &Plans,
    names: &Names,
    format: Format,
    to: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Sumo => sumo(network, plans, names, to),
        Format::Matsim => matsim(network, plans, names, to),
        Format::Tntp => tntp(network, plans, to),
    }
}

fn time(ms: Ms) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

fn roads(network: &Network, links: &[u32]) -> String {
    let names: Vec<String> = links.iter().map(|&link| network.link_name(link)).collect();
    escaped(&names.join(" ")).into_owned()
}

fn sumo(network: &Network, plans: &Plans, names: &Names, to: &mut dyn Write) -> io::Result<()> {
    to.write_all(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<routes>\n")?;
    let mut order: Vec<(Ms, u32, usize)> = Vec::new();
    for car in 0..plans.len() as u32 {
        let trips = plans.trips(network, car);
        let driven = trips
            .iter()
            .enumerate()
            .filter(|(_, trip)| !trip.1.is_empty());
        order.extend(driven.map(|(index, trip)| (trip.0, car, index)));
    }
    order.sort_unstable();
    // A type for each speed. Cars that drive as fast as the roads allow need none.
    let mut types = BTreeMap::new();
    for car in 0..plans.len() as u32 {
        let CarSpeed {
            max_mm_s,
            share_ppm,
        } = plans.speed(car);
        if plans.speed(car) != CarSpeed::ROAD {
            let number = types.len() + 1;
            types.entry((max_mm_s, share_ppm)).or_insert(number);
        }
    }
    for ((max_mm_s, share_ppm), number) in &types {
        let [limit, factor] = [f64::from(*max_mm_s) / 1e3, f64::from(*share_ppm) / 1e6];
        writeln!(
            to,
            "    <vType id=\"slow{number}\" maxSpeed=\"{limit}\" speedFactor=\"{factor}\" speedDev=\"0\"/>"
        )?;
    }
    for (depart_ms, car, index) in order {
        let trips = plans.trips(network, car);
        let name = names.get(car);
        let id = if trips.len() > 1 {
            format!("{name}.{}", index + 1)
        } else {
            name
        };
        let speed = plans.speed(car);
        let kind = match types.get(&(speed.max_mm_s, speed.share_ppm)) {
            Some(number) => format!(" type=\"slow{number}\""),
            None => String::new(),
        };
        writeln!(
            to,
            "    <vehicle id=\"{}\"{kind} depart=\"{}\" departLane=\"best\" departSpeed=\"max\"><route edges=\"{}\"/></vehicle>",
            escaped(&id),
            time(depart_ms),
            roads(network, &trips[index].1)
        )?;
    }
    to.write_all(b"</routes>\n")
}

/// Writes MATSim plans. The route of a first trip includes its first link. The route of a later
/// trip starts with the last link of the previous trip, because MATSim starts it there.
fn matsim(network: &Network, plans: &Plans, names: &Names, to: &mut dyn Write) -> io::Result<()> {
    to.write_all(
        b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!DOCTYPE population SYSTEM \"http://www.matsim.org/files/dtd/population_v6.dtd\">\n<population>\n",
    )?;
    for car in 0..plans.len() as u32 {
        let trips = plans.trips(network, car);
        let mut driven = trips.iter().filter(|trip| !trip.1.is_empty()).peekable();
        let Some(first) = driven.peek() else { continue };
        let mut at = first.1[0];
        writeln!(
            to,
            "  <person id=\"{}\">\n    <plan selected=\"yes\">",
            escaped(&names.get(car))
        )?;
        for (index, (depart_ms, links)) in driven.enumerate() {
            let before = (index > 0).then_some(at);
            let path: Vec<u32> = before.into_iter().chain(links.iter().copied()).collect();
            let end = path[path.len() - 1];
            let [from, goal] = [at, end].map(|link| network.link_name(link));
            let (from, goal) = (escaped(&from), escaped(&goal));
            writeln!(
                to,
                "      <activity type=\"stay\" link=\"{from}\" end_time=\"{}\"/>\n      <leg mode=\"car\">\n        <route type=\"links\" start_link=\"{from}\" end_link=\"{goal}\">{}</route>\n      </leg>",
                clock(*depart_ms),
                roads(network, &path)
            )?;
            at = end;
        }
        writeln!(
            to,
            "      <activity type=\"stay\" link=\"{}\"/>\n    </plan>\n  </person>",
            escaped(&network.link_name(at))
        )?;
    }
    to.write_all(b"</population>\n")
}

/// Formats a time in whole seconds, as MATSim expects it.
fn clock(ms: Ms) -> String {
    let seconds = ms / 1000;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

fn tntp(network: &Network, plans: &Plans, to: &mut dyn Write) -> io::Result<()> {
    let mut table: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    let mut all = 0;
    for car in 0..plans.len() as u32 {
        for (_, links) in plans.trips(network, car) {
            let (Some(&first), Some(&last)) = (links.first(), links.last()) else {
                continue;
            };
            let from = network.links()[first as usize].from;
            let goal = network.links()[last as usize].to;
            let [from, goal] =
                [from, goal].map(|junction| network.junction_file_index(junction) + 1);
            *table.entry(from).or_default().entry(goal).or_default() += 1;
            all += 1;
        }
    }
    writeln!(
        to,
        "<NUMBER OF ZONES> {}\n<TOTAL OD FLOW> {all}.0\n<END OF METADATA>",
        network.junctions().len()
    )?;
    for (from, goals) in table {
        writeln!(to, "\nOrigin {from}")?;
        let goals: Vec<String> = goals
            .iter()
            .map(|(goal, cars)| format!("{goal} : {cars}.0;"))
            .collect();
        for line in goals.chunks(5) {
            writeln!(to, "{}", line.join(" "))?;
        }
    }
    Ok(())
}

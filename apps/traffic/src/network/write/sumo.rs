//! Writes SUMO's `net.xml`, without internal lanes.
//!
//! Source: SUMO's documentation, "Networks". Each incoming road connects to each outgoing road,
//! lane by lane. The microscopic model needs lanes inside junctions, because cars collide without
//! them. `netconvert -s` adds these lanes. At traffic lights no connection yields to another, as in
//! our model. Only the green phases of the program keep cars apart.

use super::escaped;
use crate::network::{self, Control, Network, Program, Yield};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The length of the yellow phase at the end of a green phase.
const YELLOW_MS: u32 = 3000;

/// A connection in SUMO's sense, which leads from a lane of an incoming road to a lane of an
/// outgoing road.
struct Turn {
    from: u32,
    to: u32,
    lane: u8,
}

pub(super) fn write(network: &Network, to: &mut dyn Write) -> io::Result<()> {
    let (junctions, links) = network.in_order_of_file();
    let places = network.coordinates_m();
    let mut into: Vec<Vec<u32>> = vec![Vec::new(); junctions.len()];
    for &link in &links {
        into[network.links()[link as usize].to as usize].push(link);
    }
    let [west, south, east, north] = Network::bounds_m(&places);
    let bounds = format!("{west:.2},{south:.2},{east:.2},{north:.2}");
    writeln!(
        to,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<net version=\"1.16\">\n    <location netOffset=\"0.00,0.00\" convBoundary=\"{bounds}\" origBoundary=\"{bounds}\" projParameter=\"!\"/>"
    )?;
    for &link in &links {
        edge(network, &places, link, to)?;
    }
    let turns: Vec<Vec<Turn>> = (0..junctions.len())
        .map(|junction| turns(network, &into[junction], junction as u32))
        .collect();
    for &junction in &junctions {
        let control = network.junctions()[junction as usize].control;
        if let Control::Signal { program, offset_ms } = control {
            let program = &network.programs()[usize::from(program)];
            let name = network.junction_name(junction);
            light(
                network,
                &name,
                program,
                offset_ms,
                &turns[junction as usize],
                to,
            )?;
        }
    }
    for &junction in &junctions {
        let (roads, turns) = (&into[junction as usize], &turns[junction as usize]);
        write_junction(
            network,
            places[junction as usize],
            junction,
            (roads, turns),
            to,
        )?;
    }
    for &junction in &junctions {
        let lit = matches!(
            network.junctions()[junction as usize].control,
            Control::Signal { .. }
        );
        let name = network.junction_name(junction);
        for (index, turn) in turns[junction as usize].iter().enumerate() {
            let [from, end] = [turn.from, turn.to].map(|link| network.link_name(link));
            let (from, end, lane) = (escaped(&from), escaped(&end), turn.lane);
            let by = if lit {
                format!(" tl=\"{}\" linkIndex=\"{index}\"", escaped(&name))
            } else {
                String::new()
            };
            writeln!(
                to,
                "    <connection from=\"{from}\" to=\"{end}\" fromLane=\"{lane}\" toLane=\"{lane}\"{by} dir=\"{}\" state=\"{}\"/>",
                direction(network, junction, turn),
                match lit {
                    true => 'o',
                    false if yields(network, junction, turn).is_some() => 'm',
                    false => 'M',
                }
            )?;
        }
    }
    roundabouts(network, &links, to)?;
    to.write_all(b"</net>\n")
}

/// Returns the [`Yield`] of a movement, which lists the movements with priority over it. Returns
/// `None` if the movement does not yield.
fn yields<'a>(network: &'a Network, junction: u32, turn: &Turn) -> Option<&'a Yield> {
    let mut all = network.yields(junction).iter();
    all.find(|one| (one.from, one.to) == (turn.from, turn.to))
}

/// Returns SUMO's letter for the direction of a movement.
fn direction(network: &Network, junction: u32, turn: &Turn) -> char {
    match yields(network, junction, turn).map(|one| one.turn) {
        Some(network::Turn::Left) => 'l',
        Some(network::Turn::Right) => 'r',
        _ => 's',
    }
}

fn roundabouts(network: &Network, links: &[u32], to: &mut dyn Write) -> io::Result<()> {
    let mut rings: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &link in links {
        if let Some(ring) = network.ring(link) {
            rings.entry(ring).or_default().push(link);
        }
    }
    for links in rings.values() {
        let list = |names: Vec<String>| escaped(&names.join(" ")).into_owned();
        let edges = links.iter().map(|&link| network.link_name(link)).collect();
        let nodes = links
            .iter()
            .map(|&link| network.junction_name(network.links()[link as usize].to));
        let (nodes, edges) = (list(nodes.collect()), list(edges));
        writeln!(to, "    <roundabout nodes=\"{nodes}\" edges=\"{edges}\"/>")?;
    }
    Ok(())
}

fn edge(network: &Network, places: &[(f64, f64)], link: u32, to: &mut dyn Write) -> io::Result<()> {
    let road = network.links()[link as usize];
    let name = network.link_name(link);
    let [from, end] = [road.from, road.to].map(|j| network.junction_name(j));
    writeln!(
        to,
        "    <edge id=\"{}\" from=\"{}\" to=\"{}\" priority=\"{}\">",
        escaped(&name),
        escaped(&from),
        escaped(&end),
        road.approach
    )?;
    for lane in 0..road.lanes {
        let [a, b] = network.lane_coordinates_m(places, link, lane);
        writeln!(
            to,
            "        <lane id=\"{}_{lane}\" index=\"{lane}\" speed=\"{:.3}\" length=\"{:.3}\" shape=\"{:.2},{:.2} {:.2},{:.2}\"/>",
            escaped(&name),
            f64::from(road.speed_mm_s) / 1000.0,
            f64::from(road.length_mm) / 1000.0,
            a.0,
            a.1,
            b.0,
            b.1,
        )?;
    }
    to.write_all(b"    </edge>\n")
}

fn turns(network: &Network, into: &[u32], junction: u32) -> Vec<Turn> {
    let lanes = |link: u32| network.links()[link as usize].lanes;
    let mut turns = Vec::new();
    for &from in into {
        // SUMO numbers the movements of a junction by incoming lane.
        for lane in 0..lanes(from) {
            let wide = network.out(junction).filter(|&to| lane < lanes(to));
            turns.extend(wide.map(|to| Turn { from, to, lane }));
        }
    }
    turns
}

/// Returns the time at which the yellow phase at the end of a green phase begins. SUMO expects a
/// yellow phase, and cars pass in it. A green phase of less than six seconds gets no yellow phase,
/// so this returns its end.
fn yellow(from: u32, to: u32) -> u32 {
    if to - from >= 2 * YELLOW_MS {
        to - YELLOW_MS
    } else {
        to
    }
}

/// Writes the program of a traffic light, with one phase between each two changes.
fn light(
    network: &Network,
    name: &str,
    program: &Program,
    offset_ms: u32,
    turns: &[Turn],
    to: &mut dyn Write,
) -> io::Result<()> {
    let further = program.further_greens.iter().map(|further| further.1);
    let greens = program.greens.iter().copied().chain(further);
    let mut changes: Vec<u32> = greens.flat_map(|(a, b)| [a, yellow(a, b), b]).collect();
    changes.extend([0, program.cycle_ms]);
    changes.sort_unstable();
    changes.dedup();
    writeln!(
        to,
        "    <tlLogic id=\"{}\" type=\"static\" programID=\"0\" offset=\"{}\">",
        escaped(name),
        f64::from(offset_ms) / 1000.0
    )?;
    for phase in changes.windows(2) {
        let letter = |turn: &Turn| {
            let approach = network.links()[turn.from as usize].approach;
            let mut greens = program.greens_of(approach);
            match greens.find(|&(from, to)| from <= phase[0] && phase[1] <= to) {
                Some((from, to)) if phase[0] < yellow(from, to) => 'g',
                Some(_) => 'y',
                None => 'r',
            }
        };
        let state: String = turns.iter().map(letter).collect();
        let seconds = f64::from(phase[1] - phase[0]) / 1000.0;
        writeln!(
            to,
            "        <phase duration=\"{seconds}\" state=\"{state}\"/>"
        )?;
    }
    to.write_all(b"    </tlLogic>\n")
}

fn write_junction(
    network: &Network,
    (x, y): (f64, f64),
    junction: u32,
    (into, turns): (&[u32], &[Turn]),
    to: &mut dyn Write,
) -> io::Result<()> {
    let kind = match network.junctions()[junction as usize].control {
        _ if turns.is_empty() => "dead_end",
        Control::Free => "unregulated",
        Control::Stop => "allway_stop",
        Control::Priority => "priority",
        Control::Signal { .. } => "traffic_light",
    };
    let lanes = |&link: &u32| {
        let name = network.link_name(link);
        (0..network.links()[link as usize].lanes)
            .map(move |lane| format!("{}_{lane}", escaped(&name)))
    };
    let lanes: Vec<String> = into.iter().flat_map(lanes).collect();
    let name = network.junction_name(junction);
    writeln!(
        to,
        "    <junction id=\"{}\" type=\"{kind}\" x=\"{x:.2}\" y=\"{y:.2}\" incLanes=\"{}\" intLanes=\"\" shape=\"{:.2},{:.2} {:.2},{:.2} {:.2},{:.2}\">",
        escaped(&name),
        lanes.join(" "),
        x - 2.0,
        y - 2.0,
        x + 2.0,
        y - 2.0,
        x,
        y + 2.0,
    )?;
    if kind != "unregulated" && kind != "dead_end" {
        requests(network, (junction, kind), turns, to)?;
    }
    to.write_all(b"    </junction>\n")
}

/// Writes the right-of-way rules. At a stop, every connection yields to all connections from other
/// roads.
fn requests(
    network: &Network,
    (junction, kind): (u32, &str),
    turns: &[Turn],
    to: &mut dyn Write,
) -> io::Result<()> {
    let yields_to = |turn: &Turn, other: &Turn| {
        let foes = yields(network, junction, turn).map(|one| &one.foes);
        foes.is_some_and(|foes| foes.contains(&(other.from, other.to)))
    };
    let bits = |is: &dyn Fn(&Turn) -> bool| -> String {
        // SUMO lists the bits in reverse order, so the first connection is the last character.
        turns
            .iter()
            .rev()
            .map(|turn| if is(turn) { '1' } else { '0' })
            .collect()
    };
    for (index, turn) in turns.iter().enumerate() {
        let other = |them: &Turn| them.from != turn.from;
        let yields = |them: &Turn| match kind {
            "allway_stop" => other(them),
            "priority" => yields_to(turn, them),
            _ => false,
        };
        let foes = |them: &Turn| match kind {
            "allway_stop" => other(them),
            "priority" => yields_to(turn, them) || yields_to(them, turn),
            _ => false,
        };
        writeln!(
            to,
            "        <request index=\"{index}\" response=\"{}\" foes=\"{}\" cont=\"0\"/>",
            bits(&yields),
            bits(&foes)
        )?;
    }
    Ok(())
}

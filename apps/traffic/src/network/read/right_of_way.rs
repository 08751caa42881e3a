//! The right-of-way matrix of a SUMO junction.

use super::xml::Numbers;
use crate::network::{Turn, Yield};
use std::collections::{BTreeSet, HashMap};

/// A junction as the file describes it.
pub(super) struct Node {
    pub kind: String,
    /// The lanes that lead to the junction, in the order of the right-of-way matrix.
    pub lanes: Vec<String>,
    /// The movements that each movement yields to, as bits.
    pub responses: HashMap<usize, Vec<u8>>,
}

/// A movement from a lane, which passenger cars may use.
pub(super) struct Connection {
    pub from: u32,
    pub to: u32,
    pub lane: u32,
    pub via: Option<String>,
    pub dir: String,
}

/// The incoming and the outgoing link of a movement.
type Ends = (u32, u32);

/// Returns the movements that yield at a junction, from its right-of-way matrix.
pub(super) fn yields(node: &Node, connections: Vec<&Connection>, edges: &Numbers) -> Vec<Yield> {
    let mut at: HashMap<usize, &Connection> = HashMap::new();
    for (index, connection) in numbers(node, connections, edges) {
        at.insert(index, connection);
    }
    let mut movements: HashMap<Ends, (BTreeSet<Ends>, &str)> = HashMap::new();
    for (index, connection) in &at {
        let bits = node.responses.get(index).map_or(&[][..], |bits| bits);
        let foes = bits.iter().enumerate().filter(|(_, bit)| **bit == b'1');
        let foes = foes.filter_map(|(foe, _)| at.get(&foe));
        let foes = foes.filter(|foe| foe.from != connection.from);
        let (all, dir) = movements
            .entry((connection.from, connection.to))
            .or_insert_with(|| (BTreeSet::new(), &connection.dir));
        *dir = (*dir).max(&connection.dir);
        all.extend(foes.map(|foe| (foe.from, foe.to)));
    }
    let is_major = |from: u32| {
        movements
            .iter()
            .any(|(movement, (foes, _))| movement.0 == from && foes.is_empty())
    };
    let mut yields: Vec<Yield> = movements
        .iter()
        .filter(|(_, (foes, _))| !foes.is_empty())
        .map(|(&(from, to), (foes, dir))| {
            let merges = foes.iter().all(|foe| foe.1 == to);
            let turn = match *dir {
                _ if is_major(from) => Turn::FromMajor,
                "l" | "L" | "t" => Turn::Left,
                "r" | "R" => Turn::Right,
                // A merge straight ahead, such as a ramp, needs a shorter gap than a turn.
                _ if merges => Turn::FromMajor,
                _ => Turn::Through,
            };
            let foes = foes.iter().copied().collect();
            Yield {
                from,
                to,
                turn,
                foes,
            }
        })
        .collect();
    yields.sort_unstable_by_key(|one| (one.from, one.to));
    yields
}

/// Returns the connections with their numbers in the right-of-way matrix. The name of an
/// internal lane (`:JUNCTION_NUMBER_LANE`) contains the number. Without internal lanes, the
/// connections are numbered by incoming lane, in the order of the file.
fn numbers<'a>(
    node: &Node,
    connections: Vec<&'a Connection>,
    edges: &Numbers,
) -> Vec<(usize, &'a Connection)> {
    let of_lane = |connection: &Connection| {
        let via = connection.via.as_ref()?;
        let mut parts = via.rsplit('_').map(str::parse::<usize>);
        let (lane, number) = (parts.next()?.ok()?, parts.next()?.ok()?);
        Some(number + lane)
    };
    let numbered: Option<Vec<_>> = connections
        .iter()
        .map(|&connection| Some((of_lane(connection)?, connection)))
        .collect();
    if let Some(numbered) = numbered {
        return numbered;
    }
    let place: HashMap<&str, usize> = node
        .lanes
        .iter()
        .zip(0..)
        .map(|(lane, place)| (&**lane, place))
        .collect();
    let mut ordered = connections;
    ordered.sort_by_key(|connection| {
        let name = edges.name(connection.from);
        place.get(&*format!("{name}_{}", connection.lane)).copied()
    });
    ordered.into_iter().enumerate().collect()
}

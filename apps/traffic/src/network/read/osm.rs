//! Reads OpenStreetMap's `.osm.pbf`. Blobs are located sequentially and decoded on the pool.
//!
//! Source: the OpenStreetMap wiki, "PBF Format", "Key:highway", "Key:maxspeed", "Key:oneway",
//! "Key:lanes", "Key:access", "Tag:junction=roundabout", "Tag:highway=give_way". We keep roads for
//! cars (`osm_tags.rs`). Junctions are the nodes at which ways meet or end. A traffic light, a stop
//! or a give-way sign that stands a little ahead of a junction belongs to it. Turn restrictions are
//! counted, but not used.

use super::osm_tags::{Road, Sign, is_restriction, road, sign};
use super::{ReadError, Unused};
use crate::network::{Control, Junction, LINKS_MAX, Link, Names, Program, RawNetwork};
use creel::Pool;
use osmpbf::{Blob, BlobDecode, BlobReader, Element};
use std::collections::{HashMap, HashSet};

/// The maximum distance of a traffic light or sign from the junction to which it belongs.
const AHEAD_M: f64 = 60.0;

struct Way {
    id: i64,
    road: Road,
    nodes: Vec<i64>,
}

/// A node of a road, with its coordinates in units of 1e-7 degrees, and its traffic light or sign.
#[derive(Clone, Copy)]
struct Node {
    lon: i32,
    lat: i32,
    sign: Option<Sign>,
}

pub(super) fn read(bytes: &[u8], loops: &Pool) -> Result<RawNetwork, ReadError> {
    let broken = |error: osmpbf::Error| ReadError::Malformed(error.to_string());
    let blobs: Vec<Blob> = BlobReader::new(bytes)
        .collect::<Result<_, _>>()
        .map_err(broken)?;
    let decoded = loops.map(&blobs, ways);
    let (mut roads, mut unused) = (Vec::new(), Unused::default());
    for part in decoded {
        let (ways, ignored) = part.map_err(broken)?;
        roads.extend(ways);
        unused.merge(ignored);
    }
    let mut uses: HashMap<i64, u32> = HashMap::new();
    for way in &roads {
        let ends = [way.nodes.first(), way.nodes.last()];
        way.nodes
            .iter()
            .chain(ends.into_iter().flatten())
            .for_each(|&node| *uses.entry(node).or_default() += 1);
    }
    let decoded = loops.map(&blobs, |blob| nodes(blob, &uses));
    let mut places = HashMap::new();
    for part in decoded {
        let (nodes, ignored) = part.map_err(broken)?;
        places.extend(nodes);
        unused.merge(ignored);
    }
    let mut builder = Builder::new(&uses, &places);
    builder.raw.unused = unused;
    for way in &roads {
        builder.way(way)?;
    }
    Ok(builder.finish())
}

fn ways(blob: &Blob) -> Result<(Vec<Way>, Unused), osmpbf::Error> {
    let (mut found, mut unused) = (Vec::new(), Unused::default());
    let BlobDecode::OsmData(block) = blob.decode()? else {
        return Ok((found, unused));
    };
    block.for_each_element(|element| match element {
        Element::Way(way) => {
            if let Some(road) = road(&way.tags().collect(), &mut unused) {
                found.push(Way {
                    id: way.id(),
                    road,
                    nodes: way.refs().collect(),
                });
            }
        }
        Element::Relation(relation) if is_restriction(&relation.tags().collect()) => {
            unused.add("relation type=restriction");
        }
        _ => {}
    });
    Ok((found, unused))
}

type Nodes = Vec<(i64, Node)>;

fn nodes(blob: &Blob, wanted: &HashMap<i64, u32>) -> Result<(Nodes, Unused), osmpbf::Error> {
    let (mut found, mut unused) = (Vec::new(), Unused::default());
    let BlobDecode::OsmData(block) = blob.decode()? else {
        return Ok((found, unused));
    };
    block.for_each_element(|element| {
        let (id, lon, lat) = match &element {
            Element::DenseNode(node) => (node.id(), node.decimicro_lon(), node.decimicro_lat()),
            Element::Node(node) => (node.id(), node.decimicro_lon(), node.decimicro_lat()),
            _ => return,
        };
        if wanted.contains_key(&id) {
            let sign = match &element {
                Element::DenseNode(node) => sign(&node.tags().collect(), &mut unused),
                Element::Node(node) => sign(&node.tags().collect(), &mut unused),
                _ => None,
            };
            found.push((id, Node { lon, lat, sign }));
        }
    });
    Ok((found, unused))
}

/// Builds the network from ways.
struct Builder<'a> {
    uses: &'a HashMap<i64, u32>,
    places: &'a HashMap<i64, Node>,
    raw: RawNetwork,
    numbers: HashMap<i64, u32>,
    junction_names: Vec<Box<str>>,
    link_names: Vec<Box<str>>,
    /// The links that must yield.
    gives_way: HashSet<u32>,
    /// The links that belong to a roundabout.
    round: Vec<u32>,
    all_way_stops: HashSet<u32>,
}

/// The part of a way between two junctions, which becomes a link in each permitted direction.
struct Section<'a> {
    way: &'a Way,
    part: u32,
    ends: [(u32, Node); 2],
    length_m: f64,
    /// Traffic lights and signs between the ends, with their distance from the beginning.
    signs: Vec<(f64, Sign)>,
}

impl<'a> Builder<'a> {
    fn new(uses: &'a HashMap<i64, u32>, places: &'a HashMap<i64, Node>) -> Self {
        let raw = RawNetwork {
            has_coordinates: true,
            geographic: true,
            programs: vec![Program::fixed_time(2, 90_000)],
            ..RawNetwork::default()
        };
        Self {
            uses,
            places,
            raw,
            numbers: HashMap::new(),
            junction_names: Vec::new(),
            link_names: Vec::new(),
            gives_way: HashSet::new(),
            round: Vec::new(),
            all_way_stops: HashSet::new(),
        }
    }

    fn junction(&mut self, id: i64, node: Node) -> u32 {
        if let Some(&number) = self.numbers.get(&id) {
            return number;
        }
        let number = self.raw.junctions.len() as u32;
        let (x, y) = (f64::from(node.lon) / 1e7, f64::from(node.lat) / 1e7);
        let mut control = Control::Free;
        match node.sign {
            Some(Sign::Lights(_)) => control = LIGHTS,
            Some(Sign::Stop(_) | Sign::AllWayStop) => _ = self.all_way_stops.insert(number),
            // A give-way sign at the node of the junction itself does not say which of the roads
            // must yield, so we ignore it.
            Some(Sign::GiveWay(_)) => self
                .raw
                .unused
                .add("node highway=give_way (in the middle of a junction)"),
            None => {}
        }
        self.raw.junctions.push(Junction { x, y, control });
        self.junction_names.push(id.to_string().into());
        self.numbers.insert(id, number);
        number
    }

    fn way(&mut self, way: &Way) -> Result<(), ReadError> {
        let mut last: Option<(u32, Node)> = None;
        let (mut length_m, mut before, mut part) = (0.0, None, 0);
        let mut signs = Vec::new();
        for id in &way.nodes {
            // A file with an extract of the map contains ways that cross its border. The nodes of
            // these ways outside the border are missing, so we end the road there.
            let Some(&node) = self.places.get(id) else {
                (last, before, length_m) = (None, None, 0.0);
                signs.clear();
                continue;
            };
            length_m += before.map_or(0.0, |before| distance_m(before, node));
            before = Some(node);
            if self.uses[id] < 2 {
                signs.extend(node.sign.map(|sign| (length_m, sign)));
                continue;
            }
            let end = (self.junction(*id, node), node);
            if let Some(begin) = last.filter(|_| length_m > 0.0) {
                let signs = std::mem::take(&mut signs);
                self.section(Section {
                    way,
                    part,
                    ends: [begin, end],
                    length_m,
                    signs,
                });
                part += 1;
            }
            (last, length_m) = (Some(end), 0.0);
            signs.clear();
        }
        if self.raw.links.len() > LINKS_MAX {
            return Err(ReadError::Malformed(format!(
                "more than {LINKS_MAX} roads, which is the maximum"
            )));
        }
        Ok(())
    }

    fn section(&mut self, section: Section<'_>) {
        let Section {
            way,
            part,
            ends,
            length_m,
            signs,
        } = section;
        let road = way.road;
        let mut used = vec![false; signs.len()];
        for (against, &lanes) in road.lanes.iter().enumerate() {
            if lanes == 0 {
                continue;
            }
            let [(from, begin), (to, end)] = match against {
                0 => ends,
                _ => [ends[1], ends[0]],
            };
            let link = self.raw.links.len() as u32;
            self.raw.links.push(Link {
                from,
                to,
                length_mm: (length_m * 1000.0).clamp(1.0, 1e9) as u32,
                speed_mm_s: road.speed_mm_s[against],
                headway_ms: 0,
                lanes,
                approach: u8::from(runs_north(begin, end)),
            });
            let suffix = if against == 0 { "" } else { "r" };
            self.link_names
                .push(format!("{}:{part}{suffix}", way.id).into());
            if road.round {
                self.round.push(link);
            }
            for (index, &(at, sign)) in signs.iter().enumerate() {
                // A light or sign belongs to a link if it is near the end of the link. If it does
                // not name a direction, it belongs only to the link whose end is nearer.
                let left = if against == 0 { length_m - at } else { at };
                let is_near = left <= AHEAD_M && (left <= length_m / 2.0 || sign.is_directed());
                if !(is_near && sign.applies(against == 1)) {
                    continue;
                }
                used[index] = true;
                match sign {
                    Sign::Lights(_) => self.raw.junctions[to as usize].control = LIGHTS,
                    Sign::AllWayStop => _ = self.all_way_stops.insert(to),
                    Sign::Stop(_) | Sign::GiveWay(_) => _ = self.gives_way.insert(link),
                }
            }
        }
        let away = used.iter().filter(|&&used| !used).count();
        self.raw
            .unused
            .add_many("node (a light or sign away from junctions)", away as u64);
    }

    fn finish(mut self) -> RawNetwork {
        self.find_rings();
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); self.raw.junctions.len()];
        for (index, link) in (0..).zip(&self.raw.links) {
            into[link.to as usize].push(index);
        }
        for (number, roads) in (0..).zip(&into) {
            let junction = &mut self.raw.junctions[number as usize];
            if junction.control != Control::Free {
                continue;
            }
            let minor = roads.iter().filter(|link| self.gives_way.contains(link));
            let minor = minor.count();
            if self.all_way_stops.contains(&number) || (minor > 1 && minor == roads.len()) {
                junction.control = Control::Stop;
            } else if minor > 0 && minor < roads.len() {
                junction.control = Control::Priority;
                for link in roads {
                    let major = !self.gives_way.contains(link);
                    self.raw.links[*link as usize].approach = u8::from(major);
                }
            }
        }
        self.raw.junction_names = Names::new(self.junction_names);
        self.raw.link_names = Names::new(self.link_names);
        self.raw
    }

    /// Groups the links of roundabouts into rings, and makes the roads that lead to a ring yield to
    /// it.
    fn find_rings(&mut self) {
        let mut next: HashMap<u32, Vec<u32>> = HashMap::new();
        for &link in &self.round {
            let from = self.raw.links[link as usize].from;
            next.entry(from).or_default().push(link);
        }
        let mut seen = HashSet::new();
        for &start in &self.round {
            let (mut ring, mut open) = (Vec::new(), vec![start]);
            while let Some(link) = open.pop() {
                if seen.insert(link) {
                    ring.push(link);
                    let to = self.raw.links[link as usize].to;
                    open.extend(next.get(&to).into_iter().flatten());
                }
            }
            if !ring.is_empty() {
                self.raw.rings.push(ring);
            }
        }
        let on_ring: HashSet<u32> = self
            .round
            .iter()
            .map(|&link| self.raw.links[link as usize].to)
            .collect();
        for (index, link) in (0..).zip(&self.raw.links) {
            if on_ring.contains(&link.to) && !seen.contains(&index) {
                self.gives_way.insert(index);
            }
        }
    }
}

/// The control of a junction with traffic lights. We assume a program, because OpenStreetMap does
/// not contain the programs of traffic lights.
const LIGHTS: Control = Control::Signal {
    program: 0,
    offset_ms: 0,
};

/// Returns whether a road runs from north to south rather than from east to west.
fn runs_north(a: Node, b: Node) -> bool {
    let east = f64::from(a.lon - b.lon) * libm::cos((f64::from(a.lat) / 1e7).to_radians());
    f64::from(a.lat - b.lat).abs() > east.abs()
}

/// Returns the distance on a sphere, by the haversine formula.
fn distance_m(a: Node, b: Node) -> f64 {
    let radians = |value: i32| (f64::from(value) / 1e7).to_radians();
    let (lat_a, lat_b) = (radians(a.lat), radians(b.lat));
    let north = libm::sin((lat_b - lat_a) / 2.0);
    let east = libm::sin((radians(b.lon) - radians(a.lon)) / 2.0);
    let h = north * north + libm::cos(lat_a) * libm::cos(lat_b) * (east * east);
    2.0 * 6_371_008.8 * libm::asin(h.sqrt().min(1.0))
}

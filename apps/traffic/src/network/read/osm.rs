//! Reads OpenStreetMap's `.osm.pbf`. Blobs are located sequentially and decoded on the pool.
//!
//! Source: the OpenStreetMap wiki, "PBF Format", "Key:highway", "Key:maxspeed", "Key:oneway". We
//! keep roads for cars. Junctions are the nodes at which ways meet or end. Turn restrictions are
//! left out.

use super::ReadError;
use crate::network::{Control, Junction, LINKS_MAX, Link, Names, Program, RawNetwork};
use creel::Pool;
use osmpbf::{Blob, BlobDecode, BlobReader, Element};
use std::collections::HashMap;

/// The properties of a road, taken from the tags of a way.
#[derive(Clone, Copy)]
struct Road {
    speed_mm_s: u32,
    /// The number of lanes in the direction of the way, and against it.
    lanes: [u8; 2],
}

struct Way {
    id: i64,
    road: Road,
    nodes: Vec<i64>,
}

/// A node of a road: its coordinates in 1e-7 degrees, and whether it has traffic lights.
#[derive(Clone, Copy)]
struct Node {
    lon: i32,
    lat: i32,
    lights: bool,
}

pub(super) fn read(bytes: &[u8], loops: &Pool) -> Result<RawNetwork, ReadError> {
    let broken = |error: osmpbf::Error| ReadError::Malformed(error.to_string());
    let blobs: Vec<Blob> = BlobReader::new(bytes)
        .collect::<Result<_, _>>()
        .map_err(broken)?;
    let decoded = loops.map(&blobs, ways);
    let mut roads = Vec::new();
    for part in decoded {
        roads.extend(part.map_err(broken)?);
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
        places.extend(part.map_err(broken)?);
    }
    raw(&roads, &uses, &places)
}

fn ways(blob: &Blob) -> Result<Vec<Way>, osmpbf::Error> {
    let BlobDecode::OsmData(block) = blob.decode()? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    block.for_each_element(|element| {
        if let Element::Way(way) = element
            && let Some(road) = road(&way.tags().collect())
        {
            found.push(Way {
                id: way.id(),
                road,
                nodes: way.refs().collect(),
            });
        }
    });
    Ok(found)
}

fn nodes(blob: &Blob, wanted: &HashMap<i64, u32>) -> Result<Vec<(i64, Node)>, osmpbf::Error> {
    let BlobDecode::OsmData(block) = blob.decode()? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    block.for_each_element(|element| {
        let (id, lon, lat, lights) = match element {
            Element::DenseNode(node) => (
                node.id(),
                node.decimicro_lon(),
                node.decimicro_lat(),
                node.tags().any(|tag| tag == LIGHTS),
            ),
            Element::Node(node) => (
                node.id(),
                node.decimicro_lon(),
                node.decimicro_lat(),
                node.tags().any(|tag| tag == LIGHTS),
            ),
            _ => return,
        };
        if wanted.contains_key(&id) {
            found.push((id, Node { lon, lat, lights }));
        }
    });
    Ok(found)
}

const LIGHTS: (&str, &str) = ("highway", "traffic_signals");

/// Returns the properties of a way, or `None` if it is not a road for cars.
fn road(tags: &HashMap<&str, &str>) -> Option<Road> {
    let kind = *tags.get("highway")?;
    let (kmh, lanes) = match kind.trim_end_matches("_link") {
        "motorway" => (110, 2),
        "trunk" => (80, 2),
        "primary" => (60, 1),
        "secondary" | "tertiary" => (50, 1),
        "unclassified" => (40, 1),
        "residential" => (30, 1),
        "living_street" => (15, 1),
        _ => return None,
    };
    if matches!(tags.get("access"), Some(&("no" | "private"))) || tags.get("area") == Some(&"yes") {
        return None;
    }
    let kmh = tags
        .get("maxspeed")
        .and_then(|text| speed(text))
        .unwrap_or(kmh);
    let round = matches!(tags.get("junction"), Some(&("roundabout" | "circular")));
    let one_way = match tags.get("oneway") {
        Some(&("yes" | "true" | "1")) => 1,
        Some(&("-1" | "reverse")) => -1,
        Some(_) => 0,
        None => i32::from(round || kind.starts_with("motorway")),
    };
    let tagged_lanes = tags
        .get("lanes")
        .and_then(|text| text.parse::<u8>().ok())
        .filter(|lanes| *lanes > 0);
    let each = tagged_lanes.map_or(lanes, |tagged_lanes| {
        if one_way == 0 {
            (tagged_lanes / 2).max(1)
        } else {
            tagged_lanes
        }
    });
    let lanes = [
        if one_way >= 0 { each } else { 0 },
        if one_way <= 0 { each } else { 0 },
    ];
    Some(Road {
        speed_mm_s: kmh * 1_000_000 / 3600,
        lanes,
    })
}

/// Parses a speed limit and returns it in km/h.
fn speed(text: &str) -> Option<u32> {
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .ok()
            .filter(|speed| (5..=300).contains(speed))
    };
    match text.strip_suffix("mph") {
        Some(miles) => number(miles).map(|miles| miles * 1609 / 1000),
        None => number(text),
    }
}

fn raw(
    roads: &[Way],
    uses: &HashMap<i64, u32>,
    places: &HashMap<i64, Node>,
) -> Result<RawNetwork, ReadError> {
    let mut raw = RawNetwork {
        has_coordinates: true,
        geographic: true,
        ..RawNetwork::default()
    };
    raw.programs.push(Program::fixed_time(2, 90_000));
    let mut numbers: HashMap<i64, u32> = HashMap::new();
    let (mut junction_names, mut link_names) = (Vec::new(), Vec::new());
    for way in roads {
        let mut last: Option<(u32, Node)> = None;
        let (mut length, mut before, mut part) = (0.0, None, 0);
        for id in &way.nodes {
            // An extract cuts ways at its border, so nodes outside it have no coordinates.
            let Some(&node) = places.get(id) else {
                (last, before, length) = (None, None, 0.0);
                continue;
            };
            length += before.map_or(0.0, |before| distance_m(before, node));
            before = Some(node);
            if uses[id] < 2 {
                continue;
            }
            let number = *numbers.entry(*id).or_insert_with(|| {
                let control = if node.lights {
                    Control::Signal {
                        program: 0,
                        offset_ms: 0,
                    }
                } else {
                    Control::Free
                };
                let (x, y) = (f64::from(node.lon) / 1e7, f64::from(node.lat) / 1e7);
                raw.junctions.push(Junction { x, y, control });
                junction_names.push(id.to_string().into());
                raw.junctions.len() as u32 - 1
            });
            if let Some((from, begin)) = last.filter(|_| length > 0.0) {
                for (against, &lanes) in way
                    .road
                    .lanes
                    .iter()
                    .enumerate()
                    .filter(|(_, lanes)| **lanes > 0)
                {
                    let (from, to) = if against == 0 {
                        (from, number)
                    } else {
                        (number, from)
                    };
                    raw.links.push(Link {
                        from,
                        to,
                        length_mm: (length * 1000.0).clamp(1.0, 1e9) as u32,
                        speed_mm_s: way.road.speed_mm_s,
                        headway_ms: 0,
                        lanes,
                        approach: u8::from(runs_north(begin, node)),
                    });
                    link_names.push(
                        format!("{}:{part}{}", way.id, if against == 0 { "" } else { "r" }).into(),
                    );
                }
                part += 1;
            }
            (last, length) = (Some((number, node)), 0.0);
        }
        if raw.links.len() > LINKS_MAX {
            return Err(ReadError::Malformed(format!(
                "more than {LINKS_MAX} roads, which is the maximum"
            )));
        }
    }
    raw.junction_names = Names::new(junction_names);
    raw.link_names = Names::new(link_names);
    Ok(raw)
}

/// Returns whether a road runs from north to south rather than from east to west.
fn runs_north(a: Node, b: Node) -> bool {
    let east = f64::from(a.lon - b.lon) * (f64::from(a.lat) / 1e7).to_radians().cos();
    f64::from(a.lat - b.lat).abs() > east.abs()
}

/// Returns the distance on a sphere, by the haversine formula.
fn distance_m(a: Node, b: Node) -> f64 {
    let radians = |value: i32| (f64::from(value) / 1e7).to_radians();
    let (lat_a, lat_b) = (radians(a.lat), radians(b.lat));
    let (north, east) = (lat_b - lat_a, radians(b.lon) - radians(a.lon));
    let h = (north / 2.0).sin().powi(2) + lat_a.cos() * lat_b.cos() * (east / 2.0).sin().powi(2);
    2.0 * 6_371_008.8 * h.sqrt().min(1.0).asin()
}

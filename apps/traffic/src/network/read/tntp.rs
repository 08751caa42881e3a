//! Reads TNTP networks and trip tables (test problems for traffic assignment).
//!
//! Source: the format notes of "Transportation Networks for Research".

use super::{Assumed, ReadError, Unused, at_line};
use crate::network::{Junction, LINKS_MAX, Link, RawNetwork};

/// A network with the numbers and units of a TNTP file.
#[derive(Clone, Debug, Default)]
pub struct Tntp {
    /// The number of zones, which are the nodes where trips begin and end. Zones are the nodes with
    /// the lowest numbers.
    pub zones: u32,
    /// The number of nodes.
    pub nodes: u32,
    /// The first node that through traffic may use. Trips can only begin or end at the nodes below
    /// it.
    pub first_through: u32,
    /// The links.
    pub links: Vec<TntpLink>,
    /// The number of links with a toll, which is not used.
    pub tolls: u32,
    /// The number of links with a speed, which is not used.
    pub speeds: u32,
    /// The names of the metadata that are not used.
    pub unknown: Vec<String>,
}

/// A link with the parameters of its volume-delay function (BPR): `free_time (1 + b (flow ÷
/// capacity)^power)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TntpLink {
    /// The node at which the link begins, from 0.
    pub from: u32,
    /// The node at which the link ends, from 0.
    pub to: u32,
    /// The capacity in cars per hour, or in the unit of the demand.
    pub capacity: f64,
    /// The length.
    pub length: f64,
    /// The travel time without flow, usually in minutes.
    pub free_time: f64,
    /// The coefficient of the volume-delay function.
    pub b: f64,
    /// The exponent of the volume-delay function.
    pub power: f64,
}

impl Tntp {
    /// Parses a network.
    ///
    /// # Errors
    /// Returns an error with the line.
    pub fn parse(text: &str) -> Result<Self, ReadError> {
        let mut tntp = Self {
            first_through: 0,
            ..Self::default()
        };
        let mut declared = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('~').next().unwrap_or_default().trim();
            if let Some((name, value)) =
                line.strip_prefix('<').and_then(|rest| rest.split_once('>'))
            {
                let size = || {
                    let value = value.trim().parse::<u32>();
                    let value = value
                        .map_err(|_| at_line(number, format!("<{name}> is not a whole number")))?;
                    let fits = value as usize <= LINKS_MAX;
                    fits.then_some(value).ok_or_else(|| {
                        at_line(
                            number,
                            format!("<{name}> is more than {LINKS_MAX}, which is the maximum"),
                        )
                    })
                };
                match name {
                    "NUMBER OF ZONES" => tntp.zones = size()?,
                    "NUMBER OF NODES" => tntp.nodes = size()?,
                    "FIRST THRU NODE" => tntp.first_through = size()?.saturating_sub(1),
                    "NUMBER OF LINKS" => declared = Some(size()?),
                    "ORIGINAL HEADER" | "END OF METADATA" => {}
                    _ => tntp.unknown.push(name.to_owned()),
                }
                continue;
            }
            let line = line.trim_end_matches(';').trim();
            if !line.is_empty() {
                let link = tntp.link(line).map_err(|reason| at_line(number, reason))?;
                tntp.links.push(link);
            }
        }
        if declared.is_some_and(|declared| declared as usize != tntp.links.len()) {
            let (declared, links) = (declared.unwrap_or(0), tntp.links.len());
            return Err(ReadError::Malformed(format!(
                "found {links} links, but <NUMBER OF LINKS> says {declared}"
            )));
        }
        if tntp.zones > tntp.nodes {
            return Err(ReadError::Malformed(
                "<NUMBER OF ZONES> is more than <NUMBER OF NODES>".into(),
            ));
        }
        Ok(tntp)
    }

    fn link(&mut self, line: &str) -> Result<TntpLink, String> {
        let values: Result<Vec<f64>, _> = line
            .split_ascii_whitespace()
            .take(7)
            .map(str::parse)
            .collect();
        let has = |column| {
            let value = line.split_ascii_whitespace().nth(column);
            let value = value.and_then(|value| value.parse::<f64>().ok());
            value.is_some_and(|value| value > 0.0)
        };
        self.speeds += u32::from(has(7));
        self.tolls += u32::from(has(8));
        let values = values
            .map_err(|_| format!("expected numbers separated by spaces, but found '{line}'"))?;
        let [from, to, capacity, length, free_time, b, power] = values[..] else {
            return Err(format!(
                "expected at least seven numbers, but found '{line}'"
            ));
        };
        let node = |value: f64| {
            let fits = value >= 1.0 && value <= f64::from(self.nodes) && value.fract() == 0.0;
            fits.then_some(value as u32 - 1).ok_or_else(|| {
                format!("the network has no node {value}, which the line '{line}' names")
            })
        };
        let fine = [capacity, length, free_time, b, power]
            .iter()
            .all(|value| value.is_finite() && *value >= 0.0);
        if !fine || capacity <= 0.0 {
            return Err(format!(
                "a value is negative, infinite or a capacity of zero in '{line}'"
            ));
        }
        Ok(TntpLink {
            from: node(from)?,
            to: node(to)?,
            capacity,
            length,
            free_time,
            b,
            power,
        })
    }

    /// Returns the parts of the file that an assignment does not use. A traveller there minimizes
    /// the travel time alone.
    pub fn unused_by_assignment(&self) -> Unused {
        let mut unused = Unused::default();
        unused.add_many("link toll", u64::from(self.tolls));
        self.unknown.iter().for_each(|name| unused.add(name));
        unused
    }

    /// Converts the network for the simulation. The length of a link is chosen such that its
    /// free-flow time is kept, in minutes.
    pub fn raw(&self, assumed: &Assumed) -> RawNetwork {
        let link = |link: &TntpLink| {
            let length = link.free_time * 60.0 * f64::from(assumed.speed_mm_s);
            Link {
                from: link.from,
                to: link.to,
                length_mm: length.clamp(1.0, 1e9) as u32,
                speed_mm_s: assumed.speed_mm_s,
                headway_ms: (3_600_000.0 / link.capacity).clamp(1.0, f64::from(u32::MAX)) as u32,
                lanes: (link.capacity / 1800.0).ceil().clamp(1.0, 255.0) as u8,
                approach: 0,
            }
        };
        // We count these as unused, because the simulation computes delays from queues and not from
        // the volume-delay function, because the unit of the length is unknown, and because through
        // traffic may use every node.
        let mut unused = Unused::default();
        let delayed = self.links.iter().filter(|link| link.b > 0.0).count();
        unused.add_many("link b and power", delayed as u64);
        let long = self.links.iter().filter(|link| link.length > 0.0).count();
        unused.add_many("link length", long as u64);
        unused.add_many("link speed", u64::from(self.speeds));
        unused.merge(self.unused_by_assignment());
        unused.add_many("FIRST THRU NODE", u64::from(self.first_through > 0));
        RawNetwork {
            unused,
            junctions: vec![Junction::default(); self.nodes as usize],
            links: self.links.iter().map(link).collect(),
            ..RawNetwork::default()
        }
    }
}

/// Parses a trip table. Returns for each entry the origin zone, the destination zone (both from 0)
/// and the number of trips.
///
/// # Errors
/// Returns an error with the line.
pub fn trips(text: &str) -> Result<Vec<(u32, u32, f64)>, ReadError> {
    trips_and_unused(text, &mut Unused::default())
}

/// Like [`trips`]. Counts the metadata that it does not use in `unused`.
pub(crate) fn trips_and_unused(
    text: &str,
    unused: &mut Unused,
) -> Result<Vec<(u32, u32, f64)>, ReadError> {
    let mut all = Vec::new();
    let mut origin = None;
    let mut declared = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('~').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some((name, value)) = line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
            match name {
                "TOTAL OD FLOW" => declared = value.trim().parse::<f64>().ok(),
                "NUMBER OF ZONES" | "ORIGINAL HEADER" | "END OF METADATA" => {}
                _ => unused.add(name),
            }
            continue;
        }
        let zone = |text: &str| match text.trim().parse::<u32>() {
            Ok(zone) if zone >= 1 => Ok(zone - 1),
            _ => Err(at_line(
                number,
                format!("'{}' is not a zone number", text.trim()),
            )),
        };
        if let Some(rest) = line.strip_prefix("Origin") {
            origin = Some(zone(rest)?);
            continue;
        }
        let origin =
            origin.ok_or_else(|| at_line(number, "found trips before the first 'Origin' line"))?;
        for part in line.split(';').filter(|part| !part.trim().is_empty()) {
            let (to, amount) = part.split_once(':').ok_or_else(|| {
                at_line(
                    number,
                    format!("expected 'ZONE : TRIPS', but found '{part}'"),
                )
            })?;
            let amount = amount
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|amount| amount.is_finite() && *amount >= 0.0);
            let amount = amount
                .ok_or_else(|| at_line(number, format!("'{part}' has no valid number of trips")))?;
            all.push((origin, zone(to)?, amount));
        }
    }
    // Published tables are rounded, so the sum can be slightly different.
    let sum: f64 = all.iter().map(|trip| trip.2).sum();
    if declared.is_some_and(|declared| (declared - sum).abs() > sum.max(declared) / 1000.0) {
        unused.add("TOTAL OD FLOW (not the sum of the trips)");
    }
    Ok(all)
}

//! TNTP: networks and trip tables of the traffic assignment test problems.
//!
//! Source: the format notes of "Transportation Networks for Research".

use super::{Assumed, ReadError, at_line};
use crate::network::{Junction, LINKS_MAX, Link, RawNetwork};

/// A network as such a file has it: real numbers, in its own units.
#[derive(Clone, Debug, Default)]
pub struct Tntp {
    /// Zones are the junctions from 0 to here.
    pub zones: u32,
    /// Junctions in all.
    pub nodes: u32,
    /// Junctions below this are no way through, but where trips begin and end.
    pub first_through: u32,
    /// Roads.
    pub links: Vec<TntpLink>,
}

/// A road, and how its time grows with its flow: `free_time (1 + b (flow ÷ capacity)^power)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TntpLink {
    /// Where it begins, from 0.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
    /// Cars an hour, or whatever demand is counted in.
    pub capacity: f64,
    /// Its length.
    pub length: f64,
    /// Its time without flow, mostly in minutes.
    pub free_time: f64,
    /// See above.
    pub b: f64,
    /// See above.
    pub power: f64,
}

impl Tntp {
    /// Reads a network.
    ///
    /// # Errors
    /// Names the line.
    pub fn parse(text: &str) -> Result<Self, ReadError> {
        let mut tntp = Self {
            first_through: 0,
            ..Self::default()
        };
        let mut said = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('~').next().unwrap_or_default().trim();
            if let Some((name, value)) =
                line.strip_prefix('<').and_then(|rest| rest.split_once('>'))
            {
                let size = || {
                    let value = value.trim().parse::<u32>();
                    let value =
                        value.map_err(|_| at_line(number, format!("<{name}>: no number")))?;
                    let fits = value as usize <= LINKS_MAX;
                    fits.then_some(value)
                        .ok_or_else(|| at_line(number, format!("<{name}>: more than {LINKS_MAX}")))
                };
                match name {
                    "NUMBER OF ZONES" => tntp.zones = size()?,
                    "NUMBER OF NODES" => tntp.nodes = size()?,
                    "FIRST THRU NODE" => tntp.first_through = size()?.saturating_sub(1),
                    "NUMBER OF LINKS" => said = Some(size()?),
                    _ => {}
                }
                continue;
            }
            let line = line.trim_end_matches(';').trim();
            if !line.is_empty() {
                tntp.links
                    .push(tntp.link(line).map_err(|reason| at_line(number, reason))?);
            }
        }
        if said.is_some_and(|said| said as usize != tntp.links.len()) {
            let (said, links) = (said.unwrap_or(0), tntp.links.len());
            return Err(ReadError::Malformed(format!(
                "{links} roads, but <NUMBER OF LINKS> says {said}"
            )));
        }
        if tntp.zones > tntp.nodes {
            return Err(ReadError::Malformed("more zones than nodes".into()));
        }
        Ok(tntp)
    }

    fn link(&self, line: &str) -> Result<TntpLink, String> {
        let values: Result<Vec<f64>, _> = line
            .split_ascii_whitespace()
            .take(7)
            .map(str::parse)
            .collect();
        let values = values.map_err(|_| format!("'{line}': not all of it numbers"))?;
        let [from, to, capacity, length, free_time, b, power] = values[..] else {
            return Err(format!("'{line}': fewer than seven numbers"));
        };
        let node = |value: f64| {
            let fits = value >= 1.0 && value <= f64::from(self.nodes) && value.fract() == 0.0;
            fits.then_some(value as u32 - 1)
                .ok_or_else(|| format!("'{line}': there is no node {value}"))
        };
        let fine = [capacity, length, free_time, b, power]
            .iter()
            .all(|value| value.is_finite() && *value >= 0.0);
        if !fine || capacity <= 0.0 {
            return Err(format!("'{line}': a number out of range"));
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

    /// As roads for a simulation: lengths such that the free time, taken as minutes, is kept.
    pub fn raw(&self, assumed: &Assumed) -> RawNetwork {
        let link = |link: &TntpLink| {
            let length = link.free_time * 60.0 * f64::from(assumed.speed_mm_s);
            Link {
                from: link.from,
                to: link.to,
                length_mm: length.clamp(1.0, 1e9) as u32,
                speed_mm_s: assumed.speed_mm_s,
                headway_ms: (3_600_000.0 / link.capacity).clamp(1.0, 65_535.0) as u16,
                lanes: (link.capacity / 1800.0).ceil().clamp(1.0, 255.0) as u8,
                approach: 0,
            }
        };
        RawNetwork {
            junctions: vec![Junction::default(); self.nodes as usize],
            links: self.links.iter().map(link).collect(),
            ..RawNetwork::default()
        }
    }
}

/// Reads a table of trips: from, to (zones from 0) and how many.
///
/// # Errors
/// Names the line.
pub fn trips(text: &str) -> Result<Vec<(u32, u32, f64)>, ReadError> {
    let mut all = Vec::new();
    let mut origin = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('~').next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('<') {
            continue;
        }
        let zone = |text: &str| match text.trim().parse::<u32>() {
            Ok(zone) if zone >= 1 => Ok(zone - 1),
            _ => Err(at_line(number, format!("'{}' is no zone", text.trim()))),
        };
        if let Some(rest) = line.strip_prefix("Origin") {
            origin = Some(zone(rest)?);
            continue;
        }
        let origin = origin.ok_or_else(|| at_line(number, "trips before the first 'Origin'"))?;
        for part in line.split(';').filter(|part| !part.trim().is_empty()) {
            let (to, amount) = part
                .split_once(':')
                .ok_or_else(|| at_line(number, format!("'{part}' is not 'ZONE : TRIPS'")))?;
            let amount = amount
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|amount| amount.is_finite() && *amount >= 0.0);
            let amount =
                amount.ok_or_else(|| at_line(number, format!("'{part}': no number of trips")))?;
            all.push((origin, zone(to)?, amount));
        }
    }
    Ok(all)
}

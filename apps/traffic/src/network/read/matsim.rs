//! Reads MATSim's `network.xml`.
//!
//! Source: `network_v2.dtd`. Lengths are in metres, speeds in metres per second, and capacities in
//! cars per `capperiod`. Links whose modes do not include "car" are left out.

use super::xml::{self, Numbers, Part};
use super::{ReadError, length_mm};
use crate::network::{Junction, Link, Names, RawNetwork};

pub(super) fn read(text: &str) -> Result<RawNetwork, ReadError> {
    let mut raw = RawNetwork {
        has_coordinates: true,
        ..RawNetwork::default()
    };
    let (mut nodes, mut links) = (Numbers::default(), Numbers::default());
    let mut period = 3600.0;
    xml::each(text, |part| {
        let Part::Begin(element) = part else {
            return Ok(());
        };
        let name = element.name();
        match name.as_str() {
            "network" | "nodes" | "attributes" => {}
            // Users attach attributes of their own, which we ignore. However, this attribute bans
            // turns, so we count it as unused.
            "attribute" => {
                let name = element.get("name")?.unwrap_or_default();
                if matches!(name.as_str(), "disallowedNextLinks" | "turnRestrictions") {
                    raw.unused.add(format!("attribute name={name}"));
                }
            }
            "links" => {
                let known = ["capperiod", "effectivecellsize", "effectivelanewidth"];
                raw.unused.attributes(&element, &known)?;
                let cell: Option<f64> = element.number("effectivecellsize")?;
                if cell.is_some_and(|metres| metres != 7.5) {
                    raw.unused.add("links effectivecellsize");
                }
                if let Some(text) = element.get("capperiod")? {
                    period = xml::seconds(&text)
                        .filter(|&period| period > 0.0)
                        .ok_or_else(|| {
                            element.error(format!("capperiod '{text}' is not a positive time"))
                        })?;
                }
            }
            "node" => {
                let id = element.need("id")?;
                let known = nodes.add(id.clone()).is_none();
                if known {
                    return Err(element.error(format!("node {id} is defined twice")));
                }
                let place = (
                    element.number("x")?.unwrap_or(0.0),
                    element.number("y")?.unwrap_or(0.0),
                );
                raw.junctions.push(Junction {
                    x: place.0,
                    y: place.1,
                    ..Junction::default()
                });
            }
            "link" => {
                let modes = element.get("modes")?;
                if modes.is_some_and(|modes| !modes.split(',').any(|mode| mode.trim() == "car")) {
                    return Ok(());
                }
                let end = |name: &str| {
                    let id = element.need(name)?;
                    nodes
                        .get(&id)
                        .ok_or_else(|| element.error(format!("the network has no node {id}")))
                };
                let need = |name: &str| -> Result<f64, ReadError> {
                    let value = element.number::<f64>(name)?;
                    let value = value.filter(|value| value.is_finite() && *value > 0.0);
                    value.ok_or_else(|| {
                        element.error(format!("a link's {name} must be a positive number"))
                    })
                };
                let (from, to) = (end("from")?, end("to")?);
                let known = [
                    "id",
                    "from",
                    "to",
                    "length",
                    "freespeed",
                    "capacity",
                    "permlanes",
                    "modes",
                    "oneway",
                    "origid",
                    "type",
                ];
                raw.unused.attributes(&element, &known)?;
                // A road with a capacity of 0 is closed, so we leave it out.
                if element.number::<f64>("capacity")? == Some(0.0) {
                    raw.unused.add("link capacity=0 (closed, so left out)");
                    return Ok(());
                }
                let capacity = need("capacity")? * 3600.0 / period;
                let headway_ms = (3_600_000.0 / capacity)
                    .clamp(1.0, f64::from(u32::MAX))
                    .round();
                let speed = need("freespeed")?;
                if !(0.1..=200.0).contains(&speed) {
                    raw.unused.add("link freespeed (beyond 0.1 to 200 m/s)");
                }
                let permlanes = match element.get("permlanes")? {
                    Some(_) => need("permlanes")?,
                    None => 1.0,
                };
                if permlanes.fract() != 0.0 || permlanes > 255.0 {
                    raw.unused
                        .add("link permlanes (not a whole number up to 255)");
                }
                let link = Link {
                    from,
                    to,
                    length_mm: length_mm(need("length")?)
                        .ok_or_else(|| element.error("a link's length must be 1 mm to 1,000 km"))?,
                    speed_mm_s: (speed * 1000.0).clamp(100.0, 200_000.0) as u32,
                    headway_ms: headway_ms as u32,
                    lanes: permlanes.round().clamp(1.0, 255.0) as u8,
                    approach: 0,
                };
                let id = element.need("id")?;
                if links.add(id.clone()).is_none() {
                    return Err(element.error(format!("link {id} is defined twice")));
                }
                raw.links.push(link);
            }
            _ => raw.unused.add(name),
        }
        Ok(())
    })?;
    raw.junction_names = Names::new(nodes.into_names());
    raw.link_names = Names::new(links.into_names());
    Ok(raw)
}

//! Reads SUMO's routes, trips and flows.
//!
//! Source: SUMO's documentation, "Definition of Vehicles, Vehicle Types, and Routes". Every part of
//! the file that we do not use is counted.

use super::read::{DemandReader, TripRoute, milliseconds};
use super::sumo_types::Types;
use crate::network::Network;
use crate::network::read::{
    ReadError,
    xml::{self, Element},
};
use crate::random::Stream;
use std::collections::HashMap;

/// The maximum number of vehicles of a flow. A flow with more of them is probably an error in the
/// file.
const FLOW_MAX: f64 = 1e7;

/// Attributes that do not change how a car drives in a queue model, for example its lane, its speed
/// at the departure or its colour.
const COSMETIC: [&str; 14] = [
    "id",
    "type",
    "color",
    "departLane",
    "departSpeed",
    "arrivalLane",
    "arrivalSpeed",
    "departPosLat",
    "arrivalPosLat",
    "line",
    "name",
    "personNumber",
    "containerNumber",
    "vTypes",
];

/// A vehicle or flow whose element has begun. Its route follows inside the element.
struct Vehicle {
    id: String,
    departs: Vec<f64>,
    /// The name of its type.
    kind: Option<String>,
    is_flow: bool,
    is_done: bool,
}

/// The definitions of all files of a demand. A file can use those of the files before it.
#[derive(Default)]
pub(super) struct Definitions {
    routes: HashMap<String, Result<Vec<u32>, String>>,
    types: Types,
}

struct Reading<'a> {
    reader: &'a mut DemandReader,
    seed: u64,
    links: HashMap<String, u32>,
    junctions: HashMap<String, u32>,
    defined: &'a mut Definitions,
    vehicle: Option<Vehicle>,
    /// The begin and end of the interval that contains the flows.
    interval: (Option<f64>, Option<f64>),
    /// The name of the element that we skip together with its content, and how many elements of
    /// this name are open. `None` if we skip nothing.
    skipped: Option<(String, u32)>,
}

pub(super) fn read(
    text: &str,
    network: &Network,
    seed: u64,
    defined: &mut Definitions,
    reader: &mut DemandReader,
) -> Result<(), ReadError> {
    let mut reading = Reading {
        reader,
        seed,
        links: network.links_by_name(),
        junctions: network.junctions_by_name(),
        defined,
        vehicle: None,
        interval: (None, None),
        skipped: None,
    };
    xml::each(text, |part| match part {
        xml::Part::Begin(element) => reading.begin(&element),
        xml::Part::End(name) => {
            reading.end(&name);
            Ok(())
        }
        xml::Part::Text(_) => Ok(()),
    })
}

impl Reading<'_> {
    fn begin(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let name = element.name();
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth += u32::from(*skipped == name);
            return Ok(());
        }
        match name.as_str() {
            "routes" | "trips" | "additional" | "param" => {}
            "interval" => {
                self.interval = (time(element, "begin")?, time(element, "end")?);
            }
            "vehicle" | "trip" | "flow" => self.begin_vehicle(element, &name)?,
            "route" => self.route(element)?,
            "vType" => self.defined.types.add(element, &mut self.reader.unused)?,
            "vTypeDistribution" => self.defined.types.begin_distribution(element)?,
            _ => {
                self.reader.unused.add(name.clone());
                self.skipped = Some((name, 1));
            }
        }
        Ok(())
    }

    fn end(&mut self, name: &str) {
        if let Some((skipped, depth)) = &mut self.skipped {
            *depth -= u32::from(skipped == name);
            if *depth == 0 {
                self.skipped = None;
            }
            return;
        }
        match name {
            "interval" => self.interval = (None, None),
            "vTypeDistribution" => self.defined.types.end_distribution(),
            "vehicle" | "trip" | "flow" => {
                if let Some(vehicle) = self.vehicle.take().filter(|vehicle| !vehicle.is_done) {
                    self.add(&vehicle, Err("the vehicle has no route".into()));
                }
            }
            _ => {}
        }
    }

    fn path(&self, edges: &str) -> Result<Vec<u32>, String> {
        let find = |name: &str| {
            let link = self.links.get(name).copied();
            link.ok_or_else(|| format!("the network has no edge {name} for cars"))
        };
        edges.split_ascii_whitespace().map(find).collect()
    }

    fn begin_vehicle(&mut self, element: &Element<'_>, name: &str) -> Result<(), ReadError> {
        let known = [
            "depart",
            "route",
            "from",
            "to",
            "via",
            "fromJunction",
            "toJunction",
            "begin",
            "end",
            "number",
            "period",
            "vehsPerHour",
            "perHour",
            "probability",
            "departPos",
            "arrivalPos",
        ];
        self.reader
            .unused
            .attributes(element, &[&COSMETIC[..], &known[..]].concat())?;
        for place in ["departPos", "arrivalPos"] {
            let metres: Option<f64> = element.get(place)?.and_then(|text| text.parse().ok());
            if metres.is_some_and(|metres| metres != 0.0) {
                self.reader.unused.add(format!("{name} {place}"));
            }
        }
        let id = element.get("id")?.unwrap_or_default();
        if !id.is_empty() && !self.reader.ids.insert(id.clone()) {
            return Err(element.error(format!("two vehicles or flows have the id {id}")));
        }
        let is_flow = name == "flow";
        let departs = match is_flow {
            true => self.flow(element, &id)?,
            false => vec![departure(element)?],
        };
        let mut vehicle = Vehicle {
            id,
            departs,
            kind: element.get("type")?,
            is_flow,
            is_done: false,
        };
        if let Some(route) = element.get("route")? {
            let route = self.defined.routes.get(&route).cloned().unwrap_or_else(|| {
                Err(format!("no <route> before this vehicle has the id {route}"))
            });
            self.add(&vehicle, route.map(TripRoute::Links));
            vehicle.is_done = true;
        } else if let Some(way) = self.way(element)? {
            self.add(&vehicle, way);
            vehicle.is_done = true;
        }
        self.vehicle = Some(vehicle);
        Ok(())
    }

    /// Returns the route of a trip between edges or junctions, if the element describes one.
    fn way(&self, element: &Element<'_>) -> Result<Option<Result<TripRoute, String>>, ReadError> {
        let ends = [("from", "fromJunction"), ("to", "toJunction")];
        let [from, to] = ends.map(|(edge, junction)| {
            Ok::<_, ReadError>((element.get(edge)?, element.get(junction)?))
        });
        let (from, to) = (from?, to?);
        let is_there = |end: &(Option<String>, Option<String>)| end.0.is_some() || end.1.is_some();
        if !is_there(&from) && !is_there(&to) {
            return Ok(None);
        }
        let via = element.get("via")?.unwrap_or_default();
        let way = || {
            let junction = |name: Option<String>| match name {
                None => Ok(None),
                Some(name) => match self.junctions.get(&name) {
                    Some(&junction) => Ok(Some(junction)),
                    None => Err(format!(
                        "the network has no junction {name}. fromJunction and toJunction must be \
                         ids of junctions in the network file"
                    )),
                },
            };
            if !(is_there(&from) && is_there(&to)) {
                return Err("the trip has no origin or no destination".to_owned());
            }
            let edges = [from.0.unwrap_or_default(), via, to.0.unwrap_or_default()];
            let links = self.path(&edges.join(" "))?;
            Ok(TripRoute::Way {
                from: junction(from.1)?,
                links,
                to: junction(to.1)?,
            })
        };
        Ok(Some(way()))
    }

    fn route(&mut self, element: &Element<'_>) -> Result<(), ReadError> {
        let known = ["id", "edges", "color", "probability", "cost"];
        self.reader.unused.attributes(element, &known)?;
        let edges = self.path(&element.need("edges")?);
        let edges = edges.and_then(|edges| match edges[..] {
            [] => Err("its route has no edges".into()),
            [..] => Ok(edges),
        });
        match (self.vehicle.take(), element.get("id")?) {
            (Some(mut vehicle), _) => {
                if !vehicle.is_done {
                    self.add(&vehicle, edges.map(TripRoute::Links));
                    vehicle.is_done = true;
                }
                self.vehicle = Some(vehicle);
            }
            (None, Some(id)) => _ = self.defined.routes.insert(id, edges),
            (None, None) => self.reader.unused.add("route (without an id)"),
        }
        Ok(())
    }

    /// Returns the departure times of a flow in seconds.
    fn flow(&mut self, element: &Element<'_>, id: &str) -> Result<Vec<f64>, ReadError> {
        let begin = time(element, "begin")?.or(self.interval.0).unwrap_or(0.0);
        let end = time(element, "end")?.or(self.interval.1);
        let number: Option<f64> = element.number("number")?;
        let hourly = match element.number::<f64>("vehsPerHour")? {
            Some(rate) => Some(rate),
            None => element.number("perHour")?,
        };
        let period = element.get("period")?;
        let exponential = period
            .as_deref()
            .and_then(|text| text.trim().strip_prefix("exp(")?.strip_suffix(')'))
            .map(|rate| rate.trim().parse::<f64>().unwrap_or(f64::NAN));
        let period = match (&exponential, period) {
            (None, Some(text)) => Some(text.trim().parse::<f64>().unwrap_or(f64::NAN)),
            _ => hourly.map(|rate| 3600.0 / rate),
        };
        let probability: Option<f64> = element.number("probability")?;
        for value in [
            number,
            period.filter(|_| hourly != Some(0.0)),
            exponential,
            probability,
        ] {
            if value.is_some_and(|value| value.is_nan() || value < 0.0) {
                return Err(element.error("a flow needs a number, a rate or a period of 0 or more"));
            }
        }
        if probability.is_some_and(|probability| probability > 1.0) {
            return Err(element.error("the probability of a flow must be at most 1"));
        }
        let until = end.unwrap_or_else(|| {
            if number.is_none() || (period.is_none() && exponential.is_none()) {
                self.reader
                    .unused
                    .add("flow end (missing, so it lasts an hour)");
                begin + 3600.0
            } else {
                f64::INFINITY
            }
        });
        let lasts = until - begin;
        if lasts < 0.0 {
            return Err(element.error(format!("the flow {id} ends before it begins")));
        }
        if number.is_some_and(|number| number.fract() != 0.0) {
            self.reader.unused.add("flow number (its fraction)");
        }
        let (expected, most) = (number.unwrap_or(f64::INFINITY), number.unwrap_or(FLOW_MAX));
        let expected = match (exponential, probability, period) {
            (Some(rate), ..) => expected.min(rate * lasts),
            (_, Some(probability), _) => expected.min(probability * lasts),
            (.., Some(period)) if number.is_none() => lasts / period,
            _ => number.unwrap_or(0.0),
        };
        if expected > FLOW_MAX {
            return Err(element.error(format!(
                "the flow {id} has {expected:.0} vehicles, which is more than the maximum of \
                 {FLOW_MAX:.0}"
            )));
        }
        let is_given = number.is_some() || exponential.is_some() || probability.is_some();
        if !is_given && period.is_none() {
            return Err(element.error(format!(
                "the flow {id} needs number, vehsPerHour, perHour, period or probability"
            )));
        }
        let mut stream = Stream::of(self.seed, "flow", 0);
        id.bytes().for_each(|byte| stream.mix(u64::from(byte)));
        let mut times = Vec::new();
        if let Some(rate) = exponential {
            let mut at = begin;
            while rate > 0.0 && (times.len() as f64) < most {
                at -= libm::log(1.0 - stream.unit()) / rate;
                if at >= until {
                    break;
                }
                times.push(at);
            }
        } else if let Some(probability) = probability {
            let mut at = begin;
            while at < until && (times.len() as f64) < most && probability > 0.0 {
                if stream.unit() < probability {
                    times.push(at);
                }
                at += 1.0;
            }
        } else {
            let step = match (number, period, end) {
                (None, Some(period), _) | (Some(_), Some(period), None) => period,
                (Some(number), Some(period), Some(_)) if hourly.is_none() => {
                    period.min(lasts / number.max(1.0))
                }
                (number, ..) => lasts / number.unwrap_or(1.0).max(1.0),
            };
            let count = match number {
                Some(number) => number,
                // The first vehicle departs at the begin of the flow. The end is excluded, so no
                // vehicle departs at the end.
                None if step.is_finite() && step > 0.0 => (lasts / step).ceil(),
                None => 0.0,
            };
            times.extend((0..count as u32).map(|index| begin + f64::from(index) * step));
        }
        Ok(times)
    }

    /// Adds a vehicle, or all vehicles of a flow.
    fn add(&mut self, vehicle: &Vehicle, route: Result<TripRoute, String>) {
        for (index, &depart) in vehicle.departs.iter().enumerate() {
            // As in SUMO, vehicles of a flow are named after the flow, with a number.
            let name = match vehicle.is_flow {
                true => format!("{}.{index}", vehicle.id),
                false => vehicle.id.clone(),
            };
            let kind = vehicle.kind.as_deref();
            let unused = &mut self.reader.unused;
            let kind = self.defined.types.of(kind, &name, self.seed, unused);
            let route = match kind.barred {
                Some(reason) => Err(reason),
                None => route.clone(),
            };
            let itinerary = route.and_then(|route| Ok(vec![(milliseconds(depart)?, route)]));
            self.reader.add(&name, itinerary, kind.speed);
        }
    }
}

fn time(element: &Element<'_>, name: &str) -> Result<Option<f64>, ReadError> {
    let Some(text) = element.get(name)? else {
        return Ok(None);
    };
    let seconds = xml::seconds(&text);
    seconds.map(Some).ok_or_else(|| {
        element.error(format!(
            "<{}>: expected a time for {name}, but found '{text}'",
            element.name()
        ))
    })
}

/// Returns the departure time of a vehicle or trip. It is `NAN` if the element does not give one.
fn departure(element: &Element<'_>) -> Result<f64, ReadError> {
    let seconds = match element.get("depart")?.as_deref() {
        Some("now" | "begin") => Some(0.0),
        // Other values, such as "triggered", depend on other vehicles. We do not support them, so
        // the vehicle is left out.
        Some(text) => xml::seconds(text),
        None => None,
    };
    Ok(seconds.unwrap_or(f64::NAN))
}

//! Reads demand from MATSim plans, SUMO routes and trips, and TNTP trip tables.
//!
//! The content of the file determines its format. A reader returns itineraries. Trips without a
//! route are routed on the pool. We count travellers that cannot drive, for example because a link
//! is missing or there is no path. The first of them is reported with the reason, and all others
//! drive.

use super::pack::DEPART_MS_MAX;
use super::{Plans, Route, Traveller};
use crate::network::read::{ReadError, bytes, tntp, xml};
use crate::network::{Ms, Names, Network};
use crate::random::Stream;
use crate::route::Router;
use creel::Pool;
use std::collections::HashMap;
use std::path::Path;

/// How the route of a trip is given.
#[derive(Clone, Debug, PartialEq)]
enum TripRoute {
    /// A list of links.
    Links(Vec<u32>),
    /// An origin and a destination junction. The route is the shortest path between them.
    Between(u32, u32),
    /// A first and a last link. The route contains both and the shortest path between them.
    Across(u32, u32),
}

/// The trips of one traveller, with their departure times.
type Itinerary = Vec<(Ms, TripRoute)>;

/// Demand that was read from a file.
#[derive(Debug)]
pub struct Demand {
    /// The plans of all travellers.
    pub plans: Plans,
    /// The names of the travellers, if the file has names.
    pub names: Names,
    /// The number of travellers or trips that were left out, and the reason for the first one.
    pub left_out: (usize, Option<String>),
}

#[derive(Default)]
struct DemandReader {
    itineraries: Vec<Itinerary>,
    names: Vec<Box<str>>,
    left_out: usize,
    first: Option<String>,
}

impl DemandReader {
    fn skip(&mut self, reason: String) {
        self.left_out += 1;
        self.first.get_or_insert(reason);
    }

    fn add(&mut self, name: &str, itinerary: Result<Itinerary, String>) {
        match itinerary {
            Ok(itinerary) => {
                self.itineraries.push(itinerary);
                self.names.push(name.into());
            }
            Err(reason) => self.skip(format!("{name}: {reason}")),
        }
    }
}

/// Reads a demand file for a network. Trips of a trip table depart at random times within an hour.
///
/// # Errors
/// Returns an error with the line or position in the file.
pub fn demand(
    pool: &Pool,
    network: &Network,
    path: &Path,
    cars_max: usize,
    seed: u64,
) -> Result<Demand, ReadError> {
    let bytes = bytes(path)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| ReadError::Unknown)?;
    let mut reader = DemandReader::default();
    match () {
        () if text.contains("Origin") && !text.trim_start().starts_with("<?") => {
            table(text, network, seed, &mut reader)?
        }
        () if text.contains("<plans") || text.contains("<population") => {
            matsim(text, network, &mut reader)?
        }
        () if text.contains("<routes") || text.contains("<trips") => {
            sumo(text, network, &mut reader)?
        }
        () => return Err(ReadError::Unknown),
    }
    reader.itineraries.truncate(cars_max);
    reader.names.truncate(cars_max);
    let routed = reader
        .itineraries
        .iter()
        .flatten()
        .any(|(_, route)| !matches!(route, TripRoute::Links(_)));
    let router = routed.then(|| Router::new(network));
    let itineraries = &reader.itineraries;
    let query = |_| router.as_ref().map(Router::query);
    let plans = Plans::from_fn(pool, itineraries.len() as u32, query, |car, query| {
        let itinerary = &itineraries[car as usize];
        Ok(traveller(
            network,
            router.as_ref().zip(query.as_mut()),
            itinerary,
        ))
    })?;
    for (car, itinerary) in itineraries.iter().enumerate() {
        if plans.stays(car as u32) && !itinerary.is_empty() {
            let reason = "there is no path for one of the trips";
            let reason = match reader.names.get(car) {
                Some(name) => format!("{name}: {reason}"),
                None => format!("traveller {}: {reason}", car + 1),
            };
            reader.left_out += 1;
            reader.first.get_or_insert(reason);
        }
    }
    Ok(Demand {
        plans,
        names: Names::new(reader.names),
        left_out: (reader.left_out, reader.first),
    })
}

/// Builds a traveller with all trips of an itinerary. If one trip has no route, the traveller stays
/// at its origin.
fn traveller(
    network: &Network,
    router: Option<(&Router, &mut crate::route::RouteQuery)>,
    itinerary: &Itinerary,
) -> Traveller {
    let begin = |route: &TripRoute| match route {
        TripRoute::Links(links) => links
            .first()
            .map(|&link| network.links()[link as usize].from),
        TripRoute::Between(from, _) => Some(*from),
        TripRoute::Across(first, _) => Some(network.links()[*first as usize].from),
    };
    let origin = itinerary
        .iter()
        .find_map(|(_, route)| begin(route))
        .unwrap_or(0);
    let mut router = router;
    let mut place = origin;
    let mut trips = Vec::new();
    for (depart_ms, route) in itinerary {
        let links = match route {
            TripRoute::Links(links) => Some(links.clone()),
            TripRoute::Between(from, to) => router
                .as_mut()
                .and_then(|(router, query)| router.shortest_path(network, query, *from, *to)),
            TripRoute::Across(first, last) if first == last => Some(vec![*first]),
            TripRoute::Across(first, last) => {
                let roads = [first, last].map(|&link| network.links()[link as usize]);
                let ends = (roads[0].to, roads[1].from);
                let between = router.as_mut().and_then(|(router, query)| {
                    router.shortest_path(network, query, ends.0, ends.1)
                });
                between.map(|route| [&[*first], &route[..], &[*last]].concat())
            }
        };
        let fits = |links: &Vec<u32>| {
            links
                .first()
                .is_none_or(|&link| network.links()[link as usize].from == place)
        };
        let route = links
            .filter(fits)
            .and_then(|links| Some((Route::pack(network, &links).ok()?, links)));
        let Some((route, links)) = route else {
            return Traveller {
                origin,
                ..Traveller::default()
            };
        };
        place = links
            .last()
            .map_or(place, |&link| network.links()[link as usize].to);
        trips.push((*depart_ms, route));
    }
    Traveller {
        origin,
        trips,
        repeats: false,
    }
}

fn milliseconds(seconds: f64) -> Result<Ms, String> {
    let ms = seconds * 1000.0;
    if ms.is_nan() || ms < 0.0 || ms > f64::from(DEPART_MS_MAX) {
        return Err(if seconds.is_nan() {
            "it has no valid departure time".into()
        } else {
            format!("its departure time of {seconds} s is out of range (0 to 12 days)")
        });
    }
    Ok(ms as Ms)
}

fn table(
    text: &str,
    network: &Network,
    seed: u64,
    reader: &mut DemandReader,
) -> Result<(), ReadError> {
    let names = network.junctions_by_name();
    for (from, to, amount) in tntp::trips(text)? {
        let mut stream = Stream::of(seed, "table", u64::from(from) << 32 | u64::from(to));
        let zone = |zone: u32| names.get(&(zone + 1).to_string()).copied();
        // A fraction of a trip becomes a whole trip with that probability.
        let cars = amount as u64 + u64::from(stream.unit() < amount.fract());
        match (zone(from), zone(to)) {
            (Some(a), Some(b)) => {
                let trip = |stream: &mut Stream| {
                    vec![(stream.below(3_600_000) as Ms, TripRoute::Between(a, b))]
                };
                reader
                    .itineraries
                    .extend((0..cars).map(|_| trip(&mut stream)));
            }
            _ => reader.skip(format!(
                "trips from {} to {}: the network has no such zone",
                from + 1,
                to + 1
            )),
        }
    }
    Ok(())
}

fn matsim(text: &str, network: &Network, reader: &mut DemandReader) -> Result<(), ReadError> {
    let links = network.links_by_name();
    let mut person = String::new();
    let (mut selected, mut in_route, mut car) = (false, false, false);
    let mut end = None;
    let mut itinerary: Option<Result<Itinerary, String>> = None;
    xml::each(text, |part| {
        match part {
            xml::Part::Begin(element) => match element.name().as_str() {
                "person" => person = element.need("id")?,
                "plan" => {
                    selected = element.get("selected")?.is_none_or(|text| text == "yes");
                    if selected {
                        itinerary = Some(Ok(Vec::new()));
                    }
                }
                "activity" | "act" if selected => {
                    end = element
                        .get("end_time")?
                        .and_then(|text| xml::seconds(&text))
                }
                "leg" if selected => {
                    car = element.get("mode")?.is_some_and(|mode| mode == "car");
                    end = end.or(element
                        .get("dep_time")?
                        .and_then(|text| xml::seconds(&text)));
                }
                "route" if selected && car => in_route = true,
                _ => {}
            },
            xml::Part::Text(text) if in_route => {
                let path: Result<Vec<u32>, String> = text
                    .split_ascii_whitespace()
                    .map(|name| {
                        links
                            .get(name)
                            .copied()
                            .ok_or_else(|| format!("the network has no link {name}"))
                    })
                    .collect();
                let trip = path.and_then(|path| {
                    Ok((milliseconds(end.unwrap_or(0.0))?, TripRoute::Links(path)))
                });
                if let Some(itineraries) = &mut itinerary {
                    match (itineraries.as_mut(), trip) {
                        // The first link belongs to the previous trip, if there is one, because
                        // MATSim repeats it.
                        (Ok(itineraries), Ok((at, TripRoute::Links(mut path)))) => {
                            if !itineraries.is_empty() && !path.is_empty() {
                                path.remove(0);
                            }
                            itineraries.push((at, TripRoute::Links(path)));
                        }
                        (Ok(_), Err(reason)) => *itineraries = Err(reason),
                        _ => {}
                    }
                }
            }
            xml::Part::End(name) => match name.as_str() {
                "route" => in_route = false,
                "plan" => {
                    selected = false;
                    if let Some(itinerary) = itinerary.take() {
                        reader.add(&person, itinerary);
                    }
                }
                _ => {}
            },
            xml::Part::Text(_) => {}
        }
        Ok(())
    })
}

fn sumo(text: &str, network: &Network, reader: &mut DemandReader) -> Result<(), ReadError> {
    let links = network.links_by_name();
    let path = |edges: &str| -> Result<Vec<u32>, String> {
        let find = |name: &str| {
            links
                .get(name)
                .copied()
                .ok_or_else(|| format!("the network has no edge {name}"))
        };
        edges.split_ascii_whitespace().map(find).collect()
    };
    let mut routes: HashMap<String, Result<Vec<u32>, String>> = HashMap::new();
    let mut vehicle: Option<(String, Vec<f64>)> = None;
    xml::each(text, |part| {
        match part {
            xml::Part::Begin(element) => {
                let name = element.name();
                match name.as_str() {
                    "vehicle" | "trip" | "flow" => {
                        let id = element.get("id")?.unwrap_or_default();
                        let departs = departs(&element)?;
                        let ends = (element.get("from")?, element.get("to")?);
                        if let Some(route) = element.get("route")? {
                            let route = routes.get(&route).cloned().unwrap_or_else(|| {
                                Err(format!("the file defines no route {route}"))
                            });
                            add_all(reader, &id, &departs, route.map(TripRoute::Links));
                        } else if let (Some(from), Some(to)) = ends {
                            let route = path(&from).and_then(|from| Ok((from, path(&to)?)));
                            let route =
                                route.and_then(|(from, to)| match (from.first(), to.first()) {
                                    (Some(&from), Some(&to)) => Ok(TripRoute::Across(from, to)),
                                    _ => Err("its from or to names no edge".into()),
                                });
                            add_all(reader, &id, &departs, route);
                        } else {
                            vehicle = Some((id, departs));
                        }
                    }
                    "route" => {
                        let edges = path(&element.need("edges")?);
                        match (&vehicle, element.get("id")?) {
                            (Some((id, departs)), _) => {
                                add_all(reader, id, departs, edges.map(TripRoute::Links));
                                vehicle = None;
                            }
                            (None, Some(id)) => _ = routes.insert(id, edges),
                            (None, None) => {}
                        }
                    }
                    _ => {}
                }
            }
            xml::Part::End(name) if name == "vehicle" || name == "flow" => vehicle = None,
            _ => {}
        }
        Ok(())
    })
}

/// Returns the departure times of an element's vehicles. A flow has several.
fn departs(element: &xml::Element<'_>) -> Result<Vec<f64>, ReadError> {
    if let Some(text) = element.get("depart")? {
        let seconds = match text.as_str() {
            "now" | "begin" => Some(0.0),
            text => xml::seconds(text),
        };
        // Other values, such as "triggered", depend on other vehicles. We do not support them, so
        // the vehicle is left out.
        return Ok(vec![seconds.unwrap_or(f64::NAN)]);
    }
    let time = |name| Ok::<_, ReadError>(element.get(name)?.and_then(|text| xml::seconds(&text)));
    let (begin, end) = (
        time("begin")?.unwrap_or(0.0),
        time("end")?.unwrap_or(3600.0),
    );
    let hourly = element
        .number::<f64>("vehsPerHour")?
        .map(|rate| 3600.0 / rate);
    let period = element.number::<f64>("period").unwrap_or(None).or(hourly);
    let number = match (element.number::<u32>("number")?, period) {
        (Some(number), _) => number,
        (None, Some(period)) if period > 0.0 => ((end - begin) / period).clamp(0.0, 1e7) as u32,
        _ => 0,
    };
    let step = (end - begin).max(0.0) / f64::from(number.max(1));
    Ok((0..number.min(10_000_000))
        .map(|index| begin + f64::from(index) * step)
        .collect())
}

fn add_all(reader: &mut DemandReader, id: &str, departs: &[f64], route: Result<TripRoute, String>) {
    for (index, &depart) in departs.iter().enumerate() {
        // As in SUMO, vehicles of a flow are named after the flow, with a number.
        let name = if departs.len() > 1 {
            format!("{id}.{index}")
        } else {
            id.to_owned()
        };
        let itinerary = route
            .clone()
            .and_then(|route| Ok(vec![(milliseconds(depart)?, route)]));
        reader.add(&name, itinerary);
    }
}

//! Reads MATSim's plans.
//!
//! Source: `population_v6.dtd`. We use the selected plan of each person, and the legs by car in
//! this plan. Legs by other modes are only counted as unused. If a leg by car has no route, we
//! compute the shortest path. A person drives one vehicle, which is that of the first leg by car.

use super::matsim_vehicles::{Driven, Vehicles, of_mode};
use super::read::{DemandReader, Itinerary, TripRoute, milliseconds};
use crate::network::Network;
use crate::network::read::{
    ReadError,
    xml::{self, Element},
};
use std::collections::HashMap;

pub(super) fn read(
    text: &str,
    network: &Network,
    vehicles: &Vehicles,
    reader: &mut DemandReader,
) -> Result<(), ReadError> {
    let links = network.links_by_name();
    let mut person = String::new();
    let mut driven = Driven::default();
    // The name of the open attribute of a person.
    let mut attribute = None;
    let (mut selected, mut in_route, mut car) = (false, false, false);
    let mut end = None;
    // `place` is the link of the last activity. `unrouted` is whether the leg after this activity
    // still needs a route.
    let (mut place, mut unrouted) = (None::<String>, false);
    let mut itinerary: Option<Result<Itinerary, String>> = None;
    xml::each(text, |part| {
        match part {
            xml::Part::Begin(element) => match element.name().as_str() {
                "person" => {
                    person = element.need("id")?;
                    driven = Driven::default();
                    if !reader.ids.insert(person.clone()) {
                        return Err(element.error(format!("person {person} is defined twice")));
                    }
                }
                "plan" => {
                    selected = element.get("selected")?.is_none_or(|text| text == "yes");
                    if selected {
                        itinerary = Some(Ok(Vec::new()));
                    }
                }
                "activity" | "act" if selected => {
                    let known = [
                        "type",
                        "link",
                        "x",
                        "y",
                        "z",
                        "facility",
                        "start_time",
                        "end_time",
                        "max_dur",
                        "dur",
                    ];
                    reader.unused.attributes(&element, &known)?;
                    let link = element.get("link")?;
                    if std::mem::take(&mut unrouted) {
                        // The leg between the last activity and this one has no route, so we
                        // compute it here, where both ends are known.
                        let trip = between(network, &links, place.as_deref(), link.as_deref());
                        let at = milliseconds(end.unwrap_or(0.0));
                        if let Some(trips) = &mut itinerary {
                            push(trips, at.and_then(|at| Ok((at, trip?))));
                        }
                    }
                    place = link;
                    end = time(&element, "end_time")?;
                    if end.is_none() && time(&element, "max_dur")?.is_some() {
                        reader.unused.add("activity max_dur (without end_time)");
                    }
                }
                "leg" if selected => {
                    let mode = element.get("mode")?.unwrap_or_default();
                    car = mode == "car";
                    unrouted = car;
                    if !car {
                        reader.unused.add(format!("leg mode={mode}"));
                    }
                    end = end.or(time(&element, "dep_time")?);
                }
                "route" if selected && car => {
                    let known = [
                        "type",
                        "start_link",
                        "end_link",
                        "trav_time",
                        "distance",
                        "dist",
                        "vehicleRefId",
                    ];
                    reader.unused.attributes(&element, &known)?;
                    let vehicle = element.get("vehicleRefId")?;
                    match vehicle.filter(|vehicle| vehicle != "null") {
                        Some(vehicle)
                            if driven.in_route.as_ref().is_some_and(|v| *v != vehicle) =>
                        {
                            reader.unused.add("route vehicleRefId (another vehicle)");
                        }
                        Some(vehicle) => driven.in_route = Some(vehicle),
                        None => {}
                    }
                    let kind = element.get("type")?;
                    in_route = kind.is_none_or(|kind| kind == "links");
                    unrouted = !in_route;
                }
                "attribute" => attribute = element.get("name")?,
                "plans" | "population" | "activity" | "act" | "leg" | "route" | "attributes" => {}
                name => reader.unused.add(name),
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
                let trip = path.and_then(|path| Ok((milliseconds(end.unwrap_or(0.0))?, path)));
                if let Some(trips) = &mut itinerary {
                    // A MATSim route begins with the link on which the previous trip has ended. We
                    // skip this link, unless this is the first trip.
                    let is_first = trips.as_ref().is_ok_and(Vec::is_empty);
                    push(
                        trips,
                        trip.map(|(at, mut path)| {
                            if !is_first && !path.is_empty() {
                                path.remove(0);
                            }
                            (at, TripRoute::Links(path))
                        }),
                    );
                }
            }
            xml::Part::Text(text) => match attribute.as_deref() {
                Some("vehicles") => driven.owned = of_mode(&text),
                Some("vehicleTypes") => driven.kind = of_mode(&text),
                _ => {}
            },
            xml::Part::End(name) => match name.as_str() {
                "route" => in_route = false,
                "attribute" => attribute = None,
                "plan" => {
                    (selected, unrouted, place) = (false, false, None);
                    if let Some(itinerary) = itinerary.take() {
                        let speed = vehicles.speed(&person, &driven, &mut reader.unused);
                        reader.add(&person, itinerary, speed);
                    }
                }
                _ => {}
            },
        }
        Ok(())
    })
}

/// Adds a trip to an itinerary. The first error replaces the itinerary.
fn push(
    itinerary: &mut Result<Itinerary, String>,
    trip: Result<(crate::network::Ms, TripRoute), String>,
) {
    match (itinerary.as_mut(), trip) {
        (Ok(trips), Ok(trip)) => trips.push(trip),
        (Ok(_), Err(reason)) => *itinerary = Err(reason),
        _ => {}
    }
}

/// Returns the route from the end of one activity's link to the end of another one's.
fn between(
    network: &Network,
    links: &HashMap<String, u32>,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<TripRoute, String> {
    let find = |name: Option<&str>| {
        let name =
            name.ok_or("a leg has no route, and the activity before or after it has no link")?;
        let link = links.get(name).copied();
        link.ok_or_else(|| format!("the network has no link {name}"))
    };
    let (from, to) = (find(from)?, find(to)?);
    let begin = network.links()[from as usize].to;
    Ok(TripRoute::Way {
        from: Some(begin),
        links: if from == to { Vec::new() } else { vec![to] },
        to: None,
    })
}

/// Returns a time in seconds, or nothing if it is undefined.
fn time(element: &Element<'_>, name: &str) -> Result<Option<f64>, ReadError> {
    Ok(element.get(name)?.and_then(|text| xml::seconds(&text)))
}

//! Reads demand from MATSim plans, SUMO routes and trips, and TNTP trip tables.
//!
//! The content of a file determines its format. A reader returns itineraries. Trips without a route
//! are routed on the pool. We count travellers that cannot drive, for example because the network
//! lacks a link of their route or has no path. We report the first of them with the reason. All
//! others drive.

use super::grouped::map_by_key;
use super::matsim_vehicles::Vehicles;
use super::pack::DEPART_MS_MAX;
use super::{CarSpeed, Plans, Route, Traveller, matsim, sumo};
use crate::network::read::{ReadError, Unused, bytes, tntp};
use crate::network::{Ms, Names, Network};
use crate::random::Stream;
use crate::route::{RouteQuery, Router};
use creel::Pool;
use std::collections::HashSet;
use std::path::Path;

/// The route of a trip as the file describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TripRoute {
    /// A list of links.
    Links(Vec<u32>),
    /// The route contains all links in this order, and the shortest paths between them. It begins
    /// and ends at the given junctions, or with the first and last link.
    Way {
        from: Option<u32>,
        links: Vec<u32>,
        to: Option<u32>,
    },
}

impl TripRoute {
    /// Returns the junction at which the route begins.
    fn begin(&self, network: &Network) -> Option<u32> {
        let first = |links: &[u32]| Some(network.links()[*links.first()? as usize].from);
        match self {
            Self::Links(links) => first(links),
            Self::Way { from, links, to } => from.or(first(links)).or(*to),
        }
    }

    /// Returns the junction at which the last path that we have to search ends, because trips with
    /// the same goal share their search. Returns 0 if there is nothing to search.
    fn goal(&self, network: &Network) -> u32 {
        match self {
            Self::Links(_) => 0,
            Self::Way { links, to, .. } => {
                let last = links
                    .last()
                    .map(|&link| network.links()[link as usize].from);
                to.or(last).unwrap_or(0)
            }
        }
    }

    /// Returns the links of the route.
    fn links(
        &self,
        network: &Network,
        router: &mut Option<(&Router, &mut RouteQuery)>,
    ) -> Option<Vec<u32>> {
        let (from, links, to) = match self {
            Self::Links(links) => return Some(links.clone()),
            Self::Way { from, links, to } => (from, links, to),
        };
        let (router, query) = router.as_mut()?;
        let mut path: Vec<u32> = Vec::new();
        let mut place = *from;
        for &link in links {
            if path.last() == Some(&link) {
                continue;
            }
            let road = network.links()[link as usize];
            if let Some(place) = place {
                path.extend(router.shortest_path(network, query, place, road.from)?);
            }
            path.push(link);
            place = Some(road.to);
        }
        if let (Some(place), Some(to)) = (place, *to) {
            path.extend(router.shortest_path(network, query, place, to)?);
        }
        Some(path)
    }
}

/// The trips of one traveller, with their departure times.
pub(super) type Itinerary = Vec<(Ms, TripRoute)>;

/// Demand that was read from files.
#[derive(Debug)]
pub struct Demand {
    /// The plans of all travellers.
    pub plans: Plans,
    /// The names of the travellers, if the files have names.
    pub names: Names,
    /// The number of travellers or trips that were left out, and the reason for the first one.
    pub left_out: (usize, Option<String>),
    /// The parts of the files that were not used although they could change the result.
    pub unused: Unused,
}

/// Collects the travellers of a file while one of the format readers reads it.
#[derive(Default)]
pub(super) struct DemandReader {
    itineraries: Vec<Itinerary>,
    names: Vec<Box<str>>,
    /// The ids that the files have used so far.
    pub ids: HashSet<String>,
    /// The speeds of the travellers, up to the last one that is slow.
    speeds: Vec<CarSpeed>,
    /// The highest speed of any road. A car whose limit is not lower does not need a speed.
    fastest_mm_s: u32,
    left_out: usize,
    first: Option<String>,
    pub unused: Unused,
}

impl DemandReader {
    pub fn skip(&mut self, reason: String) {
        self.left_out += 1;
        self.first.get_or_insert(reason);
    }

    /// Adds a traveller, or counts it as left out.
    pub fn add(&mut self, name: &str, itinerary: Result<Itinerary, String>, speed: CarSpeed) {
        match itinerary {
            Ok(itinerary) => {
                if speed.max_mm_s < self.fastest_mm_s || speed.share_ppm < CarSpeed::ROAD.share_ppm
                {
                    self.speeds.resize(self.itineraries.len(), CarSpeed::ROAD);
                    self.speeds.push(speed);
                }
                // The travellers of a trip table have no names, so they are named by their numbers.
                while self.names.len() < self.itineraries.len() {
                    self.names.push((self.names.len() + 1).to_string().into());
                }
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
    let mut reader = Reader::new(network, seed);
    reader.read(path)?;
    reader.finish(pool, cars_max, &|_| {})
}

/// Reads a demand that consists of several files, for example one with the types of the vehicles
/// and one with their trips. A file can use the definitions of the files before it.
pub struct Reader<'a> {
    network: &'a Network,
    seed: u64,
    found: DemandReader,
    sumo: sumo::Definitions,
    vehicles: Vehicles,
    has_travellers: bool,
    unused: Unused,
}

impl<'a> Reader<'a> {
    /// Creates a reader that has not read any file. `seed` is the seed of random departure times
    /// and types.
    pub fn new(network: &'a Network, seed: u64) -> Self {
        let speeds = network.links().iter().map(|link| link.speed_mm_s);
        Self {
            network,
            seed,
            found: DemandReader {
                fastest_mm_s: speeds.max().unwrap_or(0),
                ..DemandReader::default()
            },
            sumo: sumo::Definitions::default(),
            vehicles: Vehicles::default(),
            has_travellers: false,
            unused: Unused::default(),
        }
    }

    /// Reads a file. Returns the parts of the file that are not used although they could change the
    /// result.
    ///
    /// # Errors
    /// Returns an error with the line or position in the file.
    pub fn read(&mut self, path: &Path) -> Result<Unused, ReadError> {
        let bytes = bytes(path)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| ReadError::Unknown)?;
        let Self {
            network,
            seed,
            found,
            sumo,
            vehicles,
            ..
        } = self;
        let mut has_travellers = true;
        match () {
            () if text.contains("Origin") && !text.trim_start().starts_with("<?") => {
                table(text, network, *seed, found)?
            }
            () if text.contains("<vehicleDefinitions") => {
                vehicles.read(text, &mut found.unused)?;
                has_travellers = false;
            }
            () if text.contains("<plans") || text.contains("<population") => {
                matsim::read(text, network, vehicles, found)?
            }
            () if text.contains("<routes") || text.contains("<trips") => {
                sumo::read(text, network, *seed, sumo, found)?
            }
            () if text.contains("<additional") => {
                let before = found.itineraries.len() + found.left_out;
                sumo::read(text, network, *seed, sumo, found)?;
                has_travellers = found.itineraries.len() + found.left_out > before;
            }
            () => return Err(ReadError::Unknown),
        }
        self.has_travellers |= has_travellers;
        let unused = std::mem::take(&mut self.found.unused);
        self.unused.merge(unused.clone());
        Ok(unused)
    }

    /// Computes the missing routes and returns the first `cars_max` travellers. `done` receives the
    /// number of cars that have been routed since its last call, for a progress bar.
    ///
    /// # Errors
    /// Returns an error if there is no file with travellers, or if there are too many of them.
    pub fn finish(
        self,
        pool: &Pool,
        cars_max: usize,
        done: &(dyn Fn(u64) + Sync),
    ) -> Result<Demand, ReadError> {
        if !self.has_travellers {
            return Err(ReadError::Malformed(
                "it defines types of vehicles but no travellers: add the file with their plans or \
                 trips"
                    .into(),
            ));
        }
        let (network, mut reader) = (self.network, self.found);
        reader.itineraries.truncate(cars_max);
        reader.names.truncate(cars_max);
        reader.speeds.truncate(cars_max);
        let routed = reader
            .itineraries
            .iter()
            .flatten()
            .any(|(_, route)| !matches!(route, TripRoute::Links(_)));
        let router = routed.then(|| Router::new(pool, network));
        let itineraries = &reader.itineraries;
        let query = |_| router.as_ref().map(Router::query);
        // We group the travellers by destination, because trips to the same destination share the
        // search for their routes.
        let keys: Vec<u32> = itineraries
            .iter()
            .map(|itinerary| {
                itinerary
                    .first()
                    .map_or(0, |(_, route)| route.goal(network))
            })
            .collect();
        let announce = |goals: &[u32], query: &mut Option<RouteQuery>| {
            if let Some((router, query)) = router.as_ref().zip(query.as_mut()) {
                query.announce(router, goals, true);
            }
        };
        let travellers = map_by_key(pool, &keys, query, done, announce, |car, query| {
            let itinerary = &itineraries[car as usize];
            traveller(network, router.as_ref().zip(query.as_mut()), itinerary)
        });
        let mut plans = Plans::from_slice(pool, &travellers)?;
        plans.set_made_for(network);
        plans.set_speeds(std::mem::take(&mut reader.speeds));
        drop(travellers);
        for (car, itinerary) in itineraries.iter().enumerate() {
            if plans.stays(car as u32) && !itinerary.is_empty() {
                let reason = "the network has no path for one of the trips";
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
            unused: self.unused,
        })
    }
}

/// Builds a traveller with all trips of an itinerary. If one trip has no route, the traveller stays
/// at its origin.
fn traveller(
    network: &Network,
    router: Option<(&Router, &mut RouteQuery)>,
    itinerary: &Itinerary,
) -> Traveller {
    let origin = itinerary
        .iter()
        .find_map(|(_, route)| route.begin(network))
        .unwrap_or(0);
    let mut router = router;
    let mut place = origin;
    let mut trips = Vec::new();
    for (depart_ms, route) in itinerary {
        let links = route.links(network, &mut router);
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

pub(super) fn milliseconds(seconds: f64) -> Result<Ms, String> {
    let ms = seconds * 1000.0;
    if ms.is_nan() || ms < 0.0 || ms > f64::from(DEPART_MS_MAX) {
        return Err(if seconds.is_nan() {
            "the trip has no valid departure time".into()
        } else {
            format!("the departure time of {seconds} s is out of range (0 to 12 days)")
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
    for (from, to, amount) in tntp::trips_and_unused(text, &mut reader.unused)? {
        let mut stream = Stream::of(seed, "table", u64::from(from) << 32 | u64::from(to));
        let zone = |zone: u32| names.get(&(zone + 1).to_string()).copied();
        // A trip table may contain fractions of trips. A fraction becomes a whole trip with the
        // same probability, so that the mean number of trips stays right.
        let cars = amount as u64 + u64::from(stream.unit() < amount.fract());
        match (zone(from), zone(to)) {
            (Some(a), Some(b)) => {
                let trip = |stream: &mut Stream| {
                    vec![(
                        stream.below(3_600_000) as Ms,
                        TripRoute::Way {
                            from: Some(a),
                            links: Vec::new(),
                            to: Some(b),
                        },
                    )]
                };
                reader
                    .itineraries
                    .extend((0..cars).map(|_| trip(&mut stream)));
            }
            _ => reader.skip(format!(
                "cannot use the trips from zone {} to zone {}: the network has no such zone",
                from + 1,
                to + 1
            )),
        }
    }
    Ok(())
}

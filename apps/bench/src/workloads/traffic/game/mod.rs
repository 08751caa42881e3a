//! The city in the form in which a game on rayon would keep it. There is one record per junction,
//! and each tick is a parallel loop over the junctions with events.
//!
//! The model, the cars and the rules are those of creel-traffic, as far as a city with traffic
//! lights needs them. For example, a car that is blocked for a long time never leaves the road
//! here, and there are no stop signs. A test below checks that the results are the same.
//!
//! An effect on another junction takes a second or more to arrive. Therefore, it can be applied at
//! any time before the tick ends. `locked.rs` applies it at once under the mutex of the other
//! junction, and `collected.rs` collects the effects and applies them after the loop.

mod collected;
mod junction;
mod locked;

use creel_traffic::demand::Plans;
use creel_traffic::network::{Control, Ms, Network, Physics, Program};

use super::Sums;
use junction::{Car, Junction, LinkEntry, LinkExit, NEVER, ROADS};

pub(super) use collected::Collected;
pub(super) use locked::Locked;

const TICK_MS: Ms = 1000;

/// Marks the last word of a route. The other bits are the index of its first word.
const BACK: u64 = 1 << 63;
/// The number of turns in a word. A turn has two bits. A 1 bit above the last turn marks the end,
/// and [`BACK`] is the highest bit.
const TURNS: usize = 31;

/// The data that all junctions share.
pub(super) struct Rules {
    /// The routes of all cars, one after another. The last word of each leads back to its first
    /// word.
    routes: Vec<u64>,
    /// For each car, the index of the first word of its route, its time of departure, and its first
    /// junction.
    cars: Vec<(u32, Ms, u32)>,
    programs: Vec<Program>,
}

impl Rules {
    /// Packs the routes of `plans`. We do this once, because all samples can share the result.
    pub fn new(network: &Network, plans: &Plans) -> Self {
        let (mut routes, mut cars) = (Vec::new(), Vec::new());
        for traveller in 0..plans.len() as u32 {
            let begin = routes.len() as u32;
            let trips = plans.trips(network, traveller);
            let [(depart_ms, links)] = &trips[..] else {
                panic!("a traveller has exactly one trip, which is a lap");
            };
            pack(network, links, &mut routes);
            cars.push((begin, *depart_ms, plans.origin(traveller)));
            routes.push(BACK | u64::from(begin));
        }
        let programs = network.programs().to_vec();
        Self {
            routes,
            cars,
            programs,
        }
    }
}

fn sums<'a>(junctions: impl Iterator<Item = &'a Junction>, now: Ms) -> Sums {
    let none = Sums {
        vehicle_ms: 0,
        crossings: 0,
    };
    junctions.fold(none, |sums, junction| Sums {
        vehicle_ms: sums.vehicle_ms + junction.vehicle_ms + junction.moving * i64::from(now),
        crossings: sums.crossings + junction.crossings,
    })
}

/// Returns all junctions, with their cars at their first junction.
fn build(network: &Network, rules: &Rules) -> Vec<Junction> {
    let mut junctions: Vec<Junction> = network
        .junctions()
        .iter()
        .map(|junction| match junction.control {
            Control::Free => Junction::new(None),
            Control::Signal { program, offset_ms } => Junction::new(Some((program, offset_ms))),
            other => panic!("this city has no junctions with {other:?}"),
        })
        .collect();
    let links = network.links();
    let mut by_origin: Vec<u32> = (0..links.len() as u32).collect();
    by_origin.sort_unstable_by_key(|&link| network.link_file_index(link));
    for link in by_origin {
        let (road, flow) = (
            links[link as usize],
            network.flow(link, &Physics::default()),
        );
        let out = link - network.out(road.from).start;
        let exits = &mut junctions[road.to as usize].exits;
        let into = exits.iter().take_while(|exit| exit.hole_ms > 0).count();
        exits[into] = LinkExit::new((road.from, out as u8), road.approach, &flow);
        junctions[road.from as usize].entries[out as usize] =
            LinkEntry::new((road.to, into as u8), &flow);
    }
    for (car, &(begin, depart_ms, origin)) in rules.cars.iter().enumerate() {
        let turns = rules.routes[begin as usize];
        if turns & BACK == 0 {
            let next = begin + 1;
            let trip = (depart_ms, car as u32, Car { turns, next, at: 0 });
            junctions[origin as usize].trips.push(trip);
        }
    }
    for junction in &mut junctions {
        junction
            .trips
            .sort_unstable_by_key(|&(at, car, _)| std::cmp::Reverse((at, car)));
    }
    junctions
}

fn pack(network: &Network, links: &[u32], routes: &mut Vec<u64>) {
    for links in links.chunks(TURNS) {
        let turn = |&link: &u32| {
            let out = network.out(network.links()[link as usize].from);
            assert!(
                out.len() <= ROADS,
                "a junction of a grid has at most four roads"
            );
            u64::from(link - out.start)
        };
        let turns = links.iter().rev().map(turn);
        routes.push(turns.fold(1, |word, turn| word << 2 | turn));
    }
}

/// Returns the time of the next event of each junction.
fn due_times(junctions: &[Junction]) -> impl Iterator<Item = Ms> {
    junctions.iter().map(|junction| {
        let first = junction.trips.last();
        first.map_or(NEVER, |&(at, ..)| at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::traffic::Run;
    use creel::Pool;
    use creel_traffic::city::City;
    use creel_traffic::demand::laps;
    use creel_traffic::sim::Simulation;
    use std::sync::Arc;

    /// Returns the number of cars on each road.
    fn occupancy<'a>(network: &Network, junctions: impl Iterator<Item = &'a Junction>) -> Vec<u16> {
        let mut all = vec![0; network.links().len()];
        for (index, junction) in junctions.enumerate() {
            for (link, entry) in network.out(index as u32).zip(&junction.entries) {
                let storage = network.flow(link, &Physics::default()).storage;
                all[link as usize] = storage - entry.free_storage - entry.holes.len() as u16;
            }
        }
        all
    }

    #[test]
    fn the_game_on_rayon_matches_the_simulation() {
        let pool = Pool::builder().workers(2).build().unwrap();
        let rayon = || super::super::rayon(2).unwrap();
        for (signals, cars) in [(true, 2000), (false, 4000), (true, 8000)] {
            let city = City {
                signals,
                ..City::grid(24, 24)
            };
            let network = Arc::new(city.network().unwrap());
            let plans = Arc::new(laps::plans(&pool, &network, cars, 7).unwrap());
            let (roads, trips) = (network.clone(), plans.clone());
            let mut simulation = Simulation::new(&pool, roads, trips, Physics::default()).unwrap();
            let rules = Arc::new(Rules::new(&network, &plans));
            let mut locked = Locked::new(&network, rules.clone(), rayon());
            let mut collected = Collected::new(&network, rules, rayon());
            for _ in 0..8 {
                simulation.run(&pool, 40);
                locked.run(40);
                collected.run(40);
                let tally = simulation.tally();
                assert_eq!(tally.stepped_aside, 0, "no car may be stuck in this scene");
                let mut expected = Vec::new();
                simulation.occupancy(&mut expected);
                let observed = |sums: Sums| (sums.vehicle_ms as f64 / 1000.0, sums.crossings);
                let expected_sums = (simulation.vehicle_seconds(), tally.crossings);
                assert_eq!(observed(locked.sums()), expected_sums, "{signals} {cars}");
                assert_eq!(
                    observed(collected.sums()),
                    expected_sums,
                    "{signals} {cars}"
                );
                assert!(occupancy(&network, locked.junctions()) == expected);
                assert!(occupancy(&network, collected.junctions()) == expected);
            }
            assert!(simulation.tally().crossings > 5 * u64::from(cars));
        }
    }
}

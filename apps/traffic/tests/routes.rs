//! Checks routes against the Bellman-Ford algorithm, and that they do not depend on how they are
//! computed.

mod common;

use common::*;
use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::{gravity, prepared};
use creel_traffic::network::{Names, Network, RawNetwork};
use creel_traffic::random::Stream;
use creel_traffic::route::Router;

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

/// Returns one of three kinds of networks, depending on the seed: a city, a random network of two
/// parts, or a network of random roads, which is not like a map.
fn random_network(seed: u64) -> RawNetwork {
    let mut stream = Stream::of(seed, "a test's roads", 0);
    if seed.is_multiple_of(3) {
        let city = City {
            noise: 30,
            river: seed.is_multiple_of(2),
            seed,
            ..City::grid(9, 8)
        };
        let mut plan = city.raw_network().unwrap();
        plan.has_coordinates = seed.is_multiple_of(2);
        return plan;
    }
    let junctions = 40;
    let mut links = Vec::new();
    for _ in 0..junctions * (1 + seed as u32 % 4) {
        let (from, to) = (stream.below(40) as u32, stream.below(40) as u32);
        if from != to {
            links.push(road(from, to, 50 + stream.below(400) as u32));
        }
    }
    let mut plan = plan(junctions, links);
    plan.has_coordinates = seed % 3 == 1;
    plan
}

/// Returns the travel time from a junction to all others.
fn travel_times(network: &Network, times: &[u32], from: u32) -> Vec<u64> {
    let mut best = vec![u64::MAX; network.junctions().len()];
    best[from as usize] = 0;
    loop {
        let mut changed = false;
        for (link, &time) in network.links().iter().zip(times) {
            let through = best[link.from as usize].saturating_add(u64::from(time));
            if through < best[link.to as usize] {
                best[link.to as usize] = through;
                changed = true;
            }
        }
        if !changed {
            return best;
        }
    }
}

fn check(network: &Network, router: &Router, seed: u64) {
    let mut query = router.query();
    let junctions = network.junctions().len() as u32;
    for from in 0..junctions {
        let best = travel_times(network, router.times(), from);
        for to in 0..junctions {
            let there = router.shortest_path(network, &mut query, from, to);
            let same = router.shortest_path_from(network, &mut query, from, to);
            for path in [there, same] {
                let Some(path) = path else {
                    assert_eq!(best[to as usize], u64::MAX, "seed {seed}: {from} to {to}");
                    continue;
                };
                let mut place = from;
                let mut time = 0;
                for link in path {
                    let road = network.links()[link as usize];
                    assert_eq!(road.from, place);
                    place = road.to;
                    time += u64::from(router.times()[link as usize]);
                }
                assert_eq!(
                    (place, time),
                    (to, best[to as usize]),
                    "seed {seed}: {from}"
                );
            }
        }
    }
}

#[test]
fn routes_are_shortest_paths() {
    let pool = pool(2);
    for seed in 0..18 {
        let network = Network::with_tiles(random_network(seed), 20).unwrap();
        let router = Router::new(&pool, &network);
        check(&network, &router, seed);
        let mut stream = Stream::of(seed, "a test's times", 0);
        let times = router.times().iter();
        let times = times.map(|_| 1 + stream.below(100_000) as u32).collect();
        check(&network, &router.with_times(&network, times), seed);
    }
}

#[test]
fn tiles_do_not_change_routes_and_workers_do_not_change_plans() {
    let raw = random_network(0);
    let mut all = Vec::new();
    for (workers, tile) in [(1, 1000), (2, 7), (3, 1)] {
        let pool = pool(workers);
        let network = Network::with_tiles(raw.clone(), tile).unwrap();
        let router = Router::new(&pool, &network);
        let junction = |wanted: u32| {
            (0..72)
                .find(|&junction| network.junction_file_index(junction) == wanted)
                .unwrap()
        };
        let mut query = router.query();
        let mut paths = Vec::new();
        for (from, to) in (0..72).zip((0..72).rev()) {
            let path = router.shortest_path(&network, &mut query, junction(from), junction(to));
            let path = path.unwrap();
            paths.push(
                path.iter()
                    .map(|&link| network.link_file_index(link))
                    .collect::<Vec<u32>>(),
            );
        }
        all.push(paths);
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
    let network = Network::new(raw).unwrap();
    let gravity = gravity::Gravity {
        cars: 5000,
        within_ms: 100_000,
        repeats: true,
        places: 4,
        seed: 9,
    };
    let bytes = |workers| {
        let pool = pool(workers);
        let router = Router::new(&pool, &network);
        let (plans, _) = gravity::plans(&pool, &network, &router, &gravity).unwrap();
        let mut bytes = Vec::new();
        prepared::write(&mut bytes, &network, 1, &plans, &Names::default()).unwrap();
        bytes
    };
    assert!(bytes(1) == bytes(3));
}

#[test]
fn prepared_plans_survive_a_round_trip_and_damage_is_detected() {
    let pool = pool(1);
    let network = Network::new(random_network(0)).unwrap();
    let router = Router::new(&pool, &network);
    let gravity = gravity::Gravity {
        cars: 50,
        within_ms: 1000,
        repeats: false,
        places: 4,
        seed: 9,
    };
    let (plans, _) = gravity::plans(&pool, &network, &router, &gravity).unwrap();
    let mut bytes = Vec::new();
    prepared::write(&mut bytes, &network, 7, &plans, &Names::default()).unwrap();
    let read = |bytes: &[u8], key| prepared::read(bytes, &network, key);
    let (back, _) = read(&bytes, 7).unwrap();
    for car in 0..50 {
        assert_eq!(back.trips(&network, car), plans.trips(&network, car));
    }
    assert!(matches!(
        read(&bytes, 8),
        Err(prepared::PreparedError::Other)
    ));
    let other = Network::new(random_network(3)).unwrap();
    assert!(prepared::read(&bytes[..], &other, 7).is_err());
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        assert!(read(&damaged, 7).is_err(), "byte {place}");
        assert!(read(&bytes[..place], 7).is_err());
    }
}

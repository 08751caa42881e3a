//! Checks that a simulation gives bitwise identical results, however it is run.

mod common;

use creel::{Balance, Placement, Pool};
use creel_traffic::city::City;
use creel_traffic::demand::{Plans, laps};
use creel_traffic::network::{Control, Network, Physics, RawNetwork};
use creel_traffic::random::Stream;
use creel_traffic::sim::{Rerouting, Simulation, SnapshotError};
use std::sync::Arc;

fn pool(workers: usize, balance: Balance, placement: Placement) -> Pool {
    Pool::builder()
        .workers(workers)
        .balance(balance)
        .placement(placement)
        .build()
        .unwrap()
}

/// Returns a small random city with all kinds of control, and the number of cars for it.
fn city(seed: u64) -> (RawNetwork, Physics, u32) {
    let mut stream = Stream::of(seed, "a test's city", 0);
    let mut up_to = |low: u64, high: u64| (low + stream.below(high - low + 1)) as u32;
    let city = City {
        block_mm: up_to(10, 150) * 1000,
        noise: up_to(0, 40),
        avenue: up_to(0, 4),
        river: up_to(0, 1) == 1,
        signals: true,
        seed,
        ..City::grid(up_to(2, 9), up_to(2, 9))
    };
    let mut plan = city.raw_network().unwrap();
    for (index, junction) in plan.junctions.iter_mut().enumerate() {
        match Stream::of(seed, "control", index as u64).below(4) {
            0 => junction.control = Control::Free,
            1 => junction.control = Control::Stop,
            2 => junction.control = Control::Priority,
            _ => {}
        }
    }
    let physics = Physics {
        stuck_ms: up_to(5, 60) * 1000,
        ..Physics::default()
    };
    let cars = up_to(1, 10) * plan.links.len() as u32;
    (plan, physics, cars)
}

/// Converts plans to another network of the same roads. Uses the numbers in the file, because link
/// numbers depend on the tiles.
fn plans(network: &Network, of: &Network, plans: &Plans) -> Plans {
    use creel_traffic::demand::{Route, Traveller};
    let mut link = vec![0; network.links().len()];
    (0..link.len() as u32).for_each(|l| link[network.link_file_index(l) as usize] = l);
    let mut junction = vec![0; network.junctions().len()];
    (0..junction.len() as u32).for_each(|j| junction[network.junction_file_index(j) as usize] = j);
    let moved = |car| {
        let trips = plans.trips(of, car).into_iter().map(|(at, path)| {
            let path: Vec<u32> = path
                .iter()
                .map(|&l| link[of.link_file_index(l) as usize])
                .collect();
            (at, Route::pack(network, &path).unwrap())
        });
        let origin = junction[of.junction_file_index(plans.origin(car)) as usize];
        Traveller {
            origin,
            trips: trips.collect(),
            repeats: true,
        }
    };
    Plans::new((0..plans.len() as u32).map(moved)).unwrap()
}

/// Enables rerouting for every second seed.
fn rerouting(seed: u64) -> Option<Rerouting> {
    (seed % 2 == 1).then_some(Rerouting {
        every_ticks: 20 + (seed % 30) as u32,
        share_ppm: 700_000,
        late_percent: 10,
        seed,
    })
}

#[test]
fn the_hash_does_not_depend_on_workers_balance_placement_tiles_or_windows() {
    let pools = [
        pool(1, Balance::Sticky, Placement::Cores),
        pool(2, Balance::Sticky, Placement::Cores),
        pool(2, Balance::Fixed, Placement::Unpinned),
        pool(7, Balance::Shared, Placement::Close),
        pool(64, Balance::Sticky, Placement::Spread),
        pool(2, Balance::Shared, Placement::Pus),
    ];
    let seeds = std::env::var("CREEL_TRAFFIC_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let mut rerouted = 0;
    for seed in 0..seeds.unwrap_or(60) {
        let (plan, physics, cars) = city(seed);
        let whole = Network::with_tiles(plan.clone(), 1000).unwrap();
        let laps = laps::plans(&pools[0], &whole, cars, seed).unwrap();
        let mut outcomes = Vec::new();
        for (index, pool) in pools.iter().enumerate() {
            let tile = [1000, 1, 3, 8, 17, 2][index];
            let network = Arc::new(Network::with_tiles(plan.clone(), tile).unwrap());
            let plans = Arc::new(plans(&network, &whole, &laps));
            let mut simulation = Simulation::new(pool, network, plans, physics).unwrap();
            simulation.set_window([32, 32, 1, 3, 7, 32][index]);
            simulation.set_rerouting(rerouting(seed)).unwrap();
            let mut hashes = Vec::new();
            for ticks in [1, 59, 60, 180] {
                simulation.run(pool, ticks);
                simulation
                    .check()
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                hashes.push(simulation.hash(pool));
            }
            outcomes.push((hashes, simulation.tally()));
        }
        rerouted += outcomes[0].1.rerouted;
        assert!(
            outcomes.iter().all(|other| *other == outcomes[0]),
            "seed {seed}: {outcomes:#?}"
        );
    }
    assert!(rerouted > 100, "only {rerouted} cars were rerouted");
}

#[test]
fn a_run_on_threads_of_another_runtime_gives_the_same_hash() {
    let pool = pool(2, Balance::Sticky, Placement::Unpinned);
    let network =
        Arc::new(Network::with_tiles(City::grid(9, 9).raw_network().unwrap(), 4).unwrap());
    let plans = Arc::new(laps::plans(&pool, &network, 900, 5).unwrap());
    let new =
        || Simulation::new(&pool, network.clone(), plans.clone(), Physics::default()).unwrap();
    let (mut ours, mut theirs) = (new(), new());
    for ticks in [1, 100, 99] {
        ours.run(&pool, ticks);
        theirs.run_with(ticks, |parts, each| parts.iter_mut().rev().for_each(each));
        assert_eq!(ours.hash(&pool), theirs.hash(&pool));
    }
}

#[test]
fn different_states_have_different_hashes() {
    let pool = pool(1, Balance::Sticky, Placement::Unpinned);
    let network = Arc::new(City::grid(4, 4).network().unwrap());
    let hash = |seed, ticks| {
        let plans = Arc::new(laps::plans(&pool, &network, 50, seed).unwrap());
        let mut simulation =
            Simulation::new(&pool, network.clone(), plans, Physics::default()).unwrap();
        simulation.run(&pool, ticks);
        simulation.hash(&pool)
    };
    let hashes = [hash(1, 100), hash(2, 100), hash(1, 101), hash(1, 0)];
    assert!(
        (0..4).all(|i| (0..i).all(|j| hashes[i] != hashes[j])),
        "{hashes:x?}"
    );
    assert_eq!(hash(1, 100), hashes[0]);
}

#[test]
fn resuming_a_snapshot_gives_the_same_hash() {
    let pool = pool(2, Balance::Sticky, Placement::Unpinned);
    for seed in 0..20 {
        let (plan, physics, cars) = city(seed);
        let network = Arc::new(Network::with_tiles(plan, 5).unwrap());
        let plans = Arc::new(laps::plans(&pool, &network, cars, seed).unwrap());
        let mut simulation = Simulation::new(&pool, network.clone(), plans, physics).unwrap();
        simulation.set_rerouting(rerouting(seed)).unwrap();
        simulation.run(&pool, 77);
        let mut bytes = Vec::new();
        simulation.save(&mut bytes).unwrap();
        simulation.run(&pool, 100);
        let mut other = Simulation::load(&pool, network, &*bytes).unwrap();
        assert_eq!(other.now_ms(), 77_000);
        other.run(&pool, 100);
        assert_eq!(other.hash(&pool), simulation.hash(&pool), "seed {seed}");
        assert_eq!(other.tally(), simulation.tally());
    }
}

#[test]
fn damaged_snapshots_are_rejected() {
    let pool = pool(1, Balance::Sticky, Placement::Unpinned);
    let network = Arc::new(City::grid(3, 3).network().unwrap());
    let plans = Arc::new(laps::plans(&pool, &network, 20, 1).unwrap());
    let mut simulation =
        Simulation::new(&pool, network.clone(), plans, Physics::default()).unwrap();
    simulation.run(&pool, 50);
    let mut bytes = Vec::new();
    simulation.save(&mut bytes).unwrap();
    let load = |bytes: &[u8]| Simulation::load(&pool, network.clone(), bytes);
    for cut in 0..bytes.len() {
        assert!(
            matches!(load(&bytes[..cut]), Err(SnapshotError::Malformed(_))),
            "cut at {cut}"
        );
    }
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 0x10;
        assert!(load(&broken).is_err(), "broken at {at}");
    }
    let other = Arc::new(
        City {
            block_mm: 100_000,
            ..City::grid(3, 3)
        }
        .network()
        .unwrap(),
    );
    assert!(matches!(
        Simulation::load(&pool, other, &*bytes),
        Err(SnapshotError::OtherNetwork)
    ));
    let longer = [&bytes[..], &[0]].concat();
    assert!(load(&longer).is_err());
}

//! Checks that a running simulation can be changed, copied and inspected, and that none of it makes
//! the result depend on how the simulation is run.

mod common;

use common::*;
use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::{Plans, gravity};
use creel_traffic::network::{Control, Network, Physics, Program, RawNetwork};
use creel_traffic::random::Stream;
use creel_traffic::route::Router;
use creel_traffic::sim::{
    CarPosition, EventKind, Region, Rerouting, Simulation, SnapshotError, Whereabouts,
};
use std::sync::Arc;

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

fn city(seed: u64) -> RawNetwork {
    let city = City {
        noise: 20,
        avenue: 3,
        seed,
        ..City::grid(7, 6)
    };
    let mut plan = city.raw_network().unwrap();
    for (index, junction) in plan.junctions.iter_mut().enumerate() {
        match Stream::of(seed, "control", index as u64).below(4) {
            0 => junction.control = Control::Stop,
            1 => junction.control = Control::Priority,
            _ => {}
        }
    }
    plan
}

fn demand(pool: &Pool, network: &Network, cars: u32) -> Plans {
    let router = Router::new(pool, network);
    let gravity = gravity::Gravity {
        cars,
        within_ms: 300_000,
        repeats: false,
        places: 3,
        seed: 5,
    };
    gravity::plans(pool, network, &router, &gravity).unwrap().0
}

/// Changes a simulation at random. The choices depend only on numbers in the file, so that they are
/// the same for networks with other tiles.
fn change(simulation: &mut Simulation, pool: &Pool, stream: &mut Stream) {
    let network = simulation.network().clone();
    let roads = network.links().len() as u64;
    let road = |stream: &mut Stream| {
        let wanted = stream.below(roads) as u32;
        (0..roads as u32)
            .find(|&link| network.link_file_index(link) == wanted)
            .unwrap()
    };
    let link = road(stream);
    let car = stream.below(simulation.plans().len() as u64) as u32;
    match stream.below(9) {
        0 => simulation.set_closed(link, true).unwrap(),
        1 => {
            for link in 0..roads as u32 {
                simulation.set_closed(link, false).unwrap();
            }
        }
        2 => {
            simulation.set_closed(link, true).unwrap();
            simulation.reroute_around(pool, link);
        }
        3 => {
            let other = road(stream);
            let (from, to) = (
                network.links()[link as usize],
                network.links()[other as usize],
            );
            let router = Router::new(pool, &network);
            let path = router.shortest_path(&network, &mut router.query(), from.to, to.from);
            let path: Vec<u32> = std::iter::once(link).chain(path.unwrap()).collect();
            simulation.spawn(&path).unwrap();
        }
        4 => _ = simulation.remove(car),
        5 => {
            let goal = network.links()[link as usize].to;
            _ = simulation.set_destination(pool, car, goal);
        }
        6 => {
            let slow = network.links()[link as usize].speed_mm_s / 3;
            let other = road(stream);
            simulation.set_speed(link, Some(slow)).unwrap();
            simulation.set_headway(other, Some(5000)).unwrap();
        }
        7 => {
            for link in 0..roads as u32 {
                simulation.set_speed(link, None).unwrap();
                simulation.set_headway(link, None).unwrap();
            }
        }
        _ => {
            let junction = network.links()[link as usize].to;
            if let Some((program, offset_ms)) = simulation.program(junction) {
                let mut program = program.clone();
                program.greens.reverse();
                let offset_ms = offset_ms / 2;
                simulation
                    .set_program(junction, Some((program, offset_ms)))
                    .unwrap();
            }
        }
    }
}

#[test]
fn a_changed_simulation_does_not_depend_on_workers_tiles_or_steps() {
    let one = pool(1);
    for seed in 0..8 {
        let whole = Network::with_tiles(city(seed), 1000).unwrap();
        let trips = demand(&one, &whole, 800);
        let mut outcomes = Vec::new();
        for (workers, tile, step_ms) in [(1, 1000, 10_000), (2, 1, 10_000), (3, 4, 50), (2, 9, 333)]
        {
            let pool = pool(workers);
            let network = Arc::new(Network::with_tiles(city(seed), tile).unwrap());
            let plans = same_plans(&network, &whole, &trips);
            let physics = Physics {
                stuck_ms: 40_000,
                ..Physics::default()
            };
            let mut simulation = Simulation::new(&pool, network, Arc::new(plans), physics).unwrap();
            let rerouting = Rerouting {
                every_ticks: 30,
                share_ppm: 500_000,
                late_percent: 10,
                seed,
            };
            simulation
                .set_rerouting((seed % 2 == 0).then_some(rerouting))
                .unwrap();
            let mut stream = Stream::of(seed, "changes", 0);
            let mut hashes = Vec::new();
            for _ in 0..40 {
                change(&mut simulation, &pool, &mut stream);
                let mut left_ms = 10_000;
                while left_ms > 0 {
                    let step_ms = step_ms.min(left_ms);
                    simulation.run_ms(&pool, step_ms);
                    left_ms -= step_ms;
                }
                simulation
                    .check()
                    .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                hashes.push(simulation.hash(&pool));
            }
            assert!(simulation.tally().arrived > 50, "{:?}", simulation.tally());
            outcomes.push((hashes, simulation.tally()));
        }
        for other in &outcomes[1..] {
            assert_eq!(outcomes[0].0, other.0, "seed {seed}");
        }
    }
}

/// Converts plans to another network of the same roads.
fn same_plans(network: &Network, of: &Network, plans: &Plans) -> Plans {
    use creel_traffic::demand::{Route, Traveller};
    let mut link = vec![0; network.links().len()];
    (0..link.len() as u32).for_each(|l| link[network.link_file_index(l) as usize] = l);
    let mut junction = vec![0; network.junctions().len()];
    (0..junction.len() as u32).for_each(|j| junction[network.junction_file_index(j) as usize] = j);
    let moved = |car| Traveller {
        origin: junction[of.junction_file_index(plans.origin(car)) as usize],
        trips: plans
            .trips(of, car)
            .into_iter()
            .map(|(at, path)| {
                let path = path.iter().map(|&l| link[of.link_file_index(l) as usize]);
                let path: Vec<u32> = path.collect();
                (at, Route::pack(network, &path).unwrap())
            })
            .collect(),
        repeats: false,
    };
    Plans::new((0..plans.len() as u32).map(moved)).unwrap()
}

#[test]
fn a_changed_simulation_can_be_saved_and_copied() {
    let pool = pool(2);
    for seed in 0..6 {
        let network = Arc::new(Network::with_tiles(city(seed), 5).unwrap());
        let plans = Arc::new(demand(&pool, &network, 800));
        let mut simulation =
            Simulation::new(&pool, network.clone(), plans, Physics::default()).unwrap();
        let mut stream = Stream::of(seed, "changes", 1);
        for step in 0..30 {
            change(&mut simulation, &pool, &mut stream);
            let mut bytes = Vec::new();
            simulation.save(&mut bytes).unwrap();
            let loaded: Result<Simulation, SnapshotError> =
                Simulation::load(&pool, network.clone(), &bytes[..]);
            let mut loaded = loaded.unwrap_or_else(|error| panic!("{seed}, {step}: {error}"));
            let mut copy = simulation.clone();
            assert_eq!(copy.hash(&pool), loaded.hash(&pool));
            for other in [&mut loaded, &mut copy] {
                other.run_ms(&pool, 12_345);
            }
            simulation.run_ms(&pool, 12_345);
            assert_eq!(simulation.hash(&pool), copy.hash(&pool));
            assert_eq!(simulation.hash(&pool), loaded.hash(&pool), "{seed}, {step}");
        }
    }
}

#[test]
fn no_car_enters_a_closed_road_until_it_opens() {
    let pool = pool(1);
    let network = network(4, (0..3).map(|i| road(i, i + 1, 200)).collect(), 1);
    let cars = (0..30).map(|i| trip(&network, i * 2000, 0..3)).collect();
    let mut simulation = simulation(&network, cars, NEWELL);
    let middle = path(&network, [1])[0];
    simulation.run(&pool, 20);
    simulation.set_closed(middle, true).unwrap();
    simulation.take_events();
    simulation.run(&pool, 120);
    let entered = |simulation: &mut Simulation| {
        let events = simulation.take_events();
        let into = |event: &&creel_traffic::sim::Event| {
            (event.kind, event.link) == (EventKind::Entered, middle)
        };
        events.iter().filter(into).count()
    };
    assert_eq!(entered(&mut simulation), 0);
    simulation.set_closed(middle, false).unwrap();
    simulation.run(&pool, 120);
    assert!(entered(&mut simulation) > 20);
    simulation.check().unwrap();
}

#[test]
fn cars_drive_around_a_closed_road_and_new_cars_arrive() {
    let pool = pool(1);
    // From junction 1, two ways lead to junction 2: the direct road, and a longer way over 3.
    let links = vec![
        road(0, 1, 200),
        road(1, 2, 200),
        road(1, 3, 300),
        road(3, 2, 300),
    ];
    let network = network(4, links, 2);
    let mut simulation = simulation(&network, vec![trip(&network, 0, [0, 1])], NEWELL);
    let way = |links: &[u32]| path(&network, links.iter().copied());
    let car = simulation.spawn(&way(&[0, 1])).unwrap();
    let gone = simulation.spawn(&way(&[0, 1])).unwrap();
    assert_eq!((car, gone), (1, 2));
    simulation.run_ms(&pool, 5_500);
    let first = way(&[0])[0];
    assert_eq!(
        simulation.whereabouts(car),
        Some(Whereabouts::OnRoad(first))
    );
    simulation.set_closed(way(&[1])[0], true).unwrap();
    assert_eq!(simulation.reroute_around(&pool, way(&[1])[0]), 3);
    assert_eq!(simulation.route_of(car), Some(way(&[2, 3])));
    assert!(simulation.remove(gone));
    assert!(!simulation.remove(gone));
    simulation.check().unwrap();
    // The route must begin at the end of the road that the car is on.
    assert!(simulation.set_route(car, &way(&[3])).is_err());
    simulation.set_route(car, &[]).unwrap();
    simulation.run(&pool, 100);
    let events = simulation.take_events();
    let arrived: Vec<(u32, u32)> = events
        .iter()
        .filter(|event| event.kind == EventKind::Arrived)
        .map(|event| (event.car, network.link_file_index(event.link)))
        .collect();
    assert_eq!(arrived, [(1, 0), (0, 3)]);
    let removed = events
        .iter()
        .filter(|event| event.kind == EventKind::Removed);
    assert_eq!(removed.count(), 1);
    simulation.check().unwrap();
}

#[test]
fn a_light_follows_its_new_program() {
    let pool = pool(1);
    let mut plan = plan(3, vec![road(0, 1, 200), road(1, 2, 200)]);
    let green = Program {
        cycle_ms: 60_000,
        greens: vec![(0, 60_000)],
        ..Program::default()
    };
    let red = Program {
        greens: vec![(0, 0)],
        ..green.clone()
    };
    plan.programs.push(green.clone());
    plan.junctions[1].control = Control::Signal {
        program: 0,
        offset_ms: 0,
    };
    let network = Arc::new(Network::with_tiles(plan, 1).unwrap());
    let junction = network.links()[path(&network, [0])[0] as usize].to;
    let cars = (0..5).map(|i| trip(&network, i * 2000, 0..2)).collect();
    let mut simulation = simulation(&network, cars, NEWELL);
    simulation
        .set_program(junction, Some((red.clone(), 0)))
        .unwrap();
    simulation.run(&pool, 200);
    assert_eq!(simulation.tally().crossings, 0);
    assert_eq!(simulation.program(junction), Some((&red, 0)));
    simulation.set_program(junction, None).unwrap();
    assert_eq!(simulation.program(junction), Some((&green, 0)));
    simulation.run(&pool, 8);
    assert_eq!(simulation.tally().crossings, 5);
}

#[test]
fn positions_show_every_car_on_its_road() {
    let pool = pool(2);
    let network = Arc::new(Network::with_tiles(city(3), 9).unwrap());
    let plans = Arc::new(demand(&pool, &network, 2000));
    let mut simulation =
        Simulation::new(&pool, network.clone(), plans, Physics::default()).unwrap();
    simulation.run_ms(&pool, 150_250);
    let mut all: Vec<CarPosition> = Vec::new();
    simulation.positions(&Region::ALL, &mut all);
    assert_eq!(all.len() as i64, simulation.tally().moving);
    assert!(all.len() > 500);
    for one in &all {
        assert_eq!(
            simulation.whereabouts(one.car),
            Some(Whereabouts::OnRoad(one.link))
        );
        let road = network.links()[one.link as usize];
        let [a, b] = [road.from, road.to].map(|end| network.junctions()[end as usize]);
        let cross = (b.x - a.x) * (one.y - a.y) - (b.y - a.y) * (one.x - a.x);
        assert!(cross.abs() < 1.0, "{one:?} is not on its road");
    }
    let region = Region {
        x: [100.0, 500.0],
        y: [200.0, 700.0],
    };
    let mut some = Vec::new();
    simulation.positions(&region, &mut some);
    let inside =
        |one: &&CarPosition| (100.0..=500.0).contains(&one.x) && (200.0..=700.0).contains(&one.y);
    let expected: Vec<CarPosition> = all.iter().filter(inside).copied().collect();
    assert_eq!(some, expected);
    assert!(!some.is_empty());
}

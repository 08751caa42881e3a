//! Checks cars that are slower than the roads allow.

mod common;
#[path = "common/program.rs"]
mod program;

use common::*;
use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::{CarSpeed, Plans};
use creel_traffic::network::{Link, Network, Physics};
use creel_traffic::random::Stream;
use creel_traffic::sim::{EventKind, Region, Simulation};
use program::{json, place};
use std::sync::Arc;

const TRUCK: CarSpeed = CarSpeed {
    max_mm_s: 10_000,
    share_ppm: 1_000_000,
};

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

/// Returns a simulation of a road of 1 km with this number of lanes, on which the first of two cars
/// is a truck.
fn road_with_truck(lanes: u8) -> Simulation {
    let link = Link {
        lanes,
        ..road(0, 1, 1000)
    };
    let network = network(3, vec![link, road(1, 2, 1000)], 1);
    let cars = [0, 10_000].map(|depart_ms| trip(&network, depart_ms, [0, 1]));
    let mut plans = Plans::new(cars).unwrap();
    plans.set_speeds([TRUCK]);
    let mut simulation = Simulation::new(&pool(1), network, Arc::new(plans), NEWELL).unwrap();
    simulation.record_events(true);
    simulation
}

/// Returns the times at which each car left the first road.
fn leaves(simulation: &mut Simulation) -> [u32; 2] {
    let mut left = [0; 2];
    for event in simulation.take_events() {
        if event.kind == EventKind::Left && event.link == 0 {
            left[event.car as usize] = event.at_ms;
        }
    }
    left
}

#[test]
fn a_slow_car_takes_its_own_time_and_others_pass_it_only_on_another_lane() {
    for (lanes, expected) in [(1, [100_000, 101_250]), (2, [100_000, 60_000])] {
        let mut simulation = road_with_truck(lanes);
        simulation.run(&pool(1), 150);
        simulation.check().unwrap();
        assert_eq!(leaves(&mut simulation), expected, "{lanes} lanes");
        assert_eq!(
            [0, 1].map(|car| simulation.travel_ms(car, 0)),
            [100_000, 50_000]
        );
    }
}

#[test]
fn a_car_behind_a_slow_one_is_drawn_behind_it() {
    let mut simulation = road_with_truck(1);
    let mut cars = Vec::new();
    for seconds in 1..90 {
        simulation.run(&pool(1), 1);
        simulation.positions(&Region::ALL, &mut cars);
        let of = |car| cars.iter().find(|one| one.car == car).map(|one| one.x);
        // The road is drawn with a length of 100.
        let truck = of(0).unwrap();
        assert!(
            (truck - f64::from(seconds)).abs() < 0.01,
            "{truck} after {seconds} s"
        );
        if let Some(follower) = of(1) {
            assert!(follower < truck, "{follower} and {truck} after {seconds} s");
        }
    }
}

#[test]
fn a_slow_car_keeps_its_speed_when_the_road_becomes_slower() {
    let mut simulation = road_with_truck(2);
    simulation.run(&pool(1), 50);
    // The truck is not faster than this in any case. The car has driven 800 m.
    simulation.set_speed(0, Some(10_000)).unwrap();
    simulation.run(&pool(1), 10);
    simulation.set_speed(0, None).unwrap();
    simulation.run(&pool(1), 90);
    assert_eq!(leaves(&mut simulation), [100_000, 65_000]);
}

/// Returns a simulation of a city in which about a third of the cars are slow, in one of two ways.
fn city(seed: u64, tile: usize) -> Simulation {
    let raw = City::grid(12, 12).raw_network().unwrap();
    // Routes follow the numbers of the file, because other numbers depend on the tiles.
    let route = |car: u32| {
        let mut stream = Stream::of(seed, "route", u64::from(car));
        let mut path = vec![stream.below(raw.links.len() as u64) as u32];
        for _ in 0..15 {
            let end = raw.links[path[path.len() - 1] as usize].to;
            let next = (0..).zip(&raw.links).filter(|(_, link)| link.from == end);
            let next: Vec<u32> = next.map(|(index, _)| index).collect();
            path.push(next[stream.below(next.len() as u64) as usize]);
        }
        (stream.below(300_000) as u32, path)
    };
    let routes: Vec<_> = (0..1500).map(route).collect();
    let network = Arc::new(Network::with_tiles(raw, tile).unwrap());
    let cars = routes
        .into_iter()
        .map(|(depart_ms, path)| trip(&network, depart_ms, path));
    let mut plans = Plans::new(cars).unwrap();
    let speeds = (0..1500).map(|car| match Stream::of(seed, "slow", car).below(6) {
        0 => TRUCK,
        1 => CarSpeed {
            share_ppm: 800_000,
            ..CarSpeed::ROAD
        },
        _ => CarSpeed::ROAD,
    });
    plans.set_speeds(speeds);
    Simulation::new(&pool(1), network, Arc::new(plans), Physics::default()).unwrap()
}

#[test]
fn slow_cars_give_the_same_hash_for_any_workers_tiles_and_windows() {
    for seed in 0..3 {
        let expected = {
            let mut simulation = city(seed, 512);
            simulation.run(&pool(1), 900);
            simulation.check().unwrap();
            simulation.hash(&pool(1))
        };
        for (workers, tile, window) in [(1, 7, 1), (2, 20, 3), (7, 40, 100)] {
            let mut simulation = city(seed, tile);
            simulation.set_window(window);
            let pool = pool(workers);
            simulation.run(&pool, 400);
            // A copy from a file continues in the same way.
            let mut file = Vec::new();
            simulation.save(&mut file).unwrap();
            let network = simulation.network().clone();
            let mut resumed = Simulation::load(&pool, network, &file[..]).unwrap();
            for simulation in [&mut simulation, &mut resumed] {
                simulation.run(&pool, 500);
                assert_eq!(
                    simulation.hash(&pool),
                    expected,
                    "seed {seed}, {workers} workers, tiles of {tile}"
                );
            }
        }
    }
}

#[test]
fn a_truck_that_a_program_adds_is_slow() {
    let network = network(3, vec![road(0, 1, 1000), road(1, 2, 1000)], 1);
    let mut simulation = simulation(&network, Vec::new(), NEWELL);
    assert_eq!(simulation.spawn_with_speed(&[0, 1], TRUCK).unwrap(), 0);
    assert_eq!(simulation.spawn(&[0]).unwrap(), 1);
    simulation.run(&pool(1), 150);
    simulation.check().unwrap();
    assert_eq!(leaves(&mut simulation), [100_000, 101_250]);
}

#[test]
fn speeds_of_vehicle_types_are_read_used_and_written() {
    let [net, routes, trips, copy] =
        ["n.net.xml", "n.rou.xml", "trips.xml", "copy.rou.xml"].map(place);
    let edge = "<edge id=\"ab\" from=\"a\" to=\"b\"><lane id=\"ab_0\" index=\"0\" speed=\"30\" length=\"3000\"/></edge>";
    let junctions = "<junction id=\"a\" x=\"0\" y=\"0\"/><junction id=\"b\" x=\"0\" y=\"3000\"/>";
    std::fs::write(&net, format!("<net>{edge}{junctions}</net>")).unwrap();
    let types = [
        "id=\"limit\" maxSpeed=\"20\"",
        "id=\"factor\" speedFactor=\"0.5\"",
        "id=\"mean\" speedFactor=\"normc(0.75,0,0.2,2)\"",
        "id=\"quick\" maxSpeed=\"50\"",
        "id=\"moped\" vClass=\"moped\"",
    ];
    let types: String = types.map(|one| format!("<vType {one}/>")).concat();
    let mix = "<vTypeDistribution id=\"mix\"><vType id=\"m\" maxSpeed=\"10\" probability=\"0.5\"/><vType id=\"n\" maxSpeed=\"15\" probability=\"0.5\"/></vTypeDistribution>";
    let vehicle = |(index, kind): (usize, &str)| {
        let at = index * 1000;
        format!(
            "<vehicle id=\"{kind}\" type=\"{kind}\" depart=\"{at}\"><route edges=\"ab\"/></vehicle>"
        )
    };
    let kinds = ["limit", "factor", "mean", "quick", "moped"];
    let vehicles: String = kinds.into_iter().enumerate().map(vehicle).collect();
    let flow = "<flow id=\"f\" type=\"mix\" begin=\"6000\" end=\"26000\" number=\"20\"><route edges=\"ab\"/></flow>";
    std::fs::write(
        &routes,
        format!("<routes>{types}{mix}{vehicles}{flow}</routes>"),
    )
    .unwrap();
    let [net, routes, trips, copy] = [&net, &routes, &trips, &copy].map(|p| p.to_str().unwrap());
    let network = ["--network", net];
    let tripinfo = ["--seconds", "30000", "--tripinfo", trips];
    let run = |demand: &str| {
        let document = json(&[&["run"], &network[..], &["--demand", demand], &tripinfo].concat());
        let text = std::fs::read_to_string(trips).unwrap();
        let number = |line: &str, key: &str| -> f64 {
            let rest = line.split(&format!(" {key}=\"")).nth(1).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let lines = text.lines().filter(|line| line.contains("<tripinfo "));
        let found: Vec<_> = lines
            .map(|line| (number(line, "duration"), number(line, "timeLoss")))
            .collect();
        (document, found)
    };
    let (document, found) = run(routes);
    let durations: Vec<f64> = found[..5].iter().map(|trip| trip.0).collect();
    assert_eq!(durations, [150.0, 200.0, 133.333, 100.0, 180.007]);
    assert!(found.iter().all(|trip| trip.1 == 0.0), "{found:?}");
    let mixed = found[5..].iter().filter(|trip| trip.0 == 300.0).count();
    assert!((4..=16).contains(&mixed), "{mixed} of 20");
    assert!(
        found[5..]
            .iter()
            .all(|trip| trip.0 == 300.0 || trip.0 == 200.0)
    );
    assert_eq!(
        document["unused"]["demand"],
        serde_json::json!({"vType vClass=moped": 1})
    );
    // The written file has the same speeds.
    let convert = ["--demand", routes, "--demand-to", copy];
    let output = program::run(&[&["convert"], &network[..], &convert].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (again, same) = run(copy);
    assert_eq!(same, found);
    assert_eq!(again["hash"], document["hash"]);
}

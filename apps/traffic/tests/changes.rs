//! Checks that every part of the simulation sees a change of a road: cars, positions, reports,
//! copies and restored snapshots.

mod common;

use common::*;
use creel::Pool;
use creel_traffic::network::{Control, Names, Network, RawNetwork};
use creel_traffic::output::{Fcd, Labels, Report, Trips};
use creel_traffic::sim::{CarPosition, Event, EventKind, Region, Simulation, Whereabouts};
use std::sync::Arc;

fn pool() -> Pool {
    Pool::builder().workers(1).build().unwrap()
}

/// Returns a network of two roads of 200 m, and a simulation in which one car departs at each of
/// these times. Each junction is a tile of its own.
fn street(departures: &[u32]) -> (Arc<Network>, Simulation) {
    let mut plan = plan(3, vec![road(0, 1, 200), road(1, 2, 200)]);
    plan.junctions[1].x = 200.0;
    plan.junctions[2].x = 400.0;
    let network = Arc::new(Network::with_tiles(plan, 1).unwrap());
    let cars = departures.iter().map(|&at| trip(&network, at, 0..2));
    let simulation = simulation(&network, cars.collect(), NEWELL);
    (network, simulation)
}

fn positions(simulation: &Simulation) -> Vec<(u32, f64, f32)> {
    let mut all: Vec<CarPosition> = Vec::new();
    simulation.positions(&Region::ALL, &mut all);
    all.sort_by_key(|one| one.car);
    let rounded = |x: f64| (x * 100.0).round() / 100.0;
    all.iter()
        .map(|one| (one.car, rounded(one.x), one.speed))
        .collect()
}

#[test]
fn cars_on_a_road_drive_on_at_its_new_speed() {
    let pool = pool();
    let (network, mut simulation) = street(&[0, 6000]);
    let first = path(&network, [0])[0];
    simulation.run_ms(&pool, 5000);
    assert_eq!(positions(&simulation), [(0, 100.0, 20.0)]);
    simulation.set_speed(first, Some(5000)).unwrap();
    assert_eq!(simulation.current_speed(first), 5.0);
    assert_eq!(positions(&simulation), [(0, 100.0, 5.0)]);
    simulation.run_ms(&pool, 9000);
    assert_eq!(
        positions(&simulation),
        [(0, 145.0, 5.0), (1, 40.0, 5.0)],
        "the first car drives 9 s at the new speed, the second one 8 s"
    );
    // The road gets its old speed back. No car jumps forward, and no car overtakes another.
    simulation.set_speed(first, None).unwrap();
    assert_eq!(positions(&simulation), [(0, 145.0, 20.0), (1, 40.0, 20.0)]);
    simulation.take_events();
    simulation.run_ms(&pool, 20_000);
    let left: Vec<(u32, u32)> = simulation
        .take_events()
        .iter()
        .filter(|event| (event.kind, event.link) == (EventKind::Left, first))
        .map(|event| (event.car, event.at_ms))
        .collect();
    assert_eq!(left, [(0, 16_750), (1, 22_000)]);
}

#[test]
fn a_snapshot_can_be_read_after_a_road_has_become_faster_again() {
    let pool = pool();
    let (network, mut simulation) = street(&[0, 2000, 4000]);
    let first = path(&network, [0])[0];
    simulation.set_speed(first, Some(1000)).unwrap();
    simulation.run_ms(&pool, 10_000);
    simulation.set_speed(first, None).unwrap();
    let mut bytes = Vec::new();
    simulation.save(&mut bytes).unwrap();
    let mut loaded = Simulation::load(&pool, network, &bytes[..]).unwrap();
    assert_eq!(positions(&loaded), positions(&simulation));
    for one in [&mut simulation, &mut loaded] {
        one.run_ms(&pool, 60_000);
    }
    assert_eq!(loaded.hash(&pool), simulation.hash(&pool));
    assert_eq!(simulation.tally().arrived, 3);
}

#[test]
fn copies_and_restored_states_show_cars_at_the_speed_of_the_copied_state() {
    let pool = pool();
    let (network, mut simulation) = street(&[0]);
    let first = path(&network, [0])[0];
    simulation.run_ms(&pool, 5000);
    let (before, mut copy) = (simulation.clone(), simulation.clone());
    positions(&simulation);
    simulation.set_speed(first, Some(10_000)).unwrap();
    copy.clone_from(&simulation);
    for (one, speed) in [(&simulation, 10.0), (&copy, 10.0), (&before, 20.0)] {
        assert_eq!(positions(one), [(0, 100.0, speed)]);
    }
    simulation.clone_from(&before);
    assert_eq!(positions(&simulation), [(0, 100.0, 20.0)]);
}

#[test]
fn a_slower_road_adds_no_time_loss_and_keeps_the_entry_times_of_its_cars() {
    let pool = pool();
    let (network, mut simulation) = street(&[0, 8000]);
    let first = path(&network, [0])[0];
    simulation.set_speed(first, Some(5000)).unwrap();
    simulation.run_ms(&pool, 20_000);
    let entered: Vec<u32> = simulation
        .vehicles_on_links()
        .iter()
        .map(|event| event.at_ms)
        .collect();
    assert_eq!(entered, [0, 8000]);
    simulation.run_ms(&pool, 100_000);
    let events: Vec<Event> = simulation.take_events();
    let mut text = Vec::new();
    let mut trips = Trips::new(&mut text, 0);
    let labels = Labels {
        network: &network,
        cars: &Names::default(),
        simulation: Some(&simulation),
    };
    trips.take(labels, &events, 120_000).unwrap();
    trips.finish(labels).unwrap();
    drop(trips);
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("timeLoss=\"0.000\"").count(), 2, "{text}");
    assert_eq!(text.matches("duration=\"50.000\"").count(), 2, "{text}");
}

#[test]
fn floating_car_data_follows_the_speed_of_the_road() {
    let pool = pool();
    let (network, mut simulation) = street(&[0]);
    let first = path(&network, [0])[0];
    let mut text = Vec::new();
    let mut fcd = Fcd::new(&mut text, 0, 1000, NEWELL, 1);
    for second in 0..24 {
        let speed = match second {
            4 => Some(5000),
            8 => Some(10_000),
            _ => None,
        };
        if speed.is_some() {
            simulation.set_speed(first, speed).unwrap();
        }
        simulation.run(&pool, 1);
        let events = simulation.take_events();
        let labels = Labels {
            network: &network,
            cars: &Names::default(),
            simulation: Some(&simulation),
        };
        fcd.take(labels, &events, simulation.now_ms()).unwrap();
    }
    drop(fcd);
    let text = String::from_utf8(text).unwrap();
    let pos = |row: &str| -> f64 {
        let begin = row.find(" pos=\"").unwrap() + 6;
        row[begin..].split('"').next().unwrap().parse().unwrap()
    };
    let rows = text.lines().filter(|row| row.contains("lane=\"1_0\""));
    let rows: Vec<f64> = rows.map(pos).collect();
    let expected = |second: i32| match second {
        0..=4 => 20.0 * f64::from(second),
        5..=8 => 80.0 + 5.0 * f64::from(second - 4),
        _ => 100.0 + 10.0 * f64::from(second - 8),
    };
    assert_eq!(rows, (0..18).map(expected).collect::<Vec<f64>>());
}

/// Returns a network in which a minor road ends at a major road. The major road leads from junction
/// 0 over 2 to 3. The minor road leads from 1 to 2, and its cars yield to those of the major road.
fn crossing(headway_ms: u32) -> RawNetwork {
    let mut links = vec![road(0, 2, 200), road(1, 2, 200), road(2, 3, 200)];
    links[0].approach = 1;
    links[0].headway_ms = headway_ms;
    let mut plan = plan(4, links);
    plan.junctions[2].control = Control::Priority;
    plan
}

#[test]
fn a_changed_headway_has_the_same_effect_as_that_of_the_network() {
    let pool = pool();
    let run = |of_network: u32, changed: Option<u32>| {
        let network = Arc::new(Network::new(crossing(of_network)).unwrap());
        let major = (0..200).map(|i| trip(&network, i * 3000, [0, 2]));
        let minor = (0..200).map(|i| trip(&network, i * 4000, [1, 2]));
        let cars = major.chain(minor).collect();
        let mut simulation = simulation(&network, cars, NEWELL);
        if let Some(headway_ms) = changed {
            let major = path(&network, [0])[0];
            simulation.set_headway(major, Some(headway_ms)).unwrap();
        }
        simulation.run(&pool, 600);
        simulation.hash(&pool)
    };
    assert_eq!(run(0, Some(5000)), run(5000, None));
    assert_ne!(run(0, None), run(5000, None));
}

#[test]
fn cars_that_wait_to_enter_also_drive_around_a_closed_road() {
    let pool = pool();
    let links = vec![
        road(0, 1, 200),
        road(1, 2, 200),
        road(1, 3, 300),
        road(3, 2, 300),
    ];
    let network = network(4, links, 2);
    let cars = (0..4).map(|_| trip(&network, 0, [0, 1])).collect();
    let mut simulation = simulation(&network, cars, NEWELL);
    simulation.run_ms(&pool, 1000);
    let first = path(&network, [0])[0];
    assert_eq!(
        simulation.whereabouts(3),
        Some(Whereabouts::Entering(first))
    );
    let closed = path(&network, [1])[0];
    simulation.set_closed(closed, true).unwrap();
    assert_eq!(simulation.reroute_around(&pool, closed), 4);
    assert_eq!(simulation.route_of(3), Some(path(&network, [2, 3])));
    simulation.run(&pool, 100);
    assert_eq!(simulation.tally().arrived, 4);
}

#[test]
fn a_car_that_gets_many_new_routes_needs_no_more_memory() {
    let pool = pool();
    let (network, mut simulation) = street(&[0]);
    simulation.run_ms(&pool, 1000);
    let way = path(&network, [1]);
    let mut most = 0;
    for _ in 0..300_000 {
        simulation.set_route(0, &way).unwrap();
        most = most.max(simulation.bytes().1);
    }
    assert!(most < 1_000_000, "{most} bytes");
    simulation.run(&pool, 60);
    assert_eq!(simulation.tally().arrived, 1);
}

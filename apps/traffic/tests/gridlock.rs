//! Checks how cars that step aside dissolve a gridlock.

mod common;

use common::*;
use creel::Pool;
use creel_traffic::network::{Network, Physics, RawNetwork};
use creel_traffic::sim::{EventKind, Simulation, Whereabouts};
use std::sync::Arc;

fn pool() -> Pool {
    Pool::builder().workers(2).build().unwrap()
}

/// A square of four roads around a block, with a road to and from each corner. Roads 0 to 3 are
/// the square, 4 to 7 lead to it, and 8 to 11 away from it.
fn block() -> RawNetwork {
    let square = (0..4).map(|i| road(i, (i + 1) % 4, 100));
    let into = (0..4).map(|i| road(4 + i, i, 300));
    let out = (0..4).map(|i| road(i, 8 + i, 300));
    plan(12, square.chain(into).chain(out).collect())
}

/// Fills the square with cars that drive around three of its sides.
fn crowded(tile: usize, stuck_ms: u32) -> (Arc<Network>, Simulation) {
    let network = Arc::new(Network::with_tiles(block(), tile).unwrap());
    let cars = (0..320).map(|i| {
        let (corner, turn) = (i % 4, i / 4);
        let side = |step: u32| (corner + step) % 4;
        let way = [4 + corner, side(0), side(1), side(2), 8 + side(3)];
        trip(&network, turn * 2000, way)
    });
    let physics = Physics { stuck_ms, ..NEWELL };
    let simulation = simulation(&network, cars.collect(), physics);
    (network, simulation)
}

#[test]
fn a_locked_square_empties_because_cars_drive_past_the_full_roads() {
    let pool = pool();
    let mut hashes = Vec::new();
    for tile in [1, 2, 100] {
        let (_, mut simulation) = crowded(tile, 100_000_000);
        simulation.run(&pool, 3000);
        let arrived = simulation.tally().arrived;
        assert!(
            arrived < 200,
            "without a limit the square locks, but {arrived} arrived"
        );
        let (_, mut simulation) = crowded(tile, 60_000);
        let mut aside = 0;
        while simulation.now_ms() < 6_000_000 {
            simulation.run(&pool, 10);
            simulation.check().unwrap();
            let places = (0..320).map(|car| simulation.whereabouts(car));
            aside += places
                .filter(|place| matches!(place, Some(Whereabouts::Aside(_))))
                .count();
        }
        let tally = simulation.tally();
        assert!(aside > 0 && tally.stepped_aside > 0);
        assert_eq!(tally.arrived, 320, "{tally:?}");
        // Every car that steps aside returns to the road, or ends its trip before it has returned.
        let events = simulation.take_events();
        let count = |kind| events.iter().filter(|event| event.kind == kind).count();
        assert_eq!(count(EventKind::Arrived), 320);
        hashes.push(simulation.hash(&pool));
    }
    assert!(hashes.iter().all(|&hash| hash == hashes[0]), "{hashes:?}");
}

#[test]
fn a_car_that_has_stepped_aside_can_be_saved_redirected_and_removed() {
    let pool = pool();
    let (network, mut simulation) = crowded(2, 60_000);
    let aside = loop {
        simulation.run(&pool, 1);
        assert!(simulation.now_ms() < 3_000_000, "no car steps aside");
        let mut cars = 0..320;
        let is_aside =
            |&car: &u32| matches!(simulation.whereabouts(car), Some(Whereabouts::Aside(_)));
        if let Some(car) = cars.find(is_aside) {
            break car;
        }
    };
    let mut bytes = Vec::new();
    simulation.save(&mut bytes).unwrap();
    let mut loaded = Simulation::load(&pool, network, &bytes[..]).unwrap();
    let waiting = simulation.tally().waiting_to_enter;
    let mut without = simulation.clone();
    assert!(without.remove(aside));
    assert_eq!(without.tally().waiting_to_enter, waiting - 1);
    without.check().unwrap();
    without.run(&pool, 100);
    without.check().unwrap();
    for one in [&mut simulation, &mut loaded] {
        one.run(&pool, 500);
    }
    assert_eq!(simulation.hash(&pool), loaded.hash(&pool));
}

#[test]
fn no_car_drives_past_a_closed_road() {
    let pool = pool();
    let links = (0..3).map(|i| road(i, i + 1, 200)).collect();
    let network = network(4, links, 1);
    let cars = (0..3).map(|i| trip(&network, i * 2000, 0..3)).collect();
    let physics = Physics {
        stuck_ms: 10_000,
        ..NEWELL
    };
    let mut simulation = simulation(&network, cars, physics);
    let middle = path(&network, [1])[0];
    simulation.set_closed(middle, true).unwrap();
    simulation.run(&pool, 300);
    assert_eq!(simulation.tally().arrived, 0);
    assert_eq!(
        simulation.whereabouts(0),
        Some(Whereabouts::Entering(middle))
    );
    simulation.set_closed(middle, false).unwrap();
    simulation.run(&pool, 60);
    assert_eq!(simulation.tally().arrived, 3);
}

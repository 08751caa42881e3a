//! Checks the sums that a simulation measures, such as delays, against its events.

mod common;

use common::*;
use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::{Plans, Route, Traveller, gravity};
use creel_traffic::network::Physics;
use creel_traffic::route::Router;
use creel_traffic::sim::{Event, EventKind, NO_ROAD, Simulation};
use std::collections::HashMap;
use std::sync::Arc;

fn pool() -> Pool {
    Pool::builder().workers(2).build().unwrap()
}

/// Checks a jammed city each minute, until all cars have arrived. The time without waiting must
/// equal the sum of free-flow times.
#[test]
fn mean_speed_and_delay_match_the_events() {
    let pool = pool();
    let network = Arc::new(City::grid(8, 8).network().unwrap());
    let wishes = gravity::Gravity {
        cars: 4000,
        within_ms: 300_000,
        repeats: false,
        places: 1,
        seed: 3,
    };
    let router = Router::new(&pool, &network);
    let (plans, _) = gravity::plans(&pool, &network, &router, &wishes).unwrap();
    let physics = Physics {
        stuck_ms: 90_000,
        ..Physics::default()
    };
    let mut simulation = Simulation::new(&pool, network.clone(), Arc::new(plans), physics).unwrap();
    simulation.record_events(true);
    let mut since: HashMap<u32, Event> = HashMap::new();
    let mut waiting_to_enter: HashMap<u32, u32> = HashMap::new();
    // A car that has stepped aside drives past full roads, or waits for one that has room. Its
    // events do not say which, so we know only the sum of both times.
    let (mut aside, mut aside_ms): (HashMap<u32, u32>, u64) = Default::default();
    let (mut free_ms, mut real_ms, mut entry_wait_ms) = (0_u64, 0_u64, 0_u64);
    let free_flow_ms = |link| u64::from(network.flow(link, &physics).free_flow_ms);
    for minute in 1..=300 {
        simulation.run(&pool, 60);
        for event in simulation.take_events() {
            match event.kind {
                EventKind::Departed if event.link != NO_ROAD => {
                    waiting_to_enter.insert(event.car, event.at_ms);
                }
                EventKind::SteppedAside => _ = aside.insert(event.car, event.at_ms),
                EventKind::Entered | EventKind::Arrived if aside.contains_key(&event.car) => {
                    let begun = aside.remove(&event.car).unwrap();
                    aside_ms += u64::from(event.at_ms - begun);
                    if event.kind == EventKind::Entered {
                        since.insert(event.car, event);
                    }
                }
                EventKind::Entered => {
                    let begun = waiting_to_enter.remove(&event.car);
                    entry_wait_ms += begun.map_or(0, |begun| u64::from(event.at_ms - begun));
                    since.insert(event.car, event);
                }
                EventKind::Left => {
                    let entered = since
                        .remove(&event.car)
                        .expect("the car had entered a link");
                    free_ms += free_flow_ms(entered.link);
                    real_ms += u64::from(event.at_ms - entered.at_ms);
                }
                _ => {}
            }
        }
        let (mut free_now, mut real_now) = (free_ms, real_ms);
        for entered in since.values() {
            let on_road = u64::from(simulation.now_ms() - entered.at_ms);
            free_now += on_road.min(free_flow_ms(entered.link));
            real_now += on_road;
        }
        assert_eq!(simulation.free_flow_seconds(), free_now as f64 / 1000.0);
        assert_eq!(simulation.vehicle_seconds(), real_now as f64 / 1000.0);
        let wait_to_enter = |&begun: &u32| u64::from(simulation.now_ms() - begun);
        let entry_wait_now =
            entry_wait_ms + waiting_to_enter.values().map(wait_to_enter).sum::<u64>();
        let waited = real_now - free_now + entry_wait_now;
        let aside_now = aside_ms + aside.values().map(wait_to_enter).sum::<u64>();
        let delay = simulation.delay_seconds();
        let range = waited as f64 / 1000.0..=(waited + aside_now) as f64 / 1000.0;
        assert!(range.contains(&delay), "{delay} s, but expected {range:?}");
        if minute == 20 {
            assert!(
                waiting_to_enter.len() > 100,
                "only {} cars in entry queues",
                waiting_to_enter.len()
            );
            let tally = simulation.tally();
            assert!(
                tally.moving > 1000 && free_now < real_now / 3,
                "expected a jam: {tally:?}"
            );
            assert!(simulation.gridlocked() > 100, "{}", simulation.gridlocked());
        }
    }
    let tally = simulation.tally();
    assert!(tally.moving == 0 && tally.stepped_aside > 0, "{tally:?}");
}

/// A row of short links carries the flow of a long link, even if their length is not a multiple of
/// a car's.
#[test]
fn short_roads_carry_the_flow_of_long_ones() {
    let physics = Physics::default();
    // At 20 m/s and 7.5 m, the headway is 1.375 s.
    for length_m in [3, 7, 12, 15, 20, 21, 22, 25, 29, 35, 59, 100, 200] {
        let mut links = vec![road(0, 1, 5000)];
        links.extend((1..31).map(|i| road(i, i + 1, length_m)));
        let network = network(32, links, 5);
        let travellers = (0..2000).map(|_| trip(&network, 0, 0..31)).collect();
        let mut simulation = simulation(&network, travellers, physics);
        let mut arrived = 0;
        for seconds in [900, 1100] {
            let before = arrived;
            simulation.run(&pool(), seconds);
            simulation.check().unwrap();
            arrived = simulation.tally().arrived;
            let expected = f64::from(seconds) / 1.375;
            let carried = (arrived - before) as f64;
            if seconds == 1100 {
                assert!((carried - expected).abs() < 2.0, "{length_m} m: {carried}");
            }
        }
    }
}

#[test]
fn a_trip_without_links_departs_before_it_arrives() {
    let network = network(2, vec![road(0, 1, 100), road(1, 0, 100)], 1);
    let nowhere = Route::default();
    let there = Route::pack(&network, &path(&network, [0])).unwrap();
    let traveller = Traveller {
        origin: 0,
        trips: vec![
            (1000, nowhere.clone()),
            (1000, nowhere.clone()),
            (1000, there),
            (0, nowhere),
        ],
        repeats: false,
    };
    let plans = Arc::new(Plans::new([traveller]).unwrap());
    let mut simulation =
        Simulation::new(&pool(), network.clone(), plans, Physics::default()).unwrap();
    simulation.record_events(true);
    simulation.run(&pool(), 60);
    let reported: Vec<_> = simulation
        .take_events()
        .iter()
        .map(|event| (event.at_ms, event.kind, event.link == NO_ROAD))
        .collect();
    let stays = |at| {
        [
            (at, EventKind::Departed, true),
            (at, EventKind::Arrived, true),
        ]
    };
    let mut expected: Vec<_> = [stays(1000), stays(1000)].concat();
    expected.extend([
        (1000, EventKind::Departed, false),
        (1000, EventKind::Entered, false),
        (6000, EventKind::Left, false),
        (6000, EventKind::Arrived, false),
    ]);
    expected.extend(stays(6000));
    assert_eq!(reported, expected);
}

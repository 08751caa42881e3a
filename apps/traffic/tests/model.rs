//! Checks the model against values that are computed by hand.

mod common;

use common::*;
use creel::Pool;
use creel_traffic::city::City;
use creel_traffic::demand::{Plans, Route, Traveller, laps};
use creel_traffic::network::{Control, Network, Physics, Program};
use creel_traffic::sim::{Event, EventKind, Rerouting, Simulation};
use std::sync::Arc;

fn pool() -> Pool {
    Pool::builder().workers(2).build().unwrap()
}

/// Runs tick by tick. Checks after each tick that no car is lost and no link is too full.
fn run(simulation: &mut Simulation, ticks: u32) -> Vec<Event> {
    let pool = pool();
    let mut all = Vec::new();
    for _ in 0..ticks {
        simulation.run(&pool, 1);
        simulation.check().unwrap();
        all.extend(simulation.take_events());
    }
    all
}

fn times(events: &[Event], kind: EventKind) -> Vec<u32> {
    events
        .iter()
        .filter(|event| event.kind == kind)
        .map(|event| event.at_ms)
        .collect()
}

#[test]
fn a_lone_car_drives_at_the_speed_limit() {
    for tile in [1, 2, 100] {
        // At 20 m/s, the links take 5 s, 12.35 s, 0.05 s and 7.5 s.
        let links = vec![
            road(0, 1, 100),
            road(1, 2, 247),
            road(2, 3, 1),
            road(3, 4, 150),
        ];
        let network = network(5, links, tile);
        let mut simulation = simulation(&network, vec![trip(&network, 1234, 0..4)], NEWELL);
        let events = run(&mut simulation, 40);
        assert_eq!(times(&events, EventKind::Departed), [1234]);
        assert_eq!(
            times(&events, EventKind::Entered),
            [1234, 6234, 18_584, 18_634]
        );
        assert_eq!(times(&events, EventKind::Arrived), [26_134]);
        let tally = simulation.tally();
        assert_eq!(
            (tally.arrived, tally.done, tally.moving, tally.delay_ms),
            (1, 1, 0, 0)
        );
        assert_eq!(simulation.vehicle_seconds(), 24.9);
    }
}

#[test]
fn cars_stop_at_red_and_leave_at_green() {
    let mut plan = plan(3, vec![road(0, 1, 100), road(1, 2, 100)]);
    plan.programs.push(Program {
        cycle_ms: 60_000,
        greens: vec![(10_000, 30_000)],
        ..Program::default()
    });
    plan.junctions[1].control = Control::Signal {
        program: 0,
        offset_ms: 7000,
    };
    let network = Arc::new(Network::new(plan).unwrap());
    // Green is from 17 to 37 s. The cars arrive at 5 s, 36.5 s and 37 s.
    let travellers = [0, 31_500, 32_000].map(|at| trip(&network, at, 0..2));
    let mut simulation = simulation(
        &network,
        travellers.into(),
        Physics {
            reaction_ms: 100,
            ..NEWELL
        },
    );
    let events = run(&mut simulation, 120);
    assert_eq!(
        times(&events, EventKind::Left)[..],
        [17_000, 22_000, 36_500, 41_500, 77_000, 82_000]
    );
}

#[test]
fn traffic_lights_follow_their_program() {
    let program = Program::fixed_time(2, 90_000);
    assert_eq!(program.greens, [(0, 42_000), (45_000, 87_000)]);
    assert_eq!(program.green(0, 0, 41_999), 41_999);
    assert_eq!(program.green(0, 0, 42_000), 90_000);
    assert_eq!(program.green(1, 10_000, 0), 0, "80 s into the cycle");
    assert_eq!(
        program.green(1, 10_000, 8000),
        55_000,
        "the cycle begins at 10 s"
    );
}

/// A car departs every `every_ms`. It drives over links of 50 m, of which the last lets a car leave
/// only every `slow_ms`.
fn bottleneck(every_ms: u32, slow_ms: u32, tile: usize) -> (Arc<Network>, Vec<Event>) {
    let roads = 40;
    let mut links: Vec<_> = (0..roads).map(|i| road(i, i + 1, 50)).collect();
    links[roads as usize - 1].headway_ms = slow_ms;
    let network = network(roads + 1, links, tile);
    let travellers = (0..400)
        .map(|i| trip(&network, i * every_ms, 0..roads))
        .collect();
    let mut simulation = simulation(&network, travellers, NEWELL);
    (network, run(&mut simulation, 500))
}

#[test]
fn the_queue_behind_a_bottleneck_grows_at_the_shock_speed() {
    // Inflow is 0.5 cars per second, with a density of 0.025 per metre. Outflow is 0.25 per second,
    // and the density in the queue is 0.2 - 0.25 / 5 = 0.15 per metre. So the end of the queue
    // moves back at (0.5 - 0.25) / (0.15 - 0.025) = 2 m/s. It takes 25 s for a link of 50 m.
    let (network, events) = bottleneck(2000, 4000, 7);
    let mut first_late = vec![u32::MAX; 40];
    let mut entered = std::collections::HashMap::new();
    for event in events {
        let link = network.link_file_index(event.link.min(39));
        match event.kind {
            EventKind::Entered => _ = entered.insert((event.car, link), event.at_ms),
            // Ignore short delays, because a car also waits a little if only the car in front had
            // to wait.
            EventKind::Left if event.at_ms > entered[&(event.car, link)] + 2500 + 1500 => {
                first_late[link as usize] = first_late[link as usize].min(event.at_ms);
            }
            _ => {}
        }
    }
    let (near, far) = (first_late[35], first_late[27]);
    let speed = 8.0 * 50.0 / (f64::from(far - near) / 1000.0);
    assert!((speed - 2.0).abs() < 0.1, "{speed} m/s: {first_late:?}");
}

#[test]
fn flow_behind_a_bottleneck_equals_its_capacity() {
    let (_, events) = bottleneck(1250, 4000, 1000);
    let arrived = times(&events, EventKind::Arrived);
    assert!(
        arrived.windows(2).all(|pair| pair[1] - pair[0] == 4000),
        "{arrived:?}"
    );
}

#[test]
fn flow_and_density_of_a_ring_follow_the_triangular_fundamental_diagram() {
    // We use a ring of ten links of 200 m, each of which stores 40 cars. Up to 80 cars drive in
    // free flow. With more cars, the backward wave limits the flow.
    for (cars, tile) in [
        (20, 1000),
        (40, 3),
        (80, 1000),
        (160, 1),
        (200, 1000),
        (320, 4),
        (380, 1000),
    ] {
        let links = (0..10).map(|i| road(i, (i + 1) % 10, 200)).collect();
        let network = network(10, links, tile);
        let lap = |car: u32| {
            let path = path(&network, (0..10).map(|i| (i + car) % 10));
            let route = Route::pack(&network, &path).unwrap();
            let origin = network.links()[path[0] as usize].from;
            Traveller {
                origin,
                trips: vec![(car * 100, route)],
                repeats: true,
            }
        };
        let mut simulation = simulation(&network, (0..cars).map(lap).collect(), NEWELL);
        run(&mut simulation, 1200);
        let before = simulation.tally();
        let events = run(&mut simulation, 1000);
        let flow = times(&events, EventKind::Entered).len() as f64 / 10.0 / 1000.0;
        let density = f64::from(cars) / 2000.0;
        let expected = (20.0 * density).min(5.0 * (0.2 - density));
        assert_eq!(before.stepped_aside + simulation.tally().stepped_aside, 0);
        assert!(
            (flow - expected).abs() < 0.02 * 0.8,
            "{cars} cars: the flow is {flow} per second instead of {expected}"
        );
    }
}

#[test]
fn a_symmetric_city_stays_symmetric() {
    // A crossing of four arms with two links each. Cars from each arm drive straight on, and all
    // arms have the same signal program.
    let mut links = Vec::new();
    for arm in 0..4 {
        links.extend([
            road(1 + arm, 5 + arm, 200),
            road(5 + arm, 0, 200),
            road(0, 9 + arm, 200),
        ]);
    }
    for tile in [1, 3, 13] {
        let mut plan = plan(13, links.clone());
        plan.programs.push(Program {
            cycle_ms: 60_000,
            greens: vec![(30_000, 50_000)],
            ..Program::default()
        });
        plan.junctions[0].control = Control::Signal {
            program: 0,
            offset_ms: 0,
        };
        let network = Arc::new(Network::with_tiles(plan, tile).unwrap());
        let travellers = (0..20)
            .map(|i| {
                let (arm, wave) = (i % 4, i / 4);
                trip(
                    &network,
                    wave * 700,
                    [3 * arm, 3 * arm + 1, 3 * ((arm + 2) % 4) + 2],
                )
            })
            .collect();
        let mut simulation = simulation(&network, travellers, NEWELL);
        let events = run(&mut simulation, 120);
        let of_arm = |arm: u32| -> Vec<(u32, EventKind)> {
            let its = events.iter().filter(|event| event.car % 4 == arm);
            its.map(|event| (event.at_ms, event.kind)).collect()
        };
        assert_eq!(of_arm(0).len(), 5 * (3 + 3 + 2));
        assert!((1..4).all(|arm| of_arm(arm) == of_arm(0)));
    }
}

#[test]
fn a_stop_junction_lets_one_car_at_a_time_cross_in_the_order_of_arrival() {
    let mut links: Vec<_> = (0..3).map(|i| road(1 + i, 0, 100 + i)).collect();
    links.push(road(0, 4, 500));
    let mut plan = plan(5, links);
    plan.junctions[0].control = Control::Stop;
    let network = Arc::new(Network::new(plan).unwrap());
    let travellers = (0..30).map(|i| trip(&network, i / 3, [i % 3, 3])).collect();
    let mut simulation = simulation(&network, travellers, NEWELL);
    let events = run(&mut simulation, 200);
    let mut crossed: Vec<_> = events
        .iter()
        .filter(|h| h.kind == EventKind::Entered && network.link_file_index(h.link) == 3)
        .collect();
    crossed.sort_by_key(|h| h.at_ms);
    assert_eq!(crossed.len(), 30);
    assert!(
        crossed
            .windows(2)
            .all(|pair| pair[1].at_ms - pair[0].at_ms >= NEWELL.gap_ms)
    );
    // Each three consecutive cars come from three different roads, so no road starves.
    assert!(crossed.chunks(3).all(|three| {
        let mut roads: Vec<_> = three.iter().map(|h| h.car % 3).collect();
        roads.sort_unstable();
        roads == [0, 1, 2]
    }));
}

#[test]
fn minor_roads_wait_for_a_gap() {
    let mut links = vec![road(1, 0, 100), road(2, 0, 100), road(0, 3, 500)];
    links[0].approach = 1;
    let mut plan = plan(4, links);
    plan.junctions[0].control = Control::Priority;
    let network = Arc::new(Network::new(plan).unwrap());
    // Five cars on the major road arrive every 1.5 s from 5 s on. A car on the minor road arrives
    // at 5.2 s.
    let mut travellers: Vec<_> = (0..5).map(|i| trip(&network, i * 1500, [0, 2])).collect();
    travellers.push(trip(&network, 200, [1, 2]));
    let mut simulation = simulation(&network, travellers, NEWELL);
    let events = run(&mut simulation, 60);
    let minor = events
        .iter()
        .find(|h| h.kind == EventKind::Left && h.car == 5)
        .unwrap();
    // The critical gap is 6.2 s, and the road is visible for its last 2.5 s. No further car is in
    // sight, so the minor car waits for the rest of the gap. Since the major cars drive in a bunch,
    // the critical gap is a little shorter.
    let expected_ms = 5000 + 4 * 1500 + 6200 - 2500;
    assert!((expected_ms - 50..=expected_ms).contains(&minor.at_ms));
}

#[test]
fn gridlock_occurs_and_its_resolution_is_counted() {
    // Four links form a ring. All are full of cars that want to continue on the next link.
    let links: Vec<_> = (0..4).map(|i| road(i, (i + 1) % 4, 50)).collect();
    let network = network(4, links, 2);
    let travellers = || {
        let car = |i: u32| trip(&network, 0, (0..6).map(|step| (i + step) % 4));
        (0..40).map(car).collect::<Vec<_>>()
    };
    // In the first round, the stuck time is 100 s from the beginning. In the second round, it is
    // reduced to 100 s only after the cars have begun to wait.
    for stuck_ms in [100_000, 90_000_000] {
        let physics = Physics { stuck_ms, ..NEWELL };
        let mut stuck = simulation(&network, travellers(), physics);
        run(&mut stuck, 100);
        let tally = stuck.tally();
        assert_eq!(
            (tally.moving, tally.arrived, tally.stepped_aside),
            (40, 0, 0),
            "ten cars per link and no hole"
        );
        stuck.set_stuck_time(100_000).unwrap();
        run(&mut stuck, 6000);
        let tally = stuck.tally();
        assert!(tally.stepped_aside > 0);
        assert_eq!(
            (tally.moving, tally.waiting_to_enter, tally.done),
            (0, 0, 40)
        );
        assert!(stuck.set_stuck_time(0).is_err());
    }
}

#[test]
fn cars_without_storage_wait_in_the_entry_queue() {
    let network = network(2, vec![road(0, 1, 50)], 1);
    let travellers = (0..25).map(|_| trip(&network, 0, [0])).collect();
    let mut simulation = simulation(&network, travellers, NEWELL);
    let events = run(&mut simulation, 60);
    let entered = times(&events, EventKind::Entered);
    // Cars enter at the headway of 1.25 s, in the order of their numbers.
    assert!(
        entered.windows(2).all(|pair| pair[1] - pair[0] == 1250),
        "{entered:?}"
    );
    let cars: Vec<u32> = events
        .iter()
        .filter(|h| h.kind == EventKind::Entered)
        .map(|h| h.car)
        .collect();
    assert!(cars.is_sorted());
    assert_eq!(simulation.tally().arrived, 25);
}

#[test]
fn the_next_trip_starts_where_the_last_one_ended() {
    let network = network(2, vec![road(0, 1, 100), road(1, 0, 100)], 1);
    let route = |origin| Route::pack(&network, &path(&network, [origin])).unwrap();
    let trips = vec![
        (1000, route(0)),
        (2000, route(1)),
        (50_000, Route::default()),
        (60_000, route(0)),
    ];
    let traveller = Traveller {
        origin: 0,
        trips,
        repeats: false,
    };
    let stays = Traveller {
        origin: 1,
        ..Traveller::default()
    };
    let mut simulation = simulation(&network, vec![traveller, stays], NEWELL);
    let events = run(&mut simulation, 70);
    assert_eq!(
        times(&events, EventKind::Departed),
        [1000, 6000, 50_000, 60_000]
    );
    assert_eq!(
        times(&events, EventKind::Arrived),
        [6000, 11_000, 50_000, 65_000]
    );
    assert_eq!(simulation.tally().done, 2);
}

#[test]
fn idle_and_empty_cities_run_without_events() {
    let network = Arc::new(City::grid(20, 20).network().unwrap());
    let mut simulation = Simulation::new(
        &pool(),
        network,
        Arc::new(Plans::default()),
        Physics::default(),
    )
    .unwrap();
    run(&mut simulation, 10);
    assert_eq!(simulation.tally(), Default::default());
    // Without cars, laps do not need roads in the opposite direction.
    let one_way = common::network(2, vec![road(0, 1, 100)], 1);
    assert!(laps::plans(&pool(), &one_way, 0, 1).is_ok());
    assert!(laps::plans(&pool(), &one_way, 1, 1).is_err());
}

/// Two routes lead from junction 1 to junction 4: the shorter one over 2, and one over 3. The
/// shorter one ends in a bottleneck.
fn fork() -> Arc<Network> {
    let mut links = vec![
        road(0, 1, 300),
        road(1, 2, 300),
        road(2, 4, 300),
        road(1, 3, 400),
        road(3, 4, 400),
    ];
    links[2].headway_ms = 30_000;
    network(5, links, 2)
}

#[test]
fn late_cars_are_rerouted_at_the_requested_rate() {
    let outcome = |share_ppm| {
        let network = fork();
        let travellers = (0..200).map(|i| trip(&network, i * 2000, 0..3)).collect();
        let mut simulation = simulation(&network, travellers, NEWELL);
        let rerouting = Rerouting {
            every_ticks: 60,
            share_ppm,
            late_percent: 20,
            seed: 1,
        };
        simulation.set_rerouting(Some(rerouting)).unwrap();
        let events = run(&mut simulation, 3000);
        let over = |link: u32| {
            let entered = events.iter().filter(|h| {
                h.kind == EventKind::Entered && network.link_file_index(h.link) == link
            });
            entered.count() as u64
        };
        let tally = simulation.tally();
        assert_eq!(
            over(4),
            tally.rerouted,
            "each car is rerouted once, because the other route is free"
        );
        (tally.rerouted, tally.arrived)
    };
    let (none, few, many) = (outcome(0), outcome(100_000), outcome(1_000_000));
    assert_eq!(none.0, 0);
    assert!(
        none.1 < 110,
        "the bottleneck lets one car pass every 30 s: {none:?}"
    );
    assert!(few.0 > 5 && few.0 < many.0, "{few:?} {many:?}");
    assert!(many.1 > none.1 + 50, "{many:?}");
}

#[test]
fn a_longer_headway_holds_cars_back_until_it_is_reset() {
    let network = network(3, vec![road(0, 1, 100), road(1, 2, 100)], 1);
    let travellers = (0..60).map(|_| trip(&network, 0, 0..2)).collect();
    let mut simulation = simulation(&network, travellers, NEWELL);
    let link = path(&network, [1])[0];
    simulation.set_headway(link, Some(10_000)).unwrap();
    assert!(simulation.set_headway(9, None).is_err());
    let slow = times(&run(&mut simulation, 200), EventKind::Arrived);
    assert!(
        slow.len() > 10 && slow.windows(2).all(|pair| pair[1] - pair[0] == 10_000),
        "{slow:?}"
    );
    simulation.set_headway(link, None).unwrap();
    let quick = times(&run(&mut simulation, 200), EventKind::Arrived);
    assert!(
        quick[5..].windows(2).all(|pair| pair[1] - pair[0] == 1250),
        "{quick:?}"
    );
}

#[test]
fn a_longer_headway_affects_cars_on_the_link_and_is_saved() {
    let network = network(3, vec![road(0, 1, 100), road(1, 2, 100)], 1);
    let link = path(&network, [0])[0];
    let travellers = (0..4).map(|_| trip(&network, 0, 0..2)).collect();
    let mut simulation = simulation(&network, travellers, NEWELL);
    let mut events = run(&mut simulation, 4);
    assert_eq!(times(&events, EventKind::Entered), [0, 1250, 2500, 3750]);
    let (pool, before) = (pool(), simulation.hash(&pool()));
    simulation.set_headway(link, Some(10_000)).unwrap();
    assert_ne!(simulation.hash(&pool), before);
    simulation.set_headway(link, None).unwrap();
    assert_eq!(simulation.hash(&pool), before);
    simulation.set_headway(link, Some(10_000)).unwrap();
    events = run(&mut simulation, 60);
    events.retain(|event| event.link == link);
    assert_eq!(
        times(&events, EventKind::Left),
        [5000, 15_000, 25_000, 35_000]
    );
}

#[test]
fn a_trip_can_start_in_the_slot_in_which_the_last_one_ended() {
    let network = network(2, vec![road(0, 1, 100), road(1, 0, 100)], 1);
    let route = |origin| Route::pack(&network, &path(&network, [origin])).unwrap();
    let traveller = Traveller {
        origin: 0,
        trips: vec![(0, route(0)), (5050, route(1))],
        repeats: false,
    };
    let mut simulation = simulation(&network, vec![traveller], NEWELL);
    let events = run(&mut simulation, 20);
    assert_eq!(times(&events, EventKind::Departed), [0, 5050]);
    assert_eq!(times(&events, EventKind::Arrived), [5000, 10_050]);
}

//! Checks right of way, roundabouts and merges against values that are computed by hand.

mod common;

use common::*;
use creel::Pool;
use creel_traffic::demand::Traveller;
use creel_traffic::network::{Control, Link, Network, RawNetwork, Turn, Yield};
use creel_traffic::random::Stream;
use creel_traffic::sim::{EventKind, Simulation};
use std::sync::Arc;

const HOUR_MS: u32 = 3_600_000;

/// Returns departure times with exponential headways, which is a Poisson process.
fn poisson(seed: u64, per_hour: f64, until_ms: u32) -> Vec<u32> {
    let mut stream = Stream::of(seed, "a test's departures", 0);
    let mut times = Vec::new();
    let mut at = 0.0;
    loop {
        at -= (1.0 - stream.unit()).ln() * f64::from(HOUR_MS) / per_hour;
        if at >= f64::from(until_ms) {
            return times;
        }
        times.push(at as u32);
    }
}

/// Returns the number of cars that left a road after the first ten minutes, per hour.
fn per_hour(simulation: &mut Simulation, network: &Network, road: u32, hours: u32) -> f64 {
    simulation.run(&Pool::builder().workers(2).build().unwrap(), hours * 3600);
    simulation.check().unwrap();
    let of_road = simulation.take_events().into_iter().filter(|event| {
        event.kind == EventKind::Left
            && event.at_ms > 600_000
            && network.link_file_index(event.link) == road
    });
    of_road.count() as f64 / (f64::from(hours) - 1.0 / 6.0)
}

/// Returns a crossing of a major road with a minor road. Links 0 and 1 are the major road from west
/// to east, and links 2 and 3 are its opposite direction. The minor road comes from the south on
/// link 4, and continues to the north on link 5.
fn crossing() -> RawNetwork {
    let mut links: Vec<Link> = [(1, 0), (0, 2), (2, 0), (0, 1), (3, 0), (0, 4)]
        .into_iter()
        .map(|(from, to)| road(from, to, 600))
        .collect();
    links[..4].iter_mut().for_each(|link| link.approach = 1);
    let mut plan = plan(5, links);
    let places = [
        (0.0, 0.0),
        (-600.0, 0.0),
        (600.0, 0.0),
        (0.0, -600.0),
        (0.0, 600.0),
    ];
    for (junction, (x, y)) in plan.junctions.iter_mut().zip(places) {
        (junction.x, junction.y) = (x, y);
    }
    plan.junctions[0].control = Control::Priority;
    plan
}

/// Returns the capacity of a movement that yields, by the formula of the Highway Capacity Manual.
fn hcm(major_per_hour: f64, critical_s: f64, follow_up_s: f64) -> f64 {
    let flow = major_per_hour / 3600.0;
    major_per_hour * (-flow * critical_s).exp() / (1.0 - (-flow * follow_up_s).exp())
}

/// A movement of the minor road: its name, the link that it enters, the roads with priority over
/// it, the critical gap and the follow-up time.
type Minor = (&'static str, u32, &'static [[u32; 2]], f64, f64);

#[test]
fn minor_road_capacity_matches_the_highway_capacity_manual() {
    let movements: [Minor; 4] = [
        ("through", 5, &[[0, 1], [2, 3]], 6.5, 4.0),
        ("left", 3, &[[0, 1], [2, 3]], 7.1, 3.5),
        ("right", 1, &[[0, 1]], 6.2, 3.3),
        (
            "right, with oncoming traffic",
            1,
            &[[0, 1], [2, 3]],
            6.2,
            3.3,
        ),
    ];
    for (name, out, roads, critical_s, follow_up_s) in movements {
        for major in [200.0, 600.0, 1000.0, 1200.0, 1400.0] {
            // `yields_to` is the flow of each major road. A right turn yields only to the first
            // one, which therefore has `major` cars per hour. All other movements yield to both
            // roads, which share this number.
            let yields_to = if out == 1 {
                major
            } else {
                major / roads.len() as f64
            };
            let network = Arc::new(Network::with_tiles(crossing(), 2).unwrap());
            let mut flow = 0.0;
            for seed in 0..3 {
                let mut travellers: Vec<Traveller> = Vec::new();
                for (arm, &path) in roads.iter().enumerate() {
                    let times = poisson(seed * 2 + arm as u64, yields_to, 4 * HOUR_MS);
                    travellers.extend(times.into_iter().map(|at| trip(&network, at, path)));
                }
                travellers.extend((0..4 * 1200).map(|i| trip(&network, i * 3000, [4, out])));
                let mut simulation = simulation(&network, travellers, NEWELL);
                flow += per_hour(&mut simulation, &network, 4, 4) / 3.0;
            }
            let expected = hcm(major, critical_s, follow_up_s);
            assert!(
                (flow / expected - 1.0).abs() < 0.1,
                "{name}, {major} cars per hour on the major road: {flow} instead of {expected}"
            );
        }
    }
}

#[test]
fn a_minor_car_sees_a_major_car_that_is_about_to_arrive() {
    let network = Arc::new(Network::new(crossing()).unwrap());
    // Both cars need 30 s to the junction. In the first case, the minor car arrives there 4 s
    // before the major car. This is less than the critical gap, so the minor car waits. In the
    // second case, it arrives 7 s before the major car, and crosses at once.
    for (ahead_ms, left_ms) in [(4000, 34_001), (7000, 30_000)] {
        let travellers = vec![trip(&network, ahead_ms, [0, 1]), trip(&network, 0, [4, 5])];
        let mut simulation = simulation(&network, travellers, NEWELL);
        simulation.run(&Pool::builder().workers(1).build().unwrap(), 60);
        let events = simulation.take_events();
        let minor = events
            .iter()
            .find(|event| event.kind == EventKind::Left && event.car == 1)
            .unwrap();
        assert_eq!(minor.at_ms, left_ms);
    }
}

/// Returns a roundabout with four arms. Links 0 to 3 lead to it, links 4 to 7 lead away from it,
/// and links 8 to 11 are the ring itself.
fn roundabout(ring_m: u32, arm_m: u32) -> RawNetwork {
    let arms = 0..4_u32;
    let mut links: Vec<Link> = arms.clone().map(|i| road(4 + i, i, arm_m)).collect();
    links.extend(arms.clone().map(|i| road(i, 4 + i, arm_m)));
    links.extend(arms.clone().map(|i| Link {
        speed_mm_s: 8000,
        ..road(i, (i + 1) % 4, ring_m)
    }));
    let mut plan = plan(8, links);
    plan.has_coordinates = false;
    for i in arms {
        plan.junctions[i as usize].control = Control::Priority;
        plan.yields.push(Yield {
            from: i,
            to: 8 + i,
            turn: Turn::Right,
            foes: vec![(8 + (i + 3) % 4, 8 + i)],
        });
    }
    plan
}

#[test]
fn cars_in_a_roundabout_never_block_each_other_for_ever() {
    for (ring_m, per_arm) in [
        (22, 300.0),
        (22, 500.0),
        (22, 800.0),
        (6, 800.0),
        (40, 700.0),
    ] {
        for seed in 0..5 {
            let raw = roundabout(ring_m, 300);
            let network = Arc::new(Network::with_tiles(raw, 1 + seed as usize).unwrap());
            let mut travellers = Vec::new();
            for arm in 0..4_u32 {
                let mut stream = Stream::of(seed, "exit", u64::from(arm));
                for at in poisson(seed * 4 + u64::from(arm), per_arm, HOUR_MS) {
                    let arms = 1 + stream.below(3) as u32;
                    let on_ring = (0..arms).map(|i| 8 + (arm + i) % 4);
                    let path = std::iter::once(arm)
                        .chain(on_ring)
                        .chain([4 + (arm + arms) % 4]);
                    travellers.push(trip(&network, at, path));
                }
            }
            let cars = travellers.len() as u64;
            let mut simulation = simulation(&network, travellers, NEWELL);
            simulation.run(&Pool::builder().workers(2).build().unwrap(), 4 * 3600);
            simulation.check().unwrap();
            let tally = simulation.tally();
            assert_eq!(
                (tally.arrived, tally.stepped_aside),
                (cars, 0),
                "ring of {ring_m} m, {per_arm} cars per hour and arm, seed {seed}"
            );
            let delay = simulation.delay_seconds() / cars as f64;
            assert!(
                per_arm > 500.0 || delay < 25.0,
                "{per_arm}, seed {seed}: {delay} s"
            );
        }
    }
}

#[test]
fn a_full_roundabout_keeps_a_free_place_for_the_cars_on_it() {
    // All cars drive around twice, so no car leaves before the ring has been full for long.
    let network = Arc::new(Network::new(roundabout(22, 300)).unwrap());
    let lap = |i: u32| {
        let arm = i % 4;
        let on_ring = (0..8).map(|step| 8 + (arm + step) % 4);
        trip(
            &network,
            i,
            std::iter::once(arm).chain(on_ring).chain([4 + arm]),
        )
    };
    let mut simulation = simulation(&network, (0..200).map(lap).collect(), NEWELL);
    simulation.run(&Pool::builder().workers(2).build().unwrap(), 3 * 3600);
    let tally = simulation.tally();
    assert_eq!((tally.arrived, tally.stepped_aside), (200, 0));
}

#[test]
fn roads_share_a_full_road_by_their_capacities() {
    for (main_ms, ramp_ms, out_ms) in [
        (1000, 3000, 3000),
        (1000, 1000, 2000),
        (2000, 3000, 3000),
        (1500, 6000, 2000),
    ] {
        let mut links = vec![road(0, 2, 500), road(1, 2, 500), road(2, 3, 500)];
        links[0].lanes = 3;
        for (link, headway_ms) in links.iter_mut().zip([main_ms, ramp_ms, out_ms]) {
            link.headway_ms = headway_ms;
        }
        let network = network(4, links, 2);
        let cars =
            (0..3600).flat_map(|i| [[0, 2], [1, 2]].map(|path| trip(&network, i * 1000, path)));
        let mut simulation = simulation(&network, cars.collect(), NEWELL);
        simulation.run(&Pool::builder().workers(2).build().unwrap(), 3600);
        let mut left = [0.0; 3];
        for event in simulation.take_events() {
            if event.kind == EventKind::Left && event.at_ms > 600_000 {
                left[network.link_file_index(event.link) as usize] += 1.0;
            }
        }
        // With the parameters `NEWELL`, a road with one lane has a headway of 1.25 s.
        let share = |own: u32, lanes: f64| 1.0 / f64::from(own).max(1250.0 / lanes);
        let expected = share(main_ms, 3.0) / share(ramp_ms, 1.0);
        let found = left[0] / left[1];
        assert!(
            (found / expected - 1.0).abs() < 0.03,
            "{main_ms} and {ramp_ms} into {out_ms}: {found} instead of {expected}"
        );
        let flow = (left[0] + left[1]) / 3000.0;
        let capacity = 1000.0 / f64::from(out_ms);
        assert!(
            (flow / capacity - 1.0).abs() < 0.01,
            "{flow} instead of {capacity}"
        );
    }
}

#[test]
fn cars_of_equal_roads_do_not_block_each_other_for_ever() {
    // The junction has priority to the right, so each of its four roads yields to the next one.
    let mut links: Vec<Link> = (1..5).map(|i| road(i, 0, 200)).collect();
    links.extend((1..5).map(|i| road(0, i, 200)));
    for tile in [1, 2, 10] {
        let mut plan = plan(5, links.clone());
        plan.junctions[0].control = Control::Priority;
        for i in 0..4 {
            plan.yields.push(Yield {
                from: i,
                to: 4 + (i + 2) % 4,
                turn: Turn::FromMajor,
                foes: vec![((i + 1) % 4, 4 + (i + 3) % 4)],
            });
        }
        let network = Arc::new(Network::with_tiles(plan, tile).unwrap());
        let cars = (0..400).map(|i| trip(&network, i / 4 * 8000, [i % 4, 4 + (i + 2) % 4]));
        let mut simulation = simulation(&network, cars.collect(), NEWELL);
        simulation.run(&Pool::builder().workers(2).build().unwrap(), 1800);
        assert_eq!(simulation.tally().arrived, 400);
    }
}

#[test]
fn a_chain_of_short_roads_takes_its_free_flow_time() {
    // 100 roads of 2 m at 20 m/s take 10 s, and carry the flow of the longer road before them.
    let mut links = vec![road(0, 1, 200)];
    links.extend((1..101).map(|i| road(i, i + 1, 2)));
    for tile in [1, 8, 1000] {
        let network = network(102, links.clone(), tile);
        let cars = (0..600).map(|i| trip(&network, i * 1250, 0..101));
        let mut simulation = simulation(&network, cars.collect(), NEWELL);
        simulation.run(&Pool::builder().workers(2).build().unwrap(), 900);
        simulation.check().unwrap();
        let arrived = simulation.take_events().into_iter();
        let arrived: Vec<_> = arrived
            .filter(|event| event.kind == EventKind::Arrived)
            .collect();
        assert_eq!(arrived.len(), 600);
        assert!(
            arrived
                .iter()
                .all(|event| event.at_ms == event.car * 1250 + 20_000)
        );
    }
}

#[test]
fn a_road_of_ten_cars_per_hour_lets_ten_cars_pass() {
    let mut links = vec![road(0, 1, 200), road(1, 2, 200)];
    links[1].headway_ms = 360_000;
    let network = network(3, links, 1);
    let cars = (0..100).map(|i| trip(&network, i * 1000, 0..2)).collect();
    let mut simulation = simulation(&network, cars, NEWELL);
    simulation.run(&Pool::builder().workers(1).build().unwrap(), 36_000);
    assert_eq!(simulation.tally().arrived, 100);
    let events = simulation.take_events();
    let arrived: Vec<u32> = events
        .iter()
        .filter(|event| event.kind == EventKind::Arrived)
        .map(|event| event.at_ms)
        .collect();
    assert!(
        arrived.windows(2).all(|pair| pair[1] - pair[0] == 360_000),
        "{arrived:?}"
    );
}

#[test]
fn a_minor_car_does_not_wait_for_cars_that_cannot_pass_a_stopped_one() {
    // The exit to the east is full, so the first car of the major road waits. Cars behind it
    // approach, but they cannot pass.
    let network = Arc::new(Network::new(crossing()).unwrap());
    let mut travellers: Vec<Traveller> =
        (0..400).map(|i| trip(&network, i * 2000, [0, 1])).collect();
    travellers.extend((0..400).map(|i| trip(&network, i * 2000, [4, 5])));
    let mut simulation = simulation(&network, travellers, NEWELL);
    let pool = Pool::builder().workers(1).build().unwrap();
    simulation.set_closed(path(&network, [1])[0], true).unwrap();
    simulation.run(&pool, 600);
    let crossed = simulation
        .take_events()
        .into_iter()
        .filter(|event| event.kind == EventKind::Left && network.link_file_index(event.link) == 4)
        .count();
    // The minor road has its full capacity, of a car every 4 s.
    assert!((135..=145).contains(&crossed), "{crossed}");
}

//! Checks the positions of cars in floating car data.

mod common;

use common::*;
use creel::Pool;
use creel_traffic::network::Names;
use creel_traffic::output::{Fcd, Labels, Report};
use std::collections::HashMap;

/// In a jam behind a bottleneck, each waiting car stands at its place in the queue of its lane, and
/// no car drives through another.
#[test]
fn queued_cars_stand_at_their_queue_position() {
    for lanes in [1_u8, 2] {
        let mut links = vec![road(0, 1, 200), road(1, 2, 200)];
        links[0].lanes = lanes;
        links[1].headway_ms = 8000;
        let network = network(3, links, 2);
        let travellers = (0..60).map(|i| trip(&network, i * 1000, 0..2)).collect();
        let mut simulation = simulation(&network, travellers, NEWELL);
        let labels = Labels {
            network: &network,
            cars: &Names::default(),
            simulation: None,
        };
        let (mut all, mut some) = (Vec::new(), Vec::new());
        let mut fcd = Fcd::new(&mut all, 0, 1000, NEWELL, 1);
        let mut third = Fcd::new(&mut some, 0, 1000, NEWELL, 3);
        simulation.run(&Pool::builder().workers(2).build().unwrap(), 400);
        let events = simulation.take_events();
        for fcd in [&mut fcd, &mut third] {
            fcd.take(labels, &events, 400_000).unwrap();
            fcd.finish(labels).unwrap();
        }
        drop((fcd, third));
        let (all, some) = (
            String::from_utf8(all).unwrap(),
            String::from_utf8(some).unwrap(),
        );
        let value = |row: &str, name: &str| -> String {
            let begin = row.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
            row[begin..].split('"').next().unwrap().to_owned()
        };
        let number = |row: &str, name: &str| value(row, name).parse::<f64>().unwrap();
        let rows = |step: &str, lane: &str| -> Vec<(f64, f64, f64)> {
            let rows = step.lines().filter(|row| row.contains("<vehicle"));
            let mut rows: Vec<_> = rows
                .filter(|row| value(row, "lane") == lane)
                .map(|row| (number(row, "pos"), number(row, "speed"), number(row, "y")))
                .collect();
            rows.sort_by(|a, b| b.0.total_cmp(&a.0));
            rows
        };
        let mut before: HashMap<String, (String, f64)> = HashMap::new();
        let mut full = 0;
        for step in all.split("<timestep ").skip(1) {
            for lane in 0..lanes {
                let rows = rows(step, &format!("1_{lane}"));
                let standing: Vec<_> = rows.iter().filter(|row| row.1 == 0.0).collect();
                // Cars in a lane are at least one spacing apart.
                assert!(
                    rows.windows(2).all(|pair| pair[0].0 - pair[1].0 > 4.98),
                    "{rows:?}"
                );
                assert!(
                    standing
                        .windows(2)
                        .all(|pair| (pair[0].0 - pair[1].0) % 5.0 < 0.001),
                    "{standing:?}"
                );
                let aside = -3.2 * (f64::from(lanes - lane) - 0.5);
                assert!(rows.iter().all(|row| (row.2 - aside).abs() < 0.01));
                full = full.max(standing.len());
            }
            // No car moves backwards or faster than the speed limit.
            for row in step.lines().filter(|row| row.contains("<vehicle")) {
                let (car, lane, pos) = (value(row, "id"), value(row, "lane"), number(row, "pos"));
                if let Some((road, last)) = before.insert(car, (lane.clone(), pos))
                    && road == lane
                {
                    assert!((-0.01..20.01).contains(&(pos - last)), "{row} after {last}");
                }
            }
        }
        assert!(full > 20, "only {full} cars stand in a lane");
        // A report of every third car shows the same positions, because the other cars still
        // influence them.
        let wanted = |row: &&str| {
            let car = row.contains("<vehicle").then(|| value(row, "id"));
            car.is_none_or(|car| car.parse::<u32>().unwrap() % 3 == 1)
        };
        assert!(all.lines().filter(wanted).eq(some.lines()));
    }
}

//! Checks detectors, turn counts and trip information.

mod common;

use common::*;
use creel::Pool;
use creel_traffic::network::{Names, Network};
use creel_traffic::output::{Detectors, Kind, Labels, Report, Trips, Turns, detectors};
use creel_traffic::sim::Simulation;
use std::collections::HashMap;
use std::sync::Arc;

/// Runs a simulation and returns what a report writes.
fn written<'a>(
    simulation: &mut Simulation,
    seconds: u32,
    report: impl FnOnce(&'a mut Vec<u8>) -> Box<dyn Report + 'a>,
    to: &'a mut Vec<u8>,
) {
    let pool = Pool::builder().workers(2).build().unwrap();
    let network = Arc::clone(simulation.network());
    let mut report = report(to);
    for _ in 0..seconds {
        simulation.run(&pool, 1);
        let events = simulation.take_events();
        let labels = Labels {
            network: &network,
            cars: &Names::default(),
            simulation: Some(simulation),
        };
        report.take(labels, &events, simulation.now_ms()).unwrap();
    }
    let labels = Labels {
        network: &network,
        cars: &Names::default(),
        simulation: None,
    };
    report.finish(labels).unwrap();
}

/// Returns the attributes of each element of this name.
fn elements(text: &str, name: &str) -> Vec<HashMap<String, String>> {
    let begin = format!("<{name} ");
    text.lines()
        .filter_map(|line| line.trim().strip_prefix(&begin))
        .map(|line| {
            let mut parts = line.split('"');
            let mut all = HashMap::new();
            while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                all.insert(
                    name.trim().trim_end_matches('=').to_owned(),
                    value.to_owned(),
                );
            }
            all
        })
        .collect()
}

fn number(element: &HashMap<String, String>, name: &str) -> f64 {
    element[name].parse().unwrap()
}

fn all_detectors(text: &str, network: &Network) -> Vec<creel_traffic::output::Detector> {
    let (all, unused) = detectors(text, network).unwrap();
    assert!(unused.is_empty(), "{}", unused.text());
    all
}

#[test]
fn an_induction_loop_counts_each_car_once_at_its_place() {
    let network = network(3, vec![road(0, 1, 200), road(1, 2, 200)], 1);
    // A car enters every 3 s, and reaches the loop 5 s later.
    let cars = (0..20).map(|i| trip(&network, i * 3000, 0..2)).collect();
    let mut simulation = simulation(&network, cars, NEWELL);
    let file = "<additional><e1Detector id=\"x\" lane=\"1_0\" pos=\"100\" period=\"30\" file=\"o\"/></additional>";
    let mut text = Vec::new();
    let all = all_detectors(file, &network);
    let report = |to| Box::new(Detectors::new(to, all, 0, NEWELL)) as Box<dyn Report>;
    written(&mut simulation, 100, report, &mut text);
    let text = String::from_utf8(text).unwrap();
    let rows = elements(&text, "interval");
    // The cars pass at 5, 8, …, 62 s.
    let counts: Vec<f64> = rows.iter().map(|row| number(row, "nVehContrib")).collect();
    assert_eq!(counts, [9.0, 10.0, 1.0, 0.0], "{text}");
    assert_eq!(number(&rows[1], "flow"), 1200.0);
    assert_eq!(number(&rows[1], "speed"), 20.0);
    assert_eq!(rows[3]["speed"], "-1.00");
    // A car is two thirds of its spacing of 5 m long. At 20 m/s, it occupies the loop for 1/6 s.
    assert!((number(&rows[1], "occupancy") - 10.0 / 6.0 / 30.0 * 100.0).abs() < 0.1);
    assert_eq!(
        (rows[0]["id"].as_str(), rows[0]["end"].as_str()),
        ("x", "30.000")
    );
}

#[test]
fn a_standing_car_occupies_a_loop_and_a_queue_is_a_jam() {
    // The second road lets a car pass every 20 s.
    let mut links = vec![road(0, 1, 200), road(1, 2, 200)];
    links[1].headway_ms = 20_000;
    let network = network(3, links, 2);
    let cars = (0..20).map(|i| trip(&network, i * 2000, 0..2)).collect();
    let mut simulation = simulation(&network, cars, NEWELL);
    let file = "<additional>
        <inductionLoop id=\"end\" lane=\"1_0\" pos=\"-1\" period=\"100\" file=\"o\"/>
        <laneAreaDetector id=\"area\" lane=\"1_0\" pos=\"100\" endPos=\"-0.1\" period=\"100\" file=\"o\"/>
        </additional>";
    let all = all_detectors(file, &network);
    let (mut loops, mut areas) = (Vec::new(), Vec::new());
    for (to, is_loop) in [(&mut loops, true), (&mut areas, false)] {
        let mut simulation = simulation.clone();
        let chosen = all.iter().filter(|one| (one.kind == Kind::Loop) == is_loop);
        let chosen = chosen.cloned().collect();
        let report = |to| Box::new(Detectors::new(to, chosen, 0, NEWELL)) as Box<dyn Report>;
        written(&mut simulation, 200, report, to);
    }
    simulation.take_events();
    let rows = elements(std::str::from_utf8(&loops).unwrap(), "interval");
    assert_eq!(number(&rows[1], "nVehContrib"), 5.0);
    assert!(number(&rows[1], "occupancy") > 70.0, "{rows:?}");
    let rows = elements(std::str::from_utf8(&areas).unwrap(), "interval");
    let row = &rows[1];
    // At 100 s, 15 cars wait. The area has room for 20, and the queue loses 5 cars.
    assert_eq!(number(row, "nVehEntered"), 0.0);
    assert_eq!(number(row, "nVehLeft"), 5.0);
    assert!(
        (13.0..=15.0).contains(&number(row, "maxJamLengthInVehicles")),
        "{row:?}"
    );
    assert!(
        (11.0..=14.0).contains(&number(row, "meanVehicleNumber")),
        "{row:?}"
    );
    assert!(number(row, "maxJamLengthInMeters") > 60.0, "{row:?}");
    assert!(number(row, "meanOccupancy") > 30.0, "{row:?}");
    assert!(number(row, "meanSpeed") < 1.5, "{row:?}");
    assert!(number(row, "haltingDurationSum") > 1000.0, "{row:?}");
}

#[test]
fn invalid_detectors_are_errors_and_unused_elements_are_counted() {
    let network = network(2, vec![road(0, 1, 200)], 1);
    let read = |element: &str| detectors(&format!("<additional>{element}</additional>"), &network);
    for bad in [
        "<e1Detector id=\"x\" lane=\"9_0\" pos=\"1\" file=\"o\"/>",
        "<e1Detector id=\"x\" lane=\"1_0\" pos=\"201\" file=\"o\"/>",
        "<e1Detector id=\"x\" lane=\"1_0\" file=\"o\"/>",
        "<e2Detector id=\"x\" lane=\"1_0\" pos=\"50\" endPos=\"20\" file=\"o\"/>",
        "<e1Detector id=\"x\" lane=\"1_0\" pos=\"1\" period=\"0\" file=\"o\"/>",
        "<e1Detector id=\"x\" lane=\"1_0\" pos=\"1\" file=\"o\"/><e2Detector id=\"x\" lane=\"1_0\" file=\"o\"/>",
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
    let (all, unused) = read(
        "<e1Detector id=\"x\" lane=\"1_0\" pos=\"201\" friendlyPos=\"true\" vTypes=\"bus\" file=\"o\"/><edgeData id=\"e\" file=\"o\"/>",
    )
    .unwrap();
    assert_eq!((all.len(), all[0].from_m), (1, 200.0));
    assert_eq!(unused.text(), "e1Detector vTypes (1), edgeData (1)");
}

#[test]
fn turn_counts_add_up_to_the_cars_that_cross() {
    let links = vec![road(0, 1, 200), road(1, 2, 200), road(1, 3, 200)];
    let network = network(4, links, 2);
    let way = |i: u32| match i % 3 {
        0 => [0, 2],
        _ => [0, 1],
    };
    let cars = (0..30).map(|i| trip(&network, i * 2000, way(i))).collect();
    let mut simulation = simulation(&network, cars, NEWELL);
    let mut text = Vec::new();
    let report = |to| Box::new(Turns::new(to, 0, 60_000)) as Box<dyn Report>;
    written(&mut simulation, 100, report, &mut text);
    let text = String::from_utf8(text).unwrap();
    let mut sums: HashMap<(String, String), f64> = HashMap::new();
    for row in elements(&text, "edgeRelation") {
        let key = (row["from"].clone(), row["to"].clone());
        *sums.entry(key).or_default() += number(&row, "count");
    }
    let key = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    assert_eq!(
        sums,
        HashMap::from([(key("1", "2"), 20.0), (key("1", "3"), 10.0)])
    );
    assert_eq!(elements(&text, "interval").len(), 2);
}

#[test]
fn trip_information_has_all_attributes_that_the_schema_requires() {
    let mut links = vec![road(0, 1, 200), road(1, 2, 200)];
    links[1].headway_ms = 10_000;
    let network = network(3, links, 2);
    let cars = (0..2).map(|i| trip(&network, i * 2000, 0..2)).collect();
    let mut simulation = simulation(&network, cars, NEWELL);
    let mut text = Vec::new();
    let report = |to| Box::new(Trips::new(to, 0)) as Box<dyn Report>;
    written(&mut simulation, 60, report, &mut text);
    let text = String::from_utf8(text).unwrap();
    let rows = elements(&text, "tripinfo");
    assert_eq!(rows.len(), 2);
    for name in [
        "id",
        "depart",
        "departLane",
        "departPos",
        "departSpeed",
        "departDelay",
        "arrival",
        "arrivalLane",
        "arrivalPos",
        "arrivalSpeed",
        "duration",
        "routeLength",
        "waitingTime",
        "waitingCount",
        "stopTime",
        "rerouteNo",
        "devices",
        "vType",
        "speedFactor",
    ] {
        assert!(rows.iter().all(|row| row.contains_key(name)), "{name}");
    }
    // The second car waits until 10 s have passed since the first one entered the second road.
    let late = &rows[1];
    assert_eq!(
        (number(late, "waitingTime"), number(late, "waitingCount")),
        (8.0, 1.0)
    );
    assert_eq!(number(late, "timeLoss"), 8.0);
    assert_eq!(
        (late["departLane"].as_str(), late["arrivalLane"].as_str()),
        ("1_0", "2_0")
    );
    assert_eq!(
        (number(late, "departSpeed"), number(late, "arrivalPos")),
        (20.0, 200.0)
    );
}

//! Tests runs that resume from a snapshot, and the names of output files.

#[path = "common/program.rs"]
mod program;

use program::*;
use std::path::{Path, PathBuf};

/// Options of a resumed run apply from the snapshot on, with the same result for any number of
/// workers. Options that would have no effect are rejected.
#[test]
fn options_of_a_resumed_run_are_applied_or_rejected() {
    let half = place("heeded");
    let half = half.to_str().unwrap();
    let jam = ["run", "--city", "10x10"];
    let cars = ["--cars", "6000", "--demand", "gravity", "--within", "300"];
    let usual = ["--reroute", "30", "--stuck", "200"];
    let hash = |what: &[&[&str]]| json(&what.concat())["hash"].as_str().unwrap().to_owned();
    let whole = hash(&[&jam, &cars, &usual, &["--seconds", "1500"]]);
    hash(&[
        &jam,
        &cars,
        &usual,
        &["--seconds", "900", "--snapshot", half],
    ]);
    let resumed = |more: &[&str]| {
        let resume = ["--resume", half, "--seconds", "600"];
        let [one, two] = ["1", "3"].map(|jobs| hash(&[&jam, &resume, more, &["--jobs", jobs]]));
        assert_eq!(one, two, "{more:?}");
        one
    };
    assert_eq!(resumed(&[]), whole);
    assert_eq!(resumed(&usual), whole);
    let mut others = vec![whole];
    for more in [
        ["--stuck", "40"],
        ["--stuck", "9000"],
        ["--reroute", "0"],
        ["--reroute", "100"],
    ] {
        let other = resumed(&more);
        assert!(!others.contains(&other), "{more:?} changes nothing");
        others.push(other);
    }
    for more in [
        &["--cars", "10"][..],
        &["--demand", "laps"],
        &["--within", "9"],
        &["--again"],
        &["--places", "2"],
        &["--spacing", "5000"],
        &["--reaction", "900"],
    ] {
        let output = run(&[&jam, &["--resume", half][..], more].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {error}");
        assert!(error.contains("--resume"), "{error}");
    }
    let mut bytes = std::fs::read(half).unwrap();
    bytes[7] = b'1';
    std::fs::write(half, bytes).unwrap();
    let old = run(&[&jam, &["--resume", half][..]].concat());
    assert_eq!(old.status.code(), Some(65));
    let error = String::from_utf8_lossy(&old.stderr).into_owned();
    assert!(error.contains("older version"), "{error}");
    std::fs::remove_file(half).unwrap();
}

/// A resumed run writes the same reports as a run without interruption.
#[test]
fn a_resumed_run_writes_the_same_reports() {
    let half = place("goes-on");
    let files = ["edges.xml", "fcd.xml", "events.csv"].map(|name| place(&format!("whole-{name}")));
    let resumed = ["edges.xml", "fcd.xml", "events.csv"].map(|name| place(&format!("rest-{name}")));
    let write = |files: &[PathBuf; 3], more: &[&str]| {
        let [edges, fcd, table] = files.each_ref().map(|file| file.to_str().unwrap());
        let outputs = ["--edge-data", edges, "--fcd", fcd, "--events-csv", table];
        json(&[more, &outputs, &["--interval", "60"]].concat())
    };
    let half = half.to_str().unwrap();
    write(
        &files,
        &[&CITY[..], &["--seconds", "250", "--from", "200"]].concat(),
    );
    json(&[&CITY[..], &["--seconds", "200", "--snapshot", half]].concat());
    let city = &CITY[..5];
    let reported = write(
        &resumed,
        &[city, &["--seconds", "50", "--resume", half]].concat(),
    );
    for (whole, rest) in files.iter().zip(&resumed).step_by(2) {
        let [whole, rest] = [whole, rest].map(|file| std::fs::read_to_string(file).unwrap());
        assert_eq!(whole, rest);
    }
    // A snapshot does not contain the cars that have just left a queue. For some seconds, the cars
    // behind them are therefore shown slightly further ahead.
    let steps = |file: &PathBuf| -> Vec<String> {
        let text = std::fs::read_to_string(file).unwrap();
        let steps = text.split("<timestep ").skip(1);
        steps.map(str::to_owned).collect()
    };
    let (whole, rest) = (steps(&files[1]), steps(&resumed[1]));
    assert_eq!((whole.len(), rest.len()), (50, 50));
    assert!(whole[15..] == rest[15..]);
    for (whole, rest) in whole.iter().zip(&rest) {
        let count = |step: &str| step.matches("<vehicle").count();
        assert_eq!(count(whole), count(rest));
        assert!(count(whole) > 500);
    }
    // The edge data include all time on the links, although the run does not end with a full
    // interval.
    let edges = std::fs::read_to_string(&resumed[0]).unwrap();
    assert!(
        edges.contains("<interval begin=\"200.000\" end=\"250.000\""),
        "{edges}"
    );
    let seconds = edges.split("sampledSeconds=\"").skip(1);
    let seconds = seconds.map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
    let (sum, reported) = (
        seconds.sum::<f64>(),
        reported["vehicle_seconds"].as_f64().unwrap(),
    );
    assert!((sum - reported).abs() < 5.0, "{sum} of {reported}");
    for file in files.iter().chain(&resumed) {
        std::fs::remove_file(file).unwrap();
    }
    std::fs::remove_file(half).unwrap();
}

#[test]
fn outputs_must_differ_from_each_other_and_from_inputs() {
    let roads = place("twice.gr");
    std::fs::write(&roads, "p tw 2 2\n1 2\n2 1\n").unwrap();
    let roads = roads.to_str().unwrap();
    let copied_roads = std::env::temp_dir().join(".");
    let copied_roads = copied_roads.join(Path::new(roads).file_name().unwrap());
    for arguments in [
        &[
            "run",
            "--city",
            "3x3",
            "--events",
            "twice.x",
            "--fcd",
            "./twice.x",
        ][..],
        &[
            "run",
            "--city",
            "3x3",
            "--snapshot",
            "twice.x",
            "--events-csv",
            "twice.x",
        ],
        &["run", "--network", roads, "--events-csv", roads],
        &[
            "run",
            "--network",
            roads,
            "--snapshot",
            copied_roads.to_str().unwrap(),
        ],
    ] {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    }
    std::fs::remove_file(roads).unwrap();
}

//! The program from outside: what it prints, and which exit code says how it went.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_creel-traffic"))
        .args(arguments)
        .output()
        .unwrap()
}

/// A place for a test's own file.
fn place(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!(
        "creel-traffic-program-{}-{name}",
        std::process::id()
    ))
}

fn json(arguments: &[&str]) -> Value {
    let output = run(&[arguments, &["--format", "json"]].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

const CITY: [&str; 7] = ["run", "--city", "12x12", "--noise", "20", "--cars", "900"];

#[test]
fn a_run_tells_what_became_of_it() {
    let told = json(&[&CITY[..], &["--seconds", "100"]].concat());
    for name in [
        "ticks",
        "cars",
        "moving",
        "arrived",
        "seconds",
        "simulated_seconds",
        "real_time_ratio",
        "vehicle_seconds_per_second",
    ] {
        assert!(told[name].is_number(), "{name}: {told}");
    }
    assert_eq!(
        (&told["schema"], &told["ticks"], &told["cars"]),
        (&1.into(), &100.into(), &900.into())
    );
    assert_eq!(told["hash"].as_str().map(str::len), Some(16));
    let none = json(&["run", "--city", "3x3", "--cars", "0", "--seconds", "10"]);
    assert_eq!(none["moving"], 0);
}

#[test]
fn a_resumed_run_ends_with_the_same_hash_on_any_number_of_workers() {
    let (half, path) = (place("half"), place("half"));
    let half = half.to_str().unwrap();
    let whole = json(&[&CITY[..], &["--seconds", "200", "--jobs", "1"]].concat());
    json(
        &[
            &CITY[..],
            &[
                "--seconds",
                "90",
                "--jobs",
                "3",
                "--snapshot",
                half,
                "--snapshot-every",
                "40",
            ],
        ]
        .concat(),
    );
    let rest = json(
        &[
            &CITY[..],
            &["--seconds", "110", "--jobs", "2", "--resume", half],
        ]
        .concat(),
    );
    assert_eq!(whole["hash"], rest["hash"]);
    let other = run(&["run", "--city", "11x12", "--seconds", "1", "--resume", half]);
    assert_eq!(other.status.code(), Some(65));
    assert!(String::from_utf8_lossy(&other.stderr).contains("another network"));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let cut = run(&[&CITY[..], &["--seconds", "1", "--resume", half]].concat());
    assert_eq!(cut.status.code(), Some(65));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn wrong_input_is_told_in_a_line_with_its_exit_code() {
    let broken = place("broken.gr");
    std::fs::write(&broken, "p tw 2 1\n1 9\n").unwrap();
    let broken = broken.to_str().unwrap();
    for (arguments, code, told) in [
        (&["run"][..], 2, "roads are wanted"),
        (&["run", "--city", "5"], 2, "500x500"),
        (&["run", "--city", "1x9"], 2, "2x2"),
        (&["run", "--city", "99999x99999"], 2, "4,000,000"),
        (&["run", "--city", "3x3", "--seconds", "-1"], 2, "-1"),
        (&["run", "--network", "/nowhere"], 1, "/nowhere"),
        (&["run", "--network", broken], 65, "line 2"),
        (
            &["run", "--city", "3x3", "--demand", broken],
            65,
            "none of the formats",
        ),
        (&["run", "--city", "3x3", "--stuck", "0"], 2, "0"),
        (&["run", "--city", "3x3", "--spacing", "1"], 2, "spacing"),
        (
            &["run", "--city", "3x3", "--events", "/nowhere/at/all"],
            1,
            "/nowhere/at/all",
        ),
        (
            &["assign", "--network", broken, "--trips", broken],
            65,
            "line 1",
        ),
        (&["run", "--city", "3x3", "--region", "1,2"], 2, "WEST"),
    ] {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(told), "{arguments:?}: {error}");
    }
}

#[test]
fn a_run_cut_while_it_writes_leaves_what_was_there() {
    let events = place("events.xml.gz");
    let good = run(&[
        &CITY[..],
        &["--seconds", "60", "--events", events.to_str().unwrap()],
    ]
    .concat());
    assert!(good.status.success());
    let before = std::fs::read(&events).unwrap();
    assert!(before.starts_with(&[0x1F, 0x8B]));
    {
        // No file may grow beyond 4 KiB.
        let full = Command::new("sh")
            .args([
                "-c",
                "ulimit -f 8; exec \"$@\"",
                "sh",
                env!("CARGO_BIN_EXE_creel-traffic"),
            ])
            .args(
                [
                    &CITY[..],
                    &["--seconds", "300", "--events-csv", events.to_str().unwrap()],
                ]
                .concat(),
            )
            .output()
            .unwrap();
        assert!(!full.status.success());
        assert_eq!(
            std::fs::read(&events).unwrap(),
            before,
            "what was there is still there"
        );
    }
    std::fs::remove_file(events).unwrap();
}

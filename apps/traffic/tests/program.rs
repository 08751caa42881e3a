//! Tests the program from outside: its output and its exit codes.

#[path = "common/program.rs"]
mod program;

use program::*;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_run_prints_its_summary() {
    let output = json(&[&CITY[..], &["--seconds", "100"]].concat());
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
        assert!(output[name].is_number(), "{name}: {output}");
    }
    assert_eq!(
        (&output["schema"], &output["ticks"], &output["cars"]),
        (&1.into(), &100.into(), &900.into())
    );
    assert_eq!(output["hash"].as_str().map(str::len), Some(16));
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
            &CITY[..5],
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
    let cut = run(&[&CITY[..5], &["--seconds", "1", "--resume", half]].concat());
    assert_eq!(cut.status.code(), Some(65));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn wrong_input_gives_one_line_and_its_exit_code() {
    let broken = place("broken.gr");
    std::fs::write(&broken, "p tw 2 1\n1 9\n").unwrap();
    let broken = broken.to_str().unwrap();
    let pairs = place("pairs.gr");
    std::fs::write(&pairs, "p tw 2 1\n1 2\n").unwrap();
    let pairs = pairs.to_str().unwrap();
    let net = place("many.net.tntp");
    std::fs::write(&net, "<NUMBER OF NODES> 2\n<NUMBER OF ZONES> 2\n<FIRST THRU NODE> 1\n<NUMBER OF LINKS> 1\n<END OF METADATA>\n1 2 10 1 1 0.15 4 0 0 1 ;\n").unwrap();
    let net = net.to_str().unwrap();
    let many = place("many.tntp");
    std::fs::write(
        &many,
        "<NUMBER OF ZONES> 2\n<END OF METADATA>\nOrigin 1\n2 : 1e308;\n",
    )
    .unwrap();
    let many = many.to_str().unwrap();
    for (arguments, code, expected) in [
        (
            &["assign", "--network", net, "--trips", many][..],
            65,
            "out of range",
        ),
        (
            &["assign", "--network", net, "--trips", many, "--gap", "nan"],
            2,
            "--gap",
        ),
        (&["run"][..], 2, "no road network given"),
        (&["run", "--city", "5"], 2, "500x500"),
        (&["run", "--city", "1x9"], 2, "2x2"),
        (&["run", "--city", "99999x99999"], 2, "4,000,000"),
        (&["run", "--city", "3x3", "--seconds", "-1"], 2, "-1"),
        (&["run", "--network", "/nowhere"], 1, "/nowhere"),
        (&["run", "--network", broken], 65, "line 2"),
        (&["run", "--network", "/dev/zero"], 65, "a device"),
        (
            &["run", "--city", "3x3", "--demand", broken],
            65,
            "unknown file format",
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
        (&["run", "--city", "3x3", "--reroute", "101"], 2, "100"),
        (&["run", "--city", "3x3", "--late", "5"], 2, "--reroute"),
        (
            &["draw", "--city", "3x3", "--output", "picture.gif"],
            2,
            ".png or .svg",
        ),
        (
            &["draw", "--network", pairs, "--output", "picture.png"],
            2,
            "no coordinates",
        ),
        (&["convert", "--city", "3x3"], 2, "--roads-to"),
        (
            &["convert", "--city", "3x3", "--roads-to", "roads.txt"],
            2,
            "unknown file name ending",
        ),
    ] {
        let output = run(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn an_interrupted_write_keeps_the_old_file() {
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
        // Limit the file size to 4 KiB, so that writing fails.
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
            "the old file is unchanged"
        );
    }
    std::fs::remove_file(events).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn devices_are_written_in_place_and_unwritable_outputs_fail_early() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let short = |what: &[&str]| run(&[&CITY[..], &["--seconds", "20", "--quiet"], what].concat());
    // A symbolic link to a device is written in place. It is not replaced, even if the user has the
    // permission to do so.
    let device = place("device");
    symlink("/dev/full", &device).unwrap();
    let path = device.to_str().unwrap();
    for flag in ["--snapshot", "--events", "--events-csv"] {
        let output = short(&[flag, path]);
        assert!(!output.status.success(), "{flag}: the disk is full");
    }
    let packed = place("device.gz");
    symlink("/dev/full", &packed).unwrap();
    assert!(
        !short(&["--events", packed.to_str().unwrap()])
            .status
            .success()
    );
    let kind = std::fs::metadata(&device).unwrap().file_type();
    assert!(kind.is_char_device());
    assert!(std::fs::symlink_metadata(&device).unwrap().is_symlink());
    let output = short(&["--events-csv", "/dev/stdout"]);
    assert!(output.status.success() && output.stdout.starts_with(b"time_ms,"));
    // Writing to a dangling symbolic link creates the file that it points to.
    let (ahead, made) = (place("ahead"), place("made"));
    symlink(made.file_name().unwrap(), &ahead).unwrap();
    let to = ahead.to_str().unwrap();
    assert!(short(&["--events-csv", to]).status.success());
    assert!(std::fs::symlink_metadata(&ahead).unwrap().is_symlink() && made.exists());
    // Writing to a symbolic link keeps the link.
    let (link, file) = (place("link"), place("file"));
    std::fs::write(&file, "before").unwrap();
    symlink(&file, &link).unwrap();
    assert!(
        short(&["--snapshot", link.to_str().unwrap()])
            .status
            .success()
    );
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read(&file).unwrap() != b"before");
    // The error comes before the program simulates a month.
    let nowhere = place("nowhere").join("state");
    let begun = run(&[
        &CITY[..],
        &[
            "--seconds",
            "2000000",
            "--quiet",
            "--snapshot",
            nowhere.to_str().unwrap(),
        ],
    ]
    .concat());
    assert!(!begun.status.success());
    for path in [device, packed, link, file, ahead, made] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn draw_writes_pictures_and_convert_writes_networks() {
    let scene = [
        "--city",
        "10x6",
        "--noise",
        "20",
        "--avenues",
        "3",
        "--river",
        "--cars",
        "400",
    ];
    let png = place("city.png");
    let path = png.to_str().unwrap();
    let output = run(&[&["draw", "--width", "400", "--output", path][..], &scene].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let bytes = std::fs::read(&png).unwrap();
    let size = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert!(
        size(16) == 400 && (200..300).contains(&size(20)),
        "{} {}",
        size(16),
        size(20)
    );
    let svg = place("city.svg");
    let path = svg.to_str().unwrap();
    assert!(
        run(&[&["draw", "--output", path][..], &scene].concat())
            .status
            .success()
    );
    let text = std::fs::read_to_string(&svg).unwrap();
    assert!(text.matches("stroke=").count() > 3 && text.trim_end().ends_with("</svg>"));
    let roads = text.matches('M').count();
    // Converted to SUMO's formats and back, the city has the same cars on the same roads.
    let (net, rou) = (place("city.net.xml"), place("city.rou.xml.gz"));
    let (net, rou) = (net.to_str().unwrap(), rou.to_str().unwrap());
    let convert = [
        "convert",
        "--demand",
        "gravity",
        "--within",
        "600",
        "--roads-to",
        net,
        "--demand-to",
        rou,
    ];
    let output = run(&[&convert[..], &scene].concat());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let output = json(&[
        "run",
        "--network",
        net,
        "--demand",
        rou,
        "--seconds",
        "3000",
    ]);
    assert_eq!(output["links"], roads);
    let here = json(
        &[
            &[
                "run",
                "--demand",
                "gravity",
                "--within",
                "600",
                "--seconds",
                "3000",
            ][..],
            &scene,
        ]
        .concat(),
    );
    assert_eq!((&output["moving"], &here["moving"]), (&0.into(), &0.into()));
    assert_eq!(output["crossings"], here["crossings"]);
    for file in [&png, &svg, &PathBuf::from(net), &PathBuf::from(rou)] {
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn reports_contain_only_what_the_filters_select() {
    let table = place("asked.csv");
    let path = table.to_str().unwrap();
    let all = [&CITY[..], &["--seconds", "200", "--events-csv", path]].concat();
    let rows = |more: &[&str]| -> Vec<String> {
        assert!(run(&[&all[..], more].concat()).status.success());
        let text = std::fs::read_to_string(&table).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    };
    let whole = rows(&[]);
    let time = |row: &String| row.split(',').next().unwrap().parse::<u32>().unwrap();
    let car = |row: &String| row.split(',').nth(1).unwrap().parse::<u32>().unwrap();
    let some = rows(&["--from", "50", "--until", "100", "--every", "3"]);
    let wanted = |row: &&String| (50_000..100_000).contains(&time(row)) && (car(row) - 1) % 3 == 0;
    assert!(some.len() > 100);
    assert!(whole.iter().filter(wanted).eq(some.iter()));
    let region = rows(&["--region", "-100,-100,500,500"]);
    assert!(!region.is_empty() && region.len() < whole.len() / 4);
    assert_eq!(
        rows(&["--lanes", "2"]).len(),
        0,
        "all streets have one lane"
    );
    // A car that is on a road when the period begins is in the report from the first time step.
    let fcd = place("asked.fcd.xml");
    let path = fcd.to_str().unwrap();
    let output = run(&[
        &CITY[..],
        &[
            "--seconds",
            "130",
            "--fcd",
            path,
            "--from",
            "100",
            "--until",
            "120",
            "--fcd-every",
            "5",
        ],
    ]
    .concat());
    assert!(output.status.success());
    let text = std::fs::read_to_string(&fcd).unwrap();
    let steps: Vec<&str> = text.split("<timestep ").skip(1).collect();
    assert_eq!(steps.len(), 4);
    assert!(steps[0].starts_with("time=\"100.000\"") && steps[0].matches("<vehicle").count() > 500);
    std::fs::remove_file(table).unwrap();
    std::fs::remove_file(fcd).unwrap();
}

/// Routing a million cars takes minutes. An interrupt need not wait for that, because there is
/// nothing to save yet.
#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_ends_the_set_up_at_once() {
    let child = Command::new(env!("CARGO_BIN_EXE_creel-traffic"))
        .args(["run", "--city", "200x200", "--cars", "1000000"])
        .args(["--demand", "gravity", "--seconds", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    // Wait until the program has installed its signal handler.
    let takes = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
        caught & 1 << 14 != 0
    };
    let begun = Instant::now();
    while !takes() {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    let kill = Command::new("kill").arg(id.to_string()).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143));
    assert!(output.stdout.is_empty(), "the run was not interrupted");
}

#[test]
fn incidents_happen_on_time_on_any_number_of_workers_and_after_a_resume() {
    let (table, half, trips) = (
        place("incidents"),
        place("incidents-half"),
        place("trips.xml"),
    );
    std::fs::write(
        &table,
        "time,road,change\n20,7,close\n30,40,capacity,60\n40,50,speed,5\n100,7,open\n",
    )
    .unwrap();
    let [table, half, trips] = [&table, &half, &trips].map(|path| path.to_str().unwrap());
    let city = ["run", "--city", "12x12", "--noise", "20"];
    let cars = ["--demand", "gravity", "--cars", "900", "--within", "100"];
    let hash = |more: &[&str]| json(&[&city[..], more].concat())["hash"].clone();
    let all = |jobs, more: &[&str]| {
        let time = ["--seconds", "400", "--jobs", jobs];
        hash(&[&cars[..], &time[..], more].concat())
    };
    let with = all("1", &["--incidents", table, "--tripinfo", trips]);
    assert_eq!(with, all("3", &["--incidents", table]));
    assert_ne!(with, all("1", &[]));
    let first = ["--seconds", "60", "--snapshot", half, "--incidents", table];
    hash(&[&cars[..], &first[..]].concat());
    let rest = ["--seconds", "340", "--resume", half, "--incidents", table];
    assert_eq!(with, hash(&rest));
    // Each trip that used a road and has ended has an element with a plausible duration.
    let text = std::fs::read_to_string(trips).unwrap();
    let ended = json(
        &[
            &city[..],
            &cars[..],
            &["--seconds", "400", "--incidents", table],
        ]
        .concat(),
    );
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("<tripinfo "))
        .collect();
    // A trip that uses no road counts as arrived, but has no element.
    let arrived = ended["arrived"].as_u64().unwrap() as usize;
    assert!(
        (arrived * 9 / 10..=arrived).contains(&rows.len()),
        "{arrived}"
    );
    let value = |row: &str, name: &str| -> f64 {
        let begin = row.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
        let text = &row[begin..];
        text[..text.find('"').unwrap()].parse().unwrap()
    };
    for row in rows {
        let took = value(row, "arrival") - value(row, "depart");
        assert!((took - value(row, "duration")).abs() < 0.002, "{row}");
        assert!(value(row, "timeLoss") <= value(row, "duration"), "{row}");
        assert!(value(row, "routeLength") > 0.0, "{row}");
    }
    let bad = run(&[&city[..], &["--incidents", half]].concat());
    assert_eq!(bad.status.code(), Some(65), "{bad:?}");
    std::fs::write(table, "20,7,vanish\n").unwrap();
    let bad = run(&[&city[..], &["--incidents", table]].concat());
    assert_eq!(bad.status.code(), Some(65), "{bad:?}");
}

#[test]
fn the_temporary_file_of_a_killed_run_is_removed() {
    let events = place("killed.xml");
    let left = place("killed.xml.0123456789abcdef.part");
    let other = place("other.xml.0123456789abcdef.part");
    std::fs::write(&left, "half").unwrap();
    std::fs::write(&other, "half").unwrap();
    // A younger file may belong to a run that has not locked it yet.
    let old = std::time::SystemTime::now() - Duration::from_secs(5);
    let file = std::fs::File::options().write(true).open(&left).unwrap();
    file.set_modified(old).unwrap();
    drop(file);
    json(&[
        "run",
        "--city",
        "3x3",
        "--seconds",
        "1",
        "--events",
        events.to_str().unwrap(),
    ]);
    assert!(events.exists() && !left.exists() && other.exists());
}

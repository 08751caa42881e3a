//! Runs `creel topo` and checks its output, and its exit codes for bad input.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn creel(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_creel"))
        .arg("topo")
        .args(args)
        .output()
        .unwrap()
}

fn text(args: &[&str]) -> String {
    let output = creel(args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&text(&[args, &["--format", "json"]].concat())).unwrap()
}

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn json_has_the_documented_fields() {
    let found = json(&["--synthetic", "package:2 l3:1 core:2 pu:2"]);
    for (field, expected) in [
        ("schema", json!(1)),
        ("pus", json!("0-7")),
        ("online", json!("0-7")),
        ("allowed", json!("0-7")),
        ("cores", json!(["0-1", "2-3", "4-5", "6-7"])),
        ("packages", json!(["0-3", "4-7"])),
        ("dies", json!([])),
        ("l2", json!([])),
        ("l3", json!(["0-3", "4-7"])),
        ("kinds", json!([])),
    ] {
        assert_eq!(found[field], expected, "{field}");
    }
    assert_eq!(
        (&found["numa"][0]["id"], &found["numa"][0]["cpus"]),
        (&json!(0), &json!("0-7"))
    );
    assert_eq!(found["budget"]["workers"], json!(4));
    assert_eq!(found["budget"]["limits"][0]["kind"], json!("cores"));
    assert!(
        found["placement"].is_null(),
        "the placement appears only on request"
    );
}

#[test]
fn offline_cores_are_marked() {
    let root = tempfile::tempdir().unwrap();
    let cpu = "sys/devices/system/cpu";
    write(root.path(), &format!("{cpu}/online"), "0-1\n");
    for (pu, siblings) in [(0, "0"), (1, "1"), (2, "2")] {
        let file = format!("{cpu}/cpu{pu}/topology/thread_siblings_list");
        write(root.path(), &file, &format!("{siblings}\n"));
    }
    let found = json(&["--root", root.path().to_str().unwrap()]);
    // Some kernels also list the cores of PUs that are offline. The number of workers must not
    // include these cores.
    assert_eq!(found["cores"], json!(["0", "1", "2"]));
    assert_eq!(found["offline"], json!("2"));
    assert_eq!(found["budget"]["workers"], 2);
}

#[test]
fn text_output_lists_worker_placement() {
    let text = text(&[
        "--synthetic",
        "package:2 core:8 pu:2",
        "--place",
        "spread",
        "--workers",
        "6",
    ]);
    for line in [
        "32 PUs, 16 cores, 2 packages, 1 NUMA node",
        "    package 1",
        "      core 8: PU 16-17  ← worker 3",
        "6 workers, placed by spread",
        "usable: 16 workers, bound by the machine's cores (16)",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line:?} is not in\n{text}"
        );
    }
    let places = json(&[
        "--synthetic",
        "core:2",
        "--place",
        "cores",
        "--workers",
        "3",
    ]);
    let expected =
        json!({"policy": "cores", "workers": 3, "wrapped": true, "places": ["0", "1", "0"]});
    assert_eq!(places["placement"], expected);
}

#[test]
fn the_budget_names_the_binding_limit() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "sys/devices/system/cpu/online", "0-7\n");
    write(
        root.path(),
        "proc/self/mountinfo",
        "31 23 0:26 / /cg rw - cgroup2 cgroup rw\n",
    );
    write(root.path(), "proc/self/cgroup", "0::/a/b\n");
    write(root.path(), "cg/a/b/cgroup.procs", "");
    write(root.path(), "cg/a/cpu.max", "300000 100000\n");
    let text = text(&["--root", root.path().to_str().unwrap()]);
    let usable = "usable: 3 workers, bound by cpu.max of the parent cgroup (300000/100000)";
    assert_eq!(text.lines().last(), Some(usable));
}

#[test]
fn csv_has_one_row_per_pu() {
    let text = text(&[
        "--synthetic",
        "package:2 core:2",
        "--place",
        "close",
        "--workers",
        "1",
        "--format",
        "csv",
    ]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "logical,pu,core,package,die,node,l2,l3,kind,allowed,workers"
    );
    assert_eq!(lines[1], "0,0,0,0,,0,,,,true,0");
    assert_eq!(lines.len(), 5);
}

#[test]
fn drawings_are_written_atomically() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("topo.svg");
    text(&[
        "--synthetic",
        "core:4 pu:2",
        "--place",
        "pus",
        "--workers",
        "6",
        "--svg",
        file.to_str().unwrap(),
    ]);
    let drawing = fs::read_to_string(&file).unwrap();
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
    assert_eq!(
        drawing.matches("class=\"worker\"").count(),
        6,
        "there is one badge per worker"
    );
    let nowhere = folder.path().join("no/such/folder.svg");
    let failed = creel(&["--synthetic", "core:4", "--svg", nowhere.to_str().unwrap()]);
    assert!(!failed.status.success() && failed.stdout.is_empty());
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing half-written"
    );
}

#[test]
fn large_machines_fit_a_page() {
    let levels = "package:8 numa:1 l3:1 l2:8 l1:1 core:1 pu:2";
    let drawing = text(&["--synthetic", levels, "--svg", "-"]);
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
    let size = |name: &str| -> f64 {
        let (_, rest) = drawing.split_once(&format!("{name}=\"")).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let (width, height) = (size("width"), size("height"));
    assert!(
        width < 2.0 * height && height < 2.0 * width,
        "{width} x {height}"
    );
    assert!(width * height < 3e6, "{width} x {height}");
}

#[test]
fn leaf_objects_list_their_pus() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "sys/devices/system/cpu/online", "0-1\n");
    for pu in 0..2 {
        let cpu = format!("sys/devices/system/cpu/cpu{pu}");
        write(
            root.path(),
            &format!("{cpu}/topology/thread_siblings_list"),
            "0-1\n",
        );
        let cache = format!("{cpu}/cache/index0");
        write(root.path(), &format!("{cache}/level"), "1\n");
        write(root.path(), &format!("{cache}/type"), "Data\n");
        write(
            root.path(),
            &format!("{cache}/shared_cpu_list"),
            &format!("{pu}\n"),
        );
    }
    let text = text(&["--root", root.path().to_str().unwrap()]);
    assert!(
        text.contains("L1d: PU 0\n") && text.contains("L1d: PU 1\n"),
        "{text}"
    );
}

#[test]
fn limits_by_memory_tasks_and_cpu_weight_are_listed() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "sys/devices/system/cpu/online", "0-63\n");
    write(
        root.path(),
        "proc/self/mountinfo",
        "31 23 0:26 / /cg rw - cgroup2 cgroup rw\n",
    );
    write(root.path(), "proc/self/cgroup", "0::/a/b\n");
    write(root.path(), "cg/a/b/cpu.weight", "20\n");
    write(root.path(), "cg/a/memory.max", "8589934592\n");
    let folder = root.path().to_str().unwrap().to_owned();
    let root_of = ["--root", &folder];
    let output = text(&root_of);
    assert!(
        output.contains("note: /cg/a/b/cpu.weight is 20 (usually 100)"),
        "{output}"
    );
    let fits = text(&[&root_of[..], &["--worker-memory", "512MiB"]].concat());
    let bound = "usable: 16 workers, bound by memory.max of the parent cgroup";
    assert!(fits.contains(bound), "{fits}");
    write(root.path(), "cg/a/b/pids.max", "20\n");
    write(root.path(), "cg/a/b/pids.current", "9\n");
    let output = text(&root_of);
    assert!(
        output.contains("usable: 11 workers, bound by pids.max of this cgroup (9/20)"),
        "{output}"
    );
    write(
        root.path(),
        "proc/self/limits",
        "Max processes  7  7  processes\n",
    );
    write(
        root.path(),
        "proc/self/status",
        "CapEff:\t0000000000000000\n",
    );
    let output = text(&root_of);
    assert!(
        output.contains("usable: 7 workers, bound by the user's limit on processes"),
        "{output}"
    );
    write(
        root.path(),
        "proc/self/status",
        "CapEff:\t000001ffffffffff\n",
    );
    assert!(
        text(&root_of).contains("usable: 11 workers"),
        "the limit does not apply to root"
    );
    write(root.path(), "cg/a/cpu.max", "300000 100000\n");
    assert!(!text(&root_of).contains("note:"), "a quota is set");
}

#[test]
fn bad_input_has_a_message_and_exit_code() {
    let root = tempfile::tempdir().unwrap();
    let empty = root.path().to_str().unwrap();
    let typo = tempfile::tempdir().unwrap();
    write(typo.path(), "sys/devices/system/cpu/online", "0-3;5\n");
    let typo = typo.path().to_str().unwrap();
    let cases: [(&[&str], i32, &str); 10] = [
        (&["--synthetic", "core:zero"], 2, "core:zero"),
        (&["--synthetic", ""], 2, "empty"),
        (
            &["--synthetic", "core:2", "--place", "everywhere"],
            2,
            "give one of",
        ),
        (&["--synthetic", "core:2", "--place", "0,9"], 2, "{9}"),
        (&["--synthetic", "core:2", "--workers", "0"], 2, "--workers"),
        (&["--synthetic", "core:2", "--root", empty], 2, "--root"),
        (&["--no-such-flag"], 2, "--no-such-flag"),
        (&["--root", empty], 65, "describes no machine"),
        (&["--root", "no/such/folder"], 1, "no/such/folder"),
        (&["--root", typo], 65, "cpu/online"),
    ];
    for (args, code, reason) in cases {
        let output = creel(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains(reason), "{args:?}: {error}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn drawings_replace_files_and_write_through_devices() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let draw = |name: &str| {
        let file = path(name);
        text(&["--synthetic", "core:2", "--svg", file.to_str().unwrap()]);
    };
    fs::write(path("target.svg"), "old").unwrap();
    std::os::unix::fs::symlink(path("target.svg"), path("link.svg")).unwrap();
    draw("link.svg");
    assert!(path("link.svg").symlink_metadata().unwrap().is_symlink());
    let drawn = fs::read_to_string(path("target.svg")).unwrap();
    assert!(drawn.starts_with("<svg"), "{drawn}");
    let made = Command::new("mkfifo").arg(path("fifo")).status().unwrap();
    assert!(made.success());
    // We open the FIFO for reading and writing, so that no end waits for the other.
    let mut both = fs::File::options();
    let mut fifo = both.read(true).write(true).open(path("fifo")).unwrap();
    draw("fifo");
    let mut begin = [0; 4];
    std::io::Read::read_exact(&mut fifo, &mut begin).unwrap();
    assert_eq!(&begin, b"<svg");
    draw("link.svg");
    assert!(!path("link.svg.partial").exists());
}

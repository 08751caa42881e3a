//! Runs `creel measure` and checks its output.

mod program;

use program::{CREEL, creel};
use serde_json::Value;
use std::{
    fs,
    io::Read,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// Returns the number of a key in the JSON of a run.
fn figure(json: &str, key: &str) -> f64 {
    let (_, rest) = json.split_once(&format!("\"{key}\": ")).unwrap();
    let end = rest.find([',', '\n', '}']).unwrap();
    rest[..end].parse().unwrap()
}

#[test]
fn peak_memory_excludes_the_tool() {
    let measured = |mib: &str| {
        let script = format!("head -c {mib}M /dev/zero | tail -c {mib}M >/dev/null");
        let words = [
            "measure", "-n", "1", "--format", "json", "sh", "-c", &script,
        ];
        let (code, json, err) = creel(&words);
        assert_eq!(code, Some(0), "{err}");
        figure(&json, "peak_rss_bytes")
    };
    // `tail` must keep all requested bytes in memory.
    assert!(measured("64") > 64e6);
    let output = json(&["-n", "3", "true"]);
    for run in output["runs"].as_array().unwrap() {
        let small = run["peak_rss_bytes"].as_f64().unwrap();
        assert!(small < 2.0 * 1024.0 * 1024.0, "true takes {small} bytes");
    }
}

#[test]
fn orphaned_children_are_counted() {
    let busy = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done) & exit 0";
    let (code, json, err) = creel(&["measure", "-n", "1", "--format", "json", "sh", "-c", busy]);
    assert_eq!(code, Some(0), "{err}");
    let (user, wall) = (figure(&json, "user_s"), figure(&json, "wall_s"));
    assert!(user > 2.0 * wall, "user {user} s, wall {wall} s");
}

#[test]
fn runs_survive_a_round_trip_through_csv() {
    let folder = TempDir::new().unwrap();
    let csv = folder.path().join("runs.csv");
    let csv = csv.to_str().unwrap();
    let words = [
        "measure", "-n", "2", "--csv", csv, "--matrix", "n=1,2,3", "--", "echo", "{n}",
    ];
    let (code, first, err) = creel(&words);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 7);
    let (code, again, _) = creel(&["measure", "--from", csv]);
    assert_eq!((code, again), (Some(0), first));
    fs::write(csv, "not,a,measurement\n1,2,3\n").unwrap();
    let (code, _, err) = creel(&["measure", "--from", csv]);
    assert_eq!(code, Some(65));
    assert!(err.contains("is not a measurement"), "{err}");
}

#[test]
fn a_dash_writes_only_the_data_to_stdout() {
    let folder = TempDir::new().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(CREEL);
        command.args(["measure", "-q", "-n", "2"]).args(words);
        let out = command.arg("true").current_dir(&folder).output().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{words:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let rows = run(&["--csv", "-"]);
    assert!(
        rows.starts_with("command,run,") && rows.lines().count() == 3,
        "{rows}"
    );
    let drawn = run(&["--plot", "runs", "--svg", "-"]);
    assert!(
        drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"),
        "{drawn}"
    );
}

#[test]
fn failures_of_measure_have_an_exit_code_and_a_message() {
    let fails = |words: &[&str], code: i32, text: &str| {
        let (ended, _, said) = creel(words);
        assert_eq!(ended, Some(code), "{words:?}: {said}");
        assert!(said.contains(text), "{words:?}: {said}");
    };
    fails(&["measure", "no-such-program"], 127, "no-such-program");
    fails(&["measure", "sleep 0.1", "sleep 0.2"], 2, "--vs");
    fails(&["measure", "false"], 1, "exit code 1");
    fails(&["measure", "--matrix", "x", "true"], 2, "NAME=VALUE");
    fails(&["measure", "--matrix", "x=1", "true"], 2, "{x}");
    fails(
        &["measure", "--metric", "x=(", "true"],
        2,
        "not a regular expression",
    );
    fails(&["measure", "-n", "0", "true"], 2, "10000");
    fails(&["measure", "--metric", "x=no group", "true"], 2, "group");
    fails(&["measure", "--metric", "x=(1)", "true"], 1, "matches");
    fails(&["measure", "--scan", "x=3..1", "true"], 2, "empty range");
    fails(&["measure", "--prepare", "exit 3", "true"], 1, "exit 3");
    fails(
        &["measure", "--timeout", "50ms", "sleep", "9"],
        1,
        "--timeout",
    );
}

/// Returns the JSON of a measurement that must succeed.
fn json(words: &[&str]) -> Value {
    let all = [&["measure", "--format", "json"], words].concat();
    let (code, json, err) = creel(&all);
    assert_eq!(code, Some(0), "{words:?}: {err}");
    serde_json::from_str(&json).unwrap()
}

#[test]
fn memory_that_processes_share_counts_once() {
    let script = "$x = 'a' x 64e6; for (1..4) { fork or do { select undef, undef, undef, 0.3; \
                  exit } } wait for 1..4";
    if Command::new("perl").arg("-v").output().is_err() {
        eprintln!("skipped: perl is not installed");
        return;
    }
    let output = json(&["-n1", "perl", "-e", script]);
    let peak = output["runs"][0]["peak_rss_bytes"].as_f64().unwrap();
    // Perl may hold the memory twice. We sample the processes one after another, so a process that
    // forks between two samples counts slightly too much. All five together would be at least 320
    // MB.
    assert!((64e6..250e6).contains(&peak), "{peak} bytes");
}

#[test]
fn measurements_before_a_failure_are_kept_and_resumed() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (csv, count) = (path("runs.csv"), path("count"));
    // The third run fails.
    let script = format!("echo x >> {count}; test $(wc -l < {count}) -ne 3");
    let words = [
        "measure", "-n", "4", "--csv", &csv, "--resume", "--", "sh", "-c", &script,
    ];
    let (code, text, err) = creel(&words);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("(2 runs)") && err.contains("exit code 1"),
        "{text}{err}"
    );
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 3);
    let (code, text, err) = creel(&words);
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("(4 runs)"), "{text}");
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 5);
    assert_eq!(
        fs::read_to_string(&count).unwrap().lines().count(),
        5,
        "two more runs"
    );
}

#[test]
fn interrupted_measurements_are_kept() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let folder = TempDir::new().unwrap();
        let csv = folder.path().join("runs.csv");
        let mut measure = Command::new(CREEL)
            .args(["measure", "-n", "1000", "--csv", csv.to_str().unwrap()])
            .args(["sleep", "0.05"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while fs::read_to_string(&csv).unwrap_or_default().lines().count() < 4 {
            std::thread::yield_now();
        }
        let mut kill = Command::new("kill");
        kill.args([signal, &measure.id().to_string()]);
        assert!(kill.status().unwrap().success());
        let mut text = String::new();
        measure
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(measure.wait().unwrap().code(), Some(code), "{signal}");
        assert!(
            text.contains("sleep 0.05") && text.contains("wall"),
            "{text}"
        );
    }
}

#[test]
fn matrix_pairs_are_compared_at_the_same_setting() {
    let words = [
        "-n2",
        "--matrix",
        "t=0.05,0.01",
        "--vs",
        "sleep {t}",
        "--",
        "sleep",
        "{t}",
    ];
    // On a busy machine, one run may take twice as long as another, but not in every attempt.
    let is_same = |_| {
        let output = json(&words);
        assert_eq!(output["commands"][3]["base"], "sleep 0.01");
        let ratio = &output["commands"][3]["ratio"]["wall_s"]["median"];
        (0.5..2.0).contains(&ratio.as_f64().unwrap())
    };
    assert!(
        (0..20).any(is_same),
        "each command is compared with its base at the same setting"
    );
    let (_, text, _) = creel(&[&["measure"][..], &words].concat());
    assert!(
        text.contains("sleep 0.01 t=0.01 ÷ sleep 0.01 t=0.01"),
        "{text}"
    );
}

#[test]
fn short_runs_have_cpu_time_and_exit_code() {
    let output = json(&["-r3", "-w1", "-i", "sh", "-c", "exit 7"]);
    let cpu = &output["summary"]["cpu_s"]["geometric_mean"];
    assert!(cpu.as_f64().unwrap() > 0.0, "{cpu}");
    assert_ne!(
        output["summary"]["user_s"]["geometric_mean"], 0.0,
        "a run has a CPU time above zero"
    );
    assert_eq!(output["runs"][2]["exit_code"], 7);
    assert_eq!(output["budget"]["limits"][0]["kind"], "cores");
    assert!(output["machine"]["allowed"].is_string());
    let reason = &output["energy_missing"];
    assert!(
        !output["runs"][0]["energy_j"].is_null() || reason.as_str().unwrap().contains("powercap")
    );
}

#[test]
fn tables_fit_eighty_columns() {
    let words = ["measure", "-n3", "--metric", "written=([0-9]+)", "sh", "-c"];
    let script = "sleep 0.11; head -c 120000000 /dev/zero | tail -c 110000000 | wc -c; \
                  i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let (code, text, err) = creel(&[&words[..], &[script]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("written"), "{text}");
    // We check the rows only, because a terminal wraps the sentences about outliers below them.
    for line in text
        .lines()
        .skip(1)
        .take_while(|line| !line.contains("outlier"))
    {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // Long names of many commands keep their ends, because the ends differ.
    let words = ["measure", "-n2", "--matrix", "setting=1,2", "--vs"];
    let commands = [
        "true a long name {setting}",
        "--",
        "true",
        "another long name",
        "{setting}",
    ];
    let (code, text, err) = creel(&[&words[..], &commands].concat());
    assert_eq!(code, Some(0), "{err}");
    let rows: Vec<&str> = text.lines().filter(|line| line.contains('…')).collect();
    assert_eq!(rows.len(), 6, "{text}");
    assert!(rows[3].contains("setting=2"), "{text}");
    // A setting that the name contains is shown once.
    let (_, text, _) = creel(
        &[
            &words[..1],
            &["-q", "--name", "one"],
            &words[1..],
            &commands,
        ]
        .concat(),
    );
    assert!(!text.contains("setting=1 setting=1"), "{text}");
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{text}");
    // Names with equal ends have numbers.
    let [one, other] = ["one", "two"].map(|word| format!("true begins alike, {word}, ends alike"));
    let words = ["measure", "-q", "-n2", "--vs", &one, "--vs", "true", "--"];
    let other: Vec<&str> = other.split(' ').collect();
    let (code, text, err) = creel(&[&words[..], &other].concat());
    assert_eq!(code, Some(0), "{err}");
    let rows: Vec<&str> = text.lines().filter(|line| line.contains('÷')).collect();
    assert!(
        rows.iter().any(|row| row.contains("1: true"))
            && rows.iter().any(|row| row.contains("2: true")),
        "{text}"
    );
}

#[test]
fn lingering_daemons_are_named_and_ended() {
    let words = [
        "measure",
        "-n1",
        "--linger",
        "1200ms",
        "sh",
        "-c",
        "sleep 70 & exit 0",
    ];
    let (code, _, err) = creel(&words);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("sleep") && err.contains("--linger"), "{err}");
    assert!(
        err.contains("a process that outlived the command was ended"),
        "{err}"
    );
}

#[test]
fn output_is_discarded_by_default() {
    let run = |flags: &[&str]| {
        let words = ["measure", "-n1"].into_iter().chain(flags.iter().copied());
        let words: Vec<&str> = words
            .chain(["sh", "-c", "echo out; echo err >&2"])
            .collect();
        let (code, out, err) = creel(&words);
        assert_eq!(code, Some(0), "{err}");
        (out.starts_with("out\n"), err.contains("err"))
    };
    assert_eq!(run(&[]), (false, false));
    assert_eq!(run(&["--show-stdout"]), (true, false));
    assert_eq!(run(&["--show-stderr"]), (false, true));
    assert_eq!(run(&["--show-output"]), (true, true));
    let (code, _, _) = creel(&["measure", "--show-stdout", "--format", "json", "true"]);
    assert_eq!(code, Some(2));
}

#[test]
fn labels_are_columns_and_append_extends_files() {
    let folder = TempDir::new().unwrap();
    let csv = folder.path().join("runs.csv").display().to_string();
    for version in ["version=1", "version=2"] {
        let words = ["-n2", "--csv", &csv, "--append", "--label", version, "true"];
        json(&words);
    }
    let text = fs::read_to_string(&csv).unwrap();
    assert!(text.starts_with("command,version,run,wall_s,"), "{text}");
    assert_eq!(text.lines().count(), 5);
    let output = json(&["--from", &csv]);
    assert_eq!(output["commands"][1]["labels"]["version"], "2");
    let (code, _, err) = creel(&["measure", "-n1", "--csv", &csv, "--append", "true"]);
    assert_eq!(code, Some(65), "other columns");
    assert!(err.contains("other columns"), "{err}");
}

#[test]
fn metrics_are_extracted_from_output() {
    let script = "echo 'rendered 1_000 samples'; echo 'rendered 48,000 samples' >&2";
    let output = json(&[
        "-n2",
        "--metric",
        r"samples=rendered (\S+) samples",
        "sh",
        "-c",
        script,
    ]);
    assert_eq!(
        output["runs"][1]["samples"], 48000.0,
        "the last match counts"
    );
    assert_eq!(output["summary"]["samples"]["median"], 48000.0);
}

#[test]
fn the_aa_control_gives_the_noise_floor() {
    let output = json(&["-n6", "--aa", "sleep", "0.01"]);
    let floor = output["noise_floor"].as_f64().unwrap();
    assert!(floor >= 1.0, "{floor}");
    let (_, text, _) = creel(&["measure", "-n6", "--aa", "sleep", "0.01"]);
    assert!(text.contains("differs from itself by up to"), "{text}");
}

#[test]
fn setup_prepare_and_cleanup_hooks_run_around_the_runs() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let line = |word: &str| format!("echo {word} {{n}} >> {}", log.display());
    let (setup, prepare, cleanup) = (line("setup"), line("prepare"), line("cleanup"));
    let words = [
        "-n2",
        "--setup",
        &setup,
        "--prepare",
        &prepare,
        "--cleanup",
        &cleanup,
        "--scan",
        "n=1..2",
        "echo",
        "{n}",
    ];
    json(&words);
    let expected = "setup 1\nsetup 2\nprepare 1\nprepare 2\nprepare 1\nprepare 2\ncleanup 1\n\
                    cleanup 2\n";
    assert_eq!(fs::read_to_string(log).unwrap(), expected);
}

#[test]
fn article_figures_are_parsed() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("raw.txt");
    let text = "# seconds, rates, bytes\nold:\n00:00:40.0\n00:00:40.0\n00:00:40.0\n10x\n10x\n10x\n\
                4096\n4096\n4096\n4096\nnew:\n00:00:19.999999999\n00:00:20.0\n20:1\n20x\n20x\n20x\n\
                1024\n1024\n1024\n";
    fs::write(&file, text.replace("20:1\n", "00:00:20.1\n")).unwrap();
    let file = file.to_str().unwrap();
    let output = json(&["--from", file]);
    let mean = |i: usize| {
        let mean = &output["commands"][i]["summary"]["wall_s"]["geometric_mean"];
        mean.as_f64().unwrap()
    };
    assert!((mean(0) - 40.0).abs() < 1e-6 && (mean(1) - 20.0).abs() < 1e-6);
    let (_, text, _) = creel(&["measure", "--markdown", "--from", file]);
    assert!(
        text.contains("| new ÷ old |") && text.contains("0.500"),
        "{text}"
    );
}

#[test]
fn each_kind_of_plot_is_drawn_as_text_and_svg() {
    let folder = TempDir::new().unwrap();
    let svg = folder.path().join("runs.svg");
    for plot in ["histogram", "runs", "scan", "scatter"] {
        let words = [
            "measure", "-n3", "--scan", "t=1..2", "--plot", plot, "--", "echo", "{t}",
        ];
        let (code, text, err) = creel(&words);
        assert_eq!(code, Some(0), "{err}");
        assert!(text.contains("wall, ms"), "{text}");
    }
    let drawn = [
        "measure",
        "-n3",
        "--plot",
        "runs",
        "--svg",
        svg.to_str().unwrap(),
        "true",
    ];
    assert_eq!(creel(&drawn).0, Some(0));
    assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
}

#[test]
fn scans_are_plotted_as_one_curve() {
    let words = ["measure", "-n3", "--scan", "t=1..3", "--plot", "scan"];
    let (code, text, err) = creel(&[&words[..], &["--", "echo", "{t}"]].concat());
    assert_eq!(code, Some(0), "{err}");
    let legend = text
        .lines()
        .filter(|line| line.trim_start().starts_with("* echo"));
    assert_eq!(legend.count(), 1, "{text}");
    assert!(!text.contains("o echo 2"), "a curve of one point: {text}");
    let about = |line: &&str| line.contains("echo 3 t=3") && line.contains("echo 1 t=1");
    let compared: Vec<&str> = text.lines().filter(about).collect();
    assert_eq!(compared.len(), 2, "a ratio and a sentence: {text}");
}

#[test]
fn timeouts_apply_to_each_run() {
    let output = json(&["-n", "5", "--timeout", "3s", "sleep", "0.8"]);
    for run in output["runs"].as_array().unwrap() {
        assert!(run["wall_s"].as_f64().unwrap() >= 0.8, "{run}");
        assert_eq!(run["exit_code"], 0, "{run}");
    }
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("log");
    let script = format!(
        "(sleep 1.2; echo lived >>{}) >/dev/null 2>&1 & exit 0",
        log.display()
    );
    json(&["-n", "3", "--linger", "3s", "sh", "-c", &script]);
    assert_eq!(fs::read_to_string(log).unwrap().lines().count(), 3);
}

#[test]
fn commands_inherit_no_descriptors() {
    let (_, output, _) = creel(&[
        "measure",
        "-q",
        "-n",
        "1",
        "--show-stdout",
        "ls",
        "-l",
        "/proc/self/fd",
    ]);
    assert!(
        output.contains("/dev/null") && !output.contains("perf_event"),
        "{output}"
    );
}

#[test]
fn resumed_runs_are_not_counted_twice() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("runs.csv");
    let words = [
        "measure",
        "-n",
        "2",
        "--csv",
        file.to_str().unwrap(),
        "--vs",
        "true",
    ];
    assert_eq!(creel(&[&words[..], &["true"]].concat()).0, Some(0));
    let (code, _, said) = creel(&[&words[..], &["--resume", "true"]].concat());
    assert!(code == Some(2) && said.contains("--name"), "{said}");
}

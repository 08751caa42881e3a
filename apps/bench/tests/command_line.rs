//! Tests of the program. They check its output for other programs, and its errors.

use std::process::{Command, Output};

fn bench(line: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_creel-bench"));
    command.args(line).output().expect("the program starts")
}

#[test]
fn json_has_the_documented_fields() {
    // The command line accepts the former name of a workload, and reports use the former name,
    // because their format is stable.
    let output = bench(&[
        "iterate", "--case", "noop", "--quick", "--runs", "2", "--format", "json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], 1);
    assert!(document["budget"]["bound_by"].is_string());
    assert!(document["machine"]["allowed"].is_string());
    assert_eq!(
        (&document["load"], &document["workload"]),
        (&"idle".into(), &"iterate".into())
    );
    let rows = document["rows"].as_array().unwrap();
    for subject in [
        "creel [sticky, adaptive]",
        "one thread",
        "threads",
        "rayon scope",
    ] {
        let row = rows.iter().find(|row| row["subject"] == subject).unwrap();
        let expected = serde_json::json!(["noop", "time", "ns a call", 2]);
        let fields = ["case", "metric", "unit", "runs"].map(|field| row[field].clone());
        assert_eq!(serde_json::json!(fields), expected);
        let [min, median, max] = ["min", "median", "max"].map(|field| row[field].as_f64().unwrap());
        assert!(0.0 < min && min <= median && median <= max, "{row}");
    }
}

#[test]
fn csv_has_one_header() {
    let output = bench(&[
        "--case", "noop", "--quick", "--runs", "1", "--format", "csv",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("workload,subject,case,metric,unit,min,median,max,runs\n"),
        "{text}"
    );
    assert_eq!(text.matches("workload,").count(), 1);
}

#[test]
fn unknown_names_are_usage_errors() {
    for line in [
        ["knit", "--quick"],
        ["--case", "knit"],
        ["--runs", "0"],
        ["--jobs", "0"],
    ] {
        let output = bench(&line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            message.contains(line[if line[0] == "knit" { 0 } else { 1 }]),
            "{message}"
        );
        assert!(output.stdout.is_empty());
    }
}

/// Checks the README, docs/benchmarks.md and the plot. Without a record, the program says that
/// there is nothing to check.
#[test]
fn the_readme_matches_the_newest_record() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let output = bench(&["--check-readme", readme]);
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// Creates a folder for a test. The test removes the folder if it passes.
fn folder(name: &str) -> std::path::PathBuf {
    let name = format!("creel-bench-{name}-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn reports_are_written_in_every_format_and_compared() {
    let folder = folder("report");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (json, html, md) = (file("a.json"), file("a.html"), file("a.md"));
    let run = ["loops", "--case", "noop", "--quick", "--runs", "2", "-q"];
    let reports = ["--report", &json, "--report", &html, "--report", &md];
    let output = bench(&[&run[..], &reports].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = |file: &str| std::fs::read_to_string(file).unwrap();
    assert!(text(&html).starts_with("<!doctype html>") && text(&html).contains("creel ["));
    assert!(text(&md).contains("## loops"));
    // We compare the report with itself. There must be no difference, no matter how noisy the run
    // was.
    let output = bench(&[
        "--from",
        &json,
        "--compare",
        &json,
        "--anyway",
        "--format",
        "csv",
    ]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        message.contains("ratios compared, no difference"),
        "{message}"
    );
    // --from shows a whole report, so it accepts no cases.
    let output = bench(&["--from", &json, "--case", "hot"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // The program refuses to compare reports of different processors.
    let other = text(&json).replace("\"cpu\":\"", "\"cpu\":\"another ");
    std::fs::write(file("b.json"), other).unwrap();
    let output = bench(&["--from", &json, "--compare", &file("b.json")]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert!(message.contains("processor: another"), "{message}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_sweep_prints_the_cost_per_worker() {
    let line = [
        "loops",
        "article",
        "--sweep",
        "workers=1,2",
        "--quick",
        "--runs",
        "1",
        "--subject",
        "creel",
    ];
    let output = bench(&line);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("creel [unpinned], workers 2"), "{text}");
    assert!(text.contains("per worker"), "{text}");
}

#[test]
fn a_record_contains_reports_and_conditions() {
    let folder = folder("record");
    let path = folder.to_str().unwrap();
    let output = bench(&[
        "loops", "noop", "--quick", "--runs", "1", "-q", "--record", path,
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let record = std::fs::read_dir(&folder)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    for name in ["README.md", "report.html", "report.md", "report.json"] {
        assert!(record.join(name).is_file(), "{name}");
    }
    let about = std::fs::read_to_string(record.join("README.md")).unwrap();
    for part in ["| kernel |", "| compiler | rustc ", "commit "] {
        assert!(about.contains(part), "{about}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn man_page_and_completions_are_printed() {
    assert!(String::from_utf8_lossy(&bench(&["man"]).stdout).contains(".TH creel-bench"));
    assert!(String::from_utf8_lossy(&bench(&["completions", "bash"]).stdout).contains("--load"));
}

/// Needs a Python with uxsim and eclipse-sumo, whose path is in `CREEL_BENCH_PYTHON`.
#[test]
fn traffic_results_match_other_simulators() {
    let Some(python) = std::env::var_os("CREEL_BENCH_PYTHON") else {
        eprintln!("skipped: CREEL_BENCH_PYTHON is not set to a Python with uxsim and eclipse-sumo");
        return;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_creel-bench"));
    command.args(["traffic", "--case", "peers", "--quick", "--runs", "1"]);
    command.args(["--format", "json", "--python"]).arg(python);
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let value = |subject: &str, metric: &str| {
        let row = rows
            .iter()
            .find(|row| row["subject"] == subject && row["metric"] == metric);
        row.and_then(|row| row["median"].as_f64()).unwrap()
    };
    for metric in ["trips done", "mean speed"] {
        let ours = value("creel", metric);
        for peer in ["SUMO meso", "UXsim C++, 1 thread"] {
            let ratio = ours / value(peer, metric);
            assert!((0.9..1.1).contains(&ratio), "{metric} / {peer}: {ratio}");
        }
    }
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_keeps_what_it_has_measured() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let file = std::env::temp_dir().join(format!("creel-bench-cut-{}.json", std::process::id()));
    // Returns the heading of the first case, if the interrupt came before the end of the second
    // one.
    let cut = |_| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_creel-bench"))
            .args(["loops", "--case", "hot", "--case", "noop", "--quick"])
            .args(["--runs", "20", "--report"])
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        // The program prints the table of a case as soon as it is measured. The other case is then
        // not measured yet.
        let printed = BufReader::new(child.stdout.take().unwrap());
        let mut headings = printed
            .lines()
            .map(|line| line.unwrap())
            .filter(|line| line.starts_with("loops ") && line.contains("noise"));
        let first = headings.next().expect("the first case is printed");
        let pid = child.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        let is_cut = headings.next().is_none();
        let code = child.wait().unwrap().code();
        assert!(code == Some(130) || !is_cut, "{code:?}");
        is_cut.then_some(first)
    };
    // If the OS stops this test for a while, the program may complete the second case before the
    // interrupt. In this case, we try again.
    let first = (0..10).find_map(cut);
    let first = first.expect("the program completed both cases in all attempts");
    let read = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&file).expect("the report exists");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["rows"].as_array().unwrap().clone()
    };
    let kept = read();
    let case = kept[0]["case"].as_str().unwrap().to_owned();
    assert!(first.starts_with(&format!("loops {case}:")), "{first}");
    assert!(kept.iter().all(|row| row["case"] == *case), "{kept:?}");
    // --resume measures the rest and keeps the cases that were measured before.
    let path = file.to_str().unwrap();
    let mut line = vec!["hot", "noop", "--only", "loops", "--quick", "--runs", "2"];
    line.extend(["--resume", path, "--report", path]);
    let resumed = bench(&line);
    assert_eq!(resumed.status.code(), Some(0), "{resumed:?}");
    let all = read();
    assert_eq!(all[..kept.len()], kept);
    assert!(all.len() > kept.len() && all[kept.len()..].iter().all(|row| row["case"] != *case));
    // --resume refuses a report that was measured under other conditions.
    let other = bench(&["hot", "--only", "loops", "--jobs", "1", "--resume", path]);
    assert_eq!(other.status.code(), Some(65), "{other:?}");
    let message = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(
        message.contains("workers: ") && message.contains("length: quick"),
        "{message}"
    );
    std::fs::remove_file(&file).unwrap();
}

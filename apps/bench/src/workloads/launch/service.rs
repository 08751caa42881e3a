//! A Haskell service that signs and counts in Redis, under a load that does not wait for answers: as
//! GHC sizes it, as on a host with more CPUs, and under `creel run`.
//!
//! For GHC with its network and cryptonite libraries, Redis, and `creel-serve` (which offers the
//! load) beside this program. Only in full runs: a sample takes nine seconds.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::foreign::Foreign;
use crate::harness::{Case, Metric, Subject};
use crate::host::is_installed;
use crate::setting::Setting;

static SERVICE: Foreign = Foreign {
    file: "Service.hs",
    source: include_str!("Service.hs"),
    build: super::GHC,
    run: &["PROGRAM"],
};

/// Requests a second and worker, of the two steps.
const RATES: [usize; 2] = [1_500, 3_000];
const STEP_S: usize = 4;
const CONNECTIONS: usize = 64;
/// Longer than a program takes to begin or to end.
const PATIENCE: Duration = Duration::from_secs(10);

const METRICS: [Metric; 6] = [
    Metric {
        name: "p50",
        unit: "ms",
    },
    Metric {
        name: "p99",
        unit: "ms",
    },
    Metric {
        name: "answered",
        unit: "requests/s",
    },
    Metric {
        name: "peak memory",
        unit: "MB",
    },
    Metric {
        name: "collecting",
        unit: "ms",
    },
    Metric {
        name: "CPU",
        unit: "ms",
    },
];

/// The case, if all that it needs is here.
pub(super) fn case(setting: &Setting, tool: &Path) -> Option<Case> {
    let load = super::beside("creel-serve")?;
    if setting.quick || !SERVICE.has_compiler() || !is_installed("redis-server") {
        return None;
    }
    if SERVICE.built().is_none() {
        creel_console::output::note(
            "launch: without the Haskell service, ghc lacks a library: \
             apt-get install libghc-network-dev libghc-cryptonite-dev\n",
        );
        return None;
    }
    let rates = RATES.map(|rate| rate * setting.workers);
    let many = setting.workers * super::TOO_MANY;
    // The options of `creel run`, if it is started by that, and those of GHC's runtime.
    let ways: [(String, Option<&[&str]>, String); 7] = [
        ("creel run".into(), Some(&[]), String::new()),
        (
            "creel run, a core each".into(),
            Some(&["--placement", "cores"]),
            String::new(),
        ),
        ("creel run --gc".into(), Some(&["--gc"]), String::new()),
        ("as it is".into(), None, String::new()),
        (
            format!("as it is, {many} threads"),
            None,
            format!("-N{many}"),
        ),
        (
            format!("{many} threads, -qg"),
            None,
            format!("-N{many} -qg"),
        ),
        (
            format!("{many} threads, -qa"),
            None,
            format!("-N{many} -qa"),
        ),
    ];
    let subjects = ways.map(|(name, run, options)| {
        let mut before = Vec::new();
        if let Some(run) = run {
            before.extend([tool.to_string_lossy().into_owned(), "run".into()]);
            before.extend(
                ["-q"]
                    .iter()
                    .chain(run)
                    .chain(&["--"])
                    .map(ToString::to_string),
            );
        }
        let load = load.clone();
        Subject::with_metrics(name, move |_| sample(&before, &options, &load, rates))
    });
    Some(Case {
        name: "Haskell service".into(),
        metrics: METRICS.into(),
        compared: true,
        plan: setting.plan(0, 0),
        rounds: setting.rounds(5),
        subjects: subjects.into(),
    })
}

/// A program that is ended with what is measured.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves once, under `before` if that is something, with these options of GHC's runtime.
fn sample(
    before: &[String],
    options: &str,
    load: &PathBuf,
    rates: [usize; 2],
) -> anyhow::Result<Vec<f64>> {
    let folder = SERVICE.built().context("the service was built before")?;
    let (port, redis_port) = (free_port()?, free_port()?);
    let redis = Command::new("redis-server")
        .args(["--port", &redis_port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .stdout(Stdio::null())
        .spawn();
    let _redis = Running(redis.context("redis-server")?);
    listens(redis_port)?;
    let (told, program) = (folder.join("runtime"), folder.join("program"));
    let words: Vec<String> = before
        .iter()
        .cloned()
        .chain([
            program.to_string_lossy().into_owned(),
            port.to_string(),
            redis_port.to_string(),
            "+RTS".into(),
            format!("-t{}", told.display()),
            "--machine-readable".into(),
            "-RTS".into(),
        ])
        .collect();
    let service = Command::new(&words[0])
        .args(&words[1..])
        .env("GHCRTS", options)
        .stdout(Stdio::piped())
        .spawn();
    let mut service = Running(service.with_context(|| words.join(" "))?);
    let output = service.0.stdout.take().context("its output is piped")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line == "listening\n", "{}: {line}", words.join(" "));
    let steps = offer(load, port, rates)?;
    let id = Pid::from_raw(service.0.id().cast_signed()).context("a process has a number")?;
    kill_process(id, Signal::INT)?;
    ended(&mut service.0)?;
    let runtime = std::fs::read_to_string(&told).context("what GHC's runtime tells")?;
    let of_runtime = |name: &str| {
        figure(&runtime, name).with_context(|| format!("GHC's runtime tells no {name}: {runtime}"))
    };
    let step = &steps[1];
    let ms = |name: &str| {
        step["corrected"][name]
            .as_f64()
            .map_or(f64::NAN, |us| us / 1e3)
    };
    Ok(vec![
        ms("p50_us"),
        ms("p99_us"),
        step["goodput_per_second"].as_f64().unwrap_or(f64::NAN),
        of_runtime("max_mem_in_use_bytes")? / 1e6,
        of_runtime("GC_wall_seconds")? * 1e3,
        of_runtime("total_cpu_seconds")? * 1e3,
    ])
}

/// Offers the load; gives what became of it, step by step.
fn offer(load: &PathBuf, port: u16, rates: [usize; 2]) -> anyhow::Result<Vec<Value>> {
    let output = Command::new(load)
        .args(["load", &format!("http://127.0.0.1:{port}")])
        .args(["--connections", &CONNECTIONS.to_string()])
        .args(["--rate", &format!("{},{}", rates[0], rates[1])])
        .args(["--step", &format!("{STEP_S}s"), "--format", "json", "-q"])
        .output()
        .context("creel-serve load")?;
    let document: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let steps = document["steps"].as_array().cloned().unwrap_or_default();
    ensure!(
        steps.len() == rates.len(),
        "creel-serve load: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(steps)
}

/// A field of what GHC's runtime writes: pairs of names and figures, all in quotes.
fn figure(runtime: &str, name: &str) -> Option<f64> {
    let (_, rest) = runtime.split_once(&format!("(\"{name}\", \""))?;
    rest.split('"').next()?.parse().ok()
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

fn listens(port: u16) -> anyhow::Result<()> {
    let begin = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        ensure!(begin.elapsed() < PATIENCE, "Redis does not listen");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn ended(child: &mut Child) -> anyhow::Result<()> {
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        ensure!(begin.elapsed() < PATIENCE, "the service does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn a_figure_is_found_in_what_ghc_tells() {
        let told = " [(\"bytes allocated\", \"12\")\n ,(\"GC_wall_seconds\", \"0.25\")\n ]\n";
        assert_eq!(figure(told, "GC_wall_seconds"), Some(0.25));
        assert_eq!(figure(told, "GC_cpu_seconds"), None);
    }
}

//! A Haskell service that signs and counts in Redis, under a load that does not wait for answers.
//!
//! It runs as GHC sizes it, as on a host with more CPUs, and under `creel run`. It needs GHC with
//! its network and cryptonite libraries, Redis, and `creel-serve` next to this program, which sends
//! the requests. A run with short samples leaves it out, because one of its samples takes four
//! seconds.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use creel_console::quota::Quota;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::foreign::Foreign;
use crate::harness::{Case, Metric, Subject};
use crate::host::is_installed;
use crate::quota;
use crate::setting::Setting;

static SERVICE: Foreign = Foreign {
    file: "Service.hs",
    source: include_str!("Service.hs"),
    build: super::GHC,
    run: &["PROGRAM"],
};

/// The requests per second and worker in each step.
const RATES: [usize; 4] = [750, 1_500, 2_250, 3_000];
const STEP_MS: usize = 800;
const CONNECTIONS: usize = 64;
/// The longest time that a program may take to start or to end. After it, the sample fails.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The metrics:
///
/// - The latencies and the answers of the last step.
/// - The p99 latency of the previous steps.
/// - The memory, the time of the garbage collector and the CPU time of the whole run.
const METRICS: [Metric; 9] = [
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
    Metric {
        name: "p99, step 1",
        unit: "ms",
    },
    Metric {
        name: "step 2",
        unit: "ms",
    },
    Metric {
        name: "step 3",
        unit: "ms",
    },
];

/// Returns the cases, if all programs that they need are installed.
///
/// One case has the whole machine, and the other a quota of half of it. The quota imitates cores
/// whose second hardware thread adds little, on a machine without such threads.
pub(super) fn cases(setting: &Setting, tool: &Path) -> Vec<Case> {
    let quota = quota::can_be_set().then(|| setting.workers as f64 / 2.0);
    let places = [("Haskell service", None), ("Haskell service quota", quota)];
    let places = places
        .iter()
        .filter(|(name, cores)| cores.is_some() || !name.ends_with("quota"));
    places
        .filter_map(|(name, cores)| case(setting, tool, name, *cores))
        .collect()
}

fn case(setting: &Setting, tool: &Path, name: &str, cores: Option<f64>) -> Option<Case> {
    let load = super::find_program("creel-serve")?;
    if setting.quick || !SERVICE.has_compiler() || !is_installed("redis-server") {
        return None;
    }
    if SERVICE.built().is_none() {
        creel_console::output::note(
            "creel-bench: skipped the Haskell service, because GHC lacks a library: \
             apt-get install libghc-network-dev libghc-cryptonite-dev\n",
        );
        return None;
    }
    let share = cores.map_or(1.0, |cores| cores / setting.workers as f64);
    let rates = RATES.map(|rate| (rate as f64 * setting.workers as f64 * share) as usize);
    let many = setting.workers * super::TOO_MANY;
    // Each way has a name, the options of `creel run` (or `None` if the service runs without it),
    // and the options of GHC's runtime.
    let ways: [(String, Option<&[&str]>, String); 8] = [
        ("creel run, count alone".into(), Some(&[]), String::new()),
        (
            "creel run, count and mask".into(),
            Some(&["--placement", "cores"]),
            String::new(),
        ),
        (
            format!("mask alone, {many} threads"),
            // The number of threads is set in a variable, and `creel run` does not change a
            // variable that is already set. Therefore, its only effect here is the mask.
            Some(&["--placement", "cores"]),
            format!("-N{many}"),
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
        Subject::with_metrics(name, move |_| {
            sample(&before, &options, &load, rates, cores)
        })
    });
    let mut case = Case {
        name: name.into(),
        metrics: METRICS.into(),
        compared: true,
        plan: setting
            .plan(0, 0)
            .with_overhead_ms((RATES.len() * STEP_MS) as u64 + 800),
        rounds: setting.rounds(3),
        subjects: subjects.into(),
    };
    if cores.is_some() {
        // Under a quota, we leave out the other ways to start the service. The case without a quota
        // already shows the effects of the garbage collector and of the mask.
        case.retain_subjects(|name| {
            name == "creel run, count alone" || name.starts_with("as it is")
        });
    }
    Some(case)
}

/// A guard that kills a child process when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the service once, and returns the values of all metrics.
///
/// `before` are the words before its command, which may be `creel run`. `options` are those of
/// GHC's runtime. With `cores`, only the service is under a quota.
fn sample(
    before: &[String],
    options: &str,
    load: &PathBuf,
    rates: [usize; RATES.len()],
    cores: Option<f64>,
) -> anyhow::Result<Vec<f64>> {
    let folder = SERVICE
        .built()
        .context("cannot find the built Haskell service")?;
    let (port, redis_port) = (free_port()?, free_port()?);
    let redis = Command::new("redis-server")
        .args(["--port", &redis_port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .stdout(Stdio::null())
        .spawn();
    let _redis = Running(
        redis.context("cannot start redis-server: install it (apt-get install redis-server)")?,
    );
    listens(redis_port)?;
    let (runtime_file, program) = (folder.join("runtime"), folder.join("program"));
    let quota = cores
        .map(|cores| Quota::new("creel-bench", cores))
        .transpose()?;
    let within = quota.iter().flat_map(|quota| {
        let members = quota.members().to_string_lossy().into_owned();
        [
            "sh".into(),
            "-c".into(),
            "echo $$ >\"$0\" && exec \"$@\"".into(),
            members,
        ]
    });
    let words: Vec<String> = within
        .chain(before.iter().cloned())
        .chain([
            program.to_string_lossy().into_owned(),
            port.to_string(),
            redis_port.to_string(),
            "+RTS".into(),
            format!("-t{}", runtime_file.display()),
            "--machine-readable".into(),
            "-RTS".into(),
        ])
        .collect();
    let service = Command::new(&words[0])
        .args(&words[1..])
        .env("GHCRTS", options)
        .stdout(Stdio::piped())
        .spawn();
    let mut service =
        Running(service.with_context(|| format!("cannot start {}", words.join(" ")))?);
    let output = service
        .0
        .stdout
        .take()
        .context("cannot read the output of the Haskell service: it is not piped")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(
        line == "listening\n",
        "{} printed `{line}` instead of `listening`",
        words.join(" ")
    );
    let steps = offer(load, port, rates)?;
    let id =
        Pid::from_raw(service.0.id().cast_signed()).context("the service has no process id")?;
    kill_process(id, Signal::INT)?;
    ended(&mut service.0)?;
    let runtime = std::fs::read_to_string(&runtime_file)
        .context("cannot read the statistics of GHC's runtime")?;
    let of_runtime = |name: &str| {
        figure(&runtime, name)
            .with_context(|| format!("the statistics of GHC's runtime have no {name}: {runtime}"))
    };
    let [first, second, third, last] = &steps[..] else {
        anyhow::bail!("expected 4 steps of load instead of {}", steps.len());
    };
    let ms = |step: &Value, name: &str| {
        step["corrected"][name]
            .as_f64()
            .map_or(f64::NAN, |us| us / 1e3)
    };
    Ok(vec![
        ms(last, "p50_us"),
        ms(last, "p99_us"),
        last["goodput_per_second"].as_f64().unwrap_or(f64::NAN),
        of_runtime("max_mem_in_use_bytes")? / 1e6,
        of_runtime("GC_wall_seconds")? * 1e3,
        of_runtime("total_cpu_seconds")? * 1e3,
        ms(first, "p99_us"),
        ms(second, "p99_us"),
        ms(third, "p99_us"),
    ])
}

/// Sends the requests, and returns the results of each step.
fn offer(load: &PathBuf, port: u16, rates: [usize; RATES.len()]) -> anyhow::Result<Vec<Value>> {
    let output = Command::new(load)
        .args(["load", &format!("http://127.0.0.1:{port}")])
        .args(["--connections", &CONNECTIONS.to_string()])
        .args(["--rate", &rates.map(|rate| rate.to_string()).join(",")])
        .args(["--step", &format!("{STEP_MS}ms"), "--format", "json", "-q"])
        .output()
        .context("cannot start creel-serve load")?;
    let document: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let steps = document["steps"].as_array().cloned().unwrap_or_default();
    ensure!(
        steps.len() == rates.len(),
        "creel-serve load failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(steps)
}

/// Parses a field of the statistics of GHC's runtime, which are pairs of names and numbers in
/// quotes.
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
        ensure!(
            begin.elapsed() < TIMEOUT,
            "Redis does not listen after {TIMEOUT:?}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn ended(child: &mut Child) -> anyhow::Result<()> {
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        ensure!(
            begin.elapsed() < TIMEOUT,
            "the service does not end after {TIMEOUT:?}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::figure;

    #[test]
    fn runtime_statistics_of_ghc_are_parsed() {
        let text = " [(\"bytes allocated\", \"12\")\n ,(\"GC_wall_seconds\", \"0.25\")\n ]\n";
        assert_eq!(figure(text, "GC_wall_seconds"), Some(0.25));
        assert_eq!(figure(text, "GC_cpu_seconds"), None);
    }
}

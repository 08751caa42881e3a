//! The same hyper service on Creel and on tokio, over loopback.
//!
//! We measure requests per second, CPU time per request, and latency. There are two subjects for
//! each runtime. One is hyper's connection alone: `creel …, bare` and `tokio …`. The other has
//! timeouts and a graceful shutdown: `creel …`, which is `creel_hyper::serve`, and `tokio …,
//! time-outs`. The subject `creel …, per core` is `creel_hyper::PerCore`, with one pool and one
//! listener per core, and connections that stay with their worker.
//!
//! The server (`server.rs`) is a separate process, so that we can measure its CPU time. The client
//! (`client.rs`) is one thread with one request in flight on each connection. It is the same for
//! all subjects, and shares the machine with them. If `wrk` is installed, some cases use it as the
//! client.

mod client;
mod server;
mod wrk;

use std::time::Duration;

use anyhow::Context;

use crate::harness::{Case, Metric, Plan, Subject};
use crate::setting::Setting;
use crate::workloads::Workload;
use client::Client;
use server::{Request, Runtime, Server};
pub use server::{SERVER, answer};

/// The workload `serve`.
pub const WORKLOAD: Workload = Workload {
    name: "serve",
    about: "an HTTP server with hyper, on Creel and on tokio",
    cases,
};

const SMALL: usize = 13;
const LARGE: usize = 2 << 20;
/// The number of idle connections, unless the limit of open files is lower.
const IDLE: usize = 10_000;

/// The time after which a server has freed the buffers of its idle connections. We wait for it
/// before we measure the memory.
const UNTIL_REST: Duration = Duration::from_secs(3);

const METRICS: [Metric; 5] = [
    Metric {
        name: "speed",
        unit: "requests/s",
    },
    Metric {
        name: "CPU",
        unit: "µs a request",
    },
    Metric {
        name: "wait p50",
        unit: "µs",
    },
    Metric {
        name: "wait p99",
        unit: "µs",
    },
    Metric {
        name: "memory",
        unit: "MB",
    },
];

const IDLE_METRICS: [Metric; 2] = [
    Metric {
        name: "memory",
        unit: "MB",
    },
    Metric {
        name: "CPU",
        unit: "ms a second",
    },
];

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    let allowed = creel_console::files::allow_many();
    let connections = [50, 500, 5_000].map(|count: usize| count.min(allowed));
    let mut cases = Vec::new();
    for (workers, on) in [(setting.workers.max(2), ""), (1, " on one worker")] {
        let small = connections.map(|count| (format!("{count}{on}"), count, SMALL));
        let large = (format!("50 of 2 MB{on}"), 50, LARGE);
        for (name, count, bytes) in small.into_iter().chain([large]) {
            cases.push(case((setting, name, workers), busy_sample, count, bytes));
        }
    }
    if wrk::is_installed() {
        for count in [50, 500].map(|count: usize| count.min(allowed)) {
            let plan = (setting, format!("{count} by wrk"), setting.workers.max(2));
            cases.push(case(plan, wrk_sample, count, SMALL));
        }
    }
    cases.push(idle(setting, IDLE.min(allowed)));
    Ok(cases)
}

/// Measures a server with this number of connections.
type Sample = fn(&Plan, &Request, usize) -> anyhow::Result<Vec<f64>>;

/// Returns Creel and tokio, each with hyper alone, and with timeouts and a graceful shutdown. Creel
/// also has a subject with one pool per core.
fn subjects(workers: usize, sample: Sample, count: usize, bytes: usize) -> Vec<Subject> {
    let tokio = match workers {
        1 => "tokio current_thread".to_owned(),
        n => format!("tokio {n} workers"),
    };
    let creel = match workers {
        1 => "creel".to_owned(),
        n => format!("creel {n} workers"),
    };
    [
        (creel.clone(), Runtime::Creel),
        (format!("{creel}, per core"), Runtime::CreelPerCore),
        (format!("{creel}, bare"), Runtime::CreelBare),
        (tokio.clone(), Runtime::Tokio),
        (format!("{tokio}, time-outs"), Runtime::TokioGraceful),
    ]
    .into_iter()
    // With one worker, one pool per core would be the same as the first subject, so we leave it
    // out.
    .filter(|(_, runtime)| workers > 1 || !matches!(runtime, Runtime::CreelPerCore))
    .map(|(name, runtime)| {
        let request = Request {
            runtime,
            workers,
            bytes,
        };
        Subject::with_metrics(name, move |plan| sample(plan, &request, count))
    })
    .collect()
}

fn case(
    (setting, name, workers): (&Setting, String, usize),
    sample: Sample,
    count: usize,
    bytes: usize,
) -> Case {
    // The estimate includes the time for opening the connections. wrk takes more, because it runs
    // for whole seconds.
    let with_overhead_ms = if name.ends_with("by wrk") {
        1_500
    } else {
        100 + count as u64 / 10
    };
    Case {
        name,
        metrics: METRICS.to_vec(),
        compared: true,
        plan: setting.plan(150, 450).with_overhead_ms(with_overhead_ms),
        rounds: setting.rounds(4),
        subjects: subjects(workers, sample, count, bytes),
    }
}

fn idle(setting: &Setting, count: usize) -> Case {
    Case {
        name: format!("{count} idle"),
        metrics: IDLE_METRICS.to_vec(),
        compared: true,
        plan: setting
            .plan(500, 500)
            .with_overhead_ms(UNTIL_REST.as_millis() as u64 + 1_500),
        rounds: setting.rounds(3),
        subjects: subjects(setting.workers.max(2), idle_sample, count, SMALL),
    }
}

fn busy_sample(plan: &Plan, request: &Request, count: usize) -> anyhow::Result<Vec<f64>> {
    let mut server = Server::start(request)?;
    let mut client = Client::connect(server.address, count).with_context(|| {
        format!(
            "cannot open {count} connections to the measured server at {}",
            server.address
        )
    })?;
    client.run(plan.warm_up)?;
    let before = server.usage()?;
    let answers = client.run(plan.sample)?;
    let after = server.usage()?;
    let requests = answers.waits.len().max(1) as f64;
    Ok(vec![
        requests / answers.took.as_secs_f64(),
        (after.cpu_s - before.cpu_s) * 1e6 / requests,
        answers.wait_us(0.5),
        answers.wait_us(0.99),
        after.rss_bytes / 1e6,
    ])
}

fn wrk_sample(plan: &Plan, request: &Request, count: usize) -> anyhow::Result<Vec<f64>> {
    let mut server = Server::start(request)?;
    wrk::run(server.address, count, plan.warm_up)?;
    let before = server.usage()?;
    let report = wrk::run(server.address, count, plan.sample)?;
    let after = server.usage()?;
    Ok(vec![
        report.per_second,
        (after.cpu_s - before.cpu_s) * 1e6 / report.requests.max(1.0),
        report.wait_p50_us,
        report.wait_p99_us,
        after.rss_bytes / 1e6,
    ])
}

fn idle_sample(plan: &Plan, request: &Request, count: usize) -> anyhow::Result<Vec<f64>> {
    let mut server = Server::start(request)?;
    let mut client =
        Client::connect(server.address, count).context("cannot connect to the measured server")?;
    // Each connection sends one request first, because a server allocates buffers for a request and
    // may keep them.
    client.run_once()?;
    std::thread::sleep(plan.warm_up.max(UNTIL_REST));
    let before = server.usage()?;
    std::thread::sleep(plan.sample);
    let after = server.usage()?;
    drop(client);
    let used = (after.cpu_s - before.cpu_s) * 1e3;
    Ok(vec![
        after.rss_bytes / 1e6,
        used / plan.sample.as_secs_f64(),
    ])
}

//! Servers on Creel, on tokio and on other runtimes, over loopback.
//!
//! We measure the CPU time per request, requests per second, and latency. The CPU time comes first,
//! because the client shares the machine: a server that needs less of it leaves more to the client,
//! so the speed says less about the server.
//!
//! There are two families of cases. In the first one, all servers run the same service of hyper
//! (`http.rs`). The subject `creel …` is `creel_hyper::serve`, and `tokio …, time-outs` is its
//! counterpart, with timeouts and a graceful shutdown. The other subjects are hyper's connection
//! alone. In the second family (`raw.rs`, `peers.rs`), the servers implement a small protocol
//! themselves, so that every runtime can take part. `per core` means one listener per core, and
//! connections that stay with their thread. The bare epoll loop (`epoll.rs`) has no runtime at all.
//!
//! The server (`server.rs`) is a separate process, so that we can measure its CPU time. The client
//! (`client.rs`) is one thread with one request in flight on each connection, or with requests at
//! fixed times. It is the same for all subjects. If `wrk` is installed, some cases use it as the
//! client.

mod client;
mod epoll;
mod exchange;
mod http;
#[cfg(feature = "servers")]
mod peers;
mod protocol;
mod raw;
mod server;
#[cfg(feature = "servers")]
mod tls;
mod wrk;

use std::time::Duration;

use anyhow::Context;

use crate::harness::{Case, Metric, Plan, Subject};
use crate::setting::Setting;
use crate::workloads::Workload;
use client::Client;
use exchange::{Exchange, Plain};
use protocol::{Protocol, set_and_get};
use server::{Request, Runtime, Server, Service};
pub use server::{SERVER, answer};

/// The workload `serve`.
pub const WORKLOAD: Workload = Workload {
    name: "serve",
    about: "servers: HTTP, TLS, echo and key-value, on Creel and other runtimes",
    cases,
};

const SMALL: usize = 13;
const LARGE: usize = 2 << 20;
/// The number of idle connections, unless the limit of open files is lower.
const IDLE: usize = 10_000;
/// The numbers of requests per second of the cases with requests at fixed times.
const RATES: [u32; 2] = [10_000, 40_000];

/// The time after which a server has freed the buffers of its idle connections. We wait for it
/// before we measure the memory.
const UNTIL_REST: Duration = Duration::from_secs(3);

const METRICS: [Metric; 5] = [
    Metric {
        name: "CPU",
        unit: "µs a request",
    },
    Metric {
        name: "speed",
        unit: "requests/s",
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
    let many = setting.workers.max(2);
    let mut cases = Vec::new();
    for (workers, on) in [(many, ""), (1, " on one worker")] {
        let small = connections.map(|count| (format!("{count}{on}"), count, SMALL));
        let large = (format!("50 of 2 MB{on}"), 50, LARGE);
        for (name, count, bytes) in small.into_iter().chain([large]) {
            let load = Load::new(Service::Http(bytes), count);
            cases.push(case(setting, name, load, &subjects_http(workers)));
        }
    }
    let http = || Load::new(Service::Http(SMALL), 50);
    if wrk::is_installed() {
        for count in connections {
            let mut load = http();
            (load.connections, load.sample) = (count, wrk_sample);
            let name = format!("{count} by wrk");
            cases.push(case(setting, name, load, &subjects_http(many)));
        }
    }
    for rate in RATES {
        let mut load = http();
        (load.connections, load.rate) = (connections[1], Some(rate));
        let name = format!("{} at {rate} a second", load.connections);
        cases.push(case(setting, name, load, &subjects_http(many)));
    }
    for (name, service) in [("JSON", Service::Json), ("uneven", Service::Uneven)] {
        let load = Load::new(service, 50);
        cases.push(case(setting, name.into(), load, &subjects_http(many)));
    }
    #[cfg(feature = "servers")]
    {
        let tls = Service::Https(SMALL, tls::Certificate::new()?);
        for (name, service) in [("TLS", tls), ("HTTP/2", Service::Http2(SMALL))] {
            let load = Load::new(service, 50);
            cases.push(case(setting, name.into(), load, &subjects_layered(many)));
        }
    }
    let raw = |protocol, connections| Load::new(Service::Raw(protocol), connections);
    let plaintext = connections.map(|count| {
        let name = format!("plaintext {count}");
        (name, raw(Protocol::Plaintext, count))
    });
    let echo =
        [("echo 64 B", 100, 64), ("echo 64 KB", 50, 64 << 10)].map(|(name, count, bytes)| {
            let mut load = raw(Protocol::Echo, count);
            load.echo = bytes;
            (name.into(), load)
        });
    let key_value = [("key-value".into(), raw(Protocol::KeyValue, 50))];
    for (name, load) in plaintext.into_iter().chain(echo).chain(key_value) {
        cases.push(case(setting, name, load, &subjects_raw(many)));
    }
    let mut load = http();
    (load.connections, load.sample) = (IDLE.min(allowed), idle_sample);
    cases.push(Case {
        metrics: IDLE_METRICS.to_vec(),
        plan: setting
            .plan(500, 500)
            .with_overhead_ms(UNTIL_REST.as_millis() as u64 + 1_500),
        rounds: setting.rounds(3),
        ..case(
            setting,
            format!("{} idle", load.connections),
            load,
            &subjects_http(many),
        )
    });
    Ok(cases)
}

/// What a case asks of a server.
#[derive(Clone)]
struct Load {
    service: Service,
    connections: usize,
    /// The number of bytes of an echo.
    echo: usize,
    /// The number of requests per second, or `None` for one request in flight on each connection.
    rate: Option<u32>,
    sample: Sample,
}

impl Load {
    fn new(service: Service, connections: usize) -> Self {
        Load {
            service,
            connections,
            echo: 0,
            rate: None,
            sample: busy_sample,
        }
    }

    /// Opens the connections to a server.
    fn connect(&self, server: &Server) -> anyhow::Result<Client> {
        let exchange = || -> anyhow::Result<Box<dyn Exchange>> {
            Ok(match &self.service {
                Service::Raw(Protocol::Echo) => {
                    Box::new(Plain::fixed(vec![b'x'; self.echo], self.echo))
                }
                Service::Raw(Protocol::KeyValue) => {
                    let (request, length) = set_and_get();
                    Box::new(Plain::fixed(request, length))
                }
                #[cfg(feature = "servers")]
                Service::Https(_, certificate) => {
                    Box::new(exchange::Tls::new(&certificate.for_client()?)?)
                }
                #[cfg(feature = "servers")]
                Service::Http2(_) => Box::new(exchange::Http2::default()),
                _ => Box::new(Plain::http()),
            })
        };
        let count = self.connections;
        Client::connect(server.address, count, exchange).with_context(|| {
            format!(
                "cannot open {count} connections to the measured server at {}",
                server.address
            )
        })
    }
}

/// Measures a server under a load.
type Sample = fn(&Plan, &Request, &Load) -> anyhow::Result<Vec<f64>>;

/// Returns the subjects of the cases with hyper over TCP. Creel and tokio each have one with
/// timeouts and a graceful shutdown, and one with hyper alone.
fn subjects_http(workers: usize) -> Vec<(String, Runtime, usize)> {
    named(
        workers,
        &[
            ("creel", "", Runtime::Creel),
            ("creel", ", per core", Runtime::CreelPerCore),
            ("creel", ", bare", Runtime::CreelBare),
            ("tokio", "", Runtime::Tokio),
            ("tokio", ", time-outs", Runtime::TokioGraceful),
            ("tokio", ", per core", Runtime::TokioPerCore),
            ("bare epoll loop", "", Runtime::Epoll),
        ],
    )
}

/// Returns the subjects of the cases with hyper over TLS, or with HTTP/2.
#[cfg(feature = "servers")]
fn subjects_layered(workers: usize) -> Vec<(String, Runtime, usize)> {
    named(
        workers,
        &[
            ("creel", "", Runtime::Creel),
            ("creel", ", per core", Runtime::CreelPerCore),
            ("tokio", "", Runtime::Tokio),
            ("tokio", ", per core", Runtime::TokioPerCore),
        ],
    )
}

/// Returns the subjects of the cases without a library.
fn subjects_raw(workers: usize) -> Vec<(String, Runtime, usize)> {
    named(
        workers,
        &[
            ("creel", "", Runtime::Creel),
            ("creel", ", per core", Runtime::CreelPerCore),
            ("tokio", "", Runtime::Tokio),
            ("tokio", ", per core", Runtime::TokioPerCore),
            ("bare epoll loop", "", Runtime::Epoll),
            #[cfg(feature = "servers")]
            ("smol", "", Runtime::Smol),
            #[cfg(feature = "servers")]
            ("monoio", ", epoll", Runtime::MonoioEpoll),
            #[cfg(feature = "servers")]
            ("monoio", ", io_uring", Runtime::MonoioUring),
            #[cfg(feature = "servers")]
            ("compio", ", io_uring", Runtime::Compio),
            #[cfg(feature = "servers")]
            ("glommio", ", io_uring", Runtime::Glommio),
            #[cfg(feature = "servers")]
            ("may", "", Runtime::May),
        ],
    )
}

/// Adds the number of workers to the names of the subjects. With one worker, `per core` would be the
/// same as the subject without it, so we leave it out.
fn named(workers: usize, all: &[(&str, &str, Runtime)]) -> Vec<(String, Runtime, usize)> {
    let per_core = [Runtime::CreelPerCore, Runtime::TokioPerCore];
    let all = all
        .iter()
        .filter(|(_, _, runtime)| workers > 1 || !per_core.contains(runtime));
    all.map(|(library, kind, runtime)| {
        let name = match (workers, *library) {
            (1, "tokio") => format!("tokio current_thread{kind}"),
            (1, library) => format!("{library}{kind}"),
            (n, library) => format!("{library} {n} workers{kind}"),
        };
        (name, *runtime, workers)
    })
    .collect()
}

fn case(setting: &Setting, name: String, load: Load, all: &[(String, Runtime, usize)]) -> Case {
    // The estimate includes the time for opening the connections. wrk takes more, because it runs
    // for whole seconds.
    let with_overhead_ms = if name.ends_with("by wrk") {
        1_500
    } else {
        100 + load.connections as u64 / 10
    };
    let subject = |(name, runtime, workers): &(String, Runtime, usize)| {
        let request = Request {
            runtime: *runtime,
            workers: *workers,
            service: load.service.clone(),
        };
        let load = load.clone();
        Subject::with_metrics(name, move |plan| (load.sample)(plan, &request, &load))
    };
    Case {
        name,
        metrics: METRICS.to_vec(),
        compared: true,
        plan: setting.plan(150, 450).with_overhead_ms(with_overhead_ms),
        rounds: setting.rounds(4),
        subjects: all.iter().map(subject).collect(),
    }
}

fn busy_sample(plan: &Plan, request: &Request, load: &Load) -> anyhow::Result<Vec<f64>> {
    let mut server = Server::start(request)?;
    let mut client = load.connect(&server)?;
    client.run(plan.warm_up)?;
    let before = server.usage()?;
    let answers = match load.rate {
        Some(rate) => client.run_at(f64::from(rate), plan.sample)?,
        None => client.run(plan.sample)?,
    };
    let after = server.usage()?;
    let requests = answers.waits.len().max(1) as f64;
    Ok(vec![
        (after.cpu_s - before.cpu_s) * 1e6 / requests,
        requests / answers.took.as_secs_f64(),
        answers.wait_us(0.5),
        answers.wait_us(0.99),
        after.rss_bytes / 1e6,
    ])
}

fn wrk_sample(plan: &Plan, request: &Request, load: &Load) -> anyhow::Result<Vec<f64>> {
    let mut server = Server::start(request)?;
    wrk::run(server.address, load.connections, plan.warm_up)?;
    let before = server.usage()?;
    let report = wrk::run(server.address, load.connections, plan.sample)?;
    let after = server.usage()?;
    Ok(vec![
        (after.cpu_s - before.cpu_s) * 1e6 / report.requests.max(1.0),
        report.per_second,
        report.wait_p50_us,
        report.wait_p99_us,
        after.rss_bytes / 1e6,
    ])
}

fn idle_sample(plan: &Plan, request: &Request, load: &Load) -> anyhow::Result<Vec<f64>> {
    let mut server = Server::start(request)?;
    let mut client = load.connect(&server)?;
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

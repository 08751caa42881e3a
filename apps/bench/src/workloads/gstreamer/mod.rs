//! GStreamer pipelines with many streams, on the elements of `plugins/gstreamer`, on threadshare's
//! and on GStreamer's own.
//!
//! The cases `in place` and `task` have sources that make a buffer of 160 bytes every 20 ms. In the
//! cases `task`, each source is followed by a queue in the same context. The cases `UDP` receive 50
//! packets of 160 bytes per second and stream, each stream on a port of its own.
//!
//! Each sample is a process of its own (`pipelines.c`), which we compile here. Its sink only records
//! latencies, so that the measured elements dominate. The packets are sent by this process.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;

use crate::foreign::Foreign;
use crate::harness::{Case, Metric, Plan, Subject};
use crate::setting::Setting;
use crate::workloads::Workload;

/// The workload `gstreamer`.
pub const WORKLOAD: Workload = Workload {
    name: "gstreamer",
    about: "GStreamer pipelines with many streams, by the elements' prefix",
    cases,
};

static PIPELINES: Foreign = Foreign {
    file: "pipelines.c",
    source: include_str!("pipelines.c"),
    build: &[
        "sh",
        "-c",
        "cc -O2 SOURCE -o PROGRAM $(pkg-config --cflags --libs gstreamer-1.0)",
    ],
    run: &["PROGRAM"],
};

/// The port of the first stream.
const PORT: u16 = 20_000;
const PACKET_TIME: Duration = Duration::from_millis(20);
const BYTES: usize = 160;
/// The time between two bursts of the sender.
const BURST_TIME: Duration = Duration::from_millis(1);
/// The time after the last packet in which the receiver processes what it has received.
const SETTLE_TIME: Duration = Duration::from_millis(100);

const METRICS: [Metric; 4] = [
    Metric {
        name: "time",
        unit: "ns CPU a buffer",
    },
    Metric {
        name: "latency p50",
        unit: "µs",
    },
    Metric {
        name: "latency p99",
        unit: "µs",
    },
    Metric {
        name: "memory",
        unit: "MB",
    },
];

const UDP_METRICS: [Metric; 2] = [
    Metric {
        name: "idle",
        unit: "% of a core",
    },
    Metric {
        name: "lost",
        unit: "packets",
    },
];

/// A family of elements.
#[derive(Clone, Copy)]
struct Elements {
    name: &'static str,
    /// The beginning of the elements' names.
    prefix: &'static str,
}

const CREEL: Elements = Elements {
    name: "creel",
    prefix: "creel-",
};
const THREADSHARE: Elements = Elements {
    name: "threadshare",
    prefix: "ts-",
};
/// GStreamer's own elements, which start a thread for each source and each queue.
const OWN: Elements = Elements {
    name: "a thread a stream",
    prefix: "",
};

impl Elements {
    /// Returns whether GStreamer finds the plugin with these elements.
    fn exist(self) -> bool {
        let mut inspect = Command::new("gst-inspect-1.0");
        // We do not use `--exists`, because it also asks for a plugin whose version is GStreamer's.
        inspect.arg(format!("{}udpsrc", self.prefix));
        let silent = inspect.stdout(Stdio::null()).stderr(Stdio::null());
        silent.status().is_ok_and(|status| status.success())
    }

    /// Returns an element with its properties, in the syntax of gst-launch-1.0.
    fn element(self, name: &str, wait_ms: u64, properties: &str) -> String {
        let context = match self.prefix {
            "" => String::new(),
            _ => format!("context=bench context-wait={wait_ms}"),
        };
        format!("{}{name} {properties} {context}", self.prefix)
    }

    /// Returns the pipeline of a case.
    fn pipeline(self, shape: Shape, streams: u16, wait_ms: u64) -> String {
        let stream = |stream: u16| {
            let source = match shape {
                Shape::Udp => {
                    let port = PORT + stream;
                    self.element("udpsrc", wait_ms, &format!("address=127.0.0.1 port={port}"))
                }
                _ if self.prefix.is_empty() => {
                    "audiotestsrc is-live=true samplesperbuffer=80".into()
                }
                _ => self.element(
                    "audiotestsrc",
                    wait_ms,
                    "is-live=true samples-per-buffer=80",
                ),
            };
            let queue = match shape {
                Shape::Task => format!("! {}", self.element("queue", wait_ms, "")),
                _ => String::new(),
            };
            format!("{source} {queue} ! creel-bench-sink ")
        };
        (0..streams).map(stream).collect()
    }
}

/// The elements of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A source whose task runs the sink as well.
    InPlace,
    /// A source, and a queue whose task runs the sink.
    Task,
    /// A source that receives packets, and whose task runs the sink as well.
    Udp,
}

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    if !CREEL.exist() || PIPELINES.built().is_none() {
        creel_console::output::note(
            "creel-bench: skipped gstreamer. It needs Debian's packages libgstreamer1.0-dev, \
             gstreamer1.0-tools, gstreamer1.0-plugins-base and gstreamer1.0-plugins-good, and a \
             GST_PLUGIN_PATH with the plugin: (cd plugins/gstreamer && cargo build --release)\n",
        );
        return Ok(Vec::new());
    }
    creel_console::files::allow_many();
    let families: Vec<Elements> = [CREEL, THREADSHARE, OWN]
        .into_iter()
        .filter(|elements| elements.exist())
        .collect();
    let mut cases = Vec::new();
    for (name, shape, counts) in [
        ("in place", Shape::InPlace, &[1_000, 4_000][..]),
        ("task", Shape::Task, &[1_000, 4_000]),
        ("UDP", Shape::Udp, &[100, 500, 1_000]),
    ] {
        for &streams in counts {
            for wait_ms in [20, 0] {
                let subject = |elements: &Elements| {
                    let pipeline = elements.pipeline(shape, streams, wait_ms);
                    Subject::with_metrics(elements.name, move |plan| match shape {
                        Shape::Udp => udp_sample(plan, &pipeline, streams),
                        _ => sample(plan, &pipeline),
                    })
                };
                let mut metrics = METRICS.to_vec();
                if shape == Shape::Udp {
                    metrics.extend(UDP_METRICS);
                }
                cases.push(Case {
                    name: format!("{name} {streams}, {wait_ms} ms"),
                    metrics,
                    compared: true,
                    plan: setting.plan(1_000, 2_000).with_overhead_ms(1_500),
                    rounds: setting.rounds(4),
                    subjects: families.iter().map(subject).collect(),
                });
            }
        }
    }
    Ok(cases)
}

/// The resources that a process has used since its start, and the latencies since the last usage.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Usage {
    cpu_ns: f64,
    rss_bytes: f64,
    buffers: f64,
    p50_ns: f64,
    p99_ns: f64,
}

impl Usage {
    /// Returns the values of [`METRICS`].
    fn values_since(self, before: Usage) -> Vec<f64> {
        vec![
            (self.cpu_ns - before.cpu_ns) / (self.buffers - before.buffers).max(1.0),
            self.p50_ns / 1e3,
            self.p99_ns / 1e3,
            self.rss_bytes / 1e6,
        ]
    }
}

/// A process with a pipeline. It is killed when this value is dropped.
struct Process {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a process, and waits until its pipeline plays.
    fn start(time_is_in: &str, pipeline: &str) -> anyhow::Result<Self> {
        let folder = PIPELINES.built().context("the program was built before")?;
        let words = PIPELINES.run(&folder, 1);
        let mut child = Command::new(&words[0])
            .arg(time_is_in)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process with a pipeline")?;
        let input = child.stdin.take().context("the input is piped")?;
        let output = child.stdout.take().context("the output is piped")?;
        let lines = BufReader::new(output).lines();
        let mut process = Process {
            child,
            input,
            lines,
        };
        writeln!(process.input, "{pipeline}")?;
        process.read_usage()?;
        Ok(process)
    }

    /// Returns the usage now.
    fn usage(&mut self) -> anyhow::Result<Usage> {
        self.input.write_all(b"\n")?;
        self.read_usage()
    }

    fn read_usage(&mut self) -> anyhow::Result<Usage> {
        let line = self.lines.next();
        let line = line.context("the pipeline failed: see its message above")??;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sample(plan: &Plan, pipeline: &str) -> anyhow::Result<Vec<f64>> {
    let mut process = Process::start("pad", pipeline)?;
    std::thread::sleep(plan.warm_up);
    let before = process.usage()?;
    std::thread::sleep(plan.sample);
    Ok(process.usage()?.values_since(before))
}

fn udp_sample(plan: &Plan, pipeline: &str, streams: u16) -> anyhow::Result<Vec<f64>> {
    let mut process = Process::start("packet", pipeline)?;
    std::thread::sleep(plan.warm_up / 2);
    let idle_begin = process.usage()?;
    let begin = Instant::now();
    std::thread::sleep(plan.warm_up);
    let idle_end = process.usage()?;
    let idle = (idle_end.cpu_ns - idle_begin.cpu_ns) / begin.elapsed().as_nanos() as f64;
    let over = AtomicBool::new(false);
    let (before, after, sent) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(streams, &over));
        std::thread::sleep(plan.warm_up);
        let before = process.usage();
        std::thread::sleep(plan.sample);
        over.store(true, Ordering::Relaxed);
        let sent = sender.join();
        std::thread::sleep(SETTLE_TIME);
        (before, process.usage(), sent)
    });
    let sent = sent.map_err(|_| anyhow::anyhow!("the thread of the sender panicked"))??;
    let after = after?;
    let mut values = after.values_since(before?);
    values.extend([100.0 * idle, sent as f64 - after.buffers]);
    Ok(values)
}

/// Sends packets to all streams, which are evenly spread over a packet time. Returns the number of
/// packets.
fn send(streams: u16, over: &AtomicBool) -> anyhow::Result<u64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let begin = Instant::now();
    let (mut packet, mut sent) = ([0; BYTES], 0);
    while !over.load(Ordering::Relaxed) {
        let due = begin.elapsed().as_nanos() * u128::from(streams) / PACKET_TIME.as_nanos();
        while u128::from(sent) < due {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let nanos = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
            packet[..8].copy_from_slice(&nanos.to_ne_bytes());
            let port = PORT + (sent % u64::from(streams)) as u16;
            socket.send_to(&packet, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
            sent += 1;
        }
        std::thread::sleep(BURST_TIME);
    }
    Ok(sent)
}

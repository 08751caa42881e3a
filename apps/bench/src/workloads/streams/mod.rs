//! Thousands of audio streams on one thread. Each stream makes a buffer of 160 bytes every 20 ms
//! and passes it to a sink, which records its times.
//!
//! All subjects make the buffers in the same way, read the same clock and record the same
//! statistics. They differ only in the timers and tasks that move the buffers. The cases in `udp`
//! send and receive 882 bytes every 10 ms over loopback.

mod floor;
#[cfg(target_os = "linux")]
mod rooms;
mod threads;
mod tokio;
#[cfg(target_os = "linux")]
mod udp;

use std::time::{Duration, Instant};

use anyhow::Context;
use creel::time::Clock;
use creel_cast::Measured;
use creel_cast::measure::{Histograms, Percentiles, Stations, StreamStats};
use creel_cast::standalone::{self, Plan as Streams};
use creel_cast::stream::SinkMode;

use crate::harness::{Case, Metric, Subject};
use crate::setting::Setting;
use crate::workloads::Workload;

/// The workload `streams`.
pub const WORKLOAD: Workload = Workload {
    name: "streams",
    about: "thousands of audio streams on one thread, and over UDP",
    cases,
};

const PERIOD: Duration = Duration::from_millis(20);
const QUANTUM: Duration = Duration::from_millis(20);
const SHORT_QUANTUM: Duration = Duration::from_millis(2);
/// The number of samples of a buffer, which take 160 bytes.
const SAMPLES: usize = 80;
/// The largest number of threads, because programs do not start more.
const THREADS_MAX: usize = 4_000;

const METRICS: [Metric; 6] = [
    Metric {
        name: "time",
        unit: "ns CPU a buffer",
    },
    Metric {
        name: "lateness p99",
        unit: "ms",
    },
    Metric {
        name: "lateness max",
        unit: "ms",
    },
    Metric {
        name: "parked",
        unit: "%",
    },
    Metric {
        name: "latency p50",
        unit: "µs",
    },
    Metric {
        name: "latency p99",
        unit: "µs",
    },
];

fn cases(setting: &Setting) -> anyhow::Result<Vec<Case>> {
    let cases = [1_000, 4_000, 10_000]
        .into_iter()
        .map(|streams| case(setting, streams));
    #[cfg(target_os = "linux")]
    let cases = cases
        .chain(udp::cases(setting))
        .chain(rooms::cases(setting));
    Ok(cases.collect())
}

fn case(setting: &Setting, streams: usize) -> Case {
    let mut subjects = vec![
        creel(
            "creel [in place, 20 ms]",
            streams,
            QUANTUM,
            SinkMode::SyncMutex,
        ),
        creel("creel [slot, 20 ms]", streams, QUANTUM, SinkMode::Slot),
        creel("creel [task, 20 ms]", streams, QUANTUM, SinkMode::Task),
        creel(
            "creel [async mutex, 20 ms]",
            streams,
            QUANTUM,
            SinkMode::AsyncMutex,
        ),
        creel(
            "creel [in place, 2 ms]",
            streams,
            SHORT_QUANTUM,
            SinkMode::SyncMutex,
        ),
        creel("creel [slot, 2 ms]", streams, SHORT_QUANTUM, SinkMode::Slot),
        tokio::mutex(streams),
        tokio::channel(streams),
        floor::wheel("bare wheel, 20 ms", streams, QUANTUM),
        floor::wheel("bare wheel, 2 ms", streams, SHORT_QUANTUM),
    ];
    if streams <= THREADS_MAX {
        subjects.push(threads::threads(streams));
    }
    Case {
        name: streams.to_string(),
        metrics: METRICS.to_vec(),
        compared: true,
        plan: setting.plan(200, 800).with_overhead_ms(50),
        rounds: setting.rounds(4),
        subjects,
    }
}

fn creel(name: &str, streams: usize, wait: Duration, mode: SinkMode) -> Subject {
    Subject::with_metrics(name, move |plan| {
        let streams = Streams {
            streams,
            contexts: 1,
            wait,
            period: PERIOD,
            buffers: (plan.sample.as_nanos() / PERIOD.as_nanos()).max(1) as u64,
            mode,
            samples: SAMPLES,
            ramp_up: plan.warm_up,
            observe: creel::Observe::Off,
        };
        let measured = standalone::run(&streams, &|| false);
        Ok(values(&measured.context("creel-cast failed")?))
    })
}

/// Returns the values of a run of Creel in the order of the metrics.
fn values(measured: &Measured) -> Vec<f64> {
    in_order(
        measured.cpu_nanos_per_buffer(),
        measured.parked_share(),
        &measured.histograms,
    )
}

/// Returns the values in the order of the metrics. `parked` is a share, from 0 to 1.
fn in_order(cpu_nanos: f64, parked: f64, histograms: &Histograms) -> Vec<f64> {
    let latency = Percentiles::of(&histograms.latency, Duration::from_micros(1));
    let lateness = Percentiles::of(&histograms.lateness, Duration::from_millis(1));
    vec![
        cpu_nanos,
        lateness.p99,
        lateness.max,
        100.0 * parked,
        latency.p50,
        latency.p99,
    ]
}

/// The times at which the measurement of a peer begins and ends.
#[derive(Debug, Clone, Copy)]
struct Window {
    origin: Instant,
    /// The time of the origin in nanoseconds, by the clock that all subjects read.
    origin_nanos: u64,
    begin: u64,
    end: u64,
}

impl Window {
    /// Creates a window that begins after `warm_up` and is `sample` long.
    fn new(warm_up: Duration, sample: Duration) -> Self {
        let nanos = |time: Duration| time.as_nanos() as u64;
        let origin = Instant::now();
        Window {
            origin,
            origin_nanos: Clock::monotonic().nanos_at(origin),
            begin: nanos(warm_up),
            end: nanos(warm_up + sample),
        }
    }

    /// Returns the nanoseconds since the origin.
    ///
    /// Peers read Creel's clock, too, because it costs less than [`Instant::now`], and subjects
    /// should not differ in how they are measured.
    fn now(&self) -> u64 {
        Clock::monotonic().nanos().saturating_sub(self.origin_nanos)
    }

    /// Returns when the first buffer of a stream is due. The streams are spread over one period.
    fn phase(stream: usize, streams: usize) -> u64 {
        (PERIOD.as_nanos() as u64) * stream as u64 / streams as u64
    }

    fn counts(&self, due: u64) -> bool {
        (self.begin..self.end).contains(&due)
    }

    /// Runs `work` to the end of the window. Returns the CPU time of the process within the window.
    fn cpu<T: Send>(&self, work: impl FnOnce() -> T + Send) -> (Duration, T) {
        std::thread::scope(|scope| {
            let window = *self;
            let cpu = scope.spawn(move || {
                let until = |nanos: u64| {
                    let left = nanos.saturating_sub(window.now());
                    std::thread::sleep(Duration::from_nanos(left));
                    process_cpu()
                };
                let begin = until(window.begin);
                until(window.end).saturating_sub(begin)
            });
            let done = work();
            (cpu.join().unwrap_or_default(), done)
        })
    }
}

fn process_cpu() -> Duration {
    cpu_time::ProcessTime::now().as_duration()
}

/// A buffer of a peer and its times. A buffer of Creel has the same contents.
#[derive(Debug, Clone)]
struct Buffer {
    due: u64,
    made: u64,
    samples: Vec<i16>,
}

impl Buffer {
    fn new() -> Self {
        Buffer {
            due: 0,
            made: 0,
            samples: vec![0; SAMPLES],
        }
    }
}

/// The sink of a peer, which has the statistics of one stream.
#[derive(Debug, Default)]
struct Sink {
    stats: StreamStats,
}

impl Sink {
    /// Records a buffer that has just arrived.
    fn take(&mut self, window: &Window, histograms: &mut Histograms, buffer: &Buffer) {
        std::hint::black_box(&buffer.samples);
        if window.counts(buffer.due) {
            let at = Stations {
                due: buffer.due,
                made: buffer.made,
                arrived: window.now(),
            };
            self.stats.note(histograms, at);
        }
    }
}

/// Returns the values of a peer in the order of the metrics. We do not know how long a peer was
/// parked, so we assume that its single thread was parked while it used no CPU time.
fn peer_values(window: &Window, cpu: Duration, histograms: &Histograms) -> Vec<f64> {
    let time = Duration::from_nanos(window.end - window.begin);
    let buffers = histograms.latency.len().max(1);
    let awake = cpu.as_secs_f64() / time.as_secs_f64();
    let cpu_nanos = cpu.as_nanos() as f64 / buffers as f64;
    in_order(cpu_nanos, (1.0 - awake).max(0.0), histograms)
}

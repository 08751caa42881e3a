//! The points that `evaluate --article` measures, which are those of the article about GStreamer's
//! threadshare.
//!
//! The programs of the article measure three sinks within one process, and a sender and a receiver
//! over UDP. We measure the same numbers of streams and buffers with the same waits. A context
//! waits 20 ms. The first 20 s of the sinks are left out.

use super::evaluate::{Point, Subject};
use creel_cast::stream::SinkMode;
use std::time::Duration;

/// Each context handles packets and timers at most once per this time.
const WAIT: Duration = Duration::from_millis(20);
const SINKS: [SinkMode; 3] = [SinkMode::SyncMutex, SinkMode::AsyncMutex, SinkMode::Task];
const SINK_STREAMS: [usize; 5] = [1_000, 2_000, 3_000, 4_000, 5_000];
const SINK_CONTEXTS: usize = 2;
const SINK_BUFFERS: usize = 5_000;
const SINK_RAMP_UP: Duration = Duration::from_secs(20);
const UDP_STREAMS: [usize; 5] = [100, 200, 300, 400, 500];
const UDP_BUFFERS: [usize; 2] = [5_000, 10_000];
const UDP_RAMP_UP: Duration = Duration::from_secs(1);

/// Returns all points. Those of the sinks come first.
pub fn points() -> Vec<Point> {
    let names = SinkMode::ALL.into_iter();
    let sinks = names.filter(|(_, mode)| SINKS.contains(mode));
    let of_sinks = sinks.flat_map(|(name, mode)| {
        SINK_STREAMS.map(|streams| Point {
            subject: Subject::Sink(name, mode),
            streams,
            contexts: SINK_CONTEXTS,
            wait: WAIT,
            buffers: SINK_BUFFERS,
            ramp_up: SINK_RAMP_UP,
        })
    });
    let of_udp = UDP_BUFFERS.into_iter().flat_map(|buffers| {
        UDP_STREAMS.map(|streams| Point {
            subject: Subject::Udp { shared_port: false },
            streams,
            contexts: 1,
            wait: WAIT,
            buffers,
            ramp_up: UDP_RAMP_UP,
        })
    });
    of_sinks.chain(of_udp).collect()
}

/// Returns a line about the machine, for the page of an evaluation. The parts that the system does
/// not state are left out.
pub fn machine() -> String {
    let read = |path: &str| creel_console::system::text(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map(|rest| rest.trim_start_matches(['\t', ' ', ':']).to_owned());
    let count = std::thread::available_parallelism().map(|count| format!("{count} CPUs"));
    let kernel = Some(read("/proc/sys/kernel/osrelease").trim().to_owned());
    let kernel = kernel.filter(|text| !text.is_empty());
    let parts = [
        model,
        count.ok(),
        kernel.map(|kernel| format!("Linux {kernel}")),
        Some(format!("creel-cast {}", env!("CARGO_PKG_VERSION"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let escaped = parts.join(", ");
    escaped.replace('&', "&amp;").replace('<', "&lt;")
}

//! The counters of the service, and their output for Prometheus.
//!
//! All atomic accesses are relaxed, because each counter is independent of the others.
//!
//! Source: "Exposition formats", Prometheus, text format 0.0.4.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use creel_hyper::{End, Event};

use crate::admission::{Admission, Shed};
use crate::routes::Route;
use crate::store::Reason;

const ROUTES: usize = Route::ALL.len();
/// The statuses of responses, and 499 for a client that disconnected before its response. Any other
/// status counts as the last one.
const STATUSES: [u16; 10] = [200, 400, 404, 405, 408, 413, 501, 503, 499, 500];

/// The reasons for which connections end, as the label `how`.
const ENDS: [&str; 7] = [
    "done",
    "silent",
    "not_read",
    "handshake",
    "failed",
    "panicked",
    "cut",
];

/// The upper bounds of a histogram's buckets, in microseconds.
const ENDS_US: [u64; 15] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000,
];

/// A histogram of durations with fixed buckets.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; ENDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&self, time: Duration) {
        let us = time.as_micros() as u64;
        let bucket = ENDS_US.partition_point(|end| *end < us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// Writes the histogram in Prometheus's format. The counts are cumulative.
    fn write(&self, name: &str, labels: &str, into: &mut String) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        for (bucket, end) in self
            .buckets
            .iter()
            .zip(ENDS_US.iter().map(Some).chain([None]))
        {
            count += bucket.load(Relaxed);
            let end = end.map_or("+Inf".to_owned(), |us| (*us as f64 / 1e6).to_string());
            let _ = writeln!(into, "{name}_bucket{{{labels}{comma}le=\"{end}\"}} {count}");
        }
        let braces = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{labels}}}")
        };
        let sum = self.sum_us.load(Relaxed) as f64 / 1e6;
        let _ = writeln!(into, "{name}_sum{braces} {sum}");
        let _ = writeln!(into, "{name}_count{braces} {count}");
    }
}

/// All counters of the service.
#[derive(Debug, Default)]
pub struct Metrics {
    answers: [[AtomicU64; STATUSES.len()]; ROUTES],
    times: [Histogram; ROUTES],
    /// How long jobs waited for the cryptography.
    pub delay: Histogram,
    shed: [AtomicU64; 3],
    /// The number of requests that were not done by their deadline.
    pub late: AtomicU64,
    /// The number of clients that disconnected before their response.
    pub left: AtomicU64,
    /// The number of HTTP/1 requests whose body was not read to its end. The service closes their
    /// connections.
    pub unread: AtomicU64,
    /// The number of requests so far.
    pub started: AtomicU64,
    /// The number of requests that are being answered.
    pub in_flight: AtomicI64,
    /// The number of requests to the store that ended with an error, by reason. Some of them may
    /// have been executed.
    store_errors: [AtomicU64; Reason::ALL.len()],
    store_outages: [AtomicU64; Reason::ALL.len()],
    /// The number of connections that were made to the store.
    pub store_connections: AtomicU64,
    /// The number of lines that the access log dropped.
    pub log_dropped: AtomicU64,
    accepted: AtomicU64,
    not_accepted: AtomicU64,
    ended: [AtomicU64; ENDS.len()],
}

impl Metrics {
    /// Counts a response. The status 499 means that the client disconnected before it.
    pub fn answered(&self, route: Route, status: u16, took: Duration) {
        let last = STATUSES.len() - 1;
        let index = STATUSES
            .iter()
            .position(|other| *other == status)
            .unwrap_or(last);
        self.answers[route as usize][index].fetch_add(1, Relaxed);
        self.times[route as usize].record(took);
    }

    /// Counts a request that admission control rejected.
    pub fn refused(&self, shed: Shed) {
        self.shed[shed as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request to the store that ended with an error.
    pub fn store_error(&self, reason: Reason) {
        self.store_errors[reason as usize].fetch_add(1, Relaxed);
    }

    /// Counts an outage of the store.
    pub fn store_outage(&self, reason: Reason) {
        self.store_outages[reason as usize].fetch_add(1, Relaxed);
    }

    /// Returns the number of outages of the store with a reason.
    pub fn store_outages(&self, reason: Reason) -> u64 {
        self.store_outages[reason as usize].load(Relaxed)
    }

    /// Counts an event of a connection.
    pub fn connection(&self, event: &Event) {
        let counter = match event {
            Event::Accepted => &self.accepted,
            Event::NotAccepted(_) => &self.not_accepted,
            Event::Ended(end) => {
                &self.ended[match end {
                    End::Done => 0,
                    End::Silent => 1,
                    End::NotRead => 2,
                    End::Handshake(_) => 3,
                    End::Failed(_) => 4,
                    End::Panicked => 5,
                    _ => 6,
                }]
            }
            _ => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    /// Returns the number of open connections.
    fn connections(&self) -> u64 {
        let ended: u64 = self.ended.iter().map(|ended| ended.load(Relaxed)).sum();
        self.accepted.load(Relaxed).saturating_sub(ended)
    }

    /// Returns all metrics in Prometheus's text format.
    pub fn text(&self, admission: &Admission, store_is_ready: bool) -> String {
        let mut out = String::with_capacity(16 << 10);
        let head = |out: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        head(
            &mut out,
            "creel_serve_requests_total",
            "counter",
            "Answers by route and status. Status 499: the client disconnected.",
        );
        for (route, answers) in Route::ALL.iter().zip(&self.answers) {
            for (status, count) in STATUSES.iter().zip(answers) {
                let (name, count) = (route.name(), count.load(Relaxed));
                if count > 0 {
                    let _ = writeln!(
                        out,
                        "creel_serve_requests_total{{route=\"{name}\",status=\"{status}\"}} {count}"
                    );
                }
            }
        }
        head(
            &mut out,
            "creel_serve_request_seconds",
            "histogram",
            "Time from the head of a request to its answer.",
        );
        for (route, times) in Route::ALL.iter().zip(&self.times) {
            if times.buckets.iter().any(|bucket| bucket.load(Relaxed) > 0) {
                times.write(
                    "creel_serve_request_seconds",
                    &format!("route=\"{}\"", route.name()),
                    &mut out,
                );
            }
        }
        head(
            &mut out,
            "creel_serve_queue_seconds",
            "histogram",
            "Time that jobs waited for the cryptography.",
        );
        self.delay.write("creel_serve_queue_seconds", "", &mut out);
        head(
            &mut out,
            "creel_serve_shed_total",
            "counter",
            "Requests that admission control rejected, by reason.",
        );
        for (reason, count) in ["full", "delay", "deadline"].iter().zip(&self.shed) {
            let _ = writeln!(
                out,
                "creel_serve_shed_total{{reason=\"{reason}\"}} {}",
                count.load(Relaxed)
            );
        }
        head(
            &mut out,
            "creel_serve_connections_ended_total",
            "counter",
            "Connections that have ended, by reason.",
        );
        for (how, count) in ENDS.iter().zip(&self.ended) {
            let _ = writeln!(
                out,
                "creel_serve_connections_ended_total{{how=\"{how}\"}} {}",
                count.load(Relaxed)
            );
        }
        for (name, help, counts) in [
            (
                "creel_serve_store_errors_total",
                "Requests that the store did not execute, by reason.",
                &self.store_errors,
            ),
            (
                "creel_serve_store_outages_total",
                "Times that the store stopped accepting records, by reason.",
                &self.store_outages,
            ),
        ] {
            head(&mut out, name, "counter", help);
            for (reason, count) in Reason::ALL.iter().zip(counts) {
                let (reason, count) = (reason.name(), count.load(Relaxed));
                let _ = writeln!(out, "{name}{{reason=\"{reason}\"}} {count}");
            }
        }
        for (name, help, count) in [
            (
                "connections",
                "Connections that were accepted.",
                &self.accepted,
            ),
            (
                "connections_not_accepted",
                "Connections that could not be accepted, for example because of too many open files.",
                &self.not_accepted,
            ),
            (
                "late",
                "Requests that were not done by their deadline.",
                &self.late,
            ),
            (
                "clients_left",
                "Clients that disconnected before their answer.",
                &self.left,
            ),
            (
                "bodies_unread",
                "HTTP/1 requests whose body was not read to its end, which closes the connection.",
                &self.unread,
            ),
            (
                "store_connections",
                "Connections made to the store.",
                &self.store_connections,
            ),
            (
                "log_dropped",
                "Lines that the access log dropped.",
                &self.log_dropped,
            ),
        ] {
            let name = format!("creel_serve_{name}_total");
            head(&mut out, &name, "counter", help);
            let _ = writeln!(out, "{name} {}", count.load(Relaxed));
        }
        let in_flight = self.in_flight.load(Relaxed).max(0) as u64;
        let gauges = [
            (
                "creel_serve_connections_open",
                "Connections that are open.",
                Some(self.connections()),
            ),
            (
                "creel_serve_in_flight",
                "Requests that are being answered.",
                Some(in_flight),
            ),
            (
                "creel_serve_waiting",
                "Requests that wait for the cryptography.",
                Some(admission.waiting()),
            ),
            (
                "creel_serve_overloaded",
                "Whether the overload is lasting.",
                Some(admission.is_overloaded().into()),
            ),
            (
                "creel_serve_store_up",
                "Whether the store accepts records.",
                Some(store_is_ready.into()),
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory of the process.",
                resident(),
            ),
        ];
        // A gauge that the system does not report is left out.
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            head(&mut out, name, "gauge", help);
            let _ = writeln!(out, "{name} {value}");
        }
        out
    }
}

/// Returns the resident memory of this process in bytes, or `None` if the OS does not report it.
///
/// We assume pages of 4 KiB. Source: proc(5), `/proc/pid/statm`.
fn resident() -> Option<u64> {
    let statm = creel_console::system::text("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_equal_to_a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::default();
        for us in [100, 101, 20_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let mut text = String::new();
        histogram.write("x", "", &mut text);
        assert!(text.contains("x_bucket{le=\"0.0001\"} 1\n"), "{text}");
        assert!(text.contains("x_bucket{le=\"0.00025\"} 2\n"), "{text}");
        assert!(text.contains("x_bucket{le=\"10\"} 2\n"), "{text}");
        assert!(
            text.ends_with("x_bucket{le=\"+Inf\"} 3\nx_sum 20.000201\nx_count 3\n"),
            "{text}"
        );
    }
}

//! The figures of streams while we receive them.

use super::demux::Demux;
use crate::lock::lock;
use crate::results::SourceReport;
use creel::time::{Sleep, sleep};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::time::Duration;

/// The time between two updates of the figures of a socket.
const INTERVAL: Duration = Duration::from_millis(500);

/// The current figures of a stream.
#[derive(Debug, Clone)]
pub struct LiveReport {
    /// The report, as it would be if the stream ended now.
    pub report: SourceReport,
    /// The time since the last packet.
    pub silent: Duration,
}

/// The current figures of all streams of a run. Clones share the figures.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<BTreeMap<usize, Vec<LiveReport>>>>);

impl Live {
    /// Returns the figures of all streams. Each socket updates its figures every half second.
    pub fn streams(&self) -> Vec<LiveReport> {
        let by_socket = lock(&self.0);
        let mut all: Vec<LiveReport> = by_socket.values().flatten().cloned().collect();
        for (stream, live) in all.iter_mut().enumerate() {
            live.report.stream = stream;
        }
        all
    }

    fn set(&self, socket: usize, reports: Vec<LiveReport>) {
        lock(&self.0).insert(socket, reports);
    }
}

/// Updates the figures of one socket.
#[derive(Debug)]
pub(super) struct Publisher {
    live: Live,
    socket: usize,
    due: Pin<Box<Sleep>>,
}

impl Publisher {
    pub(super) fn new(live: &Live, socket: usize) -> Self {
        Publisher {
            live: live.clone(),
            socket,
            due: Box::pin(sleep(Duration::ZERO)),
        }
    }

    /// Publishes the figures if it is time, and makes the task of `cx` run again when it is time
    /// for the next ones.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, demux: &Demux) {
        while self.due.as_mut().poll(cx).is_ready() {
            self.live.set(self.socket, demux.live_reports());
            self.due = Box::pin(sleep(INTERVAL));
        }
    }
}

//! The access log: a JSON line an answer, written by a thread of its own.
//!
//! Bounded: a disk that does not keep up loses lines, which is counted, and no time of a request.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use creel::channel::ring;
use serde::Serialize;

use crate::metrics::Metrics;

const LINES: usize = 8192;

/// A line.
#[derive(Debug, Serialize)]
pub struct Line {
    /// When the answer was ready, in milliseconds since 1970.
    time_ms: u64,
    method: String,
    path: String,
    status: u16,
    took_us: u64,
    bytes: usize,
}

impl Line {
    /// Of an answer that is ready now.
    pub fn new(method: &str, path: &str, status: u16, took: Duration, bytes: usize) -> Line {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Line {
            time_ms: now.as_millis() as u64,
            method: method.to_owned(),
            path: path.to_owned(),
            status,
            took_us: took.as_micros() as u64,
            bytes,
        }
    }
}

/// Where lines go.
#[derive(Debug)]
pub struct AccessLog {
    lines: Option<ring::Sender<Line>>,
    thread: Option<JoinHandle<()>>,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    /// Appends to a file; `-` is stderr.
    ///
    /// # Errors
    ///
    /// The file's, or the thread's.
    pub fn open(path: &Path, metrics: Arc<Metrics>) -> io::Result<AccessLog> {
        let out: Box<dyn Write + Send> = match path.to_str() {
            Some("-") => Box::new(io::stderr()),
            _ => Box::new(OpenOptions::new().create(true).append(true).open(path)?),
        };
        let (sender, lines) = ring::channel(LINES);
        let thread = thread::Builder::new().name("access-log".into());
        let counted = Arc::clone(&metrics);
        let thread = thread.spawn(move || write(&lines, BufWriter::new(out), &counted))?;
        Ok(AccessLog {
            lines: Some(sender),
            thread: Some(thread),
            metrics,
        })
    }

    /// Writes a line, or counts that there was no room.
    pub fn line(&self, line: Line) {
        if let Some(lines) = &self.lines
            && lines.try_send(line).is_err()
        {
            self.metrics.log_dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for AccessLog {
    /// All lines are out then.
    fn drop(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(lines: &ring::Receiver<Line>, mut out: impl Write, metrics: &Metrics) {
    while let Ok(line) = lines.recv_blocking() {
        let mut next = Some(line);
        while let Some(line) = next {
            let written = serde_json::to_writer(&mut out, &line).map_err(io::Error::from);
            if written.and_then(|()| out.write_all(b"\n")).is_err() {
                metrics.log_dropped.fetch_add(1, Relaxed);
            }
            next = lines.try_recv().ok();
        }
        if out.flush().is_err() {
            metrics.log_dropped.fetch_add(1, Relaxed);
        }
    }
}

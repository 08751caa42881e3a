//! The access log: a JSON line an answer, written by a thread of its own.
//!
//! Bounded: a disk that does not keep up loses lines, which is counted, and no time of a request; in
//! the end, what is not taken within a second is lost, too.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
#[cfg(unix)]
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use creel::channel::bounded;
use serde::Serialize;

use crate::metrics::Metrics;

const QUEUE_MAX: usize = 8192;
/// For which the last lines are waited for in the end: a pipe may have nobody who reads it.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A line.
#[derive(Debug, Serialize)]
pub struct LogEntry {
    /// When the answer was ready, in milliseconds since 1970.
    time_ms: u64,
    method: String,
    path: String,
    status: u16,
    took_us: u64,
    bytes: usize,
}

impl LogEntry {
    /// Of an answer that is ready now.
    pub fn new(method: &str, path: &str, status: u16, took: Duration, bytes: usize) -> LogEntry {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        LogEntry {
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
    lines: Option<bounded::Sender<LogEntry>>,
    /// Closed when the thread has written all.
    done: Mutex<mpsc::Receiver<()>>,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    /// Appends to a file; `-` is stderr. A pipe may be read later, and holds up nothing until then.
    ///
    /// # Errors
    ///
    /// The file's, or the thread's.
    pub fn open(path: &Path, metrics: Arc<Metrics>) -> io::Result<AccessLog> {
        let out: Box<dyn Write + Send> = match path.to_str() {
            Some("-") => Box::new(io::stderr()),
            _ => {
                let mut options = OpenOptions::new();
                options.create(true).append(true);
                // One that is only written would wait here for who reads it.
                #[cfg(unix)]
                options.read(std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo()));
                Box::new(options.open(path)?)
            }
        };
        let (sender, lines) = bounded::channel(QUEUE_MAX);
        let (done_sender, done) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("access-log".into());
        let counted = Arc::clone(&metrics);
        thread.spawn(move || {
            let _done_sender = done_sender;
            write(&lines, BufWriter::new(out), &counted);
        })?;
        Ok(AccessLog {
            lines: Some(sender),
            done: Mutex::new(done),
            metrics,
        })
    }

    /// Writes a line, or counts that there was no room.
    pub fn line(&self, line: LogEntry) {
        if let Some(lines) = &self.lines
            && lines.try_send(line).is_err()
        {
            self.metrics.log_dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for AccessLog {
    /// All lines are out then, if somebody takes them.
    fn drop(&mut self) {
        self.lines = None;
        if let Ok(done) = self.done.get_mut() {
            let _ = done.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

fn write(lines: &bounded::Receiver<LogEntry>, mut out: impl Write, metrics: &Metrics) {
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

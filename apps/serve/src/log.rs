//! The access log. Its own thread writes one line of JSON per response.
//!
//! The log is bounded and never delays a request. If the disk is too slow or full, we drop lines
//! and count them. We report on stderr when errors of the file begin and when they end. During
//! shutdown, we wait for the last lines for at most a second and drop the rest.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use creel::channel::bounded;
use creel_console::output;
use serde::Serialize;

use crate::metrics::Metrics;

const QUEUE_MAX: usize = 8192;
/// The number of bytes after which we write, even if more lines are queued.
const WRITE_MAX: usize = 64 << 10;
/// How long we wait for the last lines during shutdown. We need a limit because a pipe may have no
/// reader.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A line of the log.
#[derive(Debug, Serialize)]
pub struct LogEntry {
    /// When the response was ready, in milliseconds since 1970.
    time_ms: u64,
    /// The address of the client, as `IP:PORT`.
    client: Option<SocketAddr>,
    method: String,
    path: String,
    status: u16,
    took_us: u64,
    bytes: usize,
}

impl LogEntry {
    /// Creates the line of a response that is ready now.
    pub fn new(
        client: Option<SocketAddr>,
        method: &str,
        path: &str,
        status: u16,
        took: Duration,
        bytes: usize,
    ) -> LogEntry {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        LogEntry {
            time_ms: now.as_millis() as u64,
            client,
            method: method.to_owned(),
            path: path.to_owned(),
            status,
            took_us: took.as_micros() as u64,
            bytes,
        }
    }
}

/// Sends lines to the thread that writes them.
#[derive(Debug)]
pub struct AccessLog {
    lines: Option<bounded::Sender<LogEntry>>,
    /// The thread closes this channel when it has written all lines.
    done: Mutex<mpsc::Receiver<()>>,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    /// Opens the log, which appends to a file. The path `-` means stderr.
    ///
    /// If the path is a named pipe without a reader, this call does not wait for one.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be opened or the thread cannot be started.
    pub fn open(path: &Path, metrics: Arc<Metrics>) -> io::Result<AccessLog> {
        let out: Box<dyn Write + Send> = match path.to_str() {
            Some("-") => Box::new(io::stderr()),
            _ => {
                let mut options = OpenOptions::new();
                options.create(true).append(true);
                // The log contains addresses of clients.
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                // Opening a pipe only for writing would block until there is a reader.
                #[cfg(unix)]
                options.read(std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo()));
                Box::new(options.open(path)?)
            }
        };
        let (sender, lines) = bounded::channel(QUEUE_MAX);
        let (done_sender, done) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("access-log".into());
        let state = State {
            name: path.display().to_string(),
            has_failed: false,
            metrics: Arc::clone(&metrics),
        };
        thread.spawn(move || {
            let _done_sender = done_sender;
            write(&lines, out, state);
        })?;
        Ok(AccessLog {
            lines: Some(sender),
            done: Mutex::new(done),
            metrics,
        })
    }

    /// Writes a line, or counts it as dropped if the queue is full.
    pub fn line(&self, line: LogEntry) {
        if let Some(lines) = &self.lines
            && lines.try_send(line).is_err()
        {
            self.metrics.log_dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for AccessLog {
    /// Waits until all lines are written, but no longer than [`FLUSH_TIMEOUT`].
    fn drop(&mut self) {
        self.lines = None;
        if let Ok(done) = self.done.get_mut() {
            let _ = done.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// The state of the file.
struct State {
    name: String,
    /// Whether the last attempt to write has failed.
    has_failed: bool,
    metrics: Arc<Metrics>,
}

impl State {
    /// Records the result of writing some lines, and reports a change.
    fn written(&mut self, lines: u64, result: &io::Result<()>) {
        match result {
            Ok(()) if self.has_failed => {
                output::note(&format!(
                    "creel-serve: the access log {} can be written again\n",
                    self.name
                ));
            }
            Err(error) if !self.has_failed => {
                output::note(&format!(
                    "creel-serve: cannot write the access log {}: {error}. Lines are dropped until \
                     it can be written again\n",
                    self.name
                ));
            }
            _ => {}
        }
        self.has_failed = result.is_err();
        if self.has_failed {
            self.metrics.log_dropped.fetch_add(lines, Relaxed);
        }
    }
}

/// Writes lines until all senders are gone, as many at once as are queued and fit into
/// [`WRITE_MAX`]. A failed write drops its lines.
fn write(lines: &bounded::Receiver<LogEntry>, mut out: impl Write, mut state: State) {
    let mut text = Vec::new();
    while let Ok(line) = lines.recv_blocking() {
        if state.has_failed {
            // The failed write may have left half a line.
            text.push(b'\n');
        }
        let (mut next, mut count) = (Some(line), 0);
        while let Some(line) = next {
            // Writing to a vector cannot fail, and a line has only texts and numbers.
            let _ = serde_json::to_writer(&mut text, &line);
            text.push(b'\n');
            count += 1;
            next = match text.len() < WRITE_MAX {
                true => lines.try_recv().ok(),
                false => None,
            };
        }
        let result = out.write_all(&text).and_then(|()| out.flush());
        state.written(count, &result);
        text.clear();
    }
}

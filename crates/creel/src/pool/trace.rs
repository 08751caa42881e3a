//! What each worker did when, for a trace viewer.
//!
//! Off, it costs a relaxed load a span. On, a span costs two looks at the clock and an
//! uncontended lock, and each worker keeps the first [`SPANS_MAX`] of them.

use super::{Pool, shared::Shared};
use crate::sync::{AtomicBool, Mutex, Ordering, lock, now_ns};
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// The most spans kept of one worker.
const SPANS_MAX: usize = 200_000;

/// Shorter spans are not kept: a wait that ended before it began.
const SPAN_NS_MIN: u64 = 50;

/// What a worker was at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing {
    Loop,
    Urgent,
    Spinning,
    Parked,
}

impl Doing {
    fn name(self) -> &'static str {
        match self {
            Doing::Loop => "loop",
            Doing::Urgent => "urgent job",
            Doing::Spinning => "spinning",
            Doing::Parked => "parked",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    doing: Doing,
    begin_ns: u64,
    end_ns: u64,
}

/// The spans of one seat.
#[derive(Debug, Default)]
pub(crate) struct Spans(Mutex<Vec<Span>>);

/// Whether spans are kept now.
#[derive(Debug, Default)]
pub(crate) struct Tracing(AtomicBool);

impl Tracing {
    /// The time, if spans are kept: what [`Spans::note`] is given at the span's end.
    pub(crate) fn begin(&self) -> Option<u64> {
        self.0.load(Ordering::Relaxed).then(now_ns)
    }
}

impl Spans {
    /// Keeps a span that began at `begin` and ends now.
    #[inline]
    pub(crate) fn note(&self, doing: Doing, begin: Option<u64>) {
        if let Some(begin_ns) = begin {
            self.keep(doing, begin_ns);
        }
    }

    #[cold]
    fn keep(&self, doing: Doing, begin_ns: u64) {
        let end_ns = now_ns();
        let mut spans = lock(&self.0);
        if end_ns - begin_ns >= SPAN_NS_MIN && spans.len() < SPANS_MAX {
            spans.push(Span {
                doing,
                begin_ns,
                end_ns,
            });
        }
    }
}

/// Ends the tracing when dropped.
struct On<'a>(&'a Shared);

impl Drop for On<'_> {
    fn drop(&mut self) {
        self.0.tracing.0.store(false, Ordering::Relaxed);
    }
}

impl Pool {
    /// Runs `f` and writes what each worker did meanwhile to the file `path`, for Perfetto
    /// (`ui.perfetto.dev`) or `chrome://tracing` to show: loops, urgent jobs, spins and sleeps,
    /// a row a worker. A loop's caller is in the row of the worker whose share it takes.
    ///
    /// # Errors
    /// If the file cannot be written. `f` has run then.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let path = std::env::temp_dir().join(format!("creel-{}.json", std::process::id()));
    /// let doubled = pool.trace(&path, || pool.map(&[1, 2, 3], |_, x| x * 2))?;
    /// assert_eq!(doubled, [2, 4, 6]);
    /// assert!(std::fs::read_to_string(&path)?.starts_with("{\"traceEvents\":["));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace<R>(&self, path: impl AsRef<Path>, f: impl FnOnce() -> R) -> io::Result<R> {
        let shared = &self.shared;
        shared
            .seats
            .made()
            .for_each(|seat| lock(&seat.spans.0).clear());
        shared.tracing.0.store(true, Ordering::Relaxed);
        let on = On(shared);
        let result = f();
        drop(on);
        write(shared, path.as_ref())?;
        Ok(result)
    }
}

/// The Trace Event Format, complete events.
/// Source: "Trace Event Format", section "Complete Events".
fn write(shared: &Shared, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    write!(out, "{{\"traceEvents\":[")?;
    let mut comma = "";
    for seat in shared.seats.made() {
        let row = seat.index;
        let spans = std::mem::take(&mut *lock(&seat.spans.0));
        if spans.is_empty() {
            continue;
        }
        write!(
            out,
            "{comma}\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":{row},\"args\":{{\"name\":\"worker {row}\"}}}}"
        )?;
        comma = ",";
        for span in spans {
            let name = span.doing.name();
            let begin_us = span.begin_ns as f64 / 1e3;
            let us = span.end_ns.saturating_sub(span.begin_ns) as f64 / 1e3;
            write!(
                out,
                ",\n{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":1,\"tid\":{row},\"ts\":{begin_us:.3},\"dur\":{us:.3}}}"
            )?;
        }
    }
    writeln!(out, "\n],\"displayTimeUnit\":\"ns\"}}")?;
    out.into_inner()?.sync_all()
}

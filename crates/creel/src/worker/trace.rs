//! The trace of each worker, in which we record the *spans* of its activity: what the worker did,
//! and from when to when.
//!
//! If tracing is off, a span costs a relaxed load. If it is on, a span costs two reads of the clock
//! and an uncontended lock, and each worker keeps its first [`SPANS_MAX`] spans.

use crate::sync::{AtomicBool, Mutex, Ordering, lock, now_ns};

/// The maximum number of spans kept for one worker.
const SPANS_MAX: usize = 200_000;

/// The shortest span that is kept, in ns. A shorter span is a wait that had nothing to wait for,
/// for example because work had arrived before.
const SPAN_NS_MIN: u64 = 50;

/// What a worker does during a span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing {
    Loop,
    Inbox,
    Spinning,
    Parked,
}

impl Doing {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Doing::Loop => "loop",
            Doing::Inbox => "inbox job",
            Doing::Spinning => "spinning",
            Doing::Parked => "parked",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) doing: Doing,
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
}

/// The spans of one worker.
#[derive(Debug, Default)]
pub(crate) struct Spans(Mutex<Vec<Span>>);

/// Whether spans are kept at present.
#[derive(Debug, Default)]
pub(crate) struct Tracing(AtomicBool);

impl Tracing {
    /// Returns the time if spans are kept. The caller passes it to [`Spans::record`] at the end of
    /// the span.
    #[inline]
    pub(crate) fn begin(&self) -> Option<u64> {
        self.0.load(Ordering::Relaxed).then(now_ns)
    }

    /// Switches tracing on or off.
    pub(crate) fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}

impl Spans {
    /// Keeps a span that began at `begin` and ends now.
    #[inline]
    pub(crate) fn record(&self, doing: Doing, begin: Option<u64>) {
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

    /// Takes out the spans that were kept so far.
    pub(crate) fn take(&self) -> Vec<Span> {
        std::mem::take(&mut *lock(&self.0))
    }
}

//! A context is one thread that many streams share. This module has the measurements of a context.

use crate::measure::stats::{Histograms, Stations, StreamStats};
use crate::stream::buffer::Buffer;
use crate::stream::sink::Sink;
use creel::time::Clock;
use creel_media::control::Flow;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The distributions over all streams of the context that runs on this thread. They are
    /// thread-local, so that a stream needs neither a lock nor memory of its own for them.
    static HISTOGRAMS: RefCell<Histograms> = RefCell::new(Histograms::new());
}

/// Calls `f` with the distributions of the calling thread. On the worker of a context, these are
/// the distributions of the context.
#[inline]
pub fn with_histograms<R>(f: impl FnOnce(&mut Histograms) -> R) -> R {
    HISTOGRAMS.with_borrow_mut(f)
}

/// The sequence numbers of the buffers that are measured in each stream, without those of the
/// ramp-up. For example, with 25 buffers of ramp-up and 50 measured ones, they are 25 to 74.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The sequence number of the first measured buffer.
    pub begin: u64,
    /// The sequence number after that of the last measured buffer.
    pub end: u64,
}

/// A sink that measures the buffers it takes.
#[derive(Debug)]
pub struct StatsSink {
    /// The measurements of the buffers that the sink has taken.
    pub stats: StreamStats,
    window: Arc<Window>,
}

impl StatsSink {
    /// Creates a sink that measures the buffers in `window`, which all streams of a run share.
    pub fn new(window: Arc<Window>) -> Self {
        StatsSink {
            stats: StreamStats::default(),
            window,
        }
    }
}

impl Sink for StatsSink {
    #[inline]
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow> {
        if (self.window.begin..self.window.end).contains(&buffer.sequence) {
            let at = Stations {
                due: buffer.due,
                made: buffer.made,
                arrived: Clock::monotonic().nanos(),
            };
            with_histograms(|histograms| self.stats.note(histograms, at));
        }
        Ok(())
    }
}

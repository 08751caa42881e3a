//! A context: one thread that many streams share, and what it measures.

use crate::measure::stats::{Histograms, Stations, StreamStats};
use crate::stream::buffer::Buffer;
use crate::stream::sink::Sink;
use creel::task::control::Flow;
use creel::time::Clock;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// The distributions over the streams of this thread's context: no stream pays for a lock
    /// or for memory.
    static HISTOGRAMS: RefCell<Histograms> = RefCell::new(Histograms::new());
}

/// The calling thread's distributions; called on a context's worker they are the context's.
#[inline]
pub fn with_histograms<R>(f: impl FnOnce(&mut Histograms) -> R) -> R {
    HISTOGRAMS.with_borrow_mut(f)
}

/// The buffers of each stream that count, by their numbers: those of the ramp-up do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first.
    pub begin: u64,
    /// The one after the last.
    pub end: u64,
}

/// A sink that measures.
#[derive(Debug)]
pub struct StatsSink {
    /// What has been measured.
    pub stats: StreamStats,
    window: Arc<Window>,
}

impl StatsSink {
    /// Measures the buffers in `window`, which the streams of a run share.
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

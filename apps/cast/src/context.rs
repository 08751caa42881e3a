//! A context: one thread that many streams share, and what it measures.

use crate::buffer::Buffer;
use crate::machine::Flow;
use crate::sink::Sink;
use crate::stats::{Histograms, Stations, StreamStats};
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

/// The time in which buffers count: ramp-up and tail are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first nanosecond of the clock.
    pub begin: u64,
    /// The nanosecond after the last.
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
    /// Measures the buffers that are due in `window`, which the streams of a run share.
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
        if (self.window.begin..self.window.end).contains(&buffer.due) {
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

//! The numbers of a stream, and the histograms of a context.
//!
//! A stream notes each buffer in a few additions; the histograms are shared by the streams of a
//! context, so that a stream costs little memory and none is left out of the percentiles.

pub use creel_stats::{Histogram, Moments, Percentiles};

/// When a buffer's life went through its stations, in nanoseconds of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stations {
    /// When it should have been made.
    pub due: u64,
    /// When it was made and pushed.
    pub made: u64,
    /// When the sink had it.
    pub arrived: u64,
}

/// One stream's numbers, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamStats {
    /// From one buffer's arrival to the next one's.
    pub interval: Moments,
    /// From being made to being with the sink.
    pub latency: Moments,
    /// When the last buffer arrived; zero: none has.
    last: u64,
}

impl StreamStats {
    /// When the last buffer arrived; zero: none has.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Notes a buffer here and in the context's histograms.
    #[inline]
    pub fn note(&mut self, histograms: &mut Histograms, at: Stations) {
        let latency = at.arrived.saturating_sub(at.made);
        // Signed: these convert in one instruction, and no time reaches 292 years.
        self.latency.note(latency as i64 as f64);
        histograms.latency.record(latency);
        histograms.lateness.record(at.made.saturating_sub(at.due));
        if self.last > 0 {
            let interval = at.arrived.saturating_sub(self.last);
            self.interval.note(interval as i64 as f64);
            histograms.interval.record(interval);
        }
        self.last = at.arrived;
    }
}

/// Distributions over all streams of a context, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Histograms {
    /// From one buffer's arrival to the next one's of the same stream.
    pub interval: Histogram,
    /// From being made to being with the sink.
    pub latency: Histogram,
    /// From when it should have been made to when it was.
    pub lateness: Histogram,
}

impl Histograms {
    /// Empty ones.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds those of another context.
    pub fn merge(&mut self, other: &Histograms) {
        self.interval.merge(&other.interval);
        self.latency.merge(&other.latency);
        self.lateness.merge(&other.lateness);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_buffer_is_noted_in_stream_and_context() {
        let mut histograms = Histograms::new();
        let mut stream = StreamStats::default();
        for n in 1..=100 {
            let due = n * 20_000_000;
            let at = Stations {
                due,
                made: due + 1_000_000,
                arrived: due + 1_002_000,
            };
            stream.note(&mut histograms, at);
        }
        assert_eq!(stream.interval.count(), 99);
        assert_eq!(stream.interval.mean(), 2e7);
        assert_eq!(stream.latency.mean(), 2_000.0);
        let late = Percentiles::of(&histograms.lateness, Duration::from_millis(1));
        assert!((late.p99 - 1.0).abs() < 0.01);
    }
}

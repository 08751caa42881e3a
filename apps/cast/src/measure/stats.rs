//! Statistics per stream, and histograms per context.
//!
//! A stream records a buffer with a few additions. The streams of a context share its histograms. A
//! stream therefore needs little memory, and the percentiles cover all buffers.

pub use creel_stats::{Histogram, Moments, Percentiles};

/// The times at which a buffer passed its stations, in nanoseconds of one clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stations {
    /// The time at which the buffer should have been produced.
    pub due: u64,
    /// The time at which the buffer was produced and pushed.
    pub made: u64,
    /// The time at which the buffer arrived at the sink.
    pub arrived: u64,
}

/// The statistics of one stream, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamStats {
    /// The time between the arrivals of two buffers.
    pub interval: Moments,
    /// The number of buffers.
    pub buffers: u64,
    /// The arrival time of the last buffer, or zero if there is none.
    last: u64,
}

impl StreamStats {
    /// Returns the arrival time of the last buffer, or zero if there is none.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Records a buffer here and in the histograms of the context.
    #[inline]
    pub fn note(&mut self, histograms: &mut Histograms, at: Stations) {
        self.note_at(histograms, at, at.arrived);
    }

    /// Records a packet that arrived at this machine at `made` and was read at `arrived`. The
    /// intervals are those of the arrivals at the machine, so they do not depend on when we read.
    #[inline]
    pub fn note_received(&mut self, histograms: &mut Histograms, at: Stations) {
        self.note_at(histograms, at, at.made);
    }

    #[inline]
    fn note_at(&mut self, histograms: &mut Histograms, at: Stations, now: u64) {
        let latency = at.arrived.saturating_sub(at.made);
        self.buffers += 1;
        // We convert from signed integers, which takes one instruction. No time reaches 292 years.
        histograms.latency_moments.note(latency as i64 as f64);
        histograms.latency.record(latency);
        histograms.lateness.record(at.made.saturating_sub(at.due));
        if self.last > 0 {
            let interval = now.saturating_sub(self.last);
            self.interval.note(interval as i64 as f64);
            histograms.interval.record(interval);
        }
        self.last = now;
    }
}

/// Distributions over all streams of a context, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Histograms {
    /// The time between the arrivals of two buffers of the same stream.
    pub interval: Histogram,
    /// The time from the production of a buffer to its arrival at the sink.
    pub latency: Histogram,
    /// The mean and variance of the times in `latency`, because a histogram has no exact mean.
    pub latency_moments: Moments,
    /// The time from when a buffer should have been produced to when it was produced.
    pub lateness: Histogram,
}

impl Histograms {
    /// Creates empty distributions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the distributions of another context.
    pub fn merge(&mut self, other: &Histograms) {
        self.interval.merge(&other.interval);
        self.latency.merge(&other.latency);
        self.latency_moments.merge(&other.latency_moments);
        self.lateness.merge(&other.lateness);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_buffer_is_recorded_in_the_stream_and_the_context() {
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
        assert_eq!(
            (stream.buffers, histograms.latency_moments.mean()),
            (100, 2_000.0)
        );
        let late = Percentiles::of(&histograms.lateness, Duration::from_millis(1));
        assert!((late.p99 - 1.0).abs() < 0.01);
    }
}

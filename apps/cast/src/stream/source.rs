//! Sources of buffers: test tones and files that are paced by a clock, and the network.

use crate::media::tone::Tone;
use crate::media::wav::Looped;
use crate::stream::buffer::Buffer;
use creel::time::{Clock, Interval, interval};
use creel_media::control::Flow;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Produces one buffer after another. The trait has a poll function instead of an `async fn`,
/// because a waiting stream is then only as large as its parts.
pub trait Source: Send + Unpin {
    /// Returns the next buffer as soon as there is one. Until then, `cx` is woken when it becomes
    /// available.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no next buffer.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Flow>>;
}

/// Produces samples on demand.
pub trait Signal: Send + Unpin {
    /// Fills `samples` with the next samples.
    fn fill(&mut self, samples: &mut [i16]);

    /// Appends the lower 8 bits of the next `_count` samples, if they have 24 bits. It is called
    /// before [`fill`](Self::fill).
    #[inline]
    fn fill_low(&self, _count: usize, _low: &mut Vec<u8>) {}

    /// Skips `_samples` samples.
    fn skip(&mut self, _samples: u64) {}
}

/// A signal that has the same samples in all channels of a frame.
#[derive(Debug)]
pub struct SameInAllChannels<S> {
    /// The signal of one channel.
    pub signal: S,
    /// The number of channels.
    pub channels: usize,
}

impl<S: Signal> Signal for SameInAllChannels<S> {
    fn fill(&mut self, samples: &mut [i16]) {
        let frames = samples.len() / self.channels;
        self.signal.fill(&mut samples[..frames]);
        if self.channels > 1 {
            // We start at the end, so that no sample is overwritten before it is read.
            for frame in (0..frames).rev() {
                let sample = samples[frame];
                samples[frame * self.channels..][..self.channels].fill(sample);
            }
        }
    }

    fn skip(&mut self, samples: u64) {
        self.signal.skip(samples / self.channels as u64);
    }
}

impl Signal for Tone {
    fn fill(&mut self, samples: &mut [i16]) {
        Tone::fill(self, samples);
    }

    fn skip(&mut self, samples: u64) {
        Tone::skip(self, samples);
    }
}

impl Signal for Looped {
    fn fill_low(&self, count: usize, low: &mut Vec<u8>) {
        Looped::fill_low(self, count, low);
    }

    fn fill(&mut self, samples: &mut [i16]) {
        Looped::fill(self, samples);
    }

    fn skip(&mut self, samples: u64) {
        Looped::skip(self, samples);
    }
}

/// A signal that leaves the buffer unchanged. It excludes the cost of producing samples from a
/// measurement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blank;

impl Signal for Blank {
    #[inline]
    fn fill(&mut self, _samples: &mut [i16]) {}
}

/// The maximum delay that a stream catches up with after the program did not run.
const CATCH_UP_MAX: Duration = Duration::from_millis(100);

/// A source that produces a buffer of a signal on each tick of an interval.
///
/// If it is a little late, it catches up, so that each deadline yields a buffer. For example, if it
/// is 60 ms late and has 20 ms per buffer, it produces three buffers in a row.
///
/// If it is more than 100 ms behind, it skips the past deadlines, as a sound card does. The
/// listeners have had silence in the meantime, so old buffers are of no use to them.
#[derive(Debug)]
pub struct Paced<S> {
    interval: Interval,
    signal: S,
    /// The number of samples per buffer.
    samples: usize,
    made: u64,
    /// The total number of buffers.
    limit: u64,
}

impl<S: Signal> Paced<S> {
    /// Creates a source of `limit` buffers, with one buffer per tick and `samples` samples per
    /// buffer.
    pub fn new(interval: Interval, signal: S, samples: usize, limit: u64) -> Self {
        Paced {
            interval,
            signal,
            samples,
            made: 0,
            limit,
        }
    }

    /// Skips to the last deadline before `now`, and returns that deadline.
    #[cold]
    fn skip(&mut self, due: u64, now: u64) -> u64 {
        let period = self.interval.period();
        let nanos = period.as_nanos() as u64;
        let missed = ((now - due) / nanos).min(self.limit - self.made - 1);
        self.made += missed;
        self.signal.skip(missed * self.samples as u64);
        let due = due + missed * nanos;
        let next = Duration::from_nanos((due + nanos).saturating_sub(now));
        self.interval = interval(period).starting(Instant::now() + next);
        due
    }
}

impl<S: Signal> Source for Paced<S> {
    #[inline]
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Flow>> {
        if self.made >= self.limit {
            return Poll::Ready(Err(Flow::EndOfStream));
        }
        let mut due = ready!(self.interval.poll_tick_nanos(cx));
        let now = Clock::monotonic().nanos();
        if now.saturating_sub(due) > CATCH_UP_MAX.as_nanos() as u64 {
            due = self.skip(due, now);
        }
        let mut buffer = Buffer::new(self.samples);
        self.signal.fill_low(self.samples, &mut buffer.low);
        self.signal.fill(&mut buffer.samples);
        buffer.sequence = self.made;
        buffer.due = due;
        buffer.made = now;
        self.made += 1;
        Poll::Ready(Ok(buffer))
    }
}

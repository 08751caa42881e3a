//! Where buffers come from: test tones and files by the clock, and the network.

use crate::media::tone::Tone;
use crate::media::wav::Looped;
use crate::stream::buffer::Buffer;
use creel::task::control::Flow;
use creel::time::{Clock, Interval, interval};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// Makes one buffer after another. It is polled and no `async fn`, so that a stream that waits
/// is as small as its parts.
pub trait Source: Send + Unpin {
    /// The next buffer, once it is there; until then `cx` is woken when it is.
    ///
    /// # Errors
    ///
    /// If there is no next one.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Flow>>;
}

/// Makes samples on demand.
pub trait Signal: Send + Unpin {
    /// The next samples.
    fn fill(&mut self, samples: &mut [i16]);

    /// Leaves out so many.
    fn skip(&mut self, _samples: u64) {}
}

/// A signal with the same samples in all channels of a frame.
#[derive(Debug)]
pub struct SameInAllChannels<S> {
    /// The signal of one channel.
    pub signal: S,
    /// Samples a frame.
    pub channels: usize,
}

impl<S: Signal> Signal for SameInAllChannels<S> {
    fn fill(&mut self, samples: &mut [i16]) {
        let frames = samples.len() / self.channels;
        self.signal.fill(&mut samples[..frames]);
        if self.channels > 1 {
            // From the end, so that none is written over before it is read.
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
    fn fill(&mut self, samples: &mut [i16]) {
        Looped::fill(self, samples);
    }

    fn skip(&mut self, samples: u64) {
        Looped::skip(self, samples);
    }
}

/// Leaves a buffer as it is: what is measured then is all but the making of sound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blank;

impl Signal for Blank {
    #[inline]
    fn fill(&mut self, _samples: &mut [i16]) {}
}

/// What a stream catches up at most when its program has not run.
const CATCH_UP_MAX: Duration = Duration::from_millis(100);

/// A signal that gives a buffer each time its interval ticks. A little late, it catches up: each
/// deadline gives one buffer. Further behind than 100 ms, it leaves out what is past, as a sound
/// card does: whoever listens has had silence, and would get all at once.
#[derive(Debug)]
pub struct Paced<S> {
    interval: Interval,
    signal: S,
    /// Samples of a buffer.
    samples: usize,
    made: u64,
    /// How many buffers there will be.
    limit: u64,
}

impl<S: Signal> Paced<S> {
    /// `limit` buffers of `signal`, one a tick, with `samples` samples each.
    pub fn new(interval: Interval, signal: S, samples: usize, limit: u64) -> Self {
        Paced {
            interval,
            signal,
            samples,
            made: 0,
            limit,
        }
    }

    /// Goes on with the last deadline before now; that deadline.
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
        self.signal.fill(&mut buffer.samples);
        buffer.sequence = self.made;
        buffer.due = due;
        buffer.made = now;
        self.made += 1;
        Poll::Ready(Ok(buffer))
    }
}

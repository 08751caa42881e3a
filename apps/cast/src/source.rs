//! Where buffers come from: test tones and files by the clock, and the network.

use crate::buffer::Buffer;
use crate::machine::Flow;
use crate::tone::Tone;
use crate::wav::Looped;
use creel::time::{Clock, Interval};
use std::task::{Context, Poll, ready};

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
}

impl Signal for Tone {
    fn fill(&mut self, samples: &mut [i16]) {
        Tone::fill(self, samples);
    }
}

impl Signal for Looped {
    fn fill(&mut self, samples: &mut [i16]) {
        Looped::fill(self, samples);
    }
}

/// Leaves a buffer as it is: what is measured then is all but the making of sound.
#[derive(Debug, Clone, Copy, Default)]
pub struct Blank;

impl Signal for Blank {
    #[inline]
    fn fill(&mut self, _samples: &mut [i16]) {}
}

/// A signal that gives a buffer each time its interval ticks. Late, it catches up: each deadline
/// gives one buffer.
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
}

impl<S: Signal> Source for Paced<S> {
    #[inline]
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Buffer, Flow>> {
        if self.made == self.limit {
            return Poll::Ready(Err(Flow::EndOfStream));
        }
        let due = ready!(self.interval.poll_tick_nanos(cx));
        let mut buffer = Buffer::new(self.samples);
        self.signal.fill(&mut buffer.samples);
        buffer.sequence = self.made;
        buffer.due = due;
        buffer.made = Clock::monotonic().nanos();
        self.made += 1;
        Poll::Ready(Ok(buffer))
    }
}

//! Where buffers come from: test tones and files by the clock, and the network.

use crate::buffer::Buffer;
use crate::machine::Flow;
use crate::tone::Tone;
use crate::wav::Looped;
use creel::time::{Clock, Interval};
use std::future::{Future, poll_fn};

/// Makes one buffer after another.
pub trait Source: Send {
    /// Waits for the next buffer and fills it. Cancel-safe.
    ///
    /// # Errors
    ///
    /// If there is no next one.
    fn next(&mut self, buffer: &mut Buffer) -> impl Future<Output = Result<(), Flow>> + Send;
}

/// Makes samples on demand.
pub trait Signal: Send {
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
    fn fill(&mut self, _samples: &mut [i16]) {}
}

/// A signal that gives a buffer each time its interval ticks. Late, it catches up: each deadline
/// gives one buffer.
#[derive(Debug)]
pub struct Paced<S> {
    interval: Interval,
    signal: S,
    made: u64,
    /// How many buffers there will be.
    limit: u64,
}

impl<S: Signal> Paced<S> {
    /// `limit` buffers of `signal`, one a tick.
    pub fn new(interval: Interval, signal: S, limit: u64) -> Self {
        Paced {
            interval,
            signal,
            made: 0,
            limit,
        }
    }
}

impl<S: Signal> Source for Paced<S> {
    async fn next(&mut self, buffer: &mut Buffer) -> Result<(), Flow> {
        if self.made == self.limit {
            return Err(Flow::EndOfStream);
        }
        let due = poll_fn(|cx| self.interval.poll_tick_nanos(cx)).await;
        self.signal.fill(&mut buffer.samples);
        buffer.sequence = self.made;
        buffer.due = due;
        buffer.made = Clock::monotonic().nanos();
        self.made += 1;
        Ok(())
    }
}

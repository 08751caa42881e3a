//! A stream: a source whose buffers are pushed to a sink, as the work of one task.

use crate::buffer::Buffer;
use crate::control::Work;
use crate::machine::Flow;
use crate::sink::Push;
use crate::source::Source;

/// Moves buffers from a source to a sink.
#[derive(Debug)]
pub struct Stream<S, P> {
    source: S,
    push: P,
    buffer: Buffer,
    /// The buffer is filled and not pushed yet: a pause came in between.
    filled: bool,
}

impl<S: Source, P: Push> Stream<S, P> {
    /// A stream whose buffers hold `samples` samples.
    pub fn new(source: S, push: P, samples: usize) -> Self {
        Stream {
            source,
            push,
            buffer: Buffer::new(samples),
            filled: false,
        }
    }

    /// Gives back what led to the sink.
    pub fn into_push(self) -> P {
        self.push
    }
}

impl<S: Source, P: Push> Work for Stream<S, P> {
    async fn step(&mut self) -> Result<(), Flow> {
        if !self.filled {
            self.source.next(&mut self.buffer).await?;
            self.filled = true;
        }
        self.push.push(&mut self.buffer).await?;
        self.filled = false;
        Ok(())
    }

    fn flush(&mut self) {
        self.filled = false;
        self.push.flush();
    }
}

//! A stream moves buffers from a source to a sink. It is the work of one task.

use crate::stream::buffer::Buffer;
use crate::stream::sink::Push;
use crate::stream::source::Source;
use creel_media::control::{Flow, Work};
use std::task::{Context, Poll, ready};

/// Moves buffers from a source to a sink.
#[derive(Debug)]
pub struct Stream<S, P> {
    source: S,
    push: P,
    /// A buffer that has been produced but not passed on, because the sink is full or the stream
    /// was paused.
    buffer: Option<Buffer>,
}

impl<S: Source, P: Push> Stream<S, P> {
    /// Creates a stream from `source` to the sink behind `push`.
    pub fn new(source: S, push: P) -> Self {
        Stream {
            source,
            push,
            buffer: None,
        }
    }

    /// Returns the object that passes buffers to the sink.
    pub fn into_push(self) -> P {
        self.push
    }
}

impl<S: Source, P: Push> Work for Stream<S, P> {
    #[inline]
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        let mut buffer = match self.buffer.take() {
            None => Some(ready!(self.source.poll_next(cx))?),
            buffer => buffer,
        };
        let pushed = self.push.poll_push(cx, &mut buffer);
        if pushed.is_pending() {
            self.buffer = buffer;
        }
        pushed
    }

    fn flush(&mut self) {
        self.buffer = None;
        self.push.flush();
    }
}

//! Buffers of audio samples, whose memory each thread reuses.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// The maximum number of blocks that a thread keeps for its next buffers.
const SPARE_MAX: usize = 4_096;
const TAKEN: &str = "a buffer must own its block until it is dropped";

thread_local! {
    static SPARE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Samples on their way from a source to a sink. A buffer is a pointer to a [`Block`].
///
/// A dropped buffer leaves its block to the thread. The next buffer that is created on this thread
/// reuses the block, which is still in the cache. A context is one thread, so it only allocates as
/// many blocks as are in use at the same time. A stream that waits for its next buffer holds no
/// block.
#[derive(Debug)]
pub struct Buffer(Option<Box<Block>>);

/// The contents of a buffer.
#[derive(Debug, Default)]
pub struct Block {
    /// The number of the period in its stream.
    pub sequence: u64,
    /// The time at which the buffer should have been produced, in nanoseconds of the clock.
    pub due: u64,
    /// The time at which the buffer was produced, in nanoseconds of the clock.
    pub made: u64,
    /// The interleaved samples.
    pub samples: Vec<i16>,
    /// The lower 8 bits of samples of 24 bits, or empty for samples of 16 bits.
    pub low: Vec<u8>,
}

impl Buffer {
    #[cold]
    fn fresh() -> Self {
        Buffer(Some(Box::default()))
    }

    #[cold]
    fn set_len(&mut self, samples: usize) {
        self.samples.resize(samples, 0);
    }

    /// Creates a buffer of `samples` samples, whose values are unspecified.
    #[inline]
    pub fn new(samples: usize) -> Self {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let mut buffer = spare.unwrap_or_else(Self::fresh);
        if buffer.samples.len() != samples {
            buffer.set_len(samples);
        }
        if !buffer.low.is_empty() {
            buffer.low.clear();
        }
        buffer
    }
}

impl Deref for Buffer {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        self.0.as_ref().expect(TAKEN)
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut Block {
        self.0.as_mut().expect(TAKEN)
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        let Some(block) = self.0.take() else { return };
        // While the thread ends, its list of spare blocks no longer exists. The block is then freed
        // as usual.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(Buffer(Some(block)));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_reused() {
        let buffer = Buffer::new(80);
        let first = buffer.samples.as_ptr();
        let second = Buffer::new(80);
        assert_ne!(second.samples.as_ptr(), first);
        drop(buffer);
        assert_eq!(Buffer::new(80).samples.as_ptr(), first);
    }
}

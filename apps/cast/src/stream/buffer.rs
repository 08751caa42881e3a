//! Buffers whose memory is used again.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Blocks that a thread keeps for its next buffers.
const SPARE_MAX: usize = 4_096;
const TAKEN: &str = "a buffer has its block until it is dropped";

thread_local! {
    static SPARE: RefCell<Vec<Buffer>> = const { RefCell::new(Vec::new()) };
}

/// Samples on their way from a source to a sink: a pointer to a [`Block`].
///
/// Dropped, its block stays with the thread for the next buffer made there, which finds it in
/// the cache. A context, which is one thread, makes as many blocks as are under way at once, and
/// then no more; a stream that waits has none.
#[derive(Debug)]
pub struct Buffer(Option<Box<Block>>);

/// What a buffer carries.
#[derive(Debug, Default)]
pub struct Block {
    /// One more with each period of a stream; of a recording, the frame at which it belongs.
    pub sequence: u64,
    /// When it should have been made, in nanoseconds of the clock.
    pub due: u64,
    /// When it was made, in nanoseconds of the clock.
    pub made: u64,
    /// The sound, interleaved.
    pub samples: Vec<i16>,
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

    /// A buffer of `samples` samples, of no particular content.
    #[inline]
    pub fn new(samples: usize) -> Self {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let mut buffer = spare.unwrap_or_else(Self::fresh);
        if buffer.samples.len() != samples {
            buffer.set_len(samples);
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
        // While the thread ends there is no place any more, and the memory goes its usual way.
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

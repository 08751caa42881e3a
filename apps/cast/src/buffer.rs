//! Buffers whose memory is used again.

use std::cell::RefCell;

/// Blocks that a thread keeps for its next buffers.
const SPARE_MAX: usize = 4_096;

thread_local! {
    static SPARE: RefCell<Vec<Vec<i16>>> = const { RefCell::new(Vec::new()) };
}

/// Samples on their way from a source to a sink.
///
/// Dropped, its memory stays with the thread for the next buffer made there: a context, which
/// is one thread, makes as many blocks as are under way at once, and then no more.
#[derive(Debug, Default)]
pub struct Buffer {
    /// One more with each buffer of a stream; from RTP modulo 2¹⁶.
    pub sequence: u64,
    /// Which stream it came from, where one source receives several.
    pub ssrc: u32,
    /// When it should have been made, in nanoseconds of the clock.
    pub due: u64,
    /// When it was made, in nanoseconds of the clock.
    pub made: u64,
    /// What it carries.
    pub samples: Vec<i16>,
}

impl Buffer {
    /// A buffer of `samples` samples, of no particular value.
    pub fn new(samples: usize) -> Self {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let mut samples_of = spare.unwrap_or_default();
        samples_of.resize(samples, 0);
        Buffer {
            samples: samples_of,
            ..Buffer::default()
        }
    }

    /// This buffer, and in its place another one of the same length.
    pub fn replace(&mut self) -> Buffer {
        let next = Buffer::new(self.samples.len());
        std::mem::replace(self, next)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        if samples.capacity() == 0 {
            return;
        }
        // While the thread ends there is no place any more, and the memory goes its usual way.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(samples);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again() {
        let mut buffer = Buffer::new(80);
        let first = buffer.samples.as_ptr();
        drop(buffer.replace());
        assert_ne!(buffer.samples.as_ptr(), first);
        drop(buffer.replace());
        assert_eq!(buffer.samples.as_ptr(), first);
    }
}

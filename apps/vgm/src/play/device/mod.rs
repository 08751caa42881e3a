//! Where sound goes: a device takes what it has room for, and never blocks.
//!
//! | | takes | made for |
//! |---|---|---|
//! | [`Null`] | what a device of 40 ms would, by the clock | tests, and machines without sound |
//! | [`Pulse`] | what the server asks for | PulseAudio, PipeWire |
//! | [`Pipe`] | what fits the pipe | a program that plays, a FIFO, standard output |
//! | [`WavFile`] | all | a file |

mod null;
mod pipe;
mod pulse;
mod wav_file;

pub use null::Null;
pub use pipe::{PLAYERS, Pipe};
pub use pulse::Pulse;
pub use wav_file::WavFile;

use std::io;

/// A way to open the device, again if it was lost.
pub type Open = Box<dyn FnMut() -> io::Result<Box<dyn Device>> + Send>;

/// Something that plays sound.
pub trait Device: Send {
    /// Takes as many of the frames as there is room for, and says how many. Does not block.
    ///
    /// # Errors
    ///
    /// If the device is gone: it is not used again.
    fn write(&mut self, frames: &[[f32; 2]]) -> io::Result<usize>;

    /// How many frames it has taken that are not played yet, as far as it knows.
    fn queued_frames(&mut self) -> usize;

    /// Whether one that was lost is not to be looked for again: a file, say.
    fn is_permanently_lost(&self) -> bool {
        false
    }

    /// Brings what it has taken to where it goes, the last call; who quits does not wait until it
    /// `is_heard`.
    ///
    /// # Errors
    ///
    /// If something of it is lost.
    fn finish(&mut self, is_heard: bool) -> io::Result<()> {
        let _ = is_heard;
        Ok(())
    }
}

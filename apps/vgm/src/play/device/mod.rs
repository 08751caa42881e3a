//! Where sound goes: a device takes what it has room for, and never blocks.
//!
//! | | takes | made for |
//! |---|---|---|
//! | [`Null`] | what a device of 20 ms would, by the clock | tests, and machines without sound |
//! | [`Pipe`] | what fits the pipe | a program that plays, standard output |
//! | [`WavFile`] | all | a file |

mod null;
mod pipe;
mod wav_file;

pub use null::Null;
pub use pipe::{PLAYERS, Pipe};
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
    fn held(&mut self) -> usize;

    /// All is written and played.
    fn finish(&mut self) {}
}

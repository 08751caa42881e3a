//! Output devices. A device accepts the frames for which it has room, and does not wait for more.
//!
//! | device | accepts | used for |
//! |---|---|---|
//! | [`Null`] | as much as a device with a buffer of 40 ms, by the clock | tests, machines without sound |
//! | `Pulse` | as much as the server requests | PulseAudio, PipeWire; on Unix |
//! | `Pipe` | as much as fits in the pipe | a program that plays sound, a FIFO, standard output; on Unix |
//! | `System` | as much as fits in a ring buffer of 40 ms | the sound output of Windows or macOS |
//! | [`WavFile`] | everything | a file |

mod null;
#[cfg(unix)]
mod pipe;
#[cfg(unix)]
mod pulse;
#[cfg(any(windows, target_os = "macos"))]
mod system;
mod wav_file;

pub use null::Null;
#[cfg(unix)]
pub use pipe::{PLAYERS, Pipe};
#[cfg(unix)]
pub use pulse::Pulse;
#[cfg(any(windows, target_os = "macos"))]
pub use system::System;
pub use wav_file::WavFile;

use std::io;

/// Opens the device. The sink calls it again if the device was lost.
pub type Open = Box<dyn FnMut() -> io::Result<Box<dyn Device>> + Send>;

/// An output device for sound.
pub trait Device: Send {
    /// Accepts as many of the frames as there is room for, and returns their number. It does not
    /// wait for more room.
    ///
    /// # Errors
    ///
    /// Fails if the device is gone. It must not be used again.
    fn write(&mut self, frames: &[[f32; 2]]) -> io::Result<usize>;

    /// Returns the number of accepted frames that have not been played yet, as far as the device
    /// knows.
    fn queued_frames(&mut self) -> usize;

    /// Returns whether a lost device cannot come back, for example a file.
    fn is_permanently_lost(&self) -> bool {
        false
    }

    /// Flushes the device. This must be the last call. The sink has already waited for the sound
    /// that [`queued_frames`](Self::queued_frames) counts. With `is_heard`, this call also waits
    /// for a limited time for the rest of the sound. We do not wait if the user quits.
    ///
    /// # Errors
    ///
    /// Fails if part of the sound is lost.
    fn finish(&mut self, is_heard: bool) -> io::Result<()> {
        let _ = is_heard;
        Ok(())
    }
}

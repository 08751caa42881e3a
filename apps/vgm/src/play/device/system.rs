//! The sound output of Windows (WASAPI) and macOS (Core Audio), through the library cpal.
//!
//! The system calls us from a thread of its own when it needs sound. That thread must never wait,
//! so it takes the samples from a ring buffer without locks. If the ring buffer is empty, it plays
//! silence.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use cpal::traits::{DeviceTrait, HostTrait, StreamTrait};
use cpal::{BufferSize, ErrorKind, OutputCallbackInfo, Stream, StreamConfig};
use rtrb::{Producer, RingBuffer};

use super::Device;

/// The size of the ring buffer as a fraction of a second: 1/25 s, or 40 ms.
const HOLDS: u32 = 25;
/// The number of samples in a frame.
const CHANNELS: usize = 2;
/// The longest time that we wait for the system to play its own buffer at the end.
const FINISH_TIMEOUT: Duration = Duration::from_millis(500);

/// The default sound output of the system.
pub struct System {
    /// The sound stops when the stream is dropped.
    stream: Stream,
    samples: Producer<f32>,
    /// Whether the output is gone. `Relaxed` is enough, because the flag carries no data.
    is_lost: Arc<AtomicBool>,
    rate: u32,
}

impl System {
    /// Opens the default output for `rate` frames per second. The system converts them to the rate
    /// of the hardware.
    ///
    /// # Errors
    ///
    /// Fails if there is no output, or if it rejects the rate.
    pub fn open(rate: u32) -> io::Result<Self> {
        let device = cpal::default_host().default_output_device();
        let device = device.ok_or_else(|| io::Error::other("this machine has no sound output"))?;
        let capacity = (rate / HOLDS) as usize * CHANNELS;
        let (samples, mut waiting) = RingBuffer::<f32>::new(capacity);
        let config = StreamConfig {
            channels: CHANNELS as u16,
            sample_rate: rate,
            buffer_size: BufferSize::Default,
        };
        let is_lost = Arc::new(AtomicBool::new(false));
        let lost = Arc::clone(&is_lost);
        let stream = device.build_output_stream(
            config,
            move |out: &mut [f32], _: &OutputCallbackInfo| {
                // Both ends move whole frames, so a frame is never split.
                let (_, missing) = waiting.pop_partial_slice(out);
                missing.fill(0.0);
            },
            move |error| match error.kind() {
                // The stream continues after these errors.
                ErrorKind::DeviceChanged | ErrorKind::Xrun | ErrorKind::RealtimeDenied => {}
                _ => lost.store(true, Relaxed),
            },
            None,
        );
        let stream = stream.map_err(io::Error::other)?;
        stream.play().map_err(io::Error::other)?;
        Ok(System {
            stream,
            samples,
            is_lost,
            rate,
        })
    }
}

impl Device for System {
    fn write(&mut self, frames: &[[f32; 2]]) -> io::Result<usize> {
        if self.is_lost.load(Relaxed) {
            return Err(io::Error::other("the sound output has disappeared"));
        }
        let (accepted, _) = self.samples.push_partial_slice(frames.as_flattened());
        Ok(accepted.len() / CHANNELS)
    }

    fn queued_frames(&mut self) -> usize {
        (self.samples.buffer().capacity() - self.samples.slots()) / CHANNELS
    }

    fn finish(&mut self, is_heard: bool) -> io::Result<()> {
        // The sink has waited until the ring buffer is empty, and the system has a buffer as well.
        if is_heard && let Ok(frames) = self.stream.buffer_size() {
            let time = Duration::from_secs_f64(f64::from(frames) / f64::from(self.rate));
            std::thread::sleep(time.min(FINISH_TIMEOUT));
        }
        Ok(())
    }
}

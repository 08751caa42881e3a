//! What the streams carry: mono, signed 16 bit, 44,100 samples a second, 10 ms a buffer.

use std::time::Duration;

/// Samples a second.
pub const RATE: u32 = 44_100;
/// Samples a buffer: 10 ms.
pub const BUFFER_SAMPLES: usize = 441;
/// Bytes a buffer: 882.
pub const BUFFER_BYTES: usize = BUFFER_SAMPLES * 2;
/// The time that a buffer lasts.
pub const BUFFER_TIME: Duration = Duration::from_millis(10);

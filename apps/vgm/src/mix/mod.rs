//! Conversion of native frames to the samples of a file: resampling, mixing, fading, converting.
//!
//! Invariant: the bits of an output frame depend only on the native frames and on its position in
//! the song. They do not depend on the block size or on the processor, because the sums of the
//! resampler use integers. Floating-point operations apply to each sample separately and in a fixed
//! order.
//!
//! We leave out dither here on purpose. Chips of this age are noisier than 16 bits, and you can
//! compare a rendering without dither bit for bit.

mod fade;
mod kernel;
mod resample;
mod sample;

pub use fade::Fade;
pub use kernel::{Kernel, ONE, Quality};
pub use resample::Resampler;
pub use sample::{SampleFormat, to_i16, to_int};

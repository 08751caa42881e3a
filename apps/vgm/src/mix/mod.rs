//! From native frames to samples in a file: resampling, mixing, fading, converting.
//!
//! Invariant: the bits of a frame depend on the frames before it and never on how they were cut
//! into blocks, nor on the processor: the resampler's sums are of integers, and what is done in
//! floating point is done to each sample alone, in one fixed order.
//!
//! Left out on purpose: dither. Chips of this age are noisier than 16 bits are, and a rendering
//! without it can be compared bit for bit.

mod fade;
mod kernel;
mod resample;
mod sample;

pub use fade::Fade;
pub use kernel::{Kernel, ONE, Quality};
pub use resample::Resampler;
pub use sample::{SampleFormat, to_i16, to_int};

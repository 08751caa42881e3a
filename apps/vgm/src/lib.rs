//! VGM game music: we read songs, emulate their sound chips, and play or render the result.
// Three modules allow unsafe code. `simd` and `chips::fm::avx512` call functions that are compiled
// for processors with more features, and `play::realtime` requests a real-time scheduling class,
// for which none of our crates has a safe function.
#![deny(unsafe_code)]

pub mod batch;
pub mod blep;
pub mod chips;
pub mod demo;
pub mod effects;
mod error;
pub mod flac;
pub mod format;
pub mod mix;
pub mod output;
pub mod play;
pub mod render;
pub mod sequence;
mod simd;
mod tags;
pub mod video;
pub mod wav;

pub use error::{Error, Result};
pub use tags::FileTags;

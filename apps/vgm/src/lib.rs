//! VGM game music: we read songs, emulate their sound chips, and play or render the result.
//!
//! The features are for programs that need only a part of the library, because the other parts have
//! many dependencies. `cli` (on by default) has the player, the videos and the program
//! `creel-vgm`. `formats`, which is a part of it, has archives, FLAC, bzip2 and zstd.
// Three modules allow unsafe code. `simd` and `chips::fm::avx512` call functions that are compiled
// for processors with more features. `play::realtime` requests a real-time scheduling class, for
// which none of our crates has a safe function.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod batch;
pub mod blep;
pub mod chips;
pub mod demo;
pub mod effects;
mod error;
#[cfg(feature = "formats")]
pub mod flac;
#[cfg(not(feature = "formats"))]
#[path = "flac_disabled.rs"]
pub mod flac;
pub mod format;
pub mod mix;
pub mod output;
#[cfg(feature = "cli")]
pub mod play;
pub mod render;
pub mod sequence;
mod simd;
mod tags;
#[cfg(feature = "cli")]
pub mod video;
pub mod wav;

pub use error::{Error, Result};
pub use tags::FileTags;

//! VGM game music: reads songs, plays their chips, renders them.
// Allowed in `vector` and `chips::fm::wide`, which are compiled for other processors, and in
// `play::realtime`, which asks the system for a class that no crate of ours asks for.
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
pub mod wav;

pub use error::{Error, Result};

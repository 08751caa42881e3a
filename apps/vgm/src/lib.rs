//! VGM game music: reads songs, plays their chips, renders them.
#![forbid(unsafe_code)]

pub mod chips;
pub mod edges;
mod error;
pub mod format;
pub mod mix;
pub mod render;
pub mod sequence;

pub use error::{Error, Result};

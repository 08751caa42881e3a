//! VGM game music: reads songs, plays their chips, renders them.
#![forbid(unsafe_code)]

pub mod batch;
pub mod chips;
pub mod demo;
pub mod edges;
mod error;
pub mod format;
pub mod mix;
pub mod output;
pub mod render;
pub mod sequence;
pub mod wav;

pub use error::{Error, Result};

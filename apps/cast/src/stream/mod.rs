//! A stream moves buffers from a source to a sink. It is the work of one task, which
//! [`creel_media::control`] starts, pauses, flushes and stops.

pub(crate) mod buffer;
#[cfg(test)]
mod faults;
pub(crate) mod flow;
pub(crate) mod sink;
pub(crate) mod source;

pub use sink::SinkMode;

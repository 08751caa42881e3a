//! A stream: a source whose buffers are pushed to a sink, as the work of one task that is started,
//! paused, flushed and stopped from outside ([`creel::task::control`]).

pub(crate) mod buffer;
#[cfg(test)]
mod faults;
pub(crate) mod flow;
pub(crate) mod sink;
pub(crate) mod source;

pub use sink::SinkMode;

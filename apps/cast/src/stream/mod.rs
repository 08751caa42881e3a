//! A stream: a source whose buffers are pushed to a sink, as the work of one task that is started,
//! paused, flushed and stopped from outside.

pub(crate) mod buffer;
pub(crate) mod control;
#[cfg(test)]
mod faults;
pub(crate) mod flow;
pub(crate) mod machine;
pub(crate) mod queue;
pub(crate) mod sink;
pub(crate) mod source;

pub use control::{Changes, Control, Ended, Running, Work};
pub use machine::{Flow, Refused, State, Trigger};
pub use queue::{Closed, Consumer, Leak, Producer, queue};
pub use sink::Way;

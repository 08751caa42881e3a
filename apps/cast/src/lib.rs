//! Many audio streams on one core: sources, sinks, and what carries buffers between them.
//!
//! A stream is a task on a pool of one worker that waits by a throttle (a *context*): once a
//! quantum it makes the buffers that are due and pushes each to its sink.
#![forbid(unsafe_code)]

pub mod audience;
pub mod audio;
pub mod buffer;
pub mod context;
pub mod contexts;
pub mod control;
pub mod framing;
pub mod histogram;
pub mod machine;
pub mod ports;
pub mod queue;
pub mod receive;
pub mod rtp;
pub mod run;
pub mod send;
pub mod sink;
pub mod source;
pub mod standalone;
pub mod stats;
pub mod stream;
pub mod tcp;
pub mod tone;
pub mod udp;
pub mod wav;

//! Many audio streams on one core: sources, sinks, and what carries buffers between them.
//!
//! A stream is a task on a pool of one worker that waits by a throttle (a *context*): once a
//! quantum it makes the buffers that are due and pushes each to its sink.
#![forbid(unsafe_code)]

pub mod audio;
pub mod machine;
pub mod rtp;
pub mod stats;
pub mod tone;
pub mod wav;

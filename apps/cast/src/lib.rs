//! Many audio streams on one core: sources, sinks, and what carries buffers between them.
//!
//! A stream is a task on a pool of one worker that waits by a throttle (a *context*): once a
//! quantum it makes the buffers that are due and pushes each to its sink.
#![forbid(unsafe_code)]

pub mod measure;
mod media;
mod net;
pub mod receive;
pub mod relay;
pub mod rooms;
mod run;
pub mod send;
pub mod standalone;
pub mod stream;

pub use media::format::{Encoding, Format, Formats};
pub use media::tone::{Shape, Tone};
pub use media::wav::{Sound, WavError};
pub use net::audience::{Audience, Command};
pub use net::options::Options;
pub use net::session::{Rtcp, Session};
pub use run::{Error, Measured};

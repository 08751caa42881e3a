//! Many audio streams on one core: sources, sinks, and what carries buffers between them.
//!
//! A stream is a task on a pool of one worker that waits by a throttle (a *context*): once a
//! quantum it makes the buffers that are due and pushes each to its sink.
#![forbid(unsafe_code)]

mod error;
pub mod measure;
mod media;
mod net;
pub mod receive;
pub mod relay;
mod results;
pub mod rooms;
pub mod send;
pub mod standalone;
pub mod stream;

pub use error::Error;
pub use media::format::{Encoding, Format, Formats};
pub use media::tone::{Shape, Tone};
pub use media::wav::{Sound, WavError};
pub use net::client_registry::{ClientRegistry, Command};
pub use net::options::Options;
pub use net::session::{Rtcp, RtpSession};
pub use results::Measured;

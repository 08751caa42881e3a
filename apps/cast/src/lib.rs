//! Sends, receives, relays, mixes and measures many audio streams on one core.
//!
//! A stream moves buffers from a source to a sink. It is a task on a *context*, which is a pool
//! with one worker and [`creel::Wait::Throttle`]. The worker wakes up once per quantum and runs all
//! streams that have a buffer due. Thousands of streams therefore share each wake-up, which is why
//! one core suffices for them.
//!
//! The modules [`send`], [`receive`], [`relay`], [`rooms`] and [`standalone`] are the commands of
//! the program `creel-cast`. For example, you can receive streams like this:
//!
//! ```no_run
//! use creel_cast::{Formats, Rtcp, receive};
//!
//! let on = "127.0.0.1:5004".parse()?;
//! let sessions = receive::Plan::sessions(on, 1, &Formats::default(), Rtcp::Off)?;
//! let measured = receive::run(&receive::Plan::new(sessions), &|| false)?;
//! println!("lost {} packets of {} streams", measured.lost, measured.sources.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The features are for programs that need only a part of the library. `cli` (on by default) has
//! the program `creel-cast`. `formats`, which is a part of it, has the codecs of telephony,
//! captures and session descriptions.
#![forbid(unsafe_code)]

mod error;
mod lock;
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
pub use net::session::{Rtcp, RtpSession, Senders};
pub use results::Measured;

//! hyper on Creel: what hyper asks of a runtime, and a server in three lines.
//!
//! | hyper asks for | here |
//! |---|---|
//! | an executor | [`Executor`]: tasks of the pool that spawns |
//! | a timer | [`Timer`]: Creel's, a few nanoseconds to arm |
//! | connections | [`Io`]: Creel's TCP and Unix streams, read into memory that is not initialized; [`FuturesIo`]: anything else, such as TLS |
//!
//! ```no_run
//! use std::convert::Infallible;
//! use std::future::IntoFuture;
//!
//! use creel::net::TcpListener;
//! use hyper::{Response, service::service_fn};
//!
//! let pool = creel::Pool::builder().build()?;
//! let listener = TcpListener::bind("127.0.0.1:8080".parse()?)?;
//! pool.block_on(creel_hyper::serve(listener, service_fn(async |_| {
//!     Ok::<_, Infallible>(Response::new("hello\n".to_owned()))
//! })).into_future());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With the feature `http2` the server speaks HTTP/2 as well, which gRPC needs.
//!
//! Left out: a client with a pool of connections, which is its own crate's; proxies' headers.
#![forbid(unsafe_op_in_unsafe_fn)]

#[cfg(feature = "server")]
mod activity;
#[cfg(feature = "server")]
mod begun;
#[cfg(feature = "server")]
mod connection;
#[cfg(feature = "server")]
mod event;
mod executor;
mod io;
#[cfg(feature = "server")]
mod serve;
mod timer;
#[cfg(feature = "tower")]
mod tower;

#[cfg(feature = "server")]
pub use event::{End, Event};
pub use executor::Executor;
pub use io::{FuturesIo, Io};
#[cfg(feature = "server")]
pub use serve::{NoHandshake, Serve, serve};
pub use timer::Timer;
#[cfg(feature = "tower")]
pub use tower::Tower;

#[cfg(all(doctest, feature = "server", feature = "tower"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! Runs hyper on Creel: the runtime parts that hyper needs, and a ready-made server.
//!
//! | hyper needs | this crate has |
//! |---|---|
//! | an executor | [`Executor`], which spawns tasks of the current pool |
//! | a timer | [`Timer`], which uses Creel's timers and takes a few nanoseconds to arm |
//! | connections | [`Io`] for Creel's TCP and Unix streams, which reads into uninitialized memory, and [`FuturesIo`] for anything else, for example TLS |
//!
//! You can serve HTTP with a few lines:
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
//! On one pool, idle workers take over requests that wait behind slow ones. [`PerCore`] is the
//! alternative: one listener per core, and connections that stay with their worker.
//!
//! With the feature `http2` the server also supports HTTP/2, which gRPC needs.
//!
//! We left out the headers of proxies. We also left out a client with a connection pool, because it
//! belongs to a crate of its own.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_op_in_unsafe_fn)]

#[cfg(feature = "server")]
mod activity;
#[cfg(feature = "server")]
mod connection;
#[cfg(feature = "server")]
mod event;
mod executor;
mod io;
#[cfg(feature = "server")]
mod peer;
#[cfg(feature = "server")]
mod per_core;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod server_io;
#[cfg(feature = "server")]
mod sweep;
mod timer;
#[cfg(feature = "tower")]
mod tower;

#[cfg(feature = "server")]
pub use event::{End, Event};
pub use executor::Executor;
pub use io::{FuturesIo, Io};
#[cfg(feature = "server")]
pub use peer::Peer;
#[cfg(feature = "server")]
pub use per_core::PerCore;
#[cfg(feature = "server")]
pub use serve::{NoHandshake, Serve, serve};
pub use timer::Timer;
#[cfg(feature = "tower")]
pub use tower::Tower;

#[cfg(all(doctest, feature = "server", feature = "tower"))]
#[doc = include_str!("../README.md")]
struct Readme;

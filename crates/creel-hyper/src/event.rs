//! What a server tells of its connections.

use std::io;

/// What has happened to a server's connections, told by [`Serve::on_event`](crate::Serve::on_event).
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// One was taken.
    Accepted,
    /// One could not be: it had left already, or the process may open no more files. The server
    /// goes on.
    NotAccepted(io::Error),
    /// One that was taken has ended.
    Ended(End),
}

/// How a connection has ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum End {
    /// As it should: one of the two had enough, after whole answers or before any request; or it
    /// became another protocol's, such as a WebSocket's.
    Done,
    /// The client sent no head of a request for the [time](crate::Serve::head_timeout) that it has.
    Silent,
    /// The client took nothing of its answer for the [time](crate::Serve::write_timeout) that it has.
    NotRead,
    /// What comes before HTTP, such as TLS, failed.
    Handshake(io::Error),
    /// What was sent was no HTTP, or the client left amid a request or its answer, or the service or
    /// its body failed.
    Failed(hyper::Error),
    /// The service panicked.
    Panicked,
    /// The server itself came to its end, and was not to wait for longer.
    Cut,
}

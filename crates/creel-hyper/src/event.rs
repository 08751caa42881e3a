//! The events of a server's connections.

use std::io;

/// An event of a server's connections, which [`Serve::on_event`](crate::Serve::on_event) receives.
/// That method has an example.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A connection was accepted.
    Accepted,
    /// A connection could not be accepted, for example because the client had already disconnected
    /// or because the process cannot open more files. The server continues.
    NotAccepted(io::Error),
    /// An accepted connection has ended.
    Ended(End),
}

/// How a connection has ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum End {
    /// The connection ended normally: one side closed it after complete responses or before any
    /// request, or it was upgraded to another protocol such as WebSocket.
    Done,
    /// The client sent no request head within the [time limit](crate::Serve::head_timeout), or did
    /// not finish the handshake within it.
    Silent,
    /// The client read nothing of its response within the [time
    /// limit](crate::Serve::write_timeout).
    NotRead,
    /// The handshake before HTTP failed, for example TLS.
    Handshake(io::Error),
    /// The client sent something that is not HTTP or disconnected during a request or its response,
    /// or the service or its body failed.
    Failed(hyper::Error),
    /// The service panicked.
    Panicked,
    /// The server's shutdown did not wait any longer for the connection.
    Cut,
}

//! The outcome of one request.

use std::io;

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Status 200. The text is the name of the acknowledged record, if responses are checked.
    Good(Option<String>),
    /// Status 503.
    Refused,
    /// Any other status.
    Other,
    /// Status 200 with a wrong body.
    Wrong,
    /// The request got no response.
    Failed(io::ErrorKind),
}

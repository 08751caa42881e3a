//! The outcome of one request.

use std::io;

/// What became of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// 200; with what was acknowledged, where somebody wants to know.
    Good(Option<String>),
    /// 503.
    Refused,
    /// Another status.
    Other,
    /// 200 with what is not right.
    Wrong,
    /// No answer.
    Failed(io::ErrorKind),
}

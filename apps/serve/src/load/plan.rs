//! The plan of a load.

use std::net::SocketAddr;
use std::time::Duration;

use super::mix::Mix;

/// How requests follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Independently, as those of many clients do.
    Poisson,
    /// At equal distances.
    Constant,
}

/// What to send, and how much of it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The service.
    pub to: SocketAddr,
    /// What is asked for.
    pub mix: Mix,
    /// Requests a second, step after step.
    pub rates: Vec<f64>,
    /// How long each step takes.
    pub step: Duration,
    /// The rate goes from one to the next in a line, instead of in steps.
    pub is_ramp: bool,
    /// When requests are due.
    pub arrivals: Arrivals,
    /// Connections at most.
    pub connections: usize,
    /// How long an answer may take before the connection is given up.
    pub timeout: Duration,
    /// What the service is told of that, by `x-timeout-ms`.
    pub request_timeout: Option<Duration>,
    /// Whether each answer is compared with the right one.
    pub check: bool,
    /// Bytes of a message.
    pub size: usize,
    /// Of what is drawn.
    pub seed: u64,
    /// Workers.
    pub workers: usize,
}

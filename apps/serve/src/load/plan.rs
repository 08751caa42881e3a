//! The configuration of a load: rates, durations and kinds of requests.

use std::net::SocketAddr;
use std::time::Duration;

use super::mix::Mix;

/// How the times of requests are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Requests leave at random times, independent of each other, like those of many clients.
    Poisson,
    /// Requests leave at equal intervals.
    Constant,
}

/// The requests of a load, and how they are sent.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The address of the service.
    pub to: SocketAddr,
    /// The kinds of requests and their weights.
    pub mix: Mix,
    /// The rate of each step in requests per second.
    pub rates: Vec<f64>,
    /// The duration of each step.
    pub step: Duration,
    /// Whether the rate changes linearly from one value to the next, instead of in steps.
    pub is_ramp: bool,
    /// How the times of requests are distributed.
    pub arrivals: Arrivals,
    /// The maximum number of connections.
    pub connections: usize,
    /// How long a request waits for its response before its connection is closed.
    pub timeout: Duration,
    /// The timeout that each request sends to the service in the header `x-timeout-ms`.
    pub request_timeout: Option<Duration>,
    /// Whether each response is compared with the right one.
    pub check: bool,
    /// The minimum size of a message in bytes.
    pub size: usize,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of workers of the load.
    pub workers: usize,
}

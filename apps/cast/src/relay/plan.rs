//! The plan of a relay.

use crate::net::options::Options;
use crate::net::session::Rtcp;
use std::net::SocketAddr;
use std::time::Duration;

/// What is relayed.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What comes to port + n goes to port + n of each client.
    pub on: SocketAddr,
    /// How many ports.
    pub ports: usize,
    /// Clients at the beginning.
    pub to: Vec<SocketAddr>,
    /// All ports' packets go to one port of a client.
    pub shared_port: bool,
    /// Contexts: pools of one worker.
    pub contexts: usize,
    /// How long a context waits before it reacts again.
    pub wait: Duration,
    /// What others may do with the contexts from outside.
    pub observe: creel::Observe,
    /// Sources get new names and numbers.
    pub rewrite: bool,
    /// Reports are passed on the same ports, on those next to them, or not at all.
    pub rtcp: Rtcp,
    /// Packets that wait for a client at most; then the oldest are dropped.
    pub queue: usize,
    /// Ends when nothing has come for so long, once something has.
    pub idle: Option<Duration>,
    /// Ends after so long in any case.
    pub time_limit: Option<Duration>,
    /// What is asked of the sockets.
    pub options: Options,
}

impl Plan {
    /// One port, once in 2 ms, to nobody yet; reports on the same port.
    pub fn new(on: SocketAddr) -> Self {
        Plan {
            on,
            ports: 1,
            to: Vec::new(),
            shared_port: false,
            contexts: 1,
            wait: Duration::from_millis(2),
            observe: creel::Observe::default(),
            rewrite: false,
            rtcp: Rtcp::Mux,
            queue: 1_024,
            idle: None,
            time_limit: None,
            options: Options::default(),
        }
    }
}

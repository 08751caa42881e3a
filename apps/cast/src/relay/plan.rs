//! The configuration of a relay, which the command line or a program fills in.

use crate::net::options::Options;
use crate::net::session::Rtcp;
use std::net::SocketAddr;
use std::time::Duration;

/// The configuration of a relay.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The first port. Unless `shared_port` is set, packets that arrive on port + n go to port + n
    /// of each client. If reports have ports of their own, both are port + 2 n.
    pub on: SocketAddr,
    /// The number of ports.
    pub ports: usize,
    /// The clients at the beginning.
    pub to: Vec<SocketAddr>,
    /// Whether the packets of all ports go to one port of a client.
    pub shared_port: bool,
    /// The number of contexts, which are pools of one worker.
    pub contexts: usize,
    /// How long a context waits before it handles packets and timers again.
    pub wait: Duration,
    /// The access of other processes to the contexts, for example to observe them with `creel top`.
    pub observe: creel::Observe,
    /// Whether sources get new SSRCs, sequence numbers and timestamps.
    pub rewrite: bool,
    /// Whether reports are passed on the same ports, on the next ports, or not at all.
    pub rtcp: Rtcp,
    /// The maximum number of packets of a port that we queue while an earlier batch is being sent.
    /// The packets of that batch do not count. If there are more, the oldest are dropped for all
    /// clients.
    pub queue: usize,
    /// The run ends when no packet has arrived for this time, counted from the first packet on.
    pub idle: Option<Duration>,
    /// The run ends after this time in any case.
    pub time_limit: Option<Duration>,
    /// The options of the sockets.
    pub options: Options,
}

impl Plan {
    /// Creates a plan with one port and no clients, which reacts every 2 ms and passes reports on
    /// the same port.
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

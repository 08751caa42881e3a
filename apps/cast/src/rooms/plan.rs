//! The configuration of a run that mixes conferences (rooms).

use crate::media::format::Formats;
use crate::net::options::Options;
use crate::net::session::Rtcp;
use std::net::SocketAddr;
use std::time::Duration;

/// The configuration of a run that mixes conferences.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The address of the first room. Room n is on port + n, or on port + 2 n if reports have a
    /// port of their own (see `rtcp`). For example, 400 rooms on 0.0.0.0:6000 without reports use
    /// the ports 6000 to 6399.
    pub on: SocketAddr,
    /// The number of rooms.
    pub rooms: usize,
    /// The formats of the payload types.
    pub formats: Formats,
    /// The number of samples per second in the rooms. Legs of another rate are ignored.
    pub rate: u32,
    /// The duration of the packets that we send.
    pub packet_time: Duration,
    /// The maximum number of legs per room.
    pub legs: usize,
    /// Where reports go. If they have a port of their own, room n is on port + 2 n.
    pub rtcp: Rtcp,
    /// A leg that has sent nothing for this time is removed.
    pub silence: Duration,
    /// The number of contexts, which are pools of one worker.
    pub contexts: usize,
    /// How long a context waits before it handles packets and timers again.
    pub wait: Duration,
    /// The access of other processes to the contexts, for example to observe them with `creel top`.
    pub observe: creel::Observe,
    /// The run ends when no packet has arrived for this time, counted from the first packet on.
    pub idle: Option<Duration>,
    /// The run ends after this time in any case.
    pub time_limit: Option<Duration>,
    /// The options of the sockets.
    pub options: Options,
}

impl Plan {
    /// Creates a plan for telephony, with 8,000 samples per second and 20 ms per packet.
    pub fn new(on: SocketAddr, rooms: usize) -> Self {
        Plan {
            on,
            rooms,
            formats: Formats::default(),
            rate: 8_000,
            packet_time: Duration::from_millis(20),
            legs: 64,
            rtcp: Rtcp::Off,
            silence: Duration::from_secs(10),
            contexts: 1,
            wait: Duration::from_millis(5),
            observe: creel::Observe::default(),
            idle: None,
            time_limit: None,
            options: Options::default(),
        }
    }
}

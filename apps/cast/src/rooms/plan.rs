//! The plan of a run of rooms.

use crate::media::format::Formats;
use crate::net::options::Options;
use std::net::SocketAddr;
use std::time::Duration;

/// What is conferred.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Room n is port + n.
    pub on: SocketAddr,
    /// Rooms.
    pub rooms: usize,
    /// What payload types mean.
    pub formats: Formats,
    /// Samples a second in the rooms: only legs of this rate are heard.
    pub rate: u32,
    /// How long a packet lasts that is sent.
    pub packet_time: Duration,
    /// Legs in one room at most.
    pub legs: usize,
    /// A leg that sends nothing for so long has left.
    pub silence: Duration,
    /// Contexts: pools of one worker.
    pub contexts: usize,
    /// How long a context waits before it reacts again.
    pub wait: Duration,
    /// What others may do with the contexts from outside.
    pub observe: creel::Observe,
    /// Ends when nothing has come for so long, once something has.
    pub idle: Option<Duration>,
    /// Ends after so long in any case.
    pub time_limit: Option<Duration>,
    /// What is asked of the sockets.
    pub options: Options,
}

impl Plan {
    /// Rooms of telephony: 8,000 samples a second, 20 ms a packet.
    pub fn new(on: SocketAddr, rooms: usize) -> Self {
        Plan {
            on,
            rooms,
            formats: Formats::default(),
            rate: 8_000,
            packet_time: Duration::from_millis(20),
            legs: 64,
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

//! What a service is set to, and what it is set to unless told.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use creel::Wait;

use crate::crypto::Cost;
use crate::store::Kind;

/// All settings; [`Default`] has what the documentation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where to listen; port 0: any that is free.
    pub listen: SocketAddr,
    /// Workers for the cryptography; none: as many as there are usable cores.
    pub workers: Option<usize>,
    /// Workers for connections; none: half as many as there are usable cores, at least one.
    pub io_workers: Option<usize>,
    /// How these wait when they have nothing to do.
    pub io_wait: Wait,
    /// Where records and counters are kept.
    pub store: Kind,
    /// The file with the key's seed; none: a key that is forgotten at the end.
    pub key: Option<PathBuf>,
    /// What a password costs.
    pub password_cost: Cost,
    /// Whether requests are refused that would wait for too long.
    pub admission: bool,
    /// The delay that a lasting overload is held at.
    pub target: Duration,
    /// For how long the delay must be above that to be called lasting.
    pub interval: Duration,
    /// Requests that wait for the cryptography at most.
    pub queue: usize,
    /// For how long a request is worked on, unless it says.
    pub deadline: Duration,
    /// For how long at most, if it says.
    pub deadline_max: Duration,
    /// A request's body at most, in bytes.
    pub body_max: usize,
    /// A request's head at most, in bytes.
    pub head_max: usize,
    /// For how long a head may take to come; and how long a connection may be idle.
    pub head_timeout: Duration,
    /// For how long a client may take nothing of its answer.
    pub write_timeout: Duration,
    /// Connections at most; others wait to be accepted.
    pub connections: usize,
    /// For how long, in the end, clients are told to go elsewhere before nobody is let in any more.
    pub drain: Duration,
    /// For how long, in the end, those who were asked may take to answer.
    pub grace: Duration,
    /// Where the access log goes; `-` is stderr.
    pub access_log: Option<PathBuf>,
    /// A certificate's chain and its key, as PEM files: HTTPS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl Default for Settings {
    fn default() -> Settings {
        let seconds = Duration::from_secs;
        Settings {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            workers: None,
            io_workers: None,
            io_wait: Wait::default(),
            store: Kind::Memory,
            key: None,
            password_cost: Cost::default(),
            admission: true,
            target: Duration::from_millis(10),
            interval: Duration::from_millis(100),
            queue: 4096,
            deadline: seconds(1),
            deadline_max: seconds(60),
            body_max: 64 << 10,
            head_max: 16 << 10,
            head_timeout: seconds(10),
            write_timeout: seconds(10),
            connections: 20_000,
            drain: seconds(1),
            grace: seconds(10),
            access_log: None,
            tls: None,
        }
    }
}

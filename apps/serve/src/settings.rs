//! The settings of a service and their defaults.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use creel::Wait;

use crate::crypto::Cost;
use crate::store::Kind;

/// All settings of a service. [`Default`] returns the defaults of the program, except that it keeps
/// the records in memory and has no key file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The address to listen on. Port 0 picks a free port.
    pub listen: SocketAddr,
    /// The number of workers for the cryptography. The default is one per usable core.
    pub workers: Option<usize>,
    /// The number of workers for connections. The default is half the usable cores, at least one.
    pub io_workers: Option<usize>,
    /// How idle workers for connections wait.
    pub io_wait: Wait,
    /// The store that keeps records and counters.
    pub store: Kind,
    /// The file with the seed of the key. Without one, the key is random and lost at the end.
    pub key: Option<PathBuf>,
    /// The Argon2 parameters for passwords.
    pub password_cost: Cost,
    /// Whether admission control rejects requests that would wait too long.
    pub admission: bool,
    /// The queueing delay during a lasting overload.
    pub target: Duration,
    /// How long the delay must be above `target` before the overload is lasting.
    pub interval: Duration,
    /// The maximum number of requests that wait for the cryptography.
    pub queue: usize,
    /// How long we work on a request without the header `x-timeout-ms`.
    pub deadline: Duration,
    /// The longest time that a request can ask for in the header `x-timeout-ms`.
    pub deadline_max: Duration,
    /// The maximum size of a request body in bytes.
    pub body_max: usize,
    /// The maximum size of a request head in bytes.
    pub head_max: usize,
    /// How long a request head may take to arrive, and how long a connection may be idle.
    pub head_timeout: Duration,
    /// How long a client may read nothing of its response.
    pub write_timeout: Duration,
    /// The maximum number of connections. Further clients wait to be accepted.
    pub connections: usize,
    /// How long we ask clients to use another server before the listener closes.
    pub drain: Duration,
    /// How long we wait for the requests in flight after the listener has closed.
    pub grace: Duration,
    /// The file of the access log. The path `-` means stderr.
    pub access_log: Option<PathBuf>,
    /// The PEM files of a certificate chain and its key. They enable HTTPS.
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

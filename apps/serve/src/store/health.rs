//! Tracks whether the store works and why it does not. Reports changes on stderr.
//!
//! An outage begins when a write fails and ends when a write succeeds. We write one line when it
//! begins and one when it ends. A line in between reports a different reason, for example if a
//! server is restarted and then asks for a password.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use creel_console::output;

use crate::metrics::Metrics;

/// The time for which a passing reason must last before we write a line for it. See
/// [`Reason::is_passing`].
const LASTING: Duration = Duration::from_secs(5);

/// The kind of a store's error. It is the label `reason` in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The server could not be reached, or the connection ended.
    Unreachable,
    /// The server did not answer in time.
    Timeout,
    /// The TLS handshake failed.
    Tls,
    /// The server rejected the user or the password, or requires one.
    Auth,
    /// The user may not run a command that we need.
    Permission,
    /// The server is out of memory.
    Memory,
    /// The server is a replica, which does not accept writes.
    ReadOnly,
    /// The disk is full or broken.
    Disk,
    /// Too few replicas have confirmed a write.
    Replicas,
    /// The Sentinels are replacing the master, or have replaced it.
    Failover,
    /// The server is loading its data or is busy with a script.
    Loading,
    /// The cluster does not serve all slots.
    Cluster,
    /// Our own queue of requests for the store is full.
    QueueFull,
    /// Another process has locked the file.
    Locked,
    /// Any other error.
    Other,
}

impl Reason {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Reason; 15] = [
        Reason::Unreachable,
        Reason::Timeout,
        Reason::Tls,
        Reason::Auth,
        Reason::Permission,
        Reason::Memory,
        Reason::ReadOnly,
        Reason::Disk,
        Reason::Replicas,
        Reason::Failover,
        Reason::Loading,
        Reason::Cluster,
        Reason::QueueFull,
        Reason::Locked,
        Reason::Other,
    ];

    /// Returns the name of the reason in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Unreachable => "unreachable",
            Reason::Timeout => "timeout",
            Reason::Tls => "tls",
            Reason::Auth => "auth",
            Reason::Permission => "permission",
            Reason::Memory => "out_of_memory",
            Reason::ReadOnly => "read_only",
            Reason::Disk => "disk",
            Reason::Replicas => "replicas",
            Reason::Failover => "failover",
            Reason::Loading => "loading",
            Reason::Cluster => "cluster",
            Reason::QueueFull => "queue_full",
            Reason::Locked => "locked",
            Reason::Other => "other",
        }
    }

    /// Returns whether a server may report this reason for a short time while it comes back. During
    /// an outage we write a line for such a reason only if it lasts.
    fn is_passing(self) -> bool {
        matches!(
            self,
            Reason::Unreachable
                | Reason::Timeout
                | Reason::Failover
                | Reason::Loading
                | Reason::Cluster
        )
    }
}

/// The reason why a request to the store ended with an error, and the words of the store. The
/// request may have been executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreError {
    /// The kind of the error.
    pub reason: Reason,
    /// The words of the server or of the OS.
    pub words: Arc<str>,
}

impl StoreError {
    /// Creates an error.
    pub fn new(reason: Reason, words: impl Into<Arc<str>>) -> StoreError {
        let words = words.into();
        StoreError { reason, words }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for StoreError {}

/// An outage, which is a time in which the store accepts no records.
#[derive(Debug)]
struct Outage {
    since: Instant,
    error: StoreError,
    /// The time at which the reason of `error` was first reported without a different one in
    /// between.
    changed: Instant,
    logged: Vec<Reason>,
}

/// The state of a store that its thread publishes to the requests. The flags are hints that need no
/// memory ordering.
#[derive(Debug)]
pub(super) struct Health {
    /// The name of the store in the lines on stderr.
    name: String,
    /// Whether the store answers.
    is_up: AtomicBool,
    /// Whether the last write succeeded.
    is_writable: AtomicBool,
    outage: Mutex<Option<Outage>>,
    metrics: Arc<Metrics>,
}

impl Health {
    /// Creates the state of a store that has not been opened yet.
    pub(super) fn new(name: String, metrics: Arc<Metrics>) -> Health {
        Health {
            name,
            is_up: AtomicBool::new(false),
            is_writable: AtomicBool::new(false),
            outage: Mutex::new(None),
            metrics,
        }
    }

    /// Returns whether the store answers.
    pub(super) fn is_up(&self) -> bool {
        self.is_up.load(Relaxed)
    }

    /// Returns whether the store accepts records.
    pub(super) fn is_writable(&self) -> bool {
        self.is_up() && self.is_writable.load(Relaxed)
    }

    /// Returns the error of the current outage.
    pub(super) fn error(&self) -> StoreError {
        let outage = self.outage();
        let error = outage.as_ref().map(|outage| outage.error.clone());
        error.unwrap_or_else(|| {
            StoreError::new(Reason::Unreachable, "the store has not answered yet")
        })
    }

    /// Publishes that a write has succeeded.
    pub(super) fn works(&self) {
        if self.is_writable() {
            return;
        }
        let ended = self.outage().take();
        self.is_up.store(true, Relaxed);
        self.is_writable.store(true, Relaxed);
        if let Some(outage) = ended {
            output::note(&format!(
                "creel-serve: the store {} accepts records again, after {:.1} s\n",
                self.name,
                outage.since.elapsed().as_secs_f64()
            ));
        }
    }

    /// Publishes that a write has failed. `reads` says whether the store still returns records.
    pub(super) fn fails(&self, error: &StoreError, reads: bool) {
        self.is_up.store(reads, Relaxed);
        self.is_writable.store(false, Relaxed);
        let mut outage = self.outage();
        let is_first = outage.is_none();
        let outage = outage.get_or_insert_with(|| Outage {
            since: Instant::now(),
            error: error.clone(),
            changed: Instant::now(),
            logged: Vec::new(),
        });
        if outage.error.reason != error.reason {
            outage.changed = Instant::now();
        }
        outage.error = error.clone();
        let is_passing = error.reason.is_passing() && outage.changed.elapsed() < LASTING;
        if outage.logged.contains(&error.reason) || !is_first && is_passing {
            return;
        }
        outage.logged.push(error.reason);
        self.metrics.store_outage(error.reason);
        output::note(&format!(
            "creel-serve: the store {} accepts no records ({}): {}\n",
            self.name,
            error.reason.name(),
            error.words
        ));
    }

    fn outage(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_reason_is_its_position_in_the_list() {
        for (index, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
        }
    }

    #[test]
    fn an_outage_counts_each_reason_once_and_skips_passing_ones() {
        let metrics = Arc::new(Metrics::default());
        let health = Health::new("test".into(), Arc::clone(&metrics));
        let outages = |reason| metrics.store_outages(reason);
        let fail = |reason, reads| health.fails(&StoreError::new(reason, "words"), reads);
        assert_eq!(health.error().reason, Reason::Unreachable);
        health.works();
        assert!(health.is_writable());
        fail(Reason::Unreachable, false);
        fail(Reason::Loading, false);
        fail(Reason::Auth, false);
        fail(Reason::Auth, false);
        assert_eq!(
            [Reason::Unreachable, Reason::Loading, Reason::Auth].map(outages),
            [1, 0, 1]
        );
        // A server may come back and keep loading. `Loading` is a passing reason, so during an
        // outage it counts only after it has lasted for `LASTING`.
        fail(Reason::Loading, false);
        assert_eq!(outages(Reason::Loading), 0);
        health.outage().as_mut().unwrap().changed -= LASTING;
        fail(Reason::Loading, false);
        fail(Reason::Loading, false);
        assert_eq!(outages(Reason::Loading), 1);
        assert!(!health.is_up());
        health.works();
        fail(Reason::Memory, true);
        assert!(health.is_up() && !health.is_writable());
        assert_eq!(health.error().reason, Reason::Memory);
        assert_eq!(outages(Reason::Memory), 1);
    }
}

//! The stores that keep records and counters.
//!
//! There are two stores, an embedded one and Redis. Both take their requests from one bounded
//! queue.
//!
//! A caller awaits the answer or gives up. If it gives up, a request that is already on its way to
//! the store may or may not be executed. This makes no difference to a client that got a 503: the
//! name of a record is the digest of the signed message and a signature depends on nothing else, so
//! storing a record twice changes nothing. The counter counts every acknowledged record, but it may
//! also count a record that was stored and not acknowledged.

mod embedded;
mod health;
mod kind;
mod lock_holder;
mod redis;
mod request;

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use creel::channel::oneshot;

pub use health::{Reason, StoreError};
pub use kind::Kind;
pub use redis::{Certificates, Host, Login, RedisAddr, Replicas, Secret, Topology};
pub use request::Id;

use crate::metrics::Metrics;
use health::Health;
use request::{Answer, Command, Outcome, StoreRequest};

/// The maximum number of requests that wait for the store.
const REQUESTS_MAX: usize = 4096;
/// How long opening waits for the first answer of a Redis server. It is enough to report at the
/// start whether the server answers.
const FIRST_ANSWER: Duration = Duration::from_secs(2);

/// Sends requests to a store. Dropping it stops the store.
pub struct Store {
    requests: Option<SyncSender<StoreRequest>>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    embedded: Option<thread::JoinHandle<()>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store. It runs on a thread of its own.
    ///
    /// For Redis this waits for the first answer of the server, but no longer than two seconds. The
    /// store keeps trying if the server does not answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the embedded store cannot be opened, or if the thread cannot be started.
    pub fn open(kind: &Kind, metrics: &Arc<Metrics>) -> Result<Store, StoreError> {
        let (sender, requests) = sync_channel(REQUESTS_MAX);
        let health = Arc::new(Health::new(kind.to_string(), Arc::clone(metrics)));
        let thread = thread::Builder::new().name("store".into());
        let spawned = match kind {
            Kind::Redis(address) => {
                let (address, health) = (RedisAddr::clone(address), Arc::clone(&health));
                let store = redis::RedisStore::new(address, health, Arc::clone(metrics));
                let (first, has_answered) = sync_channel(1);
                let spawned = thread.spawn(move || store.run(&requests, &first));
                // A timeout means that the server has not answered yet.
                let _ = has_answered.recv_timeout(FIRST_ANSWER);
                // The thread ends by itself. We do not wait for it, because all records that it has
                // acknowledged are stored.
                spawned.map(|_| None)
            }
            Kind::Memory | Kind::File(_) => {
                let path = match kind {
                    Kind::File(path) => Some(path.as_path()),
                    _ => None,
                };
                let opened = embedded::Embedded::open(path, Arc::clone(&health))?;
                thread.spawn(move || opened.run(&requests)).map(Some)
            }
        };
        let embedded =
            spawned.map_err(|error| StoreError::new(Reason::Other, error.to_string()))?;
        Ok(Store {
            requests: Some(sender),
            health,
            metrics: Arc::clone(metrics),
            embedded,
        })
    }

    /// Returns whether the store accepts records: it is available and its last write succeeded. A
    /// store that does not accept records may still return them.
    pub fn is_ready(&self) -> bool {
        self.health.is_writable()
    }

    /// Returns an error if the store does not accept records, and counts it.
    ///
    /// # Errors
    ///
    /// Returns the error of the last attempt to write.
    pub fn ready(&self) -> Result<(), StoreError> {
        match self.is_ready() {
            true => Ok(()),
            false => Err(self.counted(self.health.error())),
        }
    }

    /// Returns the error of the last attempt to write, or `None` if the store accepts records.
    pub fn trouble(&self) -> Option<StoreError> {
        (!self.is_ready()).then(|| self.health.error())
    }

    /// Stores a record and counts it. The record is stored when the future is ready.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`]. The record may be stored in spite of an error.
    pub async fn put(&self, id: Id, record: Bytes) -> Result<(), StoreError> {
        self.request(Command::Put(id, record)).await.map(|_| ())
    }

    /// Returns a record, or `None` if there is no record of that name.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if the store is not available, if its queue is full, or if it did not
    /// answer or answered with an error.
    pub async fn get(&self, id: Id) -> Result<Option<Bytes>, StoreError> {
        match self.request(Command::Get(id)).await? {
            Answer::Record(record) => Ok(record),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns how many records were stored.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if the store is not available, if its queue is full, or if it did not
    /// answer or answered with an error.
    pub async fn count(&self) -> Result<u64, StoreError> {
        match self.request(Command::Count).await? {
            Answer::Count(count) => Ok(count),
            other => Err(unexpected(&other)),
        }
    }

    /// Executes a command and counts errors.
    async fn request(&self, command: Command) -> Outcome {
        let outcome = self.try_request(command).await;
        outcome.map_err(|error| self.counted(error))
    }

    fn counted(&self, error: StoreError) -> StoreError {
        self.metrics.store_error(error.reason);
        error
    }

    /// Executes a command if the store is available and its queue has room.
    async fn try_request(&self, command: Command) -> Outcome {
        let is_available = match command {
            Command::Put(..) => self.is_ready(),
            _ => self.health.is_up(),
        };
        let requests = self.requests.as_ref().filter(|_| is_available);
        let requests = requests.ok_or_else(|| self.health.error())?;
        let (answer, outcome) = oneshot::channel();
        let sent = requests.try_send(StoreRequest { command, answer });
        sent.map_err(|error| match error {
            TrySendError::Full(_) => {
                StoreError::new(Reason::QueueFull, "too many requests wait for the store")
            }
            TrySendError::Disconnected(_) => self.health.error(),
        })?;
        outcome.await.unwrap_or_else(|_| Err(self.health.error()))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.embedded.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the error of an answer that has the wrong kind.
fn unexpected(answer: &Answer) -> StoreError {
    let why = format!("the answer of the store belongs to another command: {answer:?}");
    StoreError::new(Reason::Other, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_counter_survive_reopening_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let kind = Kind::File(folder.path().join("records.redb"));
        let pool = creel::Pool::builder().workers(1).build().unwrap();
        let metrics = Arc::default();
        for round in 1..=2 {
            let store = Store::open(&kind, &metrics).unwrap();
            pool.block_on(async {
                store
                    .put([round; 32], Bytes::from_static(b"one"))
                    .await
                    .unwrap();
                assert_eq!(
                    store.get([1; 32]).await.unwrap().as_deref(),
                    Some(&b"one"[..])
                );
                assert_eq!(store.get([9; 32]).await.unwrap(), None);
                assert_eq!(store.count().await, Ok(u64::from(round)));
            });
        }
    }
}

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
mod kind;
mod redis;
mod request;
mod resp;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use creel::Pool;
use creel::channel::{bounded, oneshot};

pub use kind::{Kind, RedisAddr};
pub use request::{Id, StoreError};

use crate::metrics::Metrics;
use request::{Answer, Command, Outcome, State, StoreRequest};

/// The maximum number of requests that wait for the store.
const REQUESTS_MAX: usize = 4096;

/// Sends requests to a store. Dropping it stops the store.
pub struct Store {
    requests: Option<bounded::Sender<StoreRequest>>,
    state: Arc<State>,
    metrics: Arc<Metrics>,
    embedded: Option<std::thread::JoinHandle<()>>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens a store.
    ///
    /// For Redis this returns at once. A task of `pool` connects, and retries until a server
    /// answers.
    ///
    /// # Errors
    ///
    /// Returns an error if the embedded store cannot be opened.
    pub fn open(kind: &Kind, pool: &Pool, metrics: &Arc<Metrics>) -> Result<Store, StoreError> {
        let (sender, requests) = bounded::channel(REQUESTS_MAX);
        let state = Arc::new(State::default());
        let mut embedded = None;
        let path = match kind {
            Kind::Memory => None,
            Kind::File(path) => Some(path.as_path()),
            Kind::Redis(address) => {
                let client = redis::RedisClient::new(
                    address.clone(),
                    Arc::clone(&state),
                    Arc::clone(metrics),
                );
                pool.spawn(client.run(requests)).detach();
                return Ok(Store {
                    requests: Some(sender),
                    state,
                    metrics: Arc::clone(metrics),
                    embedded,
                });
            }
        };
        let opened = embedded::Embedded::open(path, Arc::clone(&state))?;
        let thread = std::thread::Builder::new().name("store".into());
        let thread = thread
            .spawn(move || opened.run(&requests))
            .map_err(|error| StoreError::Refused(error.to_string()))?;
        embedded = Some(thread);
        Ok(Store {
            requests: Some(sender),
            state,
            metrics: Arc::clone(metrics),
            embedded,
        })
    }

    /// Returns whether the store accepts records: it is available and its last write succeeded. A
    /// store that does not accept records may still return them.
    pub fn is_ready(&self) -> bool {
        self.state.is_up.load(Relaxed) && self.state.is_writable.load(Relaxed)
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
    /// Returns [`StoreError`] if the store did not answer.
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
    /// Returns [`StoreError`] if the store did not answer.
    pub async fn count(&self) -> Result<u64, StoreError> {
        match self.request(Command::Count).await? {
            Answer::Count(count) => Ok(count),
            other => Err(unexpected(&other)),
        }
    }

    /// Executes a command and counts errors.
    async fn request(&self, command: Command) -> Outcome {
        let outcome = self.try_request(command).await;
        if outcome.is_err() {
            self.metrics.store_errors.fetch_add(1, Relaxed);
        }
        outcome
    }

    /// Executes a command if the store is available and its queue has room.
    async fn try_request(&self, command: Command) -> Outcome {
        let is_available = match command {
            Command::Put(..) => self.is_ready(),
            _ => self.state.is_up.load(Relaxed),
        };
        let requests = self.requests.as_ref().filter(|_| is_available);
        let requests = requests.ok_or(StoreError::Unavailable)?;
        let (answer, outcome) = oneshot::channel();
        requests
            .try_send(StoreRequest { command, answer })
            .map_err(|_| StoreError::Unavailable)?;
        outcome.await.unwrap_or(Err(StoreError::Unavailable))
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
    StoreError::Refused(format!("the answer belongs to another command: {answer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_counter_survive_reopening_the_file() {
        let path = std::env::temp_dir().join(format!("creel-serve-store-{}", std::process::id()));
        let kind = Kind::File(path.clone());
        let pool = Pool::builder().workers(1).build().unwrap();
        let metrics = Arc::default();
        for round in 1..=2 {
            let store = Store::open(&kind, &pool, &metrics).unwrap();
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
        std::fs::remove_file(path).unwrap();
    }
}

//! Where records and counters are kept.
//!
//! Two stores, an embedded one and Redis, stand at the other end of one bounded line of orders.
//! Whoever orders awaits the answer, or gives up: what has been sent to the store by then may be kept
//! or not, which is the same to a client that was told 503. A record is named by what was signed and
//! a signature depends on nothing else, so keeping it twice changes nothing; the counter counts what
//! was acknowledged, and may count what was not.

mod embedded;
mod redis;
mod resp;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use creel::Pool;
use creel::channel::{oneshot, ring};

use crate::metrics::Metrics;

/// Orders that may wait for the store.
const REQUESTS_MAX: usize = 4096;

/// A record's name: the SHA-256 of what was signed.
pub type Id = [u8; 32];

/// Which store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// In this process's memory: gone when it ends.
    Memory,
    /// An embedded database in a file.
    File(PathBuf),
    /// A Redis server.
    Redis(RedisAddr),
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisAddr {
    /// A host and a port.
    Tcp(String),
    /// A socket's path.
    Unix(PathBuf),
}

impl fmt::Display for RedisAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisAddr::Tcp(address) => f.write_str(address),
            RedisAddr::Unix(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    /// `memory`, `redis://HOST:PORT`, `unix:PATH` of a Redis, or a file's path.
    fn from_str(text: &str) -> Result<Kind, String> {
        if let Some(address) = text.strip_prefix("redis://") {
            if address.contains(['@', '/']) {
                let known = "redis://HOST:PORT is all: no user or password, no database";
                return Err(known.into());
            }
            let port = address
                .rsplit_once(':')
                .map(|(_, port)| port.parse::<u16>());
            return match port {
                Some(Ok(_)) => Ok(Kind::Redis(RedisAddr::Tcp(address.to_owned()))),
                _ => Err("redis://HOST:PORT is needed".into()),
            };
        }
        if let Some((scheme, _)) = text.split_once(':').filter(|(head, _)| is_scheme(head)) {
            return Err(format!(
                "{scheme}: is no store's; redis://HOST:PORT, unix:PATH, or ./{scheme}:… if it is a file"
            ));
        }
        match (text.strip_prefix("unix:"), text) {
            (_, "" | "unix:") => {
                Err("memory, redis://HOST:PORT, unix:PATH or a file is needed".into())
            }
            (_, "memory") => Ok(Kind::Memory),
            (Some(path), _) => Ok(Kind::Redis(RedisAddr::Unix(path.into()))),
            (None, path) => Ok(Kind::File(path.into())),
        }
    }
}

/// Whether it looks like what a URL begins with, as no file's name should.
///
/// Source: RFC 3986, section 3.1; of one letter, it is a drive.
fn is_scheme(head: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_one = head.starts_with(|c: char| c.is_ascii_alphabetic()) && head.chars().all(rest);
    is_one && head.len() > 1 && head != "unix"
}

/// Why the store did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// It is not there, or too much waits for it: later it may.
    Unavailable,
    /// It said no.
    Refused(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Unavailable => f.write_str("the store is not available"),
            StoreError::Refused(why) => write!(f, "the store: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// What is asked of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Command {
    Put(Id, Bytes),
    Get(Id),
    Count,
    /// Whether something could be kept.
    Probe,
}

/// What it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    /// It is kept, also when the power fails, as far as the store promises that.
    Stored,
    Record(Option<Bytes>),
    Count(u64),
}

type Outcome = Result<Answer, StoreError>;

/// A command and who waits for the answer.
struct StoreRequest {
    command: Command,
    answer: oneshot::Sender<Outcome>,
}

impl StoreRequest {
    fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }
}

/// What is known of a store. Hints, which order nothing.
#[derive(Debug, Default)]
struct State {
    /// Whether it answers.
    is_up: AtomicBool,
    /// Whether it also kept what it was last to keep.
    is_writable: AtomicBool,
}

/// Takes orders.
pub struct Store {
    requests: Option<ring::Sender<StoreRequest>>,
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
    /// Opens a store; the connection to Redis is a task of `pool`, and is made as soon as there is
    /// one to be had.
    ///
    /// # Errors
    ///
    /// What the embedded store says.
    pub fn open(kind: &Kind, pool: &Pool, metrics: &Arc<Metrics>) -> Result<Store, StoreError> {
        let (sender, requests) = ring::channel(REQUESTS_MAX);
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

    /// Whether it kept what it was last to keep; what it has may be had in any case.
    pub fn is_ready(&self) -> bool {
        self.state.is_up.load(Relaxed) && self.state.is_writable.load(Relaxed)
    }

    /// Keeps a record and counts it. Once it is done, it is kept.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; it may be kept in spite of that.
    pub async fn put(&self, id: Id, record: Bytes) -> Result<(), StoreError> {
        self.request(Command::Put(id, record)).await.map(|_| ())
    }

    /// A record, if it is kept.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn get(&self, id: Id) -> Result<Option<Bytes>, StoreError> {
        match self.request(Command::Get(id)).await? {
            Answer::Record(record) => Ok(record),
            other => Err(unexpected(&other)),
        }
    }

    /// How often something was kept.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn count(&self) -> Result<u64, StoreError> {
        match self.request(Command::Count).await? {
            Answer::Count(count) => Ok(count),
            other => Err(unexpected(&other)),
        }
    }

    async fn request(&self, command: Command) -> Outcome {
        let outcome = self.try_request(command).await;
        if outcome.is_err() {
            self.metrics.store_errors.fetch_add(1, Relaxed);
        }
        outcome
    }

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

fn unexpected(answer: &Answer) -> StoreError {
    StoreError::Refused(format!("an answer to something else: {answer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_names_are_parsed() {
        let of = |text: &str| text.parse::<Kind>();
        assert_eq!(of("memory"), Ok(Kind::Memory));
        assert_eq!(
            of("redis://localhost:6379"),
            Ok(Kind::Redis(RedisAddr::Tcp("localhost:6379".into())))
        );
        assert_eq!(
            of("unix:/run/r.sock"),
            Ok(Kind::Redis(RedisAddr::Unix("/run/r.sock".into())))
        );
        for file in ["a/b.redb", "./redis:a", "C:\\a.redb"] {
            assert_eq!(of(file), Ok(Kind::File(file.into())));
        }
        for bad in [
            "",
            "redis://localhost",
            "redis://localhost:x",
            "redis://:secret@localhost:6379",
            "redis://localhost:6379/2",
            "rediss://localhost:6379",
            "redis:localhost:6379",
            "file:a.redb",
        ] {
            let why = of(bad).unwrap_err();
            assert!(!why.contains("secret"), "{bad}: {why}");
        }
    }

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

//! The embedded store: a file, one thread, and one transaction for all requests that wait.
//!
//! A transaction is on the disk before its answers are sent. That takes milliseconds, and the
//! requests that arrive in this time share the next transaction.
//!
//! After an error, for example because the disk is full, the database rejects all further work
//! until it is opened again. We therefore reopen it at once, so that stored records can be read. We
//! do not accept new records until a write has succeeded. We try a write from time to time.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use creel::channel::{TryRecvError, bounded};
use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, ReadableTable, TableDefinition};

use super::request::{Answer, Command, Outcome, State, StoreError, StoreRequest};

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");
const COUNTERS: TableDefinition<&str, u64> = TableDefinition::new("counters");
const SIGNED: &str = "signed";
/// The free space that we require before we try to write again.
///
/// A small transaction may still fit into a space that is too small for the next one. Each
/// transaction that fails half-way makes the database repair itself when it is opened, so we avoid
/// failures.
const FREE_SPACE_BYTES: usize = 256 << 10;
/// The maximum number of requests in one transaction.
const BATCH: usize = 1024;

/// An error of the database. Its callers use only the message.
type Failure = Box<dyn std::error::Error>;

/// The time between two attempts to write. It starts at the minimum and doubles up to the maximum,
/// because a database that has failed to write reads its whole file when it is opened.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// The poll interval for requests while the store cannot write.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

type Opening = Box<dyn Fn() -> Result<Database, DatabaseError> + Send>;
type SpaceCheck = Box<dyn Fn() -> bool + Send>;

pub(super) struct Embedded {
    opening: Opening,
    has_space: SpaceCheck,
    /// The database, or `None` if it could not be opened again.
    database: Option<Database>,
    state: Arc<State>,
    /// The time of the last attempt to write, and the time to wait before the next one.
    tried: Instant,
    pause: Duration,
}

impl Embedded {
    /// Opens the file at `path`, which is created if it is missing. Without a path, the database is
    /// in memory.
    pub(super) fn open(path: Option<&Path>, state: Arc<State>) -> Result<Embedded, StoreError> {
        let (opening, has_space): (Opening, SpaceCheck) = match path.map(Path::to_owned) {
            Some(path) => {
                let database_path = path.clone();
                (
                    Box::new(move || Database::create(&path)),
                    Box::new(move || has_free_space(&database_path)),
                )
            }
            None => (
                Box::new(|| Database::builder().create_with_backend(InMemoryBackend::new())),
                Box::new(|| true),
            ),
        };
        Embedded::open_with(opening, has_space, state)
    }

    fn open_with(
        opening: Opening,
        has_space: SpaceCheck,
        state: Arc<State>,
    ) -> Result<Embedded, StoreError> {
        let database = opening().map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Unavailable,
            other => StoreError::Refused(other.to_string()),
        })?;
        create_tables(&database).map_err(|error| StoreError::Refused(error.to_string()))?;
        state.is_up.store(true, Relaxed);
        state.is_writable.store(true, Relaxed);
        Ok(Embedded {
            opening,
            has_space,
            database: Some(database),
            state,
            tried: Instant::now(),
            pause: RETRY_MIN,
        })
    }

    /// Executes requests until all senders are gone.
    pub(super) fn run(mut self, requests: &bounded::Receiver<StoreRequest>) {
        let mut batch = Vec::new();
        while let Some(first) = self.next(requests) {
            let more = std::iter::from_fn(|| requests.try_recv().ok());
            let all = [first].into_iter().chain(more).take(BATCH);
            let is_writable = self.state.is_writable.load(Relaxed);
            for request in all.filter(|request| !request.is_abandoned()) {
                if is_writable || !matches!(request.command, Command::Put(..)) {
                    batch.push(request);
                } else {
                    let _ = request.answer.send(Err(StoreError::Unavailable));
                }
            }
            let outcomes = match &self.database {
                Some(database) => execute(database, &batch),
                None => Ok(vec![Err(StoreError::Unavailable); batch.len()]),
            };
            let is_broken = outcomes.is_err();
            if is_broken {
                self.state.is_writable.store(false, Relaxed);
            }
            let outcomes = outcomes.unwrap_or_else(|error| {
                vec![Err(StoreError::Refused(error.to_string())); batch.len()]
            });
            for (request, outcome) in batch.drain(..).zip(outcomes) {
                // The caller may have given up in the meantime. We ignore that.
                let _ = request.answer.send(outcome);
            }
            if is_broken {
                self.reopen();
                (self.tried, self.pause) = (Instant::now(), RETRY_MIN);
            }
        }
    }

    /// Returns the next request, or `None` when all senders are gone. While the store cannot write,
    /// this also retries.
    fn next(&mut self, requests: &bounded::Receiver<StoreRequest>) -> Option<StoreRequest> {
        while !self.state.is_writable.load(Relaxed) {
            match requests.try_recv() {
                Ok(request) => return Some(request),
                Err(TryRecvError::Closed) => return None,
                Err(_) if self.tried.elapsed() >= self.pause => self.try_again(),
                Err(_) => sleep(POLL_INTERVAL),
            }
        }
        requests.recv_blocking().ok()
    }

    /// Makes one attempt to write. It opens the database again if that fails.
    fn try_again(&mut self) {
        self.tried = Instant::now();
        self.pause = (2 * self.pause).min(RETRY_MAX);
        if self.database.is_some() && !(self.has_space)() {
            return;
        }
        match &self.database {
            Some(database) if create_tables(database).is_ok() => {
                self.state.is_writable.store(true, Relaxed)
            }
            _ => self.reopen(),
        }
    }

    /// Closes the database and opens it again. It must be closed first, because only one database
    /// can use a file.
    fn reopen(&mut self) {
        self.database = None;
        self.database = (self.opening)().ok();
        self.state.is_up.store(self.database.is_some(), Relaxed);
    }
}

/// Executes a batch of commands in one transaction.
fn execute(database: &Database, batch: &[StoreRequest]) -> Result<Vec<Outcome>, Failure> {
    if batch
        .iter()
        .all(|request| !matches!(request.command, Command::Put(..)))
    {
        let transaction = database.begin_read()?;
        let (records, counters) = (
            transaction.open_table(RECORDS)?,
            transaction.open_table(COUNTERS)?,
        );
        let outcomes = batch
            .iter()
            .map(|request| read_only(&request.command, &records, &counters));
        return outcomes.collect();
    }
    let transaction = database.begin_write()?;
    let mut outcomes = Vec::with_capacity(batch.len());
    {
        let mut records = transaction.open_table(RECORDS)?;
        let mut counters = transaction.open_table(COUNTERS)?;
        for request in batch {
            outcomes.push(match &request.command {
                Command::Put(id, record) => {
                    records.insert(&id[..], &record[..])?;
                    let count = counters.get(SIGNED)?.map_or(0, |count| count.value());
                    counters.insert(SIGNED, count + 1)?;
                    Ok(Answer::Stored)
                }
                command => read_only(command, &records, &counters)?,
            });
        }
    }
    transaction.commit()?;
    Ok(outcomes)
}

/// Creates the tables if they are missing. This is also our test whether the database accepts
/// writes.
fn create_tables(database: &Database) -> Result<(), Failure> {
    let transaction = database.begin_write()?;
    transaction.open_table(RECORDS)?;
    transaction.open_table(COUNTERS)?;
    transaction.commit()?;
    Ok(())
}

/// Returns whether a file of [`FREE_SPACE_BYTES`] can be written next to the database.
fn has_free_space(path: &Path) -> bool {
    let mut name = path.as_os_str().to_owned();
    name.push(".room");
    let write = || {
        let mut file = File::create(&name)?;
        file.write_all(&[0; FREE_SPACE_BYTES])?;
        file.sync_all()
    };
    let written: io::Result<()> = write();
    let _ = fs::remove_file(&name);
    written.is_ok()
}

/// Executes a command that changes nothing.
fn read_only(
    command: &Command,
    records: &impl ReadableTable<&'static [u8], &'static [u8]>,
    counters: &impl ReadableTable<&'static str, u64>,
) -> Result<Outcome, Failure> {
    let answer = match command {
        Command::Get(id) => {
            let record = records.get(&id[..])?;
            Answer::Record(record.map(|record| Bytes::copy_from_slice(record.value())))
        }
        _ => Answer::Count(counters.get(SIGNED)?.map_or(0, |count| count.value())),
    };
    Ok(Ok(answer))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use creel::channel::oneshot;
    use redb::StorageBackend;

    use super::*;

    /// A disk that can be full. A full disk accepts writes only where something has been written
    /// before. Its contents outlive the database.
    #[derive(Debug, Clone, Default)]
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        written: Arc<AtomicUsize>,
        is_full: Arc<AtomicBool>,
        /// How often the store checked the free space while the disk was full.
        space_checks: Arc<AtomicUsize>,
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.lock().unwrap().len() as u64)
        }

        fn read(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
            Ok(self.bytes.lock().unwrap()[offset as usize..][..len].to_vec())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.bytes.lock().unwrap().resize(len as usize, 0);
            Ok(())
        }

        fn sync_data(&self, _eventual: bool) -> io::Result<()> {
            Ok(())
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let end = offset as usize + data.len();
            if self.is_full.load(Relaxed) && end > self.written.load(Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.fetch_max(end, Relaxed);
            self.bytes.lock().unwrap()[offset as usize..end].copy_from_slice(data);
            Ok(())
        }
    }

    fn eventually(what: &str, is_so: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_full_disk_blocks_writes_but_not_reads_until_space_is_free() {
        let disk = Disk::default();
        let (backend, seen) = (disk.clone(), disk.clone());
        let opening = Box::new(move || Database::builder().create_with_backend(backend.clone()));
        let has_space = Box::new(move || {
            let is_full = seen.is_full.load(Relaxed);
            seen.space_checks.fetch_add(usize::from(is_full), Relaxed);
            !is_full
        });
        let state = Arc::new(State::default());
        let store = Embedded::open_with(opening, has_space, Arc::clone(&state)).unwrap();
        let (sender, requests) = bounded::channel(16);
        let thread = std::thread::spawn(move || store.run(&requests));
        let request = |command| {
            let (answer, outcome) = oneshot::channel();
            assert!(sender.try_send(StoreRequest { command, answer }).is_ok());
            outcome.recv_blocking().unwrap()
        };
        let put = |id, bytes| request(Command::Put([id; 32], vec![id; bytes].into()));
        let has = |id, bytes| {
            let record = Some(Bytes::from(vec![id; bytes]));
            request(Command::Get([id; 32])) == Ok(Answer::Record(record))
        };
        assert_eq!(put(1, 96), Ok(Answer::Stored));
        assert!(state.is_writable.load(Relaxed));
        disk.is_full.store(true, Relaxed);
        let error = put(2, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("storage"), "{error}");
        assert!(!state.is_writable.load(Relaxed));
        // A small write would still fit, but it must be rejected, too.
        assert_eq!(put(3, 96), Err(StoreError::Unavailable));
        eventually("the store checks the free space", || {
            disk.space_checks.load(Relaxed) > 1
        });
        assert!(!state.is_writable.load(Relaxed));
        assert!(state.is_up.load(Relaxed) && has(1, 96));
        disk.is_full.store(false, Relaxed);
        eventually("the store accepts writes again", || {
            state.is_writable.load(Relaxed)
        });
        assert_eq!(put(4, 1 << 20), Ok(Answer::Stored));
        assert!(has(1, 96) && has(4, 1 << 20));
        drop(sender);
        thread.join().unwrap();
    }

    #[test]
    fn the_space_check_writes_next_to_the_file_and_cleans_up() {
        let folder = std::env::temp_dir().join(format!("creel-serve-room-{}", std::process::id()));
        assert!(
            !has_free_space(&folder.join("a.redb")),
            "the folder does not exist"
        );
        fs::create_dir_all(&folder).unwrap();
        assert!(has_free_space(&folder.join("a.redb")));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
    }
}

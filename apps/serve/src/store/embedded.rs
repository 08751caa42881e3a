//! The embedded store: a file, one thread, and one transaction for all requests that wait.
//!
//! A transaction is on the disk before its answers are sent. That takes milliseconds, and the
//! requests that arrive in this time share the next transaction.
//!
//! After an error, for example because the disk is full, the database rejects all further work
//! until it is opened again. We therefore reopen it at once, so that stored records can be read. We
//! do not accept new records until a write has succeeded. We try a write from time to time.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, ReadableTable, TableDefinition};

use super::health::{Health, Reason, StoreError};
use super::lock_holder::lock_holder;
use super::request::{Answer, Command, Outcome, StoreRequest};

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

/// An error of the database. We box it because it is large.
#[derive(Debug)]
struct Failure(Box<redb::Error>);

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(Box::new(error.into()))
    }
}

/// The time between two attempts to write. It starts at the minimum and doubles up to the maximum,
/// because a database that has failed to write reads its whole file when it is opened.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(2);

type Opening = Box<dyn Fn() -> Result<Database, DatabaseError> + Send>;
type SpaceCheck = Box<dyn Fn() -> bool + Send>;

pub(super) struct Embedded {
    opening: Opening,
    has_space: SpaceCheck,
    /// The database, or `None` if it could not be opened again.
    database: Option<Database>,
    health: Arc<Health>,
    /// The time of the last attempt to write.
    tried: Instant,
    /// The time to wait between the last attempt to write and the next one.
    pause: Duration,
}

impl Embedded {
    /// Opens the file at `path`, which is created if it is missing. Without a path, the database is
    /// in memory.
    pub(super) fn open(path: Option<&Path>, health: Arc<Health>) -> Result<Embedded, StoreError> {
        let Some(path) = path.map(Path::to_owned) else {
            let opening = || Database::builder().create_with_backend(InMemoryBackend::new());
            return Embedded::open_with(Box::new(opening), Box::new(|| true), health)
                .map_err(|error| failed(&error));
        };
        let file = path.clone();
        let opening = move || {
            create_private(&file)?;
            Database::create(&file)
        };
        let folder = folder_of(&path);
        let has_space = move || has_free_space(&folder);
        let opened = Embedded::open_with(Box::new(opening), Box::new(has_space), health);
        opened.map_err(|error| {
            if matches!(*error.0, redb::Error::DatabaseAlreadyOpen) {
                let holder = lock_holder(&path)
                    .unwrap_or_else(|| "another process, which this one cannot see,".into());
                let why = format!(
                    "cannot open {}: {holder} has locked it. Stop that server, or use another \
                     folder (--data)",
                    path.display()
                );
                return StoreError::new(Reason::Locked, why);
            }
            let StoreError { reason, words } = failed(&error);
            StoreError::new(reason, format!("cannot open {}: {words}", path.display()))
        })
    }

    fn open_with(
        opening: Opening,
        has_space: SpaceCheck,
        health: Arc<Health>,
    ) -> Result<Embedded, Failure> {
        let database = opening()?;
        create_tables(&database)?;
        health.works();
        Ok(Embedded {
            opening,
            has_space,
            database: Some(database),
            health,
            tried: Instant::now(),
            pause: RETRY_MIN,
        })
    }

    /// Executes requests until all senders are gone.
    pub(super) fn run(mut self, requests: &Receiver<StoreRequest>) {
        let mut batch = Vec::new();
        while let Some(first) = self.next(requests) {
            let more = std::iter::from_fn(|| requests.try_recv().ok());
            let all = [first].into_iter().chain(more).take(BATCH);
            let is_writable = self.health.is_writable();
            for request in all.filter(|request| !request.is_abandoned()) {
                if is_writable || !request.command.writes() {
                    batch.push(request);
                } else {
                    let _ = request.answer.send(Err(self.health.error()));
                }
            }
            let outcomes = match &self.database {
                Some(database) => execute(database, &batch),
                None => Ok(vec![Err(self.health.error()); batch.len()]),
            };
            let error = outcomes.as_ref().err().map(failed);
            let outcomes = match (outcomes, &error) {
                (_, Some(error)) => {
                    self.health.fails(error, true);
                    vec![Err(error.clone()); batch.len()]
                }
                (outcomes, None) => outcomes.unwrap_or_default(),
            };
            for (request, outcome) in batch.drain(..).zip(outcomes) {
                // We ignore an error, because the caller may have given up in the meantime.
                let _ = request.answer.send(outcome);
            }
            if let Some(error) = error {
                self.reopen(&error);
                (self.tried, self.pause) = (Instant::now(), RETRY_MIN);
            }
        }
    }

    /// Returns the next request, or `None` when all senders are gone. While the store cannot write,
    /// this also retries.
    fn next(&mut self, requests: &Receiver<StoreRequest>) -> Option<StoreRequest> {
        while !self.health.is_writable() {
            let left = self.pause.saturating_sub(self.tried.elapsed());
            match requests.recv_timeout(left) {
                Ok(request) => return Some(request),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.try_again(),
            }
        }
        requests.recv().ok()
    }

    /// Makes one attempt to write. If that fails, or if the database is not open, it opens the
    /// database again. Does nothing if the database is open and its folder has no free space.
    fn try_again(&mut self) {
        self.tried = Instant::now();
        self.pause = (2 * self.pause).min(RETRY_MAX);
        if self.database.is_some() && !(self.has_space)() {
            return;
        }
        match self.database.as_ref().map(create_tables) {
            Some(Ok(())) => self.health.works(),
            Some(Err(error)) => self.reopen(&failed(&error)),
            None => self.reopen(&self.health.error()),
        }
    }

    /// Closes the database and opens it again after an error. It must be closed first, because only
    /// one database can use a file.
    fn reopen(&mut self, error: &StoreError) {
        self.database = None;
        match (self.opening)() {
            Ok(database) => {
                self.database = Some(database);
                self.health.fails(error, true);
            }
            Err(error) => self.health.fails(&failed(&error.into()), false),
        }
    }
}

/// Converts an error of the database.
fn failed(Failure(error): &Failure) -> StoreError {
    let reason = match **error {
        redb::Error::Io(_) | redb::Error::PreviousIo => Reason::Disk,
        redb::Error::DatabaseAlreadyOpen => Reason::Locked,
        _ => Reason::Other,
    };
    StoreError::new(reason, error.to_string())
}

/// Creates a file that only its owner may read, if the file does not exist.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(|_| ()),
    }
}

/// Returns the folder of a file.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Executes a batch of commands in one transaction.
fn execute(database: &Database, batch: &[StoreRequest]) -> Result<Vec<Outcome>, Failure> {
    if batch.iter().all(|request| !request.command.writes()) {
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

/// Returns whether a file of [`FREE_SPACE_BYTES`] can be written to a folder. The file has no
/// guessable name, so that nobody can prepare a link under it.
fn has_free_space(folder: &Path) -> bool {
    let write = || {
        let mut file = tempfile::tempfile_in(folder)?;
        file.write_all(&[0; FREE_SPACE_BYTES])?;
        file.sync_all()
    };
    let written: io::Result<()> = write();
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
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::sync_channel;

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
        let metrics = Arc::new(crate::metrics::Metrics::default());
        let health = Arc::new(Health::new("test".into(), Arc::clone(&metrics)));
        let store = Embedded::open_with(opening, has_space, Arc::clone(&health)).unwrap();
        let (sender, requests) = sync_channel(16);
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
        assert!(health.is_writable());
        disk.is_full.store(true, Relaxed);
        let error = put(2, 1 << 20).unwrap_err();
        assert!(error.to_string().contains("storage"), "{error}");
        assert_eq!(error.reason, Reason::Disk);
        assert_eq!(metrics.store_outages(Reason::Disk), 1);
        assert!(!health.is_writable());
        // A small write would still fit, but it must be rejected, too.
        assert_eq!(put(3, 96).unwrap_err().reason, Reason::Disk);
        eventually("the store checks the free space", || {
            disk.space_checks.load(Relaxed) > 1
        });
        assert!(!health.is_writable());
        assert!(health.is_up() && has(1, 96));
        disk.is_full.store(false, Relaxed);
        eventually("the store accepts writes again", || health.is_writable());
        assert_eq!(put(4, 1 << 20), Ok(Answer::Stored));
        assert!(has(1, 96) && has(4, 1 << 20));
        drop(sender);
        thread.join().unwrap();
    }

    #[test]
    fn the_space_check_writes_to_the_folder_and_cleans_up() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            !has_free_space(&folder.path().join("missing")),
            "the folder does not exist"
        );
        assert!(has_free_space(folder.path()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_second_server_names_the_lock_and_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        let open = || {
            let health = Arc::new(Health::new("test".into(), Arc::default()));
            Embedded::open(Some(&path), health)
        };
        let first = open().ok().unwrap();
        let error = open().err().unwrap();
        assert_eq!(error.reason, Reason::Locked);
        assert!(error.words.contains("records.redb"), "{error}");
        if cfg!(target_os = "linux") {
            let process = format!("process {}", std::process::id());
            assert!(error.words.contains(&process), "{error}");
        }
        drop(first);
        assert!(open().is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_access_the_file_of_records() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        let health = Arc::new(Health::new("test".into(), Arc::default()));
        let _store = Embedded::open(Some(&path), health).ok().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

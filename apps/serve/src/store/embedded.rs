//! The embedded store: a file, one thread, and a transaction for all that waits.
//!
//! A transaction is on the disk before its answers go out. That takes milliseconds, in which more
//! orders come; they share the next one.
//!
//! After an error, of a full disk for one, the database takes nothing any more until it is opened
//! again. So it is closed, the store is told to be away, and it is opened again as soon as it takes
//! a transaction.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use creel::channel::{TryRecvError, ring};
use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, ReadableTable, TableDefinition};

use super::{Answer, Command, Order, Outcome, StoreError};

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");
const COUNTERS: TableDefinition<&str, u64> = TableDefinition::new("counters");
const SIGNED: &str = "signed";
/// Empty but for a moment.
const PROBE: TableDefinition<&str, &[u8]> = TableDefinition::new("probe");
/// What there must be room for before orders are taken again: a small transaction also goes where the
/// next one does not.
const ROOM: usize = 64 << 10;
/// Orders in a transaction.
const BATCH: usize = 1024;

/// The database's own errors, of which nobody needs more than the words.
type Failure = Box<dyn std::error::Error>;

/// Between two attempts to open it again.
const PAUSE: Duration = Duration::from_millis(250);

type Opening = Box<dyn Fn() -> Result<Database, DatabaseError> + Send>;

pub(super) struct Embedded {
    opening: Opening,
    database: Database,
    is_up: Arc<AtomicBool>,
}

impl Embedded {
    /// Opens a file, or makes one; without, what is kept is kept in memory.
    pub(super) fn open(
        path: Option<&Path>,
        is_up: Arc<AtomicBool>,
    ) -> Result<Embedded, StoreError> {
        let path = path.map(Path::to_owned);
        Embedded::by(
            Box::new(move || match &path {
                Some(path) => Database::create(path),
                None => Database::builder().create_with_backend(InMemoryBackend::new()),
            }),
            is_up,
        )
    }

    fn by(opening: Opening, is_up: Arc<AtomicBool>) -> Result<Embedded, StoreError> {
        let database = opening().map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Unavailable,
            other => StoreError::Refused(other.to_string()),
        })?;
        make(&database).map_err(|error| StoreError::Refused(error.to_string()))?;
        is_up.store(true, Relaxed);
        Ok(Embedded {
            opening,
            database,
            is_up,
        })
    }

    /// Carries out orders until nobody can give any more.
    pub(super) fn run(mut self, orders: &ring::Receiver<Order>) {
        let mut batch = Vec::new();
        while let Ok(first) = orders.recv_blocking() {
            let more = std::iter::from_fn(|| orders.try_recv().ok());
            let all = [first].into_iter().chain(more).take(BATCH);
            batch.extend(all.filter(|order| !order.is_given_up()));
            let outcomes = carry_out(&self.database, &batch);
            let is_broken = outcomes.is_err();
            if is_broken {
                self.is_up.store(false, Relaxed);
            }
            let outcomes = outcomes.unwrap_or_else(|error| {
                vec![Err(StoreError::Refused(error.to_string())); batch.len()]
            });
            for (order, outcome) in batch.drain(..).zip(outcomes) {
                // Who has given up meanwhile does not want to know.
                let _ = order.answer.send(outcome);
            }
            if is_broken {
                match self.reopened(orders) {
                    Some(again) => self = again,
                    None => return,
                }
            }
        }
    }

    /// Closes it and opens it again, refusing meanwhile; none when nobody gives orders any more.
    fn reopened(self, orders: &ring::Receiver<Order>) -> Option<Embedded> {
        let Embedded {
            opening,
            database,
            is_up,
        } = self;
        drop(database);
        loop {
            std::thread::sleep(PAUSE);
            let refuse = |order: Order| order.answer.send(Err(StoreError::Unavailable));
            let end = loop {
                match orders.try_recv() {
                    Ok(order) => drop(refuse(order)),
                    Err(end) => break end,
                }
            };
            if end == TryRecvError::Closed {
                return None;
            }
            let opened = opening().ok();
            let opened = opened.filter(|database| make(database).is_ok() && has_room(database));
            if let Some(database) = opened {
                is_up.store(true, Relaxed);
                return Some(Embedded {
                    opening,
                    database,
                    is_up,
                });
            }
        }
    }
}

fn carry_out(database: &Database, batch: &[Order]) -> Result<Vec<Outcome>, Failure> {
    if batch
        .iter()
        .all(|order| !matches!(order.command, Command::Keep(..)))
    {
        let transaction = database.begin_read()?;
        let (records, counters) = (
            transaction.open_table(RECORDS)?,
            transaction.open_table(COUNTERS)?,
        );
        let outcomes = batch
            .iter()
            .map(|order| look(&order.command, &records, &counters));
        return outcomes.collect();
    }
    let transaction = database.begin_write()?;
    let mut outcomes = Vec::with_capacity(batch.len());
    {
        let mut records = transaction.open_table(RECORDS)?;
        let mut counters = transaction.open_table(COUNTERS)?;
        for order in batch {
            outcomes.push(match &order.command {
                Command::Keep(id, record) => {
                    records.insert(&id[..], &record[..])?;
                    let count = counters.get(SIGNED)?.map_or(0, |count| count.value());
                    counters.insert(SIGNED, count + 1)?;
                    Ok(Answer::Kept)
                }
                command => look(command, &records, &counters)?,
            });
        }
    }
    transaction.commit()?;
    Ok(outcomes)
}

fn make(database: &Database) -> Result<(), Failure> {
    let transaction = database.begin_write()?;
    transaction.open_table(RECORDS)?;
    transaction.open_table(COUNTERS)?;
    transaction.commit()?;
    Ok(())
}

/// Whether it takes more than a few bytes.
fn has_room(database: &Database) -> bool {
    let write = |value: Option<&[u8]>| -> Result<(), Failure> {
        let transaction = database.begin_write()?;
        {
            let mut probe = transaction.open_table(PROBE)?;
            match value {
                Some(value) => drop(probe.insert("room", value)?),
                None => drop(probe.remove("room")?),
            }
        }
        Ok(transaction.commit()?)
    };
    write(Some(&[0; ROOM])).and_then(|()| write(None)).is_ok()
}

/// Carries out a command that changes nothing.
fn look(
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
    use std::io;
    use std::sync::Mutex;

    use creel::channel::oneshot;
    use redb::StorageBackend;

    use super::*;

    /// A disk that may be full; what is on it outlives the database.
    #[derive(Debug, Clone, Default)]
    struct Disk {
        bytes: Arc<Mutex<Vec<u8>>>,
        is_full: Arc<AtomicBool>,
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
            if self.is_full.load(Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_and_survived() {
        let disk = Disk::default();
        let is_up = Arc::new(AtomicBool::new(false));
        let there = disk.clone();
        let opening = Box::new(move || Database::builder().create_with_backend(there.clone()));
        let store = Embedded::by(opening, Arc::clone(&is_up)).unwrap();
        let (sender, orders) = ring::channel(16);
        let thread = std::thread::spawn(move || store.run(&orders));
        let order = |command| {
            let (answer, outcome) = oneshot::channel();
            let sent = sender.try_send(Order { command, answer });
            assert!(sent.is_ok());
            outcome.recv_blocking().unwrap()
        };
        let keep = |id| order(Command::Keep([id; 32], Bytes::from_static(b"one")));
        assert_eq!(keep(1), Ok(Answer::Kept));
        disk.is_full.store(true, Relaxed);
        assert!(keep(2).is_err());
        assert!(!is_up.load(Relaxed));
        assert!(keep(3).is_err());
        disk.is_full.store(false, Relaxed);
        while !is_up.load(Relaxed) {
            std::thread::yield_now();
        }
        assert_eq!(keep(4), Ok(Answer::Kept));
        // What was acknowledged is there.
        for id in [1, 4] {
            let record = Some(Bytes::from_static(b"one"));
            assert_eq!(order(Command::Get([id; 32])), Ok(Answer::Record(record)));
        }
        drop(sender);
        thread.join().unwrap();
    }
}

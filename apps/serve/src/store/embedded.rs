//! The embedded store: a file, one thread, and a transaction for all that waits.
//!
//! A transaction is on the disk before its answers go out. That takes milliseconds, in which more
//! orders come; they share the next one.

use std::path::Path;

use bytes::Bytes;
use creel::channel::ring;
use redb::backends::InMemoryBackend;
use redb::{Database, DatabaseError, ReadableTable, TableDefinition};

use super::{Answer, Command, Order, Outcome, StoreError};

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");
const COUNTERS: TableDefinition<&str, u64> = TableDefinition::new("counters");
const SIGNED: &str = "signed";
/// Orders in a transaction.
const BATCH: usize = 1024;

/// The database's own errors, of which nobody needs more than the words.
type Failure = Box<dyn std::error::Error>;

pub(super) struct Embedded {
    database: Database,
}

impl Embedded {
    /// Opens a file, or makes one; without, what is kept is kept in memory.
    pub(super) fn open(path: Option<&Path>) -> Result<Embedded, StoreError> {
        let opened = match path {
            Some(path) => Database::create(path),
            None => Database::builder().create_with_backend(InMemoryBackend::new()),
        };
        let database = opened.map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Unavailable,
            other => StoreError::Refused(other.to_string()),
        })?;
        make(&database).map_err(|error| StoreError::Refused(error.to_string()))?;
        Ok(Embedded { database })
    }

    /// Carries out orders until nobody can give any more.
    pub(super) fn run(self, orders: &ring::Receiver<Order>) {
        let mut batch = Vec::new();
        while let Ok(first) = orders.recv_blocking() {
            let more = std::iter::from_fn(|| orders.try_recv().ok());
            let all = [first].into_iter().chain(more).take(BATCH);
            batch.extend(all.filter(|order| !order.is_given_up()));
            let outcomes = self.carry_out(&batch);
            let outcomes = outcomes.unwrap_or_else(|error| {
                vec![Err(StoreError::Refused(error.to_string())); batch.len()]
            });
            for (order, outcome) in batch.drain(..).zip(outcomes) {
                // Who has given up meanwhile does not want to know.
                let _ = order.answer.send(outcome);
            }
        }
    }

    fn carry_out(&self, batch: &[Order]) -> Result<Vec<Outcome>, Failure> {
        if batch
            .iter()
            .all(|order| !matches!(order.command, Command::Keep(..)))
        {
            let transaction = self.database.begin_read()?;
            let (records, counters) = (
                transaction.open_table(RECORDS)?,
                transaction.open_table(COUNTERS)?,
            );
            let outcomes = batch
                .iter()
                .map(|order| look(&order.command, &records, &counters));
            return outcomes.collect();
        }
        let transaction = self.database.begin_write()?;
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
}

fn make(database: &Database) -> Result<(), Failure> {
    let transaction = database.begin_write()?;
    transaction.open_table(RECORDS)?;
    transaction.open_table(COUNTERS)?;
    transaction.commit()?;
    Ok(())
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

//! A table with one entry per worker. It can grow while other threads read it, and an entry never
//! moves.
//!
//! Therefore reading an entry takes no lock, and a reference to an entry stays valid as long as the
//! table exists, even if the pool is resized.

use std::sync::OnceLock;

/// The maximum number of entries of a table, and therefore of workers of one pool.
pub(crate) const WORKERS_MAX: usize = (1 << BUCKETS) - 1;
const BUCKETS: usize = 14;

/// A table whose entries 0, 1, 2 and so on are in buckets of 1, 2, 4 and so on entries. Each bucket
/// is created when it is first used.
pub(crate) struct Table<T> {
    make: Box<dyn Fn(usize) -> T + Send + Sync>,
    buckets: [OnceLock<Box<[T]>>; BUCKETS],
}

impl<T> Table<T> {
    /// Creates an empty table. `make` creates the entry of an index.
    pub(crate) fn new(make: impl Fn(usize) -> T + Send + Sync + 'static) -> Self {
        Self {
            make: Box::new(make),
            buckets: [const { OnceLock::new() }; BUCKETS],
        }
    }

    /// Returns the entry with this index, which must be below [`WORKERS_MAX`].
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &T {
        let bucket = (index + 1).ilog2() as usize;
        let first = (1 << bucket) - 1;
        match self.buckets[bucket].get() {
            Some(entries) => &entries[index - first],
            None => &self.make_bucket(bucket)[index - first],
        }
    }

    #[cold]
    fn make_bucket(&self, bucket: usize) -> &[T] {
        self.buckets[bucket].get_or_init(|| {
            let first = (1 << bucket) - 1;
            let indices = first..first + (1 << bucket);
            indices.map(&self.make).collect()
        })
    }

    /// Returns all entries created so far.
    pub(crate) fn made(&self) -> impl Iterator<Item = &T> {
        self.buckets
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|bucket| bucket.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_own_entry() {
        let table = Table::new(|index| index);
        for index in (0..100).rev().chain([WORKERS_MAX - 1]) {
            assert_eq!(*table.at(index), index);
        }
        let made: Vec<usize> = table.made().copied().collect();
        assert_eq!(made[..127], (0..127).collect::<Vec<_>>());
    }
}

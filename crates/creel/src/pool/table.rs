//! The table of seats: it grows while others read it, and a seat never moves.

use super::seat::Seat;
use crate::{net::driver::Driver, time::Clock};
use std::sync::{Arc, OnceLock};

/// The most workers that one pool may have.
pub(crate) const WORKERS_MAX: usize = (1 << BUCKETS) - 1;
const BUCKETS: usize = 14;

/// Seats 0, 1, 2 … in buckets of 1, 2, 4 … seats, each made when first asked for.
pub(crate) struct SeatTable {
    clock: Clock,
    driver: Arc<Driver>,
    buckets: [OnceLock<Box<[Seat]>>; BUCKETS],
}

impl SeatTable {
    /// No seat yet; all will go by `clock` and sleep in `driver`.
    pub(crate) fn new(clock: Clock, driver: Arc<Driver>) -> Self {
        Self {
            clock,
            driver,
            buckets: [const { OnceLock::new() }; BUCKETS],
        }
    }

    /// The seat with this index, below [`WORKERS_MAX`].
    #[inline]
    pub(crate) fn seat(&self, index: usize) -> &Seat {
        let bucket = (index + 1).ilog2() as usize;
        let first = (1 << bucket) - 1;
        match self.buckets[bucket].get() {
            Some(seats) => &seats[index - first],
            None => &self.make(bucket)[index - first],
        }
    }

    #[cold]
    fn make(&self, bucket: usize) -> &[Seat] {
        self.buckets[bucket].get_or_init(|| {
            let first = (1 << bucket) - 1;
            let indices = first..first + (1 << bucket);
            let seat = |index| Seat::new(index, &self.clock, &self.driver);
            indices.map(seat).collect()
        })
    }

    /// All seats made so far.
    pub(crate) fn made(&self) -> impl Iterator<Item = &Seat> {
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
    fn every_index_has_its_own_seat() {
        let table = SeatTable::new(Clock::monotonic(), Arc::default());
        for index in (0..100).rev().chain([WORKERS_MAX - 1]) {
            assert_eq!(table.seat(index).index, index);
        }
        let made: Vec<usize> = table.made().map(|seat| seat.index).collect();
        assert_eq!(made[..127], (0..127).collect::<Vec<_>>());
    }
}

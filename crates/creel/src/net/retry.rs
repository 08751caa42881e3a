//! What a level-triggered direction has learnt: whether to try again after a datagram.
//!
//! A system call that takes one datagram does not tell whether there is another. Where an edge is
//! all that will be told, the next try must find that out, in vain if there is none. Where the
//! poller reports a level, it can be asked once more for all sockets together instead; but in a
//! burst that costs a wake-up a datagram. So a direction tries again when that has paid lately.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// After so many reports that nobody came for, the level is not worth what it costs.
const UNHEARD_MAX: u32 = 16;

/// What a report means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Report {
    /// It is one of a level.
    pub(super) level: bool,
    /// A former answer of the row had one of the same socket.
    pub(super) again: bool,
    /// Nobody has come for a row of these.
    pub(super) unheard: bool,
}

/// All relaxed: a guess that is wrong costs time only.
#[derive(Default)]
pub(super) struct Retry {
    /// The row of answers that had the last report.
    row: AtomicU32,
    /// What was taken since the first report of the row.
    taken: AtomicU32,
    /// There was more than one the last time.
    bursts: AtomicBool,
    /// Reports since anybody came for one.
    unheard: AtomicU32,
}

impl Retry {
    /// The poller has reported in an answer of this row; nobody has come for its report before,
    /// if that was `unheard`.
    pub(super) fn reported(&self, row: u32, unheard: bool) -> Report {
        let again = self.row.swap(row, Ordering::Relaxed) == row;
        if again {
            self.bursts.store(true, Ordering::Relaxed);
        } else {
            self.taken.store(0, Ordering::Relaxed);
        }
        let count = match unheard {
            true => self.unheard.load(Ordering::Relaxed) + 1,
            false => 0,
        };
        self.unheard.store(count, Ordering::Relaxed);
        Report {
            level: true,
            again,
            unheard: count >= UNHEARD_MAX,
        }
    }

    /// Something was taken. Says whether to try again at once.
    pub(super) fn took(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.bursts.load(Ordering::Relaxed)
    }

    /// A try was in vain.
    pub(super) fn found_nothing(&self) {
        let paid = self.taken.swap(0, Ordering::Relaxed) > 1;
        self.bursts.store(paid, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a row with `there` datagrams in the socket. Returns how often the socket is reported
    /// until it is empty, and how many tries are made.
    fn turn(retry: &Retry, row: &mut u32, mut there: u32) -> (u32, u32) {
        let (mut reports, mut tries) = (0, 0);
        *row += 1;
        while there > 0 {
            reports += 1;
            assert!(!retry.reported(*row, false).unheard);
            loop {
                tries += 1;
                if there == 0 {
                    retry.found_nothing();
                    break;
                }
                there -= 1;
                if !retry.took() {
                    break;
                }
            }
        }
        (reports, tries)
    }

    #[test]
    fn single_datagrams_take_one_try_each() {
        let (retry, mut row) = (Retry::default(), 0);
        for _ in 0..5 {
            assert_eq!(turn(&retry, &mut row, 1), (1, 1));
        }
    }

    #[test]
    fn a_burst_is_learnt_and_forgotten() {
        let (retry, mut row) = (Retry::default(), 0);
        assert_eq!(turn(&retry, &mut row, 100), (2, 101));
        assert_eq!(turn(&retry, &mut row, 100), (1, 101));
        assert_eq!(turn(&retry, &mut row, 2), (1, 3));
        assert_eq!(turn(&retry, &mut row, 1), (1, 2));
        assert_eq!(turn(&retry, &mut row, 1), (1, 1));
    }

    #[test]
    fn a_socket_that_nobody_reads_is_reported_a_few_times_only() {
        let retry = Retry::default();
        assert!(!retry.reported(1, false).unheard);
        let reported = (2..100).take_while(|&row| !retry.reported(row, true).unheard);
        assert_eq!(reported.count() as u32, UNHEARD_MAX - 1);
    }
}

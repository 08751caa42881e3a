//! A heuristic for sockets that the poller reports by level: whether to read again after a datagram
//! was received. What we say about datagrams also applies to the connections of a listener.
//!
//! A system call that receives one datagram does not report whether there are more. If the poller
//! reports edges, the next read must find out, and it fails if no datagram is left. If the poller
//! reports levels, we can instead ask it once for all sockets. However, in a burst this costs one
//! wake-up per datagram. Therefore a task reads a socket again at once if such additional reads of
//! this socket have found another datagram recently.
//!
//! A *row* of polls begins when the driver polls in a new turn. It continues while the driver polls
//! again at once, because the last answer was full or because an operation has left it open whether
//! there is more.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The number of consecutive unused reports after which we switch a socket from level-triggered to
/// edge-triggered or one-shot mode. A report is unused if no task tries to read because of it. In
/// level-triggered mode, each poll would return at once for ever.
const UNANSWERED_MAX: u32 = 16;

/// What the driver must know about a report of the poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Report {
    /// Whether the socket is reported by level.
    pub(super) level: bool,
    /// Whether an earlier poll of the same row reported the same socket.
    pub(super) again: bool,
    /// Whether no task has used the last [`UNANSWERED_MAX`] reports.
    pub(super) unanswered: bool,
}

/// The state of the heuristic for one socket. All accesses are relaxed, because a wrong guess only
/// costs time.
#[derive(Default)]
pub(super) struct Retry {
    /// The number of the row of polls in which the socket was last reported.
    row: AtomicU32,
    /// The number of datagrams received since the first report of the row, or since a read last
    /// found nothing if that was later.
    taken: AtomicU32,
    /// Whether there was more than one datagram the last time, so that a task reads again at once.
    bursts: AtomicBool,
    /// The number of consecutive reports after which no task tried to read.
    unanswered: AtomicU32,
}

impl Retry {
    /// Records that the poller has reported the socket in an answer of this row. `unanswered` says
    /// whether no task has used the report before this one.
    pub(super) fn reported(&self, row: u32, unanswered: bool) -> Report {
        let again = self.row.swap(row, Ordering::Relaxed) == row;
        if again {
            self.bursts.store(true, Ordering::Relaxed);
        } else {
            self.taken.store(0, Ordering::Relaxed);
        }
        let count = match unanswered {
            true => self.unanswered.load(Ordering::Relaxed) + 1,
            false => 0,
        };
        self.unanswered.store(count, Ordering::Relaxed);
        Report {
            level: true,
            again,
            unanswered: count >= UNANSWERED_MAX,
        }
    }

    /// Records that a datagram was received. Returns whether to read again immediately.
    pub(super) fn took(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.bursts.load(Ordering::Relaxed)
    }

    /// Records that a read found no datagram.
    pub(super) fn found_nothing(&self) {
        let paid = self.taken.swap(0, Ordering::Relaxed) > 1;
        self.bursts.store(paid, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a row that begins with `there` datagrams. Returns how often the socket is reported
    /// until all of them have been read, and the number of reads.
    fn turn(retry: &Retry, row: &mut u32, mut there: u32) -> (u32, u32) {
        let (mut reports, mut tries) = (0, 0);
        *row += 1;
        while there > 0 {
            reports += 1;
            assert!(!retry.reported(*row, false).unanswered);
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
    fn single_datagrams_take_one_read_each() {
        let (retry, mut row) = (Retry::default(), 0);
        for _ in 0..5 {
            assert_eq!(turn(&retry, &mut row, 1), (1, 1));
        }
    }

    #[test]
    fn bursts_cause_an_additional_read_until_single_datagrams_return() {
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
        assert!(!retry.reported(1, false).unanswered);
        let answered = (2..100).take_while(|&row| !retry.reported(row, true).unanswered);
        assert_eq!(answered.count() as u32, UNANSWERED_MAX - 1);
    }
}

//! Readiness: which sockets can go on, found out by one worker for all.
//!
//! A pool has one driver. Its workers ask it once a turn, or sleep in it; whoever does gets the
//! wakers of the tasks whose sockets became ready. A socket is added to the system's poller when an
//! operation on it first had to wait, for that direction only, and stays: neither a packet nor a
//! turn costs a system call to arm it. (Where the system knows neither levels nor edges, it is
//! armed once a wait.)
//!
//! How the poller reports a socket depends on who reads it. The one worker of a pool runs the task
//! that it wakes before it asks again; a socket that only reads is then reported by *level*:
//! again and again while there is something to read, so that a task which took one datagram need
//! not find out by a system call in vain that it was the last. Where workers take tasks from one
//! another, or somebody waits to write, sockets are reported by *edge*: once for each arrival.

use super::source::{AnySource, lock};
use crate::pool::woken::Woken;
use polling::{Events, PollMode, Poller};
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;
use std::time::Duration;

/// Events an answer, at most: what they wake runs before timers are looked at.
const ROOM: NonZeroUsize = NonZeroUsize::new(128).unwrap();
/// The poller's own descriptors, which may take places of an answer and are not told of.
const POLLERS_OWN: usize = 2;

/// The poller of one pool and the sockets in it.
#[derive(Default)]
pub(crate) struct Driver {
    /// Made with the first socket: a pool without one costs no descriptor.
    poller: OnceLock<Poller>,
    sources: Mutex<Sources>,
    /// The length of `sources`, for a look without the lock.
    registered: AtomicUsize,
    /// Held by the worker that asks or sleeps.
    asking: Mutex<Asking>,
    /// Wakes a worker that will ask.
    rouse: OnceLock<Waker>,
    /// The pool has one worker. Relaxed: what is reported in the other way is right, too.
    alone: AtomicBool,
    /// An operation has left it to the next asking whether there is more. Relaxed: one that
    /// is missed waits until the worker asks anyway.
    unsure: AtomicBool,
}

/// Slots by key; a freed key is used again. An event that was under way for the slot's former
/// socket only makes the new one try once for nothing.
#[derive(Default)]
struct Sources {
    slots: Vec<Option<Arc<AnySource>>>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Asking {
    events: Option<Events>,
    /// Counts rows of answers: one is asked for after the other until there is nothing more.
    row: u32,
}

/// What the poller has reported.
#[derive(Default)]
pub(crate) struct Found {
    /// Events.
    pub(crate) count: usize,
    /// There was no room for more of them.
    pub(crate) full: bool,
    /// Whether sockets are among them that are to be asked for again if an operation is unsure of
    /// them: by an answer that is not the first of a row, only those that were in a former one.
    pub(crate) level: bool,
    /// Who has waited for these.
    pub(crate) due: Woken,
}

impl Driver {
    /// Tells whether the pool has one worker: sockets that are added from now on go by that.
    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    /// An operation leaves it to the next asking whether there is more.
    pub(super) fn be_unsure(&self) {
        self.unsure.store(true, Ordering::Relaxed);
    }

    /// Whether one has since the last asking.
    pub(crate) fn is_unsure(&self) -> bool {
        self.unsure.load(Ordering::Relaxed)
    }

    /// Names the waker of a worker; once.
    pub(crate) fn set_rouse(&self, waker: Waker) {
        // A second waker could only be another worker's of the same pool, which is as good.
        let _ = self.rouse.set(waker);
    }

    /// A socket was added: if all workers sleep elsewhere, one must come.
    pub(super) fn rouse_if_unattended(&self) {
        if self.asking.try_lock().is_ok()
            && let Some(waker) = self.rouse.get()
        {
            waker.wake_by_ref();
        }
    }

    /// Whether there is any socket to ask for.
    pub(crate) fn is_empty(&self) -> bool {
        self.registered.load(Ordering::SeqCst) == 0
    }

    /// Asks once, without waiting; `again` if the last answer was full, or something was unsure
    /// after it. None if another worker is at it.
    pub(crate) fn turn(&self, again: bool) -> Option<Found> {
        if self.is_empty() {
            return None;
        }
        self.ask(Some(Duration::ZERO), again)
    }

    /// Sleeps until a socket is ready, [`notify`](Self::notify) is called or the time is up. None
    /// if another worker holds the poller, or there is none.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Option<Found> {
        self.ask(timeout, false)
    }

    fn ask(&self, timeout: Option<Duration>, again: bool) -> Option<Found> {
        let poller = self.poller.get()?;
        let mut asking = self.asking.try_lock().ok()?;
        let Asking { events, row } = &mut *asking;
        *row = row.wrapping_add(u32::from(!again));
        self.unsure.store(false, Ordering::Relaxed);
        let events = events.get_or_insert_with(|| Events::with_capacity(ROOM));
        events.clear();
        // An interrupted or failed wait is a wait that ended early.
        let count = poller.wait(events, timeout).unwrap_or(0);
        let mut found = Found::default();
        if count > 0 {
            found.count = count;
            found.full = count + POLLERS_OWN >= ROOM.get();
            self.gather(events, *row, again, &mut found);
        }
        Some(found)
    }

    fn gather(&self, events: &Events, row: u32, again: bool, found: &mut Found) {
        let sources = lock(&self.sources);
        for event in events.iter() {
            let Some(source) = sources.slots.get(event.key).and_then(Option::as_ref) else {
                continue;
            };
            let report = source.report(event, row, &mut found.due);
            found.level |= if again { report.again } else { report.level };
            if report.unheard {
                self.watch_edges(source, event.key);
            }
        }
    }

    /// Nobody comes for what is ready at this socket, and the poller would be asked in vain for
    /// ever: from now on it tells of new arrivals only.
    #[cold]
    fn watch_edges(&self, source: &AnySource, key: usize) {
        let Ok(poller) = self.poller() else { return };
        let mut mode = lock(&source.mode);
        if mode.is_none() {
            return;
        }
        let edges = edges(poller);
        // First: who tries after an event that comes by edge must know it.
        source.level.store(false, Ordering::Relaxed);
        // The kernel tells at once if there is something now.
        match poller.modify_with_mode(source.socket.source(), source.interest(key), edges) {
            Ok(()) => *mode = Some(edges),
            // The next report tries again.
            Err(_) => source.level.store(true, Ordering::Relaxed),
        }
    }

    /// Ends the present or the next [`wait`](Self::wait) of another worker.
    pub(crate) fn notify(&self) {
        if let Some(poller) = self.poller.get() {
            // It can only fail if the poller's own descriptor is gone.
            let _ = poller.notify();
        }
    }

    pub(super) fn poller(&self) -> io::Result<&Poller> {
        if let Some(poller) = self.poller.get() {
            return Ok(poller);
        }
        let fresh = Poller::new()?;
        Ok(self.poller.get_or_init(|| fresh))
    }

    /// How a socket is to be reported that only reads, or that does not.
    pub(super) fn mode(&self, poller: &Poller, reads_only: bool) -> PollMode {
        match reads_only && self.alone.load(Ordering::Relaxed) && poller.supports_level() {
            true => PollMode::Level,
            false => edges(poller),
        }
    }

    /// Gives the socket a key.
    pub(super) fn insert(&self, source: Arc<AnySource>) -> usize {
        let mut sources = lock(&self.sources);
        let key = sources.free.pop().unwrap_or(sources.slots.len());
        if key == sources.slots.len() {
            sources.slots.push(Some(source));
        } else {
            sources.slots[key] = Some(source);
        }
        self.registered.fetch_add(1, Ordering::SeqCst);
        key
    }

    pub(super) fn remove(&self, key: usize) {
        let mut sources = lock(&self.sources);
        let gone = sources.slots[key].take();
        sources.free.push(key);
        drop(sources);
        drop(gone);
        self.registered.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How the poller tells of arrivals only.
fn edges(poller: &Poller) -> PollMode {
    match poller.supports_edge() {
        true => PollMode::Edge,
        false => PollMode::Oneshot,
    }
}

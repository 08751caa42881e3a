//! Readiness: which sockets can go on, found out by one worker for all.
//!
//! A pool has one driver. Its workers ask it once a turn, or sleep in it; whoever does gets the
//! wakers of the tasks whose sockets became ready. A socket is added to the system's poller when an
//! operation on it first had to wait, for that direction only, and stays: neither a packet nor a
//! turn costs a system call to arm it. (Where the system knows neither levels nor edges, it is
//! armed once a wait.)
//!
//! How the poller reports a socket depends on who reads it. The one worker of a pool runs the task
//! that it wakes before it asks again; a socket that only reads datagrams is then reported by
//! *level*: again and again while there is something to read, so that a task which took one need
//! not find out by a system call in vain that it was the last. Where workers take tasks from one
//! another, or somebody waits to write, and for streams, which tell by a short read that there is no
//! more, sockets are reported by *edge*: once for each arrival.
//!
//! A socket outlives the pool it has waited on, and other pools may wait for it meanwhile: the
//! driver's end wakes all of them, and who still has to wait joins the driver of its own thread.
//!
//! Locks are taken in the order `asking`, a source's place, `sources` or `poller`; none is held
//! while anybody is woken.

use super::poller::{Events, Mode, Poller};
use super::readiness::lock;
use super::source::AnySource;
use crate::worker::parker;
use crate::worker::woken::{Woken, wake_all};
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::Waker;
use std::time::Duration;

/// Events an answer, at most: what they wake runs before timers are looked at.
const ROOM: NonZeroUsize = NonZeroUsize::new(128).unwrap();

/// The poller of one pool and the sockets in it.
#[derive(Default)]
pub(crate) struct Driver {
    /// Made with the first socket: a pool without one costs no descriptor, nor does one that has
    /// ended.
    poller: RwLock<Option<Arc<Poller>>>,
    /// No socket joins any more. Set before `sources` and `poller` are emptied, and looked at under
    /// their locks by who adds to them.
    ended: AtomicBool,
    sources: Mutex<Sources>,
    /// The length of `sources`, for a look without the lock.
    registered: AtomicUsize,
    /// Held by the worker that asks or sleeps.
    asking: Mutex<Asking>,
    /// Askings that have come to their end. Relaxed, and counted under `asking`: a reader only
    /// wants to know whether there was any.
    attended: AtomicU64,
    /// Wakes a worker that will ask.
    rouse: Mutex<Option<Waker>>,
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
    /// That of the driver, once there was one, until its end.
    poller: Option<Arc<Poller>>,
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

    /// Names the waker of a worker that asks, instead of the one before. It is called under no lock.
    pub(crate) fn set_wake(&self, waker: Waker) {
        let old = lock(&self.rouse).replace(waker);
        drop(old);
    }

    /// A socket was added: if all workers sleep elsewhere, one must come.
    pub(crate) fn wake_if_unattended(&self) {
        if self.is_unattended() {
            let waker = lock(&self.rouse).clone();
            waker.inspect(Waker::wake_by_ref);
        }
    }

    /// Whether nobody asks or sleeps in the poller; a moment ago.
    ///
    /// A worker that wants to sleep in the poller just now finds it taken and sleeps elsewhere. So a
    /// caller that gets `true` sends a worker there, or asks the poller itself.
    pub(crate) fn is_unattended(&self) -> bool {
        // The lock is free again before a worker that is sent arrives.
        self.asking.try_lock().is_ok()
    }

    /// How often a worker has come back from the poller with what there was: while that stands
    /// still, nobody looks after the sockets, or somebody sleeps there.
    pub(crate) fn attended(&self) -> u64 {
        self.attended.load(Ordering::Relaxed)
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
        self.ask(Some(Duration::ZERO), again, || false)
    }

    /// Sleeps until a socket is ready, [`notify`](Self::notify) is called or the time is up. None
    /// if another worker holds the poller, or there is none. `notified` says whether this worker has
    /// been: another may have taken the notification for its own, and left the poller since.
    pub(crate) fn wait(
        &self,
        timeout: Option<Duration>,
        notified: impl FnOnce() -> bool,
    ) -> Option<Found> {
        self.ask(timeout, false, notified)
    }

    fn ask(
        &self,
        timeout: Option<Duration>,
        again: bool,
        notified: impl FnOnce() -> bool,
    ) -> Option<Found> {
        let mut asking = self.asking.try_lock().ok()?;
        // From here on nobody else takes a notification.
        let timeout = match notified() {
            true => Some(Duration::ZERO),
            false => timeout,
        };
        let Asking {
            poller,
            events,
            row,
        } = &mut *asking;
        if poller.is_none() {
            poller.clone_from(&self.poller.read().unwrap_or_else(PoisonError::into_inner));
        }
        let poller = poller.as_ref()?;
        *row = row.wrapping_add(u32::from(!again));
        self.unsure.store(false, Ordering::Relaxed);
        let events = events.get_or_insert_with(|| Events::with_capacity(ROOM));
        events.clear();
        // An interrupted or failed wait is a wait that ended early.
        let _ = poller.wait(events, timeout);
        let mut found = Found {
            full: events.is_full(),
            ..Found::default()
        };
        self.gather(events, *row, again, &mut found);
        let before = self.attended.load(Ordering::Relaxed);
        self.attended
            .store(before.wrapping_add(1), Ordering::Relaxed);
        Some(found)
    }

    fn gather(&self, events: &Events, row: u32, again: bool, found: &mut Found) {
        let mut unheard = Vec::new();
        let mut events = events.iter().peekable();
        if events.peek().is_none() {
            return;
        }
        let sources = lock(&self.sources);
        for event in events {
            found.count += 1;
            let Some(source) = sources.slots.get(event.key).and_then(Option::as_ref) else {
                continue;
            };
            let report = source.report(event, row, &mut found.due);
            found.level |= if again { report.again } else { report.level };
            if report.unheard {
                unheard.push((Arc::clone(source), event.key));
            }
        }
        drop(sources);
        for (source, key) in unheard {
            self.watch_edges(&source, key);
        }
    }

    /// Nobody comes for what is ready at this socket, and the poller would be asked in vain for
    /// ever: from now on it tells of new arrivals only.
    #[cold]
    fn watch_edges(&self, source: &AnySource, key: usize) {
        let mut place = lock(&source.place);
        let Some(watch) = place.as_mut().and_then(|place| place.watch_by(self, key)) else {
            return;
        };
        let edges = edges(&watch.poller);
        // First: who tries after an event that comes by edge must know it.
        source.level.store(false, Ordering::Relaxed);
        let (socket, interest) = (&source.socket, source.interest(key));
        // The kernel tells at once if there is something now.
        match watch.poller.modify(socket, interest, edges) {
            Ok(()) => watch.mode = edges,
            // The next report tries again.
            Err(_) => source.level.store(true, Ordering::Relaxed),
        }
    }

    /// Ends the present or the next [`wait`](Self::wait) of another worker.
    pub(crate) fn notify(&self) {
        let poller = self.poller.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(poller) = &*poller {
            // It can only fail if the poller's own descriptor is gone.
            let _ = poller.notify();
        }
    }

    /// Lets all sockets go and closes the poller; the last step of a pool, also more than once. Who
    /// waits for a socket is woken, and joins another driver if it still has to.
    ///
    /// Waits for a worker that is still in there, which it calls back.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        let poller = self.poller.write();
        let poller = poller.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(poller) = &poller {
            let _ = poller.notify();
        }
        *lock(&self.asking) = Asking::default();
        let sources = std::mem::take(&mut *lock(&self.sources));
        self.registered.store(0, Ordering::SeqCst);
        let mut due = Woken::default();
        for source in sources.slots.iter().flatten() {
            source.leave(self, &mut due);
        }
        let rouse = lock(&self.rouse).take();
        // The poller's last reference, unless a socket is being dropped just now.
        drop((poller, sources, rouse));
        due.run(wake_all);
    }

    /// The poller, made if there is none; none once the driver has ended.
    ///
    /// # Errors
    ///
    /// If the system refuses one.
    pub(super) fn poller(&self) -> io::Result<Option<Arc<Poller>>> {
        let made = self.poller.read().unwrap_or_else(PoisonError::into_inner);
        if made.is_some() {
            return Ok(made.clone());
        }
        drop(made);
        let mut made = self.poller.write().unwrap_or_else(PoisonError::into_inner);
        if made.is_none() && !self.ended.load(Ordering::SeqCst) {
            *made = Some(Arc::new(Poller::new()?));
        }
        Ok(made.clone())
    }

    #[cfg(test)]
    pub(super) fn asking_is_free(&self) -> bool {
        self.asking.try_lock().is_ok()
    }

    /// How a socket is to be reported that only reads datagrams, or that does not.
    pub(super) fn mode(&self, poller: &Poller, reads_only: bool) -> Mode {
        match reads_only && self.alone.load(Ordering::Relaxed) && poller.supports(Mode::Level) {
            true => Mode::Level,
            false => edges(poller),
        }
    }

    /// Gives the socket a key; none once the driver has ended.
    pub(super) fn insert(&self, source: Arc<AnySource>) -> Option<usize> {
        let mut sources = lock(&self.sources);
        if self.ended.load(Ordering::SeqCst) {
            return None;
        }
        let key = sources.free.pop().unwrap_or(sources.slots.len());
        if key == sources.slots.len() {
            sources.slots.push(Some(source));
        } else {
            sources.slots[key] = Some(source);
        }
        self.registered.fetch_add(1, Ordering::SeqCst);
        Some(key)
    }

    pub(super) fn remove(&self, key: usize) {
        let mut sources = lock(&self.sources);
        // None after the end.
        let gone = sources.slots.get_mut(key).and_then(Option::take);
        if gone.is_some() {
            sources.free.push(key);
            self.registered.fetch_sub(1, Ordering::SeqCst);
        }
        drop(sources);
        drop(gone);
    }
}

impl parker::Poller for Driver {
    fn interrupt(&self) {
        self.notify();
    }
}

/// How the poller tells of arrivals only.
fn edges(poller: &Poller) -> Mode {
    match poller.supports(Mode::Edge) {
        true => Mode::Edge,
        false => Mode::Oneshot,
    }
}

//! The I/O driver of a pool, which finds out which sockets are ready.
//!
//! Each pool has one driver. The pool's workers poll the driver, at most once per turn of their
//! loop, or sleep in it. The worker that polls receives the wakers of the tasks whose sockets have
//! become ready.
//!
//! A socket is added to the system's poller when an operation on it has to wait for the first time,
//! and it stays there. It is added only for the direction of that operation. To *arm* a socket
//! means to ask the poller for the socket's next event. Because the socket stays added, neither a
//! packet nor a turn costs a system call to arm it. However, on systems whose poller does not
//! support edges, for example Windows, each wait on a socket that is not reported by level arms the
//! socket again.
//!
//! # Levels and edges
//!
//! How the poller reports a socket depends on the worker that reads it:
//!
//! - In a pool with one worker, that worker runs the task that it wakes before it polls again. We
//!   then let the poller report listeners, and datagram sockets that only receive, by *level*,
//!   which means again and again while there is something to read. For example, a task that has
//!   received one datagram then needs no failing system call to find out that it was the last one.
//! - In all other cases, the poller reports a socket by *edge*, which means once for each arrival.
//!   If it does not support edges, it reports the socket once each time the socket is armed. We use
//!   edges if the pool has several workers, because workers steal tasks from each other. We also
//!   use them for sockets on which a task has waited to write, and for streams, because a short
//!   read already shows that the socket is empty. We switch a socket that no task reads to edges as
//!   well. Systems with kqueue never use levels (`poller/portable.rs`).
//!
//! # The end of a driver
//!
//! A socket outlives the pool on which it waited, and tasks of other pools may wait for it. When a
//! driver ends, it wakes all tasks that wait for its sockets. A task that still has to wait then
//! registers the socket with the driver of its own thread.
//!
//! # Locks
//!
//! Locks are taken in this order: `asking`, the place of a source, then `sources` or `poller`. We
//! hold none of them while we wake a task.

use super::poller::{Events, Mode, Poller};
use super::readiness::lock;
use super::source::AnySource;
use crate::worker::parker;
use crate::worker::parts::Found;
use crate::worker::woken::{Woken, wake_all};
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::Waker;
use std::time::Duration;

/// The maximum number of events per poll. The tasks that they wake run before the worker checks its
/// timers.
const ROOM: NonZeroUsize = NonZeroUsize::new(128).unwrap();

/// The poller of one pool, and the sockets that are registered with it.
#[derive(Default)]
pub(crate) struct Driver {
    /// The poller. We create it with the first socket, so that a pool without sockets uses no file
    /// descriptor. It is `None` again once the driver has ended.
    poller: RwLock<Option<Arc<Poller>>>,
    /// Whether the driver has ended, so that no socket can be added any more. It is set before
    /// `sources` and `poller` are emptied. A thread that adds to one of them checks it under the
    /// lock of that field.
    ended: AtomicBool,
    sources: Mutex<Sources>,
    /// The number of entries in `sources`, so that a check does not need the lock.
    registered: AtomicUsize,
    /// The worker that polls or sleeps in the poller holds this lock.
    asking: Mutex<Asking>,
    /// The number of polls of the system's poller that have finished. It is counted under the lock
    /// `asking`. Relaxed is enough, because a reader only wants to know whether there was a new
    /// poll.
    attended: AtomicU64,
    /// The waker of a worker that will poll.
    sleeper_waker: Mutex<Option<Waker>>,
    /// Whether the pool has one worker. Relaxed is enough, because a stale value is also correct.
    alone: AtomicBool,
    /// Whether an operation relies on the next poll to find out whether its socket has more to
    /// read. Relaxed is enough. If a worker misses the flag, the operation only waits until that
    /// worker polls anyway.
    unsure: AtomicBool,
}

/// The sources by key. We reuse the keys of removed sources. If there was still an event for the
/// former socket of a key, the new socket only makes one attempt that fails.
#[derive(Default)]
struct Sources {
    slots: Vec<Option<Arc<AnySource>>>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Asking {
    /// The poller of the driver, after it was created and until the driver ends.
    poller: Option<Arc<Poller>>,
    events: Option<Events>,
    /// The number of the current row of polls (`retry.rs`). A row is a series of polls in which the
    /// worker polls again at once, until there are no more events.
    row: u32,
}

impl Driver {
    /// Sets whether the pool has one worker. It only affects sockets that are added afterwards.
    pub(super) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    /// Records that an operation relies on the next poll to find out whether its socket has more to
    /// read.
    pub(super) fn be_unsure(&self) {
        self.unsure.store(true, Ordering::Relaxed);
    }

    /// Returns whether an operation since the last poll relies on the next poll to find out whether
    /// its socket has more to read.
    pub(super) fn is_unsure(&self) -> bool {
        self.unsure.load(Ordering::Relaxed)
    }

    /// Replaces the waker of the worker that polls. The driver calls the waker without holding a
    /// lock.
    pub(super) fn set_wake(&self, waker: Waker) {
        let old = lock(&self.sleeper_waker).replace(waker);
        drop(old);
    }

    /// Wakes a sleeping worker, or starts one that has no thread, if no worker is polling or
    /// sleeping in the poller. It is called after a socket was added, and when a worker's thread
    /// ends.
    pub(super) fn wake_if_unattended(&self) {
        if self.is_unattended() {
            let waker = lock(&self.sleeper_waker).clone();
            waker.inspect(Waker::wake_by_ref);
        }
    }

    /// Returns whether no worker is polling or sleeping in the poller. The answer may already be
    /// out of date.
    ///
    /// A worker that tries to sleep in the poller at this moment finds it taken and sleeps
    /// elsewhere. Therefore a caller that gets `true` must wake a worker or poll the driver itself.
    pub(super) fn is_unattended(&self) -> bool {
        // We release the lock at once, so it is free again before the worker that we wake arrives.
        self.asking.try_lock().is_ok()
    }

    /// Returns how often a worker has finished a poll. While this number does not change, either no
    /// worker serves the sockets, or a worker is sleeping in the poller.
    pub(super) fn attended(&self) -> u64 {
        self.attended.load(Ordering::Relaxed)
    }

    /// Returns whether no socket is registered.
    pub(super) fn is_empty(&self) -> bool {
        self.registered.load(Ordering::SeqCst) == 0
    }

    /// Polls once without waiting. `again` says that this poll continues a row. It continues a row
    /// if the last poll returned as many events as fit. It also does if an operation relies on this
    /// poll to find out whether its socket has more to read. Returns `None` if another worker is
    /// polling, if no socket is registered, or if the driver has no poller.
    pub(super) fn turn(&self, again: bool) -> Option<Found> {
        if self.is_empty() {
            return None;
        }
        self.ask(Some(Duration::ZERO), again, || false)
    }

    /// Sleeps until a socket is ready, until a thread calls [`notify`](Self::notify), or until
    /// `timeout` has elapsed. Returns `None` if another worker holds the poller, or if there is no
    /// poller.
    ///
    /// `notified` returns whether this worker has been notified. We need it because another worker
    /// may have consumed the notification and left the poller since.
    pub(super) fn wait(
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
        // This worker holds the lock of the poller, so from here on no other worker can consume a
        // notification.
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
        // We ignore errors. A wait that fails or is interrupted is like one that ends early.
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
        let mut unanswered = Vec::new();
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
            if report.unanswered {
                unanswered.push((Arc::clone(source), event.key));
            }
        }
        drop(sources);
        for (source, key) in unanswered {
            self.watch_edges(&source, key);
        }
    }

    /// Switches a socket from level to edge. No task reads from this socket, so polling would
    /// return at once for ever. From now on, the poller reports only new arrivals.
    #[cold]
    fn watch_edges(&self, source: &AnySource, key: usize) {
        let mut place = lock(&source.place);
        let Some(registration) = place
            .as_mut()
            .and_then(|place| place.registration_with(self, key))
        else {
            return;
        };
        let edges = edges(&registration.poller);
        // We clear the flag before we switch. A task that makes an attempt after an event by edge
        // must know that the event was reported by edge.
        source.level.store(false, Ordering::Relaxed);
        // The next operation that waits must know the new mode too. If the switch fails, that
        // operation only arms the socket without need.
        let is_oneshot = edges == Mode::Oneshot;
        source.oneshot.store(is_oneshot, Ordering::Relaxed);
        let (socket, interest) = (&source.socket, source.interest(key));
        // The switch loses no event, because the kernel reports immediately if there is something
        // to read now.
        match registration.poller.modify(socket, interest, edges) {
            Ok(()) => registration.mode = edges,
            // The switch to edges failed, so we set the flag `level` again. The next report of the
            // socket then tries to switch again.
            Err(_) => source.level.store(true, Ordering::Relaxed),
        }
    }

    /// Ends the current or the next [`wait`](Self::wait) of another worker.
    pub(crate) fn notify(&self) {
        let poller = self.poller.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(poller) = &*poller {
            // We ignore the error, because this can only fail if the poller's own descriptor is
            // closed.
            let _ = poller.notify();
        }
    }

    /// Removes all sockets and closes the poller. This is the last step of a pool, and calling it
    /// more than once is allowed. Tasks that wait for a socket are woken, and they register with
    /// another driver if they still have to wait.
    ///
    /// Blocks until a worker that is still in the poller has left it. This function interrupts that
    /// worker.
    pub(super) fn end(&self) {
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
        let sleeper_waker = lock(&self.sleeper_waker).take();
        // Dropping `poller` drops the last reference to it, unless another thread is dropping a
        // socket at this moment.
        drop((poller, sources, sleeper_waker));
        due.run(wake_all);
    }

    /// Returns the poller, and creates it at the first call. Returns `None` once the driver has
    /// ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system cannot create a poller.
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

    /// Returns how the poller should report a socket. `reads_only` says that the socket is not a
    /// stream and that no task has waited to write to it.
    pub(super) fn mode(&self, poller: &Poller, reads_only: bool) -> Mode {
        match reads_only && self.alone.load(Ordering::Relaxed) && poller.supports(Mode::Level) {
            true => Mode::Level,
            false => edges(poller),
        }
    }

    /// Adds the socket and returns its key. Returns `None` once the driver has ended.
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
        // After the driver has ended, the list of sources is empty, so this key finds no source.
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

/// Returns the mode in which the poller reports each arrival only once.
fn edges(poller: &Poller) -> Mode {
    match poller.supports(Mode::Edge) {
        true => Mode::Edge,
        false => Mode::Oneshot,
    }
}

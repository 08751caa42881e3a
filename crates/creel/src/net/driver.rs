//! Readiness: which sockets can go on, found out by one worker for all.
//!
//! A pool has one driver. Its workers ask it once a turn, or sleep in it; whoever does wakes the
//! tasks of the sockets that became ready. A socket is added to the system's poller when an
//! operation on it first had to wait, edge-triggered and for that direction only, and stays:
//! neither a packet nor a turn costs a system call to arm it. (Where the system has no edges, it
//! is armed once a wait.)
//!
//! The rule that no readiness is lost: an operation clears the direction's flag *before* it
//! tries, and an event sets the flag before it takes the waiting wakers. So an event between the
//! try and the wait is seen by the second look at the flag in [`Source::poll_ready`].

use crate::pool::panics::quietly;
use crate::sync::thread_local;
use polling::{AsRawSource, AsSource, Event, Events, PollMode, Poller};
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// The poller of one pool and the sockets in it.
#[derive(Default)]
pub(crate) struct Driver {
    /// Made with the first socket: a pool without one costs no descriptor.
    poller: OnceLock<Poller>,
    sources: Mutex<Sources>,
    /// The length of `sources`, for a look without the lock.
    registered: AtomicUsize,
    /// Held by the worker that asks or sleeps.
    events: Mutex<Option<Events>>,
    /// Wakes a worker that will ask.
    rouse: OnceLock<Waker>,
}

/// Slots by key; a freed key is used again. An event that was under way for the slot's former
/// socket only makes the new one try once for nothing.
#[derive(Default)]
struct Sources {
    slots: Vec<Option<Arc<Source>>>,
    free: Vec<usize>,
}

/// The readiness of one socket.
pub(super) struct Source {
    key: usize,
    read: Readiness,
    write: Readiness,
    /// Whether the poller has the socket. Held while that or the directions change.
    added: Mutex<bool>,
}

#[derive(Default)]
struct Readiness {
    /// An operation is worth trying. Release and acquire, for the rule above; the waiters'
    /// lock orders the rest.
    ready: AtomicBool,
    /// The poller looks at this direction. Set once, before it does.
    armed: AtomicBool,
    waiters: Mutex<Vec<Waker>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Names the waker of a worker; once.
    pub(crate) fn set_rouse(&self, waker: Waker) {
        // A second waker could only be another worker's of the same pool, which is as good.
        let _ = self.rouse.set(waker);
    }

    /// A socket was added: if all workers sleep elsewhere, one must come.
    fn rouse_if_unattended(&self) {
        if self.events.try_lock().is_ok()
            && let Some(waker) = self.rouse.get()
        {
            waker.wake_by_ref();
        }
    }

    /// Whether there is any socket to ask for.
    pub(crate) fn is_empty(&self) -> bool {
        self.registered.load(Ordering::SeqCst) == 0
    }

    /// Asks once, without waiting: wakes the tasks of ready sockets. Returns how many events
    /// there were; none if another worker is at it.
    pub(crate) fn turn(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.wait(Some(Duration::ZERO)).unwrap_or(0)
    }

    /// Sleeps until a socket is ready, [`notify`](Self::notify) is called or the time is up, and
    /// wakes the tasks concerned. None if another worker holds the poller, or there is none.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Option<usize> {
        let poller = self.poller.get()?;
        let mut held = self.events.try_lock().ok()?;
        let events = held.get_or_insert_with(Events::new);
        events.clear();
        // An interrupted or failed wait is a wait that ended early.
        let count = poller.wait(events, timeout).unwrap_or(0);
        if count > 0 {
            self.dispatch(events);
        }
        Some(count)
    }

    /// Ends the present or the next [`wait`](Self::wait) of another worker.
    pub(crate) fn notify(&self) {
        if let Some(poller) = self.poller.get() {
            // It can only fail if the poller's own descriptor is gone.
            let _ = poller.notify();
        }
    }

    fn dispatch(&self, events: &Events) {
        let mut batch: [Option<(Arc<Source>, Event)>; 32] = Default::default();
        let mut events = events.iter();
        loop {
            let sources = lock(&self.sources);
            let mut filled = 0;
            for event in events.by_ref().take(batch.len()) {
                let source = sources.slots.get(event.key).and_then(Option::as_ref);
                batch[filled] = source.map(|source| (Arc::clone(source), event));
                filled += 1;
            }
            drop(sources);
            if filled == 0 {
                return;
            }
            // Wakers run other code, hence not under the lock.
            for (source, event) in batch[..filled].iter_mut().filter_map(Option::take) {
                source.set_ready(event);
            }
        }
    }

    fn poller(&self) -> io::Result<&Poller> {
        if let Some(poller) = self.poller.get() {
            return Ok(poller);
        }
        let fresh = Poller::new()?;
        Ok(self.poller.get_or_init(|| fresh))
    }

    fn insert(&self) -> Arc<Source> {
        let mut sources = lock(&self.sources);
        let key = sources.free.pop().unwrap_or(sources.slots.len());
        let source = Arc::new(Source {
            key,
            read: Readiness::default(),
            write: Readiness::default(),
            added: Mutex::new(false),
        });
        let slot = Some(Arc::clone(&source));
        if key == sources.slots.len() {
            sources.slots.push(slot);
        } else {
            sources.slots[key] = slot;
        }
        self.registered.fetch_add(1, Ordering::SeqCst);
        source
    }

    fn remove(&self, source: &Source) {
        let mut sources = lock(&self.sources);
        let gone = sources.slots[source.key].take();
        sources.free.push(source.key);
        drop(sources);
        drop(gone);
        self.registered.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Source {
    fn readiness(&self, direction: Direction) -> &Readiness {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    /// What the poller is told to look at.
    fn event(&self) -> Event {
        let armed = |readiness: &Readiness| readiness.armed.load(Ordering::Acquire);
        Event::new(self.key, armed(&self.read), armed(&self.write))
    }

    fn set_ready(&self, event: Event) {
        if event.readable {
            self.read.set();
        }
        if event.writable {
            self.write.set();
        }
    }
}

impl Readiness {
    fn set(&self) {
        self.ready.store(true, Ordering::Release);
        loop {
            // One at a time: a waker may come back to this lock.
            let mut waiters = lock(&self.waiters);
            let waker = waiters.pop();
            let others = !waiters.is_empty();
            drop(waiters);
            if let Some(waker) = waker {
                quietly(|| waker.wake());
            }
            if !others {
                return;
            }
        }
    }

    /// Ready when an operation is worth trying; the caller clears the flag before it does.
    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ready.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut waiters = lock(&self.waiters);
        if !waiters.iter().any(|waiter| waiter.will_wake(cx.waker())) {
            waiters.push(cx.waker().clone());
        }
        drop(waiters);
        match self.ready.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

thread_local! {
    /// Which driver the sockets that have to wait on this thread join.
    static CURRENT: RefCell<Option<Arc<Driver>>> = const { RefCell::new(None) };
}

/// Makes `driver` that of this thread until the guard is dropped.
pub(crate) fn enter(driver: Arc<Driver>) -> Entered {
    Entered(CURRENT.with(|current| current.replace(Some(driver))))
}

/// Puts back what [`enter`] replaced.
pub(crate) struct Entered(Option<Arc<Driver>>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with(|current| current.replace(self.0.take()));
    }
}

/// What an operation gives that did not have to wait.
pub(super) struct Done<T> {
    pub(super) value: T,
    /// The system has nothing more: the next operation need not even try before an event.
    pub(super) drained: bool,
}

/// A non-blocking socket, and its place in a driver once it had to wait.
pub(super) struct Io<S: AsSource> {
    socket: S,
    place: OnceLock<Place>,
}

struct Place {
    driver: Arc<Driver>,
    source: Arc<Source>,
}

impl<S: AsSource> Io<S>
where
    for<'a> &'a S: AsRawSource,
{
    /// Takes a socket that is non-blocking already.
    pub(super) fn new(socket: S) -> Self {
        Io {
            socket,
            place: OnceLock::new(),
        }
    }

    pub(super) fn socket(&self) -> &S {
        &self.socket
    }

    /// Tries `operation` until it does not have to wait.
    ///
    /// # Panics
    ///
    /// If it has to wait on a thread that neither is a pool's worker nor blocks on one.
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<Done<T>>,
    ) -> Poll<io::Result<T>> {
        loop {
            let armed = self
                .place
                .get()
                .map(|place| place.source.readiness(direction));
            let armed = armed.filter(|readiness| readiness.armed.load(Ordering::Acquire));
            if let Some(readiness) = armed {
                if readiness.poll_ready(cx).is_pending() {
                    return match self.rearm() {
                        Ok(()) => Poll::Pending,
                        Err(error) => Poll::Ready(Err(error)),
                    };
                }
                readiness.ready.store(false, Ordering::Release);
            }
            let outcome = operation(&self.socket);
            match &outcome {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if armed.is_none() {
                        self.arm(direction)?;
                    }
                    continue;
                }
                Ok(Done { drained: true, .. }) => {}
                _ => {
                    if let Some(readiness) = armed {
                        readiness.ready.store(true, Ordering::Release);
                    }
                }
            }
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return Poll::Ready(outcome.map(|done| done.value)),
            }
        }
    }

    /// Adds the direction to those that the poller looks at.
    fn arm(&self, direction: Direction) -> io::Result<()> {
        let place = self.place.get_or_init(|| {
            let driver = CURRENT.with(|current| current.borrow().clone());
            let driver = driver.expect("a socket is awaited on a pool's worker or in its block_on");
            let source = driver.insert();
            Place { driver, source }
        });
        let source = &place.source;
        let poller = place.driver.poller()?;
        let mut added = lock(&source.added);
        let first = !*added;
        source
            .readiness(direction)
            .armed
            .store(true, Ordering::Release);
        let armed = if first {
            // SAFETY: the socket is deleted from the poller before it is closed: `Drop` below
            // does it while `self.socket`, which nothing replaces, is still open.
            unsafe { poller.add_with_mode(&self.socket, source.event(), mode(poller)) }
        } else {
            poller.modify_with_mode(&self.socket, source.event(), mode(poller))
        };
        *added |= armed.is_ok();
        if armed.is_ok() {
            place.driver.rouse_if_unattended();
        } else {
            source
                .readiness(direction)
                .armed
                .store(false, Ordering::Release);
        }
        armed
    }

    /// Where the system knows no edges, an event disarms: arms again before a wait.
    fn rearm(&self) -> io::Result<()> {
        let Some(place) = self.place.get() else {
            return Ok(());
        };
        let poller = place.driver.poller()?;
        if poller.supports_edge() {
            return Ok(());
        }
        let _added = lock(&place.source.added);
        poller.modify_with_mode(&self.socket, place.source.event(), PollMode::Oneshot)
    }
}

fn mode(poller: &Poller) -> PollMode {
    if poller.supports_edge() {
        PollMode::Edge
    } else {
        PollMode::Oneshot
    }
}

impl<S: AsSource> Drop for Io<S> {
    fn drop(&mut self) {
        if let Some(place) = self.place.get() {
            if *lock(&place.source.added)
                && let Ok(poller) = place.driver.poller()
            {
                // It can only fail if the descriptor is not in there any more.
                let _ = poller.delete(&self.socket);
            }
            place.driver.remove(&place.source);
        }
    }
}

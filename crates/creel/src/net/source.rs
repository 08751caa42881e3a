//! A *source* is a socket together with its place in a driver and the mode in which the poller
//! reports the socket.
//!
//! The operations of a socket (`io.rs`) and the driver share its source, because both sides need
//! the same flags and wakers. The driver knows a source by its key.

use super::driver::Driver;
use super::poller::{AsSource, Event, Interest, Mode, Poller};
use super::readiness::{Readiness, lock};
use super::retry::{Report, Retry};
use crate::worker::woken::Woken;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The direction for which an operation on an [`AsyncFd`](super::AsyncFd) waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// The operation waits until there is something to read.
    Read,
    /// The operation waits until there is room to write.
    Write,
}

/// A socket that can be registered with a driver.
pub(super) struct Source<S: ?Sized> {
    pub(super) read: Readiness,
    pub(super) write: Readiness,
    /// Whether the poller reports the read direction by level, which means in each poll while
    /// there is something to read. Otherwise it reports each arrival once.
    pub(super) level: AtomicBool,
    /// Whether a report disarms the socket, so that a wait must arm it again. Relaxed is enough,
    /// because it is stored before the socket is added to the poller or its mode there changes.
    pub(super) oneshot: AtomicBool,
    pub(super) retry: Retry,
    /// Whether the socket is a stream. A read on a stream that returns less than it asked for has
    /// emptied the socket, except possibly for the end of the stream. See `Driver::mode`.
    pub(super) streams: bool,
    /// Whether the poller has reported the end of the stream, or an event that may include it.
    /// Relaxed is enough, because it is set before the flag that a read checks first.
    ended: AtomicBool,
    /// The place of the socket in the driver with which it is registered. When a driver ends, it
    /// takes this place away, and the next operation that has to wait registers the socket with
    /// another driver. The lock is held while the place, the mode or the directions change. Locks
    /// of a driver are taken while this lock is held, and never in the opposite order.
    pub(super) place: Mutex<Option<Place>>,
    pub(super) socket: S,
}

/// The place of a source (a socket) in the list of a driver.
pub(super) struct Place {
    pub(super) driver: Arc<Driver>,
    pub(super) key: usize,
    /// The registration with the poller. It is `None` until the socket is added to the poller.
    pub(super) registration: Option<Registration>,
}

/// The registration of a socket with a poller.
pub(super) struct Registration {
    pub(super) poller: Arc<Poller>,
    pub(super) mode: Mode,
    /// The process that added the socket to the poller. A process shares the poller with the
    /// processes that it forks.
    pub(super) process: u32,
}

impl Place {
    /// Returns the registration of the socket with the poller of `driver`, if the socket is
    /// registered there under this key.
    pub(super) fn registration_with(
        &mut self,
        driver: &Driver,
        key: usize,
    ) -> Option<&mut Registration> {
        let is_it = self.key == key && self.is_in(driver);
        self.registration.as_mut().filter(|_| is_it)
    }

    fn is_in(&self, driver: &Driver) -> bool {
        ptr::eq(Arc::as_ptr(&self.driver), driver)
    }
}

/// A source with any type of socket.
pub(super) type AnySource = Source<dyn AsSource + Send + Sync>;

impl<S> Source<S> {
    pub(super) fn new(socket: S, streams: bool) -> Self {
        Source {
            streams,
            ended: AtomicBool::new(false),
            read: Readiness::default(),
            write: Readiness::default(),
            level: AtomicBool::new(false),
            oneshot: AtomicBool::new(false),
            retry: Retry::default(),
            place: Mutex::new(None),
            socket,
        }
    }
}

impl<S: ?Sized> Source<S> {
    pub(super) fn readiness(&self, direction: Direction) -> &Readiness {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    /// Returns the directions that the poller must report.
    pub(super) fn interest(&self, key: usize) -> Interest {
        let (read, write) = (self.read.is_armed(), self.write.is_armed());
        Interest { key, read, write }
    }

    /// Records an event that the poller reported in an answer of this row, and moves the wakers of
    /// the waiting tasks to `due`.
    pub(super) fn report(&self, event: Event, row: u32, due: &mut Woken) -> Report {
        let mut report = Report::default();
        if event.ended {
            self.ended.store(true, Ordering::Relaxed);
        }
        if event.readable {
            let unanswered = self.read.set(due);
            if self.is_level() {
                report = self.retry.reported(row, unanswered);
            }
        }
        if event.writable {
            self.write.set(due);
        }
        report
    }

    /// Returns whether the end of the stream or an error may follow the bytes that were read.
    pub(super) fn may_have_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn is_level(&self) -> bool {
        self.level.load(Ordering::Relaxed)
    }
}

impl<S: AsSource + ?Sized> Source<S> {
    /// Removes the socket from the poller, given a place that was taken out of the source.
    pub(super) fn unwatch(&self, place: &mut Place) {
        if let Some(registration) = place.registration.take()
            && registration.process == std::process::id()
        {
            // We ignore the error, because this can only fail if the descriptor is not registered
            // any more.
            let _ = registration.poller.delete(&self.socket);
        }
    }

    /// Removes the place of a source whose driver ends. Moves the wakers of the waiting tasks to
    /// `due`, so that these tasks try again and register elsewhere.
    pub(super) fn leave(&self, driver: &Driver, due: &mut Woken) {
        let mut held = lock(&self.place);
        let Some(mut place) = held.take_if(|place| place.is_in(driver)) else {
            return;
        };
        self.unwatch(&mut place);
        self.level.store(false, Ordering::Relaxed);
        for readiness in [&self.read, &self.write] {
            readiness.armed.store(false, Ordering::Release);
            readiness.set(due);
        }
    }
}

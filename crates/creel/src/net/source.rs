//! A socket, its place in a driver, and how the poller looks at it.

use super::driver::Driver;
use super::poller::{AsSource, Event, Interest, Mode, Poller};
use super::readiness::{Readiness, lock};
use super::retry::{Report, Retry};
use crate::worker::woken::Woken;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What an operation waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// A socket of a driver.
pub(super) struct Source<S: ?Sized> {
    pub(super) read: Readiness,
    pub(super) write: Readiness,
    /// The reading direction is reported as long as there is something to read; else once
    /// for each arrival.
    pub(super) level: AtomicBool,
    /// A report disarms, so that a wait must arm again. Relaxed: changed before the poller looks.
    pub(super) oneshot: AtomicBool,
    pub(super) retry: Retry,
    /// It is a stream: where a read has got less than it asked for, there is no more but the end.
    pub(super) streams: bool,
    /// The poller has told of that end, or may have. Relaxed: set before the flag that a read
    /// looks at first.
    ended: AtomicBool,
    /// Where the socket is reported. Taken by the driver's end, after which the next operation that
    /// has to wait finds another. Held while that, the mode or the directions change; the locks of
    /// a driver are taken while it is held, never the other way round.
    pub(super) place: Mutex<Option<Place>>,
    pub(super) socket: S,
}

/// A source's place in a driver.
pub(super) struct Place {
    pub(super) driver: Arc<Driver>,
    pub(super) key: usize,
    /// None before the poller looks at it.
    pub(super) watch: Option<Watch>,
}

/// How a poller looks at a socket.
pub(super) struct Watch {
    pub(super) poller: Arc<Poller>,
    pub(super) mode: Mode,
    /// The process that has told the poller, which it shares with those forked from it.
    pub(super) process: u32,
}

impl Place {
    /// How this driver's poller looks at the socket by this key, if it does.
    pub(super) fn watch_by(&mut self, driver: &Driver, key: usize) -> Option<&mut Watch> {
        let is_it = self.key == key && self.is_in(driver);
        self.watch.as_mut().filter(|_| is_it)
    }

    fn is_in(&self, driver: &Driver) -> bool {
        ptr::eq(Arc::as_ptr(&self.driver), driver)
    }
}

/// A source of any kind of socket.
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

    /// What the poller is told to look at.
    pub(super) fn interest(&self, key: usize) -> Interest {
        let (read, write) = (self.read.is_armed(), self.write.is_armed());
        Interest { key, read, write }
    }

    /// Notes what the poller has reported in an answer of this row, and moves the wakers of those
    /// who wait for it to `due`.
    pub(super) fn report(&self, event: Event, row: u32, due: &mut Woken) -> Report {
        let mut report = Report::default();
        if event.ended {
            self.ended.store(true, Ordering::Relaxed);
        }
        if event.readable {
            let unheard = self.read.set(due);
            if self.is_level() {
                report = self.retry.reported(row, unheard);
            }
        }
        if event.writable {
            self.write.set(due);
        }
        report
    }

    /// Whether a stream's end, or an error, may lie behind what was read.
    pub(super) fn may_have_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    pub(super) fn is_level(&self) -> bool {
        self.level.load(Ordering::Relaxed)
    }
}

impl<S: AsSource + ?Sized> Source<S> {
    /// The poller no longer looks at the socket by a place that was taken out.
    pub(super) fn unwatch(&self, place: &mut Place) {
        if let Some(watch) = place.watch.take()
            && watch.process == std::process::id()
        {
            // It can only fail if the descriptor is not in there any more.
            let _ = watch.poller.delete(&self.socket);
        }
    }

    /// Takes the place away from a source whose driver ends, and moves the wakers of those who wait
    /// to `due`: they try, and wait elsewhere.
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

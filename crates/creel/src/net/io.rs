//! Operations on a non-blocking socket, which wait where the system would.

use super::driver::Driver;
use super::source::{Direction, Readiness, Source, lock};
use crate::sync::thread_local;
use polling::{AsRawSource, AsSource, PollMode};
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

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

/// What an operation that did not have to wait has left for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing: it need not even try before an event.
    Nothing,
    /// There is no telling.
    Unknown,
    /// It may go on at once.
    More,
}

/// A non-blocking socket, and its place in a driver once it had to wait.
pub(super) struct Io<S: AsSource + Send + Sync + 'static> {
    source: Arc<Source<S>>,
    place: OnceLock<Place>,
}

struct Place {
    driver: Arc<Driver>,
    key: usize,
}

impl<S: AsSource + Send + Sync + 'static> Io<S>
where
    for<'a> &'a S: AsRawSource,
{
    /// Takes a socket that is non-blocking already.
    pub(super) fn new(socket: S) -> Self {
        Io {
            source: Arc::new(Source::new(socket)),
            place: OnceLock::new(),
        }
    }

    pub(super) fn socket(&self) -> &S {
        &self.source.socket
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
        mut operation: impl FnMut(&S) -> io::Result<(T, Left)>,
    ) -> Poll<io::Result<T>> {
        let readiness = self.source.readiness(direction);
        loop {
            let armed = readiness.is_armed();
            if armed {
                if readiness.poll(cx).is_pending() {
                    return match self.rearm() {
                        Ok(()) => Poll::Pending,
                        Err(error) => Poll::Ready(Err(error)),
                    };
                }
                readiness.clear();
            }
            match operation(&self.source.socket) {
                Ok((value, left)) => {
                    if armed && self.tries_again(left) {
                        readiness.keep();
                    }
                    return Poll::Ready(Ok(value));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !armed {
                        self.arm(readiness)?;
                    }
                    if direction == Direction::Read {
                        self.source.habit.found_nothing();
                    }
                }
                Err(error) => {
                    if armed {
                        readiness.keep();
                    }
                    if error.kind() != ErrorKind::Interrupted {
                        return Poll::Ready(Err(error));
                    }
                }
            }
        }
    }

    /// Whether the next operation is to try before the poller has told of anything.
    fn tries_again(&self, left: Left) -> bool {
        match left {
            Left::Nothing => false,
            Left::Unknown if self.source.is_level() && !self.source.habit.took() => {
                self.place.get().inspect(|place| place.driver.be_unsure());
                false
            }
            Left::Unknown | Left::More => true,
        }
    }

    /// Adds the direction to those that the poller looks at.
    fn arm(&self, readiness: &Readiness) -> io::Result<()> {
        let source = &self.source;
        let place = self.place.get_or_init(|| {
            let driver = CURRENT.with(|current| current.borrow().clone());
            let driver = driver.expect("a socket is awaited on a pool's worker or in its block_on");
            let key = driver.insert(source.clone());
            Place { driver, key }
        });
        let poller = place.driver.poller()?;
        let mut mode = lock(&source.mode);
        readiness.armed.store(true, Ordering::Release);
        let interest = source.interest(place.key);
        let wanted = place.driver.mode(poller, !interest.writable);
        let before = source
            .level
            .swap(wanted == PollMode::Level, Ordering::Relaxed);
        let armed = match *mode {
            // SAFETY: the socket is deleted from the poller before it is closed: `Drop` below does
            // it while it holds the source, whose socket nothing replaces.
            None => unsafe { poller.add_with_mode(&source.socket, interest, wanted) },
            Some(_) => poller.modify_with_mode(&source.socket, interest, wanted),
        };
        if armed.is_ok() {
            *mode = Some(wanted);
            drop(mode);
            place.driver.rouse_if_unattended();
        } else {
            source.level.store(before, Ordering::Relaxed);
            readiness.armed.store(false, Ordering::Release);
        }
        armed
    }

    /// Where an event disarms, arms again before a wait.
    fn rearm(&self) -> io::Result<()> {
        let Some(place) = self.place.get() else {
            return Ok(());
        };
        let poller = place.driver.poller()?;
        if poller.supports_edge() {
            return Ok(());
        }
        let mode = lock(&self.source.mode);
        if *mode != Some(PollMode::Oneshot) {
            return Ok(());
        }
        let interest = self.source.interest(place.key);
        poller.modify_with_mode(&self.source.socket, interest, PollMode::Oneshot)
    }
}

impl<S: AsSource + Send + Sync + 'static> Drop for Io<S> {
    fn drop(&mut self) {
        if let Some(place) = self.place.get() {
            if lock(&self.source.mode).take().is_some()
                && let Ok(poller) = place.driver.poller()
            {
                // It can only fail if the descriptor is not in there any more.
                let _ = poller.delete(&self.source.socket);
            }
            place.driver.remove(place.key);
        }
    }
}

//! Operations on non-blocking sockets. They wait when the system call would block.
//!
//! All sockets of this crate are built on [`Io`], which makes each operation in the same way:
//!
//! 1. It tries the system call, unless it knows that the call would block.
//! 2. If the call would block, it registers the socket with the driver of the calling thread,
//!    unless it is registered already (`driver.rs`).
//! 3. It waits until the driver reports that the socket is ready (`readiness.rs`), and then tries
//!    again.

use super::driver::Driver;
use super::poller::{AsSource, Mode, Poller};
use super::readiness::{Readiness, Ticket, Waiting, lock};
use super::source::{Direction, Place, Registration, Source};
use crate::sync::{local, thread_local};
use crate::worker::budget;
use std::cell::Cell;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

thread_local! {
    /// The driver with which sockets that have to wait on this thread register. It is the driver of
    /// the innermost [`Entered`], or null.
    static CURRENT: Cell<*const Driver> = const { Cell::new(ptr::null()) };
    /// Counts operations of this thread on sockets that are reported by level, modulo
    /// [`IN_A_ROW`]. It counts only operations after which the next one could have tried at once.
    static TRIED: Cell<u32> = const { Cell::new(0) };
}

/// The part of a task's poll budget that one system call uses.
const SYSTEM_CALL: i64 = 2;

/// On sockets that are reported by level (in each poll while there is something to read), one in
/// this number of operations gives way, even during a burst. Otherwise a peer that sends as fast as
/// the task reads would delay other tasks and timers.
///
/// To give way, the operation waits for the next poll of the driver, which finds out whether there
/// is more. In a throttled pool, that poll happens in the same quantum. This is why we do not rely
/// on the task's budget here: a task that has used up its budget wakes itself and runs in the next
/// quantum.
const IN_A_ROW: u32 = 64;

/// Returns whether this operation gives way.
fn gives_way() -> bool {
    let tried = |tried: &Cell<u32>| tried.replace((tried.get() + 1) % IN_A_ROW);
    local(&TRIED, tried) == Some(IN_A_ROW - 1)
}

/// Makes `driver` the driver of this thread until the guard is dropped.
pub(crate) fn enter(driver: Arc<Driver>) -> Entered {
    let before = local(&CURRENT, |current| current.replace(Arc::as_ptr(&driver)));
    Entered {
        before: before.unwrap_or(ptr::null()),
        _driver: driver,
    }
}

/// A guard that restores the driver that [`enter`] replaced.
pub(crate) struct Entered {
    before: *const Driver,
    /// Keeps the driver alive while `CURRENT` points to it.
    _driver: Arc<Driver>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        local(&CURRENT, |current| current.set(self.before));
    }
}

/// What an operation that did not have to wait knows about data that are left in the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// The operation has left nothing. The next operation does not need to try before the next
    /// event.
    Nothing,
    /// The operation cannot know whether the socket has more data.
    Unknown,
    /// The operation has left nothing except possibly the end of a stream, which the poller
    /// reports.
    Drained,
    /// The socket may have more data, so the next operation can try immediately.
    More,
}

/// A non-blocking socket, which registers with a driver when it has to wait for the first time.
pub(super) struct Io<S: AsSource + Send + Sync + 'static> {
    source: Arc<Source<S>>,
}

/// The wait of a future for a socket. The wait ends when the future is dropped.
struct Wait<'a> {
    readiness: &'a Readiness,
    ticket: Option<Ticket>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.readiness.give_up(ticket);
        }
    }
}

impl<S: AsSource + Send + Sync + 'static> Io<S> {
    /// Creates an `Io` for a non-blocking socket that is a datagram socket or a listener.
    pub(super) fn new(socket: S) -> Self {
        Io {
            source: Arc::new(Source::new(socket, false)),
        }
    }

    /// Creates an `Io` for a non-blocking, connected stream.
    pub(super) fn new_stream(socket: S) -> Self {
        Io {
            source: Arc::new(Source::new(socket, true)),
        }
    }

    pub(super) fn socket(&self) -> &S {
        &self.source.socket
    }

    /// Tries `operation` until it does not have to wait. If you drop the future, it stops waiting.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`poll`](Self::poll).
    pub(super) async fn run<T>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<(T, Left)>,
    ) -> io::Result<T> {
        let mut wait = Wait {
            readiness: self.source.readiness(direction),
            ticket: None,
        };
        poll_fn(|cx| {
            let waiting = Waiting::Ticket(&mut wait.ticket);
            self.poll_waiting(cx, waiting, direction, &mut operation)
        })
        .await
    }

    /// Tries `operation`, for futures written by hand. If it has to wait, the task of `cx` is woken
    /// when it can try again, unless another such future has polled since.
    ///
    /// # Panics
    ///
    /// Panics if it has to wait on a thread that is neither a worker of a pool nor inside
    /// `block_on`.
    #[track_caller]
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        operation: impl FnMut(&S) -> io::Result<(T, Left)>,
    ) -> Poll<io::Result<T>> {
        self.poll_waiting(cx, Waiting::Nameless, direction, operation)
    }

    /// Waits until it is worth trying an operation, and does not try one. If you drop the future,
    /// it stops waiting.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`poll`](Self::poll).
    pub(super) async fn ready(&self, direction: Direction) -> io::Result<()> {
        let readiness = self.source.readiness(direction);
        let mut wait = Wait {
            readiness,
            ticket: None,
        };
        poll_fn(|cx| {
            // We charge the task's poll budget now, because the program makes its system call
            // itself once the future is ready.
            if budget::is_spent(cx) {
                return Poll::Pending;
            }
            while !readiness.is_armed() {
                self.arm(readiness)?;
            }
            let mut waiting = Waiting::Ticket(&mut wait.ticket);
            if readiness.poll(cx, &mut waiting).is_ready() {
                budget::use_up(SYSTEM_CALL);
                return Poll::Ready(Ok(()));
            }
            self.rearm()?;
            Poll::Pending
        })
        .await
    }

    /// Tries `operation` once if it is worth trying. Never waits.
    pub(super) fn try_now<T>(
        &self,
        direction: Direction,
        operation: impl FnOnce(&S) -> io::Result<(T, Left)>,
    ) -> io::Result<T> {
        let readiness = self.source.readiness(direction);
        let armed = readiness.is_armed();
        if armed && !readiness.take() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let result = operation(&self.source.socket);
        let again = match &result {
            Ok((_, left)) => self.tries_again(*left),
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        };
        if armed && again {
            readiness.keep();
        }
        result.map(|(value, _)| value)
    }

    #[track_caller]
    fn poll_waiting<T>(
        &self,
        cx: &mut Context<'_>,
        mut waiting: Waiting<'_>,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<(T, Left)>,
    ) -> Poll<io::Result<T>> {
        if budget::is_spent(cx) {
            return Poll::Pending;
        }
        let readiness = self.source.readiness(direction);
        loop {
            let armed = readiness.is_armed();
            if armed {
                if readiness.poll(cx, &mut waiting).is_pending() {
                    return match self.rearm() {
                        Ok(()) => Poll::Pending,
                        Err(error) => Poll::Ready(Err(error)),
                    };
                }
                readiness.clear();
            }
            match operation(&self.source.socket) {
                Ok((value, left)) => {
                    budget::use_up(SYSTEM_CALL);
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
                        self.source.retry.found_nothing();
                    }
                }
                Err(error) => {
                    if armed {
                        readiness.keep();
                    }
                    if error.kind() != ErrorKind::Interrupted {
                        budget::use_up(SYSTEM_CALL);
                        return Poll::Ready(Err(error));
                    }
                }
            }
        }
    }

    /// Returns whether the next operation should try before the poller reports an event.
    fn tries_again(&self, left: Left) -> bool {
        match left {
            Left::Nothing => false,
            Left::Drained => self.source.may_have_ended(),
            Left::Unknown
                if self.source.is_level() && (!self.source.retry.took() || gives_way()) =>
            {
                be_unsure();
                false
            }
            Left::Unknown | Left::More => true,
        }
    }

    /// Adds the direction to those that the poller reports for this socket.
    #[track_caller]
    fn arm(&self, readiness: &Readiness) -> io::Result<()> {
        let source = &self.source;
        let mut held = lock(&source.place);
        if readiness.is_armed() {
            return Ok(());
        }
        let (poller, place) = self.take_place(&mut held)?;
        readiness.armed.store(true, Ordering::Release);
        let interest = source.interest(place.key);
        let datagrams = !interest.write && !source.streams;
        let wanted = place.driver.mode(&poller, datagrams);
        source
            .oneshot
            .store(wanted == Mode::Oneshot, Ordering::Relaxed);
        let before = source.level.swap(wanted == Mode::Level, Ordering::Relaxed);
        let armed = match &place.registration {
            None => poller.add(&source.socket, interest, wanted),
            Some(_) => poller.modify(&source.socket, interest, wanted),
        };
        if let Err(error) = armed {
            source.level.store(before, Ordering::Relaxed);
            readiness.armed.store(false, Ordering::Release);
            return Err(error);
        }
        place.registration = Some(Registration {
            poller,
            mode: wanted,
            process: std::process::id(),
        });
        let driver = Arc::clone(&place.driver);
        drop(held);
        driver.wake_if_unattended();
        Ok(())
    }

    /// Returns the place of the socket in its driver. If it has no place, or if that driver has
    /// ended, this registers the socket with the driver of this thread, and returns the new place.
    ///
    /// # Errors
    ///
    /// Returns an error if the driver of this thread has ended, or if the operating system cannot
    /// create a poller.
    #[track_caller]
    fn take_place<'a>(
        &self,
        held: &'a mut Option<Place>,
    ) -> io::Result<(Arc<Poller>, &'a mut Place)> {
        let poller = match held {
            Some(place) => place.driver.poller()?,
            None => None,
        };
        if let Some(poller) = poller {
            let place = held.as_mut();
            return Ok((poller, place.unwrap_or_else(|| unreachable!("just seen"))));
        }
        self.leave(held.take());
        let driver = current().expect(
            "a socket can be awaited only on a worker of a pool or in the block_on of a pool",
        );
        let poller = driver.poller()?.ok_or_else(ended)?;
        let key = driver.insert(self.source.clone()).ok_or_else(ended)?;
        let place = held.insert(Place {
            driver,
            key,
            registration: None,
        });
        Ok((poller, place))
    }

    /// Before a wait, arms the socket again (asks the poller for its next event) if each report
    /// disarms the socket.
    fn rearm(&self) -> io::Result<()> {
        if !self.source.oneshot.load(Ordering::Relaxed) {
            return Ok(());
        }
        let held = lock(&self.source.place);
        let Some(place) = &*held else { return Ok(()) };
        let interest = self.source.interest(place.key);
        match &place.registration {
            Some(Registration { poller, mode, .. }) if *mode == Mode::Oneshot => {
                poller.modify(&self.source.socket, interest, Mode::Oneshot)
            }
            _ => Ok(()),
        }
    }
}

impl<S: AsSource + Send + Sync + 'static> Io<S> {
    /// Removes the socket from a driver, given a place that was taken out of the source.
    fn leave(&self, place: Option<Place>) {
        if let Some(mut place) = place {
            self.source.unwatch(&mut place);
            place.driver.remove(place.key);
        }
    }
}

impl<S: AsSource + Send + Sync + 'static> Drop for Io<S> {
    fn drop(&mut self) {
        let place = lock(&self.source.place).take();
        self.leave(place);
    }
}

/// Returns the driver of this thread.
fn current() -> Option<Arc<Driver>> {
    let driver = local(&CURRENT, Cell::get).filter(|driver| !driver.is_null())?;
    // SAFETY: the pointer is that of an `Entered` of this thread. The `Entered` owns a reference of
    // the `Arc` and has not been dropped, because it is not `Send` and this crate never leaks one.
    unsafe { Arc::increment_strong_count(driver) };
    // SAFETY: this takes over the reference that was just added.
    Some(unsafe { Arc::from_raw(driver) })
}

/// Makes the next poll of this thread's driver find out whether the socket has more to read.
fn be_unsure() {
    if let Some(driver) = local(&CURRENT, Cell::get) {
        // SAFETY: the pointer is null or that of an `Entered` of this thread, as in `current`. The
        // reference is shared and is only used in this call.
        let driver = unsafe { driver.as_ref() };
        driver.inspect(|driver| driver.be_unsure());
    }
}

fn ended() -> io::Error {
    io::Error::other("a socket has to wait, and the pool of this thread has ended")
}

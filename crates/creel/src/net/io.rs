//! Operations on a non-blocking socket, which wait where the system would.

use super::driver::Driver;
use super::poller::{AsSource, Mode, Poller};
use super::readiness::{Readiness, Ticket, Waiting, lock};
use super::source::{Direction, Place, Source, Watch};
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
    /// Which driver the sockets that have to wait on this thread join: that of the innermost
    /// [`Entered`], or null.
    static CURRENT: Cell<*const Driver> = const { Cell::new(ptr::null()) };
    /// How many operations this thread has tried on sockets that are reported by level, since one
    /// gave way.
    static TRIED: Cell<u32> = const { Cell::new(0) };
}

/// What a system call uses up of the budget of a poll.
const SYSTEM_CALL: i64 = 2;

/// Of the operations on sockets that are reported by level, each of this number gives way: a peer
/// that sends as fast as it is read holds up neither other tasks nor timers. It leaves it to the
/// poller's next answer whether there is more, which under a throttle comes in the same quantum. A
/// task that has used up its budget would wake itself, and come in the next one.
const IN_A_ROW: u32 = 64;

/// Whether this operation gives way.
fn gives_way() -> bool {
    let tried = |tried: &Cell<u32>| tried.replace((tried.get() + 1) % IN_A_ROW);
    local(&TRIED, tried) == Some(IN_A_ROW - 1)
}

/// Makes `driver` that of this thread until the guard is dropped.
pub(crate) fn enter(driver: Arc<Driver>) -> Entered {
    let before = local(&CURRENT, |current| current.replace(Arc::as_ptr(&driver)));
    Entered {
        before: before.unwrap_or(ptr::null()),
        _driver: driver,
    }
}

/// Puts back what [`enter`] replaced.
pub(crate) struct Entered {
    before: *const Driver,
    /// Kept alive while `CURRENT` names it.
    _driver: Arc<Driver>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        local(&CURRENT, |current| current.set(self.before));
    }
}

/// What an operation that did not have to wait has left for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing: it need not even try before an event.
    Nothing,
    /// There is no telling.
    Unknown,
    /// Nothing but a stream's end, which the poller tells of.
    Drained,
    /// It may go on at once.
    More,
}

/// A non-blocking socket, which joins a driver when it first has to wait.
pub(super) struct Io<S: AsSource + Send + Sync + 'static> {
    source: Arc<Source<S>>,
}

/// A future's wait, which is given up when it is dropped.
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
    /// Takes a socket that is non-blocking already, of datagrams or one that listens.
    pub(super) fn new(socket: S) -> Self {
        Io {
            source: Arc::new(Source::new(socket, false)),
        }
    }

    /// Takes a connected stream that is non-blocking already.
    pub(super) fn new_stream(socket: S) -> Self {
        Io {
            source: Arc::new(Source::new(socket, true)),
        }
    }

    pub(super) fn socket(&self) -> &S {
        &self.source.socket
    }

    /// Tries `operation` until it does not have to wait. Dropped, it waits no longer.
    ///
    /// # Panics
    ///
    /// As [`poll`](Self::poll).
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

    /// The same for futures written by hand: `cx` is woken unless another future waits so since.
    ///
    /// # Panics
    ///
    /// If it has to wait on a thread that neither is a pool's worker nor blocks on one.
    #[track_caller]
    pub(super) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        direction: Direction,
        operation: impl FnMut(&S) -> io::Result<(T, Left)>,
    ) -> Poll<io::Result<T>> {
        self.poll_waiting(cx, Waiting::Nameless, direction, operation)
    }

    /// Waits until an operation is worth trying, and tries none. Dropped, it waits no longer.
    ///
    /// # Panics
    ///
    /// As [`poll`](Self::poll).
    pub(super) async fn ready(&self, direction: Direction) -> io::Result<()> {
        let readiness = self.source.readiness(direction);
        let mut wait = Wait {
            readiness,
            ticket: None,
        };
        poll_fn(|cx| {
            // Paid for in advance: once it is ready, the program makes the call.
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

    /// Tries `operation` once, if it is worth trying, and never waits.
    pub(super) fn try_now<T>(
        &self,
        direction: Direction,
        mut operation: impl FnMut(&S) -> io::Result<(T, Left)>,
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

    /// Whether the next operation is to try before the poller has told of anything.
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

    /// Adds the direction to those that the poller looks at.
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
        let armed = match &place.watch {
            None => poller.add(&source.socket, interest, wanted),
            Some(_) => poller.modify(&source.socket, interest, wanted),
        };
        if let Err(error) = armed {
            source.level.store(before, Ordering::Relaxed);
            readiness.armed.store(false, Ordering::Release);
            return Err(error);
        }
        place.watch = Some(Watch {
            poller,
            mode: wanted,
            process: std::process::id(),
        });
        let driver = Arc::clone(&place.driver);
        drop(held);
        driver.wake_if_unattended();
        Ok(())
    }

    /// The place that the socket has in a driver that lives, or takes in that of this thread.
    ///
    /// # Errors
    ///
    /// If that has ended, too, or the system refuses a poller.
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
        let driver = current().expect("a socket is awaited on a pool's worker or in its block_on");
        let poller = driver.poller()?.ok_or_else(ended)?;
        let key = driver.insert(self.source.clone()).ok_or_else(ended)?;
        let place = held.insert(Place {
            driver,
            key,
            watch: None,
        });
        Ok((poller, place))
    }

    /// Where an event disarms, arms again before a wait.
    fn rearm(&self) -> io::Result<()> {
        if !self.source.oneshot.load(Ordering::Relaxed) {
            return Ok(());
        }
        let held = lock(&self.source.place);
        let Some(place) = &*held else { return Ok(()) };
        let interest = self.source.interest(place.key);
        match &place.watch {
            Some(Watch { poller, mode, .. }) if *mode == Mode::Oneshot => {
                poller.modify(&self.source.socket, interest, Mode::Oneshot)
            }
            _ => Ok(()),
        }
    }
}

impl<S: AsSource + Send + Sync + 'static> Io<S> {
    /// Gives up a place that was taken out.
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

/// The driver of this thread.
fn current() -> Option<Arc<Driver>> {
    let driver = local(&CURRENT, Cell::get).filter(|driver| !driver.is_null())?;
    // SAFETY: that of an `Entered` of this thread, which holds a count of the `Arc` and has not
    // been dropped: it is not `Send`, and the crate forgets none.
    unsafe { Arc::increment_strong_count(driver) };
    // SAFETY: the count just added.
    Some(unsafe { Arc::from_raw(driver) })
}

/// Leaves it to the next asking of this thread's driver whether there is more.
fn be_unsure() {
    if let Some(driver) = local(&CURRENT, Cell::get) {
        // SAFETY: null, or that of an `Entered` of this thread, as in `current`; shared, and used
        // in this call only.
        let driver = unsafe { driver.as_ref() };
        driver.inspect(|driver| driver.be_unsure());
    }
}

fn ended() -> io::Error {
    io::Error::other("a socket has to wait, and the pool of this thread has ended")
}

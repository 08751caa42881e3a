//! Waiting for a future on a thread that is no worker, and working meanwhile.

use super::desk::{self, Held};
use super::{crew, seeded};
use crate::net::io;
use crate::pool::shared::{Rouse, Shared};
use crate::pool::{Pool, current};
use crate::sync::{Ordering, WaitWord, thread_local};
use crate::time::timers;
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Nothing has come since the future was last polled.
const QUIET: u32 = 0;
/// The future was woken.
const WOKEN: u32 = 1;
/// The thread sleeps, or is about to.
const ASLEEP: u32 = 2;

/// Tasks that are run after the future is ready, at most.
const LAST_RUN: usize = 128;

/// Wakes a caller of `block_on`.
struct Bell(WaitWord);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.0.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            self.0.wake_one();
        }
    }
}

impl Pool {
    /// Blocks until `future` is ready and gives its output.
    ///
    /// The calling thread polls the future itself. Meanwhile it stands in for a worker that
    /// sleeps or has not started yet, if there is one, and runs the pool's stealable tasks; so it
    /// is no worker more, and a chain of hand-overs between the future and the tasks stays on
    /// one thread. The future need not be `Send`.
    ///
    /// # Panics
    ///
    /// On a thread that runs this pool's work already: the worker would wait for itself. If the
    /// future panics.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// assert_eq!(pool.block_on(async { 1 + 1 }), 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let pool = &self.shared;
        // In another `block_on` of the pool, whether or not it has found a desk.
        let nested = inside().is_some_and(|outer| Arc::ptr_eq(&outer, pool));
        let inside = current::index_in(pool).is_some() || desk::here_in(pool).is_some() || nested;
        assert!(
            !inside,
            "block_on inside a worker of the same pool: await the future instead"
        );
        let bell = Arc::new(Bell(WaitWord::new(WOKEN)));
        let waker = Waker::from(bell.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        // What the future waits for by time or on a socket is the business of seat 0.
        let seat = pool.seats.seat(0);
        let rouse = Rouse::waker(pool, 0);
        seat.timers.set_rouse(rouse.clone());
        pool.driver.set_rouse(rouse);
        let _timers = timers::enter(Arc::clone(&seat.timers));
        let _driver = io::enter(Arc::clone(&pool.driver));
        let _inside = Inside::enter(pool);
        let mut stand_in = StandIn { pool, seat: None };
        // In the deterministic mode nobody else comes for what other threads have woken.
        let look = pool.tasks.is_seeded().then_some(crew::WATCH_EVERY);
        loop {
            let woken = bell.0.swap(QUIET, Ordering::AcqRel) == WOKEN;
            if woken || look.is_some() {
                stand_in.sit_down();
            }
            if woken && let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                stand_in.finish();
                return output;
            }
            if stand_in.help(|| bell.0.load(Ordering::Relaxed) == WOKEN) || seeded::jump(pool) {
                continue;
            }
            let asleep =
                bell.0
                    .compare_exchange(QUIET, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
            while asleep.is_ok() && bell.0.load(Ordering::Acquire) == ASLEEP {
                bell.0.wait(ASLEEP, look);
                if look.is_some() {
                    break;
                }
            }
        }
    }
}

thread_local! {
    /// The pool whose `block_on` this thread is in.
    static INSIDE: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// The pool whose `block_on` the calling thread is in; children inherit it.
pub(super) fn inside() -> Option<Arc<Shared>> {
    INSIDE.with(|inside| inside.borrow().clone())
}

/// Marks the thread until it is dropped, and then puts back what was there.
struct Inside(Option<Arc<Shared>>);

impl Inside {
    fn enter(pool: &Arc<Shared>) -> Self {
        Self(INSIDE.with(|inside| inside.replace(Some(pool.clone()))))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with(|inside| inside.replace(self.0.take()));
    }
}

/// A thread's time at the desk of a seat that is not its own.
struct StandIn<'a> {
    pool: &'a Arc<Shared>,
    seat: Option<usize>,
}

impl StandIn<'_> {
    /// Takes a free desk, unless it has one or the thread holds another pool's.
    fn sit_down(&mut self) {
        if self.seat.is_some() || desk::heap().is_some() {
            return;
        }
        let Some(seat) = self.pool.tasks.crew.take_for_stand_in() else {
            return;
        };
        self.seat = Some(seat);
        // SAFETY: the crew has just given it, and this thread holds none.
        unsafe { self.pool.seats.seat(seat).desk.sit_down(self.pool, false) };
    }

    fn held(&self) -> Option<Held<'_>> {
        self.seat.and_then(|_| desk::here_in(self.pool))
    }

    /// Runs tasks until `enough`; then true. False: there is nothing to do, the desk is free.
    fn help(&mut self, enough: impl Fn() -> bool) -> bool {
        if let Some(held) = self.held() {
            loop {
                if enough() && seeded::own_turn(self.pool) {
                    return true;
                }
                let stepped = match &self.pool.tasks.seeded {
                    None => held.step(false),
                    Some(seeded) => seeded::step(seeded, held),
                };
                if !stepped {
                    break;
                }
            }
        }
        self.stand_up();
        enough()
    }

    /// Goes on with a chain of short hand-overs that the future's end has begun: to wake a thread
    /// for it would take longer.
    fn finish(&self) {
        let Some(held) = self.held().filter(|_| !self.pool.tasks.is_seeded()) else {
            return;
        };
        for _ in 0..LAST_RUN {
            if !held.desk.has_short_chain() {
                return;
            }
            held.step(false);
        }
    }

    /// Frees the desk; what lies there goes to the seat's own thread.
    fn stand_up(&mut self) {
        let Some(held) = self.held() else { return };
        let Some(seat) = self.seat else { return };
        let left = held.desk.has_hints();
        held.stand_up();
        self.seat = None;
        if left {
            self.pool.tasks.crew.hand_over(seat);
            crew::notify(self.pool, seat);
        } else {
            self.pool.tasks.crew.release(self.pool, seat);
            // A push outside that saw no free desk before is seen here.
            if self.pool.tasks.outside.len() > 0 {
                crew::call_for_outside(self.pool);
            }
            // This thread will not watch the others, as a worker that rests does.
            if self.pool.tasks.crew.is_unwatched() {
                crew::call_watch(self.pool);
            }
        }
    }
}

impl Drop for StandIn<'_> {
    fn drop(&mut self) {
        self.stand_up();
    }
}

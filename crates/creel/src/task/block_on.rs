//! Waiting for a future on a thread that is no worker, and working meanwhile.

use super::desk;
use super::seeded;
use super::stand_in::StandIn;
use crate::net::io;
use crate::pool::shared::{Attend, Rouse, Shared};
use crate::pool::watch::WATCH_EVERY;
use crate::pool::{Pool, current};
use crate::seat::waiter::Waiter;
use crate::sync::{AtomicBool, Ordering, WaitWord, local, thread_local};
use crate::time::timers;
use std::cell::Cell;
use std::future::Future;
use std::iter::successors;
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Wakes a caller of `block_on`.
struct Bell {
    /// The future was woken since it was last polled. `SeqCst`, as the waiter demands.
    woken: AtomicBool,
    waiter: Waiter,
}

impl Bell {
    fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::SeqCst) {
            self.waiter.wake_if_asleep();
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
        let nested = is_inside(pool);
        let inside = current::index_in(pool).is_some() || desk::here_in(pool).is_some() || nested;
        assert!(
            !inside,
            "block_on inside a worker of the same pool: await the future instead"
        );
        let bell = Arc::new(Bell {
            woken: AtomicBool::new(true),
            waiter: Waiter::current(),
        });
        let waker = Waker::from(bell.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        // What the future waits for by time or on a socket is the business of seat 0.
        let seat = pool.seats.at(0);
        let rouse = Rouse::waker(pool, 0);
        seat.timers.set_rouse(rouse);
        pool.driver.set_rouse(Attend::waker(pool));
        let _timers = timers::enter(Arc::clone(&seat.timers));
        let _driver = io::enter(Arc::clone(&pool.driver));
        let frame = Frame::new(pool);
        let _inside = Inside::enter(&frame);
        let mut stand_in = StandIn::new(pool);
        // In the deterministic mode nobody else comes for what other threads have woken.
        let look = pool.tasks.is_seeded().then_some(WATCH_EVERY);
        loop {
            let woken = bell.woken.swap(false, Ordering::AcqRel);
            if woken || look.is_some() {
                stand_in.sit_down();
            }
            if woken {
                stand_in.count_poll();
                if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                    stand_in.finish();
                    return output;
                }
            }
            if stand_in.help(|| bell.is_woken()) || seeded::jump(pool) {
                continue;
            }
            match look {
                None => bell.waiter.wait_until(|| bell.is_woken(), || false),
                Some(_) => WaitWord::new(0).wait(0, look),
            }
        }
    }
}

/// A `block_on` that this thread is in, and the one around it.
struct Frame {
    pool: *const Shared,
    outer: *const Frame,
}

thread_local! {
    /// The innermost, or null. It lies on this thread's stack.
    static INSIDE: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// The frames of the calling thread, the innermost first.
///
/// The caller does not keep them longer than the thread is in there.
fn frames<'a>() -> impl Iterator<Item = &'a Frame> {
    let first = local(&INSIDE, Cell::get).unwrap_or(ptr::null());
    // SAFETY: null, or on the stack of a `block_on` that this thread is in, which takes it out
    // before it returns; and nobody changes it.
    let frame = |at: *const Frame| unsafe { at.as_ref() };
    successors(frame(first), move |inner| frame(inner.outer))
}

/// The pool whose `block_on` the calling thread is in, of several the innermost; children inherit
/// it. The caller does not keep it longer than the thread is in there.
#[inline]
pub(super) fn inside<'a>() -> Option<&'a Shared> {
    let frame = frames().next()?;
    // SAFETY: borrowed by that `block_on`.
    Some(unsafe { &*frame.pool })
}

/// Whether the calling thread is in a `block_on` of this pool, also one around another's.
fn is_inside(pool: &Arc<Shared>) -> bool {
    frames().any(|frame| ptr::eq(frame.pool, Arc::as_ptr(pool)))
}

impl Frame {
    fn new(pool: &Arc<Shared>) -> Self {
        Self {
            pool: Arc::as_ptr(pool),
            outer: local(&INSIDE, Cell::get).unwrap_or(ptr::null()),
        }
    }
}

/// Keeps a frame the innermost until it is dropped.
struct Inside<'a>(&'a Frame);

impl<'a> Inside<'a> {
    fn enter(frame: &'a Frame) -> Self {
        local(&INSIDE, |inside| inside.set(frame));
        Self(frame)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        local(&INSIDE, |inside| inside.set(self.0.outer));
    }
}

//! Waiting for a future on a thread that is no worker, and working meanwhile.

use super::away::Away;
use super::watchdog::WATCHDOG_INTERVAL;
use super::{Pool, seeded, shared::Shared, threadless};
use crate::net::io;
use crate::sync::{AtomicBool, Ordering, WaitWord};
use crate::task::{BlockOnDriver, ContextGuard, Frame};
use crate::time::timers;
use crate::worker::budget;
use crate::worker::slots::WorkerSlots;
use crate::worker::waiter::Waiter;
use crate::worker::wakers::WorkerWaker;
use crate::worker::woken::wake_all;
use std::future::Future;
use std::mem;
use std::pin::pin;
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

/// Wakes the callers of `block_on` whose timers are due or whose sockets are ready. A pool that is
/// being dropped calls this from time to time, because its workers have ended or are about to.
pub(super) fn serve_callers(pool: &Shared) {
    for timers in pool.timers.made() {
        loop {
            let rescued = timers.rescue();
            rescued.due.run(wake_all);
            if !rescued.more {
                break;
            }
        }
    }
    if let Some(found) = pool.driver.turn(false) {
        found.due.run(wake_all);
    }
}

/// Keeps the pool from ending until it is dropped.
pub(super) struct User<'a>(pub(super) &'a WorkerSlots);

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.leave();
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
    /// A worker may block on another pool's future. If all workers of its pool do so, a substitute
    /// thread does the pool's work meanwhile, except what is bound to one of them. On its own
    /// pool's it must not; there a task awaits, and code that is not `async` asks
    /// [`is_current`](Self::is_current) and has the wait done on a thread that is no pool's:
    ///
    /// ```
    /// use creel::{Pool, blocking};
    ///
    /// /// A plugin's call, which knows of no pool.
    /// fn plugin(pool: &Pool) -> u32 {
    ///     pool.block_on(async { 6 * 7 })
    /// }
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let own = pool.handle();
    /// let task = pool.spawn(async move {
    ///     assert!(own.is_current());
    ///     blocking(move || plugin(&own)).await // the worker goes on with other tasks
    /// });
    /// assert_eq!(pool.block_on(task).unwrap(), 42);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// On a thread that runs this pool's work already: the worker would wait for itself. If the
    /// future panics. By a [handle](crate::Pool::handle) whose pool has been dropped, or is being
    /// dropped.
    ///
    /// # When the pool is dropped meanwhile
    ///
    /// Another thread may drop the pool while a handle's `block_on` waits. The drop then waits for
    /// it: this call goes on until its future is ready. Its timers fire, its sockets work and its
    /// channels receive, but the pool's tasks are cancelled, so awaiting one gives
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled). If the future is never ready, the drop
    /// never returns: use [`shutdown_timeout`](Self::shutdown_timeout) or
    /// [`shutdown_background`](Self::shutdown_background) instead.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(1).build()?;
    /// assert_eq!(pool.block_on(async { 1 + 1 }), 2);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let pool = &*self.shared;
        let (slots, tasks) = (&pool.slots, &*pool.tasks);
        assert!(
            !self.is_current(),
            "block_on inside a worker of the same pool: await the future instead"
        );
        assert!(
            slots.life.enter(),
            "block_on by a handle of pool {}, which has been dropped",
            slots.name
        );
        let _user = User(slots);
        let bell = Arc::new(Bell {
            woken: AtomicBool::new(true),
            waiter: Waiter::current(),
        });
        let waker = Waker::from(bell.clone());
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        // What the future waits for by time or on a socket is the business of worker 0.
        let timers = pool.timers.at(0);
        timers.set_wake(|| WorkerWaker::waker(slots, 0));
        let _timers = timers::enter(Arc::clone(timers));
        let _driver = io::enter(Arc::clone(&pool.driver));
        let block_on_driver = BlockOnDriver::new(tasks);
        let frame = Frame::new(tasks, &block_on_driver);
        let _inside = ContextGuard::enter(&frame);
        // In the deterministic mode nobody else comes for what other threads have woken.
        let look = slots.is_threadless().then_some(WATCHDOG_INTERVAL);
        let mut first = look.is_none();
        let mut away = None;
        let steps = threadless::Steps::default();
        loop {
            let woken = bell.woken.swap(false, Ordering::AcqRel);
            if first {
                block_on_driver.begin();
            } else if woken || look.is_some() {
                block_on_driver.attach();
            }
            if woken {
                block_on_driver.count_poll();
                let polled = budget::fresh(|| future.as_mut().poll(&mut context));
                if let Poll::Ready(output) = polled {
                    block_on_driver.finish();
                    return output;
                }
                if mem::take(&mut first) {
                    block_on_driver.attach();
                }
            }
            let helped = block_on_driver.help(|| bell.is_woken() || steps.enough());
            let more = helped || seeded::jump(pool);
            if threadless::turn(pool, more) || more {
                continue;
            }
            match look {
                None => {
                    let away = away.get_or_insert_with(Away::enter);
                    let look = || {
                        away.look();
                        false
                    };
                    let every = away.looks_every();
                    bell.waiter.wait_looking(every, || bell.is_woken(), look);
                }
                Some(_) => WaitWord::new(0).wait(0, look),
            }
        }
    }
}

//! Implements `block_on`: a thread that is not a worker of the pool waits for a future. In the
//! meantime it also runs the pool's tasks, unless it is a worker of another pool.

use super::away::Away;
use super::watchdog::WATCHDOG_INTERVAL;
use super::{Pool, seeded, shared::Shared, threadless};
use crate::net::driver::Driver;
use crate::sync::{AtomicBool, Ordering, WaitWord};
use crate::task::{BlockOnDriver, ContextGuard, Frame};
use crate::time::timers;
use crate::worker::budget;
use crate::worker::parts::{SocketPart, TimerPart};
use crate::worker::slots::WorkerSlots;
use crate::worker::waiter::Waiter;
use crate::worker::wakers::WorkerWaker;
use crate::worker::woken::wake_all;
use std::future::Future;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// The waker of a `block_on` caller.
struct Bell {
    /// Whether the future was woken since it was last polled. It is `SeqCst`, because
    /// [`Waiter::wake_if_asleep`] requires that.
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

/// Fires the due timers of all workers and wakes the tasks whose sockets are ready, including those
/// of `block_on` callers. The thread that drops a pool calls this periodically, because the workers
/// have ended or are about to. A substitute (`away.rs`) calls it, because the workers are away.
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

/// Keeps the pool from ending until this value is dropped.
pub(super) struct User<'a>(pub(super) &'a WorkerSlots);

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Pool {
    /// Blocks until `future` is ready, and returns its output.
    ///
    /// The calling thread polls the future itself. If a worker of the pool is idle or has not
    /// started yet, the caller also runs the pool's stealable tasks in that worker's place. The
    /// number of running threads therefore does not grow, and the future and the tasks that it
    /// waits for can wake each other without changing threads. The future need not be `Send`.
    ///
    /// A worker of one pool may block on a future of another pool. It then runs no tasks of the
    /// other pool. If all workers of a pool do this at the same time, a substitute thread runs the
    /// pool's work. It does not run work that is bound to one of the workers. A worker must not
    /// block on a future of its own pool. In a task, await the future instead. In code that is not
    /// `async`, call [`is_current`](Self::is_current) to find out, and if it returns true, wait on
    /// a thread outside of all pools:
    ///
    /// ```
    /// use creel::{Pool, blocking};
    ///
    /// /// A plugin's function, which may be called anywhere.
    /// fn plugin(pool: &Pool) -> u32 {
    ///     pool.block_on(async { 6 * 7 })
    /// }
    ///
    /// let pool = Pool::builder().workers(1).build()?;
    /// let own = pool.handle();
    /// let task = pool.spawn(async move {
    ///     assert!(own.is_current());
    ///     blocking(move || plugin(&own)).await // the worker continues with other tasks
    /// });
    /// assert_eq!(pool.block_on(task).unwrap(), 42);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the calling thread already runs this pool's work, because the worker would wait
    /// for itself. Panics if the future panics. Panics if this is a [handle](crate::Pool::handle)
    /// and its pool has been dropped or is being dropped.
    ///
    /// # If the pool is dropped during the call
    ///
    /// Another thread may drop the pool while a handle's `block_on` waits. The drop then waits for
    /// this call, which continues until its future is ready. Timers, sockets and channels that the
    /// future uses still work. However, the pool's tasks are cancelled, so awaiting one returns
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled). If the future is never ready, the
    /// drop never returns. Use [`shutdown_timeout`](Self::shutdown_timeout) or
    /// [`shutdown_background`](Self::shutdown_background) instead to avoid this.
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
            "block_on was called on a handle of pool {}, but this pool has been dropped",
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
        // The future's timers go to the wheel of worker 0, and its sockets to the pool's driver.
        let timers = pool.timers.at(0);
        timers.set_wake(|| WorkerWaker::waker(slots, 0));
        let _timers = timers::enter(Arc::clone(timers));
        let _driver = Driver::enter(Arc::clone(&pool.driver));
        let block_on_driver = BlockOnDriver::new(tasks);
        let frame = Frame::new(tasks, &block_on_driver);
        let _inside = ContextGuard::enter(&frame);
        // A pool without threads has no watchdog. Therefore this loop checks periodically for tasks
        // that other threads have woken.
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
                        away.check();
                        false
                    };
                    let every = away.check_interval();
                    bell.waiter.wait_looking(every, || bell.is_woken(), look);
                }
                Some(_) => WaitWord::new(0).wait(0, look),
            }
        }
    }
}

//! Wakers that panic or call back when they are cloned, woken or dropped. [`meets_all`] tests that
//! an object which keeps a waker works with each of these wakers.

#![allow(
    dead_code,
    reason = "each test program uses only a part of this module"
)]

use crate::deadline::bounded;
use creel::Pool;
use creel::task::yield_now;
use creel::time::Clock;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

/// The moment at which a waker misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Clone,
    Wake,
    Drop,
}

/// The state of a hostile waker, which calls `act` when `step` happens to it, for example when it
/// is cloned. It does so only while it is armed. A waker without a step only counts how often it is
/// woken.
pub struct Hostile {
    step: Option<Step>,
    act: Box<dyn Fn() + Send + Sync>,
    armed: AtomicBool,
    pub wakes: AtomicUsize,
}

impl Hostile {
    pub fn new(step: Option<Step>, act: Box<dyn Fn() + Send + Sync>) -> Arc<Self> {
        Arc::new(Hostile {
            step,
            act,
            armed: AtomicBool::new(true),
            wakes: AtomicUsize::new(0),
        })
    }

    pub fn tame() -> Arc<Self> {
        Self::new(None, Box::new(|| ()))
    }

    pub fn panics(step: Step) -> Arc<Self> {
        Self::new(Some(step), Box::new(|| panic!("a hostile waker")))
    }

    /// Calls `act` if this is the waker's step. The waker is not armed during the call, so that an
    /// `act` which reaches the same step again does nothing.
    fn reach(&self, step: Step) {
        if self.step == Some(step) && self.armed.swap(false, Ordering::SeqCst) {
            let rearm = Rearm(&self.armed);
            (self.act)();
            drop(rearm);
        }
    }

    pub fn disarm(&self) {
        self.armed.store(false, Ordering::SeqCst);
    }

    pub fn is_woken(&self) -> bool {
        self.wakes.load(Ordering::SeqCst) > 0
    }

    pub fn waker(self: &Arc<Self>) -> Waker {
        let data = Arc::into_raw(Arc::clone(self)).cast();
        // SAFETY: the functions of the table expect a pointer to an `Arc<Hostile>`.
        unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }
    }
}

struct Rearm<'a>(&'a AtomicBool);

impl Drop for Rearm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        let hostile = borrowed(data);
        hostile.reach(Step::Clone);
        RawWaker::new(Arc::into_raw(hostile).cast(), &TABLE)
    },
    |data| woken(&owned(data)),
    |data| woken(&borrowed(data)),
    |data| owned(data).reach(Step::Drop),
);

fn woken(hostile: &Hostile) {
    hostile.wakes.fetch_add(1, Ordering::SeqCst);
    hostile.reach(Step::Wake);
}

/// Takes over the reference count that a waker's pointer owns.
fn owned(data: *const ()) -> Arc<Hostile> {
    // SAFETY: a waker's pointer comes from `Arc::into_raw`, and the caller does not use this one
    // again.
    unsafe { Arc::from_raw(data.cast()) }
}

/// Returns an additional reference.
fn borrowed(data: *const ()) -> Arc<Hostile> {
    // SAFETY: the pointer belongs to a live waker, so the reference count is at least one.
    unsafe { Arc::increment_strong_count(data.cast::<Hostile>()) };
    owned(data)
}

pub type Wait = Box<dyn FnMut(&mut Context<'_>) -> Poll<()>>;
pub type Act = Arc<dyn Fn() + Send + Sync>;

/// The operations of an object that keeps a waker.
pub struct Case {
    /// Waits for `event`.
    pub wait: Wait,
    pub event: Act,
    /// Uses the object from inside its waker.
    pub touch: Act,
}

/// Waits by polling a future. After a panic, makes a new future.
pub fn by<F: Future<Output = ()> + 'static>(make: impl Fn() -> F + 'static) -> Wait {
    let mut kept = None;
    Box::new(move |cx| {
        let mut future = kept.take().unwrap_or_else(|| Box::pin(make()));
        let poll = future.as_mut().poll(cx);
        kept = poll.is_pending().then_some(future);
        poll
    })
}

/// Calls `f` with the contents of the mutex, unless the mutex is locked.
pub fn with<T: Send + 'static>(
    place: &Arc<Mutex<T>>,
    f: impl Fn(&mut T) + Send + Sync + 'static,
) -> Act {
    let place = Arc::clone(place);
    Arc::new(move || {
        if let Ok(mut value) = place.try_lock() {
            f(&mut value);
        }
    })
}

/// Runs the test case with a waker that does `act` at `step`.
async fn meet(mut case: Case, step: Step, act: Option<Act>) {
    let hostile = match act {
        None => Hostile::panics(step),
        Some(act) => Hostile::new(Some(step), Box::new(move || act())),
    };
    let (tame, waker) = (Hostile::tame(), hostile.waker());
    let mut wait = |waker: &Waker| {
        let poll = || (case.wait)(&mut Context::from_waker(waker));
        catch_unwind(AssertUnwindSafe(poll)).is_ok_and(|poll| poll.is_ready())
    };
    let mut last = &hostile;
    let mut done = wait(&waker);
    if step == Step::Clone {
        hostile.disarm();
        done = done || wait(&waker);
    }
    if step == Step::Drop {
        last = &tame;
        done = done || wait(&tame.waker());
    }
    if !done {
        // This call can panic, since it may run the hostile waker.
        let _ = catch_unwind(AssertUnwindSafe(|| (case.event)()));
        while !last.is_woken() {
            yield_now().await;
        }
    }
    hostile.disarm();
    let waker = tame.waker();
    while !done {
        done = wait(&waker);
        yield_now().await;
    }
}

/// Runs the test case with all hostile wakers, on a pool with a manual clock.
pub fn meets_all(make: impl Fn(&Clock) -> Case + Send + Sync + 'static) {
    let make = Arc::new(make);
    for step in [Step::Clone, Step::Wake, Step::Drop] {
        for panics in [true, false] {
            let make = Arc::clone(&make);
            bounded(&format!("{step:?}, panics: {panics}"), move || {
                let clock = Clock::manual();
                let pool = Pool::builder().workers(1).clock(clock.clone());
                let pool = pool.build().unwrap();
                pool.block_on(async {
                    let case = make(&clock);
                    let act = (!panics).then(|| Arc::clone(&case.touch));
                    meet(case, step, act).await;
                });
            });
        }
    }
}

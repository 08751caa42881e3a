//! Tasks that other code starts, pauses, flushes and stops.
//!
//! A [`Control`] is the state of such a task. Any thread can change it with a [`Trigger`]. You
//! write the task's work as a [`Work`], which does one step at a time. [`Control::run`] turns it
//! into a future that follows the state. The table in [`State::after`] defines which triggers are
//! valid in which state.
//!
//! ```
//! use creel_media::control::{Changes, Control, Ended, Flow, Trigger, Work};
//! use std::{sync::Arc, task::{Context, Poll}};
//!
//! /// Work that consists of three steps.
//! struct Steps(u32);
//!
//! impl Work for Steps {
//!     fn poll_step(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Flow>> {
//!         self.0 += 1;
//!         Poll::Ready(if self.0 < 3 { Ok(()) } else { Err(Flow::EndOfStream) })
//!     }
//! }
//!
//! let pool = creel::Pool::builder().workers(1).build()?;
//! let control = Arc::new(Control::new(Changes::default()));
//! control.trigger(Trigger::Prepare)?;
//! let task = pool.spawn(control.run(Steps(0))); // waits for the start
//! control.trigger(Trigger::Start)?;
//! assert!(matches!(pool.block_on(task), Ok(Ended::Stopped)));
//! assert!(control.trigger(Trigger::FlushStop).is_err()); // the task has stopped
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Before each step, a running task reads one counter that a whole group of tasks can share. It
//! takes a lock only if that counter has changed, so thousands of tasks in a group stay cheap.

mod states;

pub use states::{Flow, State, Trigger, TriggerError};

use crate::wakers::{StoredWaker, WakerId, lock};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

/// The number of state changes in a group of tasks.
///
/// All running tasks of the group read this one counter, which therefore stays in the cache. A task
/// reads its own state only if the counter has changed. Clones belong to the same group.
#[derive(Debug, Clone, Default)]
pub struct Changes(Arc<AtomicU64>);

impl Changes {
    /// Reads the counter. Relaxed is enough, because a thread that changes a state does so under
    /// the lock, then counts, and then wakes the task. When the task polls after that wake-up, it
    /// sees both.
    #[inline]
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The state of one task. The task itself and the code that controls it share this state.
#[derive(Debug)]
pub struct Control {
    inner: Mutex<Inner>,
    changes: Changes,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// The number of flushes that have begun. A task compares it with the number that it has read
    /// before. It therefore notices a flush even if the flush has ended before the next poll.
    flushes: u64,
    /// The task's waker. The task stores it when it reads the state, and the next change takes it
    /// out.
    task: Option<StoredWaker>,
}

/// The way in which a controlled task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The task was stopped or unprepared, or its work was finished.
    Stopped,
    /// The task's work failed.
    Failed,
}

impl Control {
    /// Creates the control of a task that is [`State::Unprepared`]. The task belongs to the group
    /// that shares `changes`.
    pub fn new(changes: Changes) -> Self {
        Control {
            inner: Mutex::new(Inner::default()),
            changes,
        }
    }

    /// Creates the control of a task that is prepared and started. The task belongs to the group
    /// that shares `changes`.
    pub fn started(changes: Changes) -> Self {
        let control = Self::new(changes);
        for trigger in [Trigger::Prepare, Trigger::Start] {
            // A new task accepts both triggers.
            let _ = control.trigger(trigger);
        }
        control
    }

    /// Returns the current state.
    pub fn state(&self) -> State {
        lock(&self.inner).state
    }

    /// Applies a trigger and returns the new state. The task is woken, and follows the new state at
    /// its next step.
    ///
    /// # Errors
    ///
    /// Returns an error if the trigger is not valid in the current state. The state does not change
    /// then.
    pub fn trigger(&self, trigger: Trigger) -> Result<State, TriggerError> {
        let mut inner = lock(&self.inner);
        let state = inner.state.after(trigger)?;
        inner.flushes += u64::from(state.is_flushing() && !inner.state.is_flushing());
        inner.state = state;
        self.changes.0.fetch_add(1, Ordering::Relaxed);
        // We take the waker out. The task polls because of this wake-up, reads the state, and
        // stores its waker again.
        let task = inner.task.take();
        drop(inner);
        if let Some(waker) = task {
            waker.wake();
        }
        Ok(state)
    }

    /// Returns the state and the number of flushes, and stores the waker so that the next change
    /// wakes the task.
    fn poll_state(&self, cx: &mut Context<'_>) -> (State, u64) {
        let known = |inner: &Inner| {
            let task = inner.task.as_ref();
            task.is_some_and(|task| task.will_wake(cx.waker()))
        };
        let inner = lock(&self.inner);
        if known(&inner) {
            return (inner.state, inner.flushes);
        }
        drop(inner);
        let mut fresh = Some(StoredWaker::new(cx.waker()));
        let mut inner = lock(&self.inner);
        std::mem::swap(&mut inner.task, &mut fresh);
        (inner.state, inner.flushes)
    }

    /// Creates the future of the task. It does `work` step by step while the state is started, and
    /// follows the other states, until the task stops or fails.
    ///
    /// A task that is polled while its state is [`State::Unprepared`] ends at once. Therefore apply
    /// [`Trigger::Prepare`] before you spawn the future.
    pub fn run<W: Work>(self: &Arc<Self>, work: W) -> Running<W> {
        let inner = lock(&self.inner);
        // If a flush is under way, we subtract it, because the new work has not seen it. The first
        // poll then flushes the work.
        let flushes = inner.flushes - u64::from(inner.state.is_flushing());
        Running {
            control: Arc::clone(self),
            changes: self.changes.clone(),
            seen: UNSEEN,
            waker: None,
            state: State::Started,
            flushes,
            work,
        }
    }

    /// Applies the result of the work to the state. If the trigger is not valid any more, other
    /// code has changed the state since, and that change remains in force.
    fn obey(&self, flow: Flow) {
        // We ignore an error, because it means that other code has already changed the state.
        let _ = self.trigger(flow.trigger());
    }
}

/// The work of a controlled task.
pub trait Work: Unpin {
    /// Does one step, for example moves one buffer. If it cannot, it returns pending, and must wake
    /// `cx` once it can. It keeps unfinished work for the next call.
    ///
    /// # Errors
    ///
    /// Returns a [`Flow`] if the work ends or must flush instead of continuing.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>>;

    /// Drops the unfinished work. It is called before the next step whenever a flush has begun,
    /// even if the flush has ended by then. The default does nothing.
    fn flush(&mut self) {}
}

/// The value of `seen` if the task has not read the state, or must read it again.
const UNSEEN: u64 = u64::MAX;
/// The maximum number of steps in one poll. It leaves time for other tasks if a source always has
/// more data.
const STEPS_MAX: u32 = 256;

/// The future of a controlled task, which [`Control::run`] returns.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Running<W> {
    control: Arc<Control>,
    changes: Changes,
    /// The count of changes when the task last read the state.
    seen: u64,
    /// The id of the waker that the task has stored in the control at that time.
    waker: Option<WakerId>,
    /// The state and the number of flushes that the task has read at that time.
    state: State,
    flushes: u64,
    work: W,
}

impl<W: Work> Running<W> {
    /// Returns the work, for example to use it again after the task has ended.
    pub fn into_work(self) -> W {
        self.work
    }

    /// Reads the state if the state of some task in the group has changed. If the task has ended,
    /// returns how it ended.
    #[inline]
    fn poll_state(&mut self, cx: &mut Context<'_>) -> Option<Ended> {
        let count = self.changes.count();
        if count == self.seen {
            return None;
        }
        self.look_again(count, cx)
    }

    #[cold]
    fn look_again(&mut self, count: u64, cx: &mut Context<'_>) -> Option<Ended> {
        let before = self.flushes;
        (self.state, self.flushes) = self.control.poll_state(cx);
        // We store these after reading the state. If reading panics, for example because a waker
        // does, the next poll reads the state again.
        (self.seen, self.waker) = (count, Some(WakerId::of(cx.waker())));
        match self.state {
            State::Stopped | State::Unprepared => return Some(Ended::Stopped),
            State::Failed => return Some(Ended::Failed),
            _ => {}
        }
        // We compare the numbers of flushes and not the states, because a flush may have begun and
        // ended since the last poll.
        if self.flushes != before {
            self.work.flush();
        }
        None
    }
}

impl<W: Work> Future for Running<W> {
    type Output = Ended;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let this = &mut *self;
        if this.waker != Some(WakerId::of(cx.waker())) {
            // Another task polls the future now. It must read the state again, because that stores
            // its waker.
            this.seen = UNSEEN;
        }
        for _ in 0..STEPS_MAX {
            if let Some(ended) = this.poll_state(cx) {
                return Poll::Ready(ended);
            }
            if this.state != State::Started {
                return Poll::Pending;
            }
            if let Err(flow) = ready!(this.work.poll_step(cx)) {
                this.control.obey(flow);
                this.seen = UNSEEN;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::task::{Wake, Waker};

    /// Work that counts its steps. Each step needs a permit, so that a test decides how many steps
    /// a poll makes.
    #[derive(Default)]
    struct Steps {
        permits: AtomicUsize,
        done: AtomicUsize,
        flushed: AtomicUsize,
        woken: AtomicBool,
    }

    impl Wake for Steps {
        fn wake(self: Arc<Self>) {
            self.woken.store(true, Ordering::SeqCst);
        }
    }

    struct Counted(Arc<Steps>, Option<Flow>);

    impl Work for Counted {
        fn poll_step(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Flow>> {
            let permits = self.0.permits.load(Ordering::SeqCst);
            if permits == 0 {
                return Poll::Pending;
            }
            self.0.permits.store(permits - 1, Ordering::SeqCst);
            self.0.done.fetch_add(1, Ordering::SeqCst);
            Poll::Ready(self.1.map_or(Ok(()), Err))
        }

        fn flush(&mut self) {
            self.0.flushed.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Bench {
        control: Arc<Control>,
        steps: Arc<Steps>,
        task: Running<Counted>,
    }

    impl Bench {
        fn new(flow: Option<Flow>) -> Self {
            let (control, steps) = (
                Arc::new(Control::new(Changes::default())),
                Arc::new(Steps::default()),
            );
            let task = control.run(Counted(Arc::clone(&steps), flow));
            control.trigger(Trigger::Prepare).unwrap();
            Bench {
                control,
                steps,
                task,
            }
        }

        /// Sets the number of permits, polls once, and returns the result and the total number of
        /// steps.
        fn poll(&mut self, permits: usize) -> (Poll<Ended>, usize) {
            self.steps.permits.store(permits, Ordering::SeqCst);
            let waker = Waker::from(Arc::clone(&self.steps));
            let poll = Pin::new(&mut self.task).poll(&mut Context::from_waker(&waker));
            (poll, self.steps.done.load(Ordering::SeqCst))
        }

        fn trigger(&self, trigger: Trigger) {
            self.steps.woken.store(false, Ordering::SeqCst);
            self.control.trigger(trigger).unwrap();
        }
    }

    #[test]
    fn a_task_runs_only_while_started() {
        let mut bench = Bench::new(None);
        assert_eq!(bench.poll(5), (Poll::Pending, 0));
        bench.trigger(Trigger::Start);
        assert!(bench.steps.woken.load(Ordering::SeqCst));
        assert_eq!(bench.poll(5), (Poll::Pending, 5));
        bench.trigger(Trigger::Pause);
        assert!(bench.steps.woken.load(Ordering::SeqCst));
        assert_eq!(bench.poll(5), (Poll::Pending, 5));
        bench.trigger(Trigger::FlushStart);
        assert_eq!(bench.poll(5), (Poll::Pending, 5));
        assert_eq!(bench.steps.flushed.load(Ordering::SeqCst), 1);
        bench.trigger(Trigger::Start);
        bench.trigger(Trigger::FlushStop);
        assert_eq!(bench.poll(2), (Poll::Pending, 7));
        bench.trigger(Trigger::FlushStart);
        bench.trigger(Trigger::FlushStop);
        assert_eq!(bench.poll(0), (Poll::Pending, 7));
        let flushed = bench.steps.flushed.load(Ordering::SeqCst);
        assert_eq!(flushed, 2, "a flush between two polls counts");
        bench.trigger(Trigger::Stop);
        assert_eq!(bench.poll(5), (Poll::Ready(Ended::Stopped), 7));
    }

    #[test]
    fn the_result_of_the_work_sets_the_state() {
        let cases = [
            (
                Flow::EndOfStream,
                Poll::Ready(Ended::Stopped),
                State::Stopped,
            ),
            (Flow::Failed, Poll::Ready(Ended::Failed), State::Failed),
            (Flow::Flushing, Poll::Pending, State::Flushing),
        ];
        for (flow, poll, state) in cases {
            let mut bench = Bench::new(Some(flow));
            bench.trigger(Trigger::Start);
            assert_eq!(bench.poll(9), (poll, 1));
            assert_eq!(bench.control.state(), state);
        }
    }
}

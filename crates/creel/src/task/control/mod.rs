//! A task that is told from outside to start, pause, flush and stop.
//!
//! A [`Control`] is the task's state, which anybody changes by a [`Trigger`]; [`Control::run`] makes
//! of some [`Work`], step by step, the future that obeys it. Which trigger makes sense in which state
//! is the table of [`State::after`].
//!
//! ```
//! use creel::task::control::{Changes, Control, Ended, Flow, Trigger, Work};
//! use std::{sync::Arc, task::{Context, Poll}};
//!
//! /// Three steps, and it is over.
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
//! let task = pool.spawn(control.run(Steps(0))); // it waits
//! control.trigger(Trigger::Start)?;
//! assert!(matches!(pool.block_on(task), Ok(Ended::Stopped)));
//! assert!(control.trigger(Trigger::FlushStop).is_err()); // there is none to end
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A task that runs looks at one number, which thousands that change together share, and takes a
//! lock only when that has moved.

mod states;

pub use states::{Flow, Refused, State, Trigger};

use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::worker::stored_waker::{StoredWaker, WakerId};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// How often a state has changed in a group of tasks.
///
/// A running task looks at this one number, which all of the group keep in the cache, and at its
/// own state only when it has changed. Clones are of the same group.
#[derive(Debug, Clone, Default)]
pub struct Changes(Arc<AtomicU64>);

impl Changes {
    /// Relaxed: who changes a state does so under its lock, then counts, then wakes the task,
    /// whose look after that wake finds both.
    #[inline]
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The state of one task, between those who command it and the task itself.
#[derive(Debug)]
pub struct Control {
    inner: Mutex<Inner>,
    changes: Changes,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// The task's waker, since its last look at the state.
    task: Option<StoredWaker>,
}

/// How a controlled task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was stopped, or its work was over.
    Stopped,
    /// Its work failed.
    Failed,
}

impl Control {
    /// A task that is `Unprepared`, of the group with these `changes`.
    pub fn new(changes: Changes) -> Self {
        Control {
            inner: Mutex::new(Inner::default()),
            changes,
        }
    }

    /// A task that is prepared and started, of the group with these `changes`.
    pub fn started(changes: Changes) -> Self {
        let control = Self::new(changes);
        for trigger in [Trigger::Prepare, Trigger::Start] {
            // A new task takes both.
            let _ = control.trigger(trigger);
        }
        control
    }

    /// The present state.
    pub fn state(&self) -> State {
        lock(&self.inner).state
    }

    /// Changes the state; the task obeys at its next turn.
    ///
    /// # Errors
    ///
    /// If the trigger makes no sense in the present state, which is then as before.
    pub fn trigger(&self, trigger: Trigger) -> Result<State, Refused> {
        let mut inner = lock(&self.inner);
        let state = inner.state.after(trigger)?;
        inner.state = state;
        self.changes.0.fetch_add(1, Ordering::Relaxed);
        // The change that it is woken for has it look again, and come back with its waker.
        let task = inner.task.take();
        drop(inner);
        if let Some(waker) = task {
            waker.wake();
        }
        Ok(state)
    }

    /// The state, to be asked again when it changes.
    fn look(&self, cx: &mut Context<'_>) -> State {
        let known = |inner: &Inner| {
            let task = inner.task.as_ref();
            task.is_some_and(|task| task.will_wake(cx.waker()))
        };
        let inner = lock(&self.inner);
        if known(&inner) {
            return inner.state;
        }
        drop(inner);
        let mut fresh = Some(StoredWaker::new(cx.waker()));
        let mut inner = lock(&self.inner);
        std::mem::swap(&mut inner.task, &mut fresh);
        inner.state
    }

    /// Does `work` step by step while the task is started, and what the state asks for otherwise,
    /// until it stops or fails.
    pub fn run<W: Work>(self: &Arc<Self>, work: W) -> Running<W> {
        Running {
            control: Arc::clone(self),
            changes: self.changes.clone(),
            seen: UNSEEN,
            waker: None,
            state: State::Started,
            work,
        }
    }

    /// Tells the task how its work ended; if that makes no sense any more, somebody has told it
    /// something else meanwhile, which holds.
    fn obey(&self, flow: Flow) {
        // Refused: it has been told already.
        let _ = self.trigger(flow.trigger());
    }
}

/// What a controlled task does.
pub trait Work: Unpin {
    /// Does one step, as moving one buffer on; while it cannot, `cx` is woken when it can. What is
    /// under way is kept for the next call.
    ///
    /// # Errors
    ///
    /// How it ended, if it does not just go on.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Flow>>;

    /// Drops what is under way.
    fn flush(&mut self) {}
}

/// In `seen`: nothing.
const UNSEEN: u64 = u64::MAX;
/// Steps in one poll at most: a source that always has more leaves time to the others.
const STEPS_MAX: u32 = 256;

/// A controlled task: see [`Control::run`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Running<W> {
    control: Arc<Control>,
    changes: Changes,
    /// The count of changes at the last look at the state.
    seen: u64,
    /// Of the waker that the control was given then.
    waker: Option<WakerId>,
    /// The state then.
    state: State,
    work: W,
}

impl<W: Work> Running<W> {
    /// Gives the work back.
    pub fn into_work(self) -> W {
        self.work
    }

    /// Looks at the state if any of the group has changed. How the task ended, if it has.
    #[inline]
    fn look(&mut self, cx: &mut Context<'_>) -> Option<Ended> {
        let count = self.changes.count();
        if count == self.seen {
            return None;
        }
        self.look_again(count, cx)
    }

    #[cold]
    fn look_again(&mut self, count: u64, cx: &mut Context<'_>) -> Option<Ended> {
        let before = std::mem::replace(&mut self.state, self.control.look(cx));
        // Last: a look that panicked is made again.
        (self.seen, self.waker) = (count, Some(WakerId::of(cx.waker())));
        match self.state {
            State::Stopped | State::Unprepared => return Some(Ended::Stopped),
            State::Failed => return Some(Ended::Failed),
            State::Flushing | State::PausedFlushing if before != self.state => self.work.flush(),
            _ => {}
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
            // Another task polls it, which is to be woken.
            this.seen = UNSEEN;
        }
        for _ in 0..STEPS_MAX {
            if let Some(ended) = this.look(cx) {
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    /// Counts its steps; each waits for a permit.
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

        /// Gives permits, polls once, and tells how many steps there have been.
        fn poll(&mut self, permits: usize) -> (Poll<Ended>, usize) {
            self.steps.permits.store(permits, Ordering::SeqCst);
            let waker = Waker::from(Arc::clone(&self.steps));
            let poll = Pin::new(&mut self.task).poll(&mut Context::from_waker(&waker));
            (poll, self.steps.done.load(Ordering::SeqCst))
        }

        fn tell(&self, trigger: Trigger) {
            self.steps.woken.store(false, Ordering::SeqCst);
            self.control.trigger(trigger).unwrap();
        }
    }

    #[test]
    fn a_task_runs_only_while_started() {
        let mut bench = Bench::new(None);
        assert_eq!(bench.poll(5), (Poll::Pending, 0));
        bench.tell(Trigger::Start);
        assert!(bench.steps.woken.load(Ordering::SeqCst));
        assert_eq!(bench.poll(5), (Poll::Pending, 5));
        bench.tell(Trigger::Pause);
        assert!(bench.steps.woken.load(Ordering::SeqCst));
        assert_eq!(bench.poll(5), (Poll::Pending, 5));
        bench.tell(Trigger::FlushStart);
        assert_eq!(bench.poll(5), (Poll::Pending, 5));
        assert_eq!(bench.steps.flushed.load(Ordering::SeqCst), 1);
        bench.tell(Trigger::Start);
        bench.tell(Trigger::FlushStop);
        assert_eq!(bench.poll(2), (Poll::Pending, 7));
        bench.tell(Trigger::Stop);
        assert_eq!(bench.poll(5), (Poll::Ready(Ended::Stopped), 7));
    }

    #[test]
    fn work_that_ends_moves_the_state() {
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
            bench.tell(Trigger::Start);
            assert_eq!(bench.poll(9), (poll, 1));
            assert_eq!(bench.control.state(), state);
        }
    }
}

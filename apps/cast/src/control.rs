//! A stream's state, told from outside and obeyed by its task.

use crate::machine::{Flow, Refused, State, Trigger};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// How often a state has changed in a group of streams.
///
/// A running stream looks at this one number, which all of the group keep in the cache, and at its
/// own state only when it has changed.
#[derive(Debug, Clone, Default)]
pub struct Changes(Arc<AtomicU64>);

impl Changes {
    /// Relaxed: who changes a state does so under its lock, then counts, then wakes the task,
    /// whose look after that wake finds both.
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The state of one stream, between those who command it and the task that runs it.
#[derive(Debug, Default)]
pub struct Control {
    inner: Mutex<Inner>,
    changes: Changes,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// The task's waker; kept, because it stays the same.
    task: Option<Waker>,
}

/// How a stream's task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was stopped, or its source had no more.
    Stopped,
    /// Its source or sink failed.
    Failed,
}

impl Control {
    /// A stream that is `Unprepared`, of the group with these `changes`.
    pub fn new(changes: Changes) -> Self {
        Control {
            inner: Mutex::default(),
            changes,
        }
    }

    /// A stream that is prepared and started, of the group with these `changes`.
    pub fn started(changes: Changes) -> Self {
        let control = Self::new(changes);
        for trigger in [Trigger::Prepare, Trigger::Start] {
            // A new stream takes both.
            let _ = control.trigger(trigger);
        }
        control
    }

    /// The present state.
    pub fn state(&self) -> State {
        self.lock().state
    }

    /// Changes the state; the task obeys at its next turn.
    ///
    /// # Errors
    ///
    /// If the trigger makes no sense in the present state, which is then as before.
    pub fn trigger(&self, trigger: Trigger) -> Result<State, Refused> {
        let mut inner = self.lock();
        let state = inner.state.after(trigger)?;
        inner.state = state;
        self.changes.0.fetch_add(1, Ordering::Relaxed);
        let task = inner.task.clone();
        drop(inner);
        if let Some(task) = task {
            task.wake();
        }
        Ok(state)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, to be asked again when it changes.
    fn look(&self, cx: &mut Context<'_>) -> State {
        let mut inner = self.lock();
        inner.task = Some(cx.waker().clone());
        inner.state
    }

    /// Waits until the state is no longer `waited`.
    async fn left(&self, waited: State) {
        poll_fn(|cx| match self.look(cx) == waited {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    /// Does `step` again and again while the stream is started, and what the state asks for
    /// otherwise, until it stops or fails. A step under way is cancelled when the state changes;
    /// `flush` is called when what is under way is to be dropped.
    pub async fn run<W: Work>(&self, work: &mut W) -> Ended {
        let changes = self.changes.clone();
        let mut seen = None;
        loop {
            let flow = {
                let mut step = pin!(work.step());
                poll_fn(|cx| {
                    let count = changes.count();
                    if seen != Some(count) {
                        seen = Some(count);
                        match self.look(cx) {
                            State::Started => {}
                            state => return Poll::Ready(Err(state)),
                        }
                    }
                    step.as_mut().poll(cx).map(Ok)
                })
                .await
            };
            let state = match flow {
                Ok(Ok(())) => continue,
                Ok(Err(flow)) => self.obey(flow),
                Err(state) => state,
            };
            match state {
                State::Stopped | State::Unprepared => return Ended::Stopped,
                State::Failed => return Ended::Failed,
                State::Flushing | State::PausedFlushing => work.flush(),
                State::Started => continue,
                State::Prepared | State::Paused => {}
            }
            self.left(state).await;
        }
    }

    /// Tells the stream how its work ended; if that makes no sense any more, somebody has told it
    /// something else meanwhile, which holds.
    fn obey(&self, flow: Flow) -> State {
        let told = self.trigger(flow.trigger());
        told.unwrap_or_else(|refused| refused.state)
    }
}

/// What a stream's task does.
pub trait Work: Send {
    /// Moves one buffer on. Must be cancel-safe.
    fn step(&mut self) -> impl Future<Output = Result<(), Flow>> + Send;

    /// Drops what is under way.
    fn flush(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::task::Wake;

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
        async fn step(&mut self) -> Result<(), Flow> {
            poll_fn(|_| match self.0.permits.load(Ordering::SeqCst) {
                0 => Poll::Pending,
                n => {
                    self.0.permits.store(n - 1, Ordering::SeqCst);
                    Poll::Ready(())
                }
            })
            .await;
            self.0.done.fetch_add(1, Ordering::SeqCst);
            self.1.map_or(Ok(()), Err)
        }

        fn flush(&mut self) {
            self.0.flushed.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct Bench {
        control: Arc<Control>,
        steps: Arc<Steps>,
        task: Pin<Box<dyn Future<Output = Ended>>>,
    }

    impl Bench {
        fn new(flow: Option<Flow>) -> Self {
            let (control, steps) = (
                Arc::new(Control::new(Changes::default())),
                Arc::new(Steps::default()),
            );
            let (c, s) = (Arc::clone(&control), Arc::clone(&steps));
            let task = Box::pin(async move { c.run(&mut Counted(s, flow)).await });
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
            let poll = self.task.as_mut().poll(&mut Context::from_waker(&waker));
            (poll, self.steps.done.load(Ordering::SeqCst))
        }

        fn tell(&self, trigger: Trigger) {
            self.steps.woken.store(false, Ordering::SeqCst);
            self.control.trigger(trigger).unwrap();
        }
    }

    #[test]
    fn a_stream_runs_only_while_started() {
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

//! Background tasks, which run when nothing else is ready.
//!
//! A background task is queued like any other. If another task waits when the background task is
//! polled, the background task goes to the end of the queue instead, which costs about 30 ns. The
//! class therefore costs ordinary tasks almost nothing, and it needs no queue of its own. A
//! background task waits for a bounded number of polls, however much other work there is.
//!
//! A background task cannot see whether the tasks that wait in its local scheduler are background
//! tasks as well, so we count. If as many background tasks in a row have given way as tasks are
//! waiting, all waiting tasks are background tasks, and the next one runs.

use super::local;
use crate::sync::{local, thread_local};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The maximum number of times that a task gives way before it runs once.
const TURNS_MAX: u32 = 256;

/// The number of background tasks that a thread has polled one directly after the other.
#[derive(Clone, Copy)]
struct Row {
    /// The thread's count of polls when it polled the last of these background tasks.
    polls: u64,
    len: usize,
}

thread_local! {
    static ROW: Cell<Row> = const { Cell::new(Row { polls: 0, len: 0 }) };
}

/// Makes a future run in the background. Before each poll, the future gives way to the ordinary
/// tasks that seem to be ready on its worker, up to 256 times. Use it to run slow work and urgent
/// work in one pool.
///
/// A queued background task counts as ready work, so an idle worker takes it. A single poll is not
/// interrupted, so a long computation should call [`yield_now`](super::yield_now) now and then. The
/// wrapper is meant for tasks that any worker may run. A task that is bound to a worker does not
/// give way to other tasks that are bound to it. The wrapper has no effect in the future of a
/// `block_on` whose thread runs no tasks, or on other executors.
///
/// ```
/// use creel::task::{background, yield_now};
///
/// let pool = creel::Pool::builder().workers(1).build()?;
/// let (sender, order) = std::sync::mpsc::channel();
/// let both = pool.spawn(async move {
///     let (index, reply) = (sender.clone(), sender);
///     let index = creel::task::spawn(background(async move { index.send("index").unwrap() }));
///     let reply = creel::task::spawn(async move {
///         yield_now().await;
///         reply.send("reply").unwrap();
///     });
///     (index.await.unwrap(), reply.await.unwrap())
/// });
/// pool.block_on(both).unwrap();
/// assert_eq!(order.into_iter().collect::<Vec<_>>(), ["reply", "index"]);
/// # Ok::<(), creel::BuildError>(())
/// ```
pub fn background<F: Future>(future: F) -> Background<F> {
    Background { turns: 0, future }
}

/// The future that [`background`] returns.
///
/// ```
/// let pool = creel::Pool::builder().workers(2).build()?;
/// use creel::task::background;
///
/// let tidy_up = pool.spawn(background(async { "tidy" }));
/// assert_eq!(pool.block_on(tidy_up).unwrap(), "tidy");
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited or spawned"]
pub struct Background<F> {
    /// The number of times that this future has given way since it last ran.
    turns: u32,
    future: F,
}

impl<F: Future> Future for Background<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: we do not move out of the inner future, and the outer one does not implement
        // `Drop`.
        let this = unsafe { self.get_unchecked_mut() };
        if this.turns < TURNS_MAX && others_wait() {
            this.turns += 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.turns = 0;
        // SAFETY: the inner future is pinned because the outer one is.
        unsafe { Pin::new_unchecked(&mut this.future) }.poll(context)
    }
}

/// Returns whether this thread has an ordinary task to run. This is a guess, as the module's
/// documentation explains.
fn others_wait() -> bool {
    let Some(context) = local::current() else {
        return false;
    };
    let polls = context.scheduler.progress();
    let row = local(&ROW, |row| {
        let before = row.get();
        let len = match polls == before.polls.wrapping_add(1) {
            true => before.len + 1,
            false => 0,
        };
        row.set(Row { polls, len });
        len
    });
    row.unwrap_or(0) < context.waiting()
}

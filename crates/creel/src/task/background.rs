//! Two classes of tasks: ordinary ones, and those in the background, which go on when nothing else
//! is ready.
//!
//! A background task is queued like any other. When its turn comes while another waits, it goes to
//! the end of the queue instead, some 30 ns; so the class costs the others nothing, and needs no
//! queue of its own. The invariant: it waits for a bounded number of turns, whatever else there is.
//!
//! What waits is looked up at the local scheduler that runs it. If as many background tasks in a row have given
//! way there as are waiting, then all who wait are such, and the next goes on.

use super::local;
use crate::sync::{local, thread_local};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// How often a task gives way before it goes on once.
const TURNS_MAX: u32 = 256;

/// The background tasks that one thread has polled, one after the other.
#[derive(Clone, Copy)]
struct Row {
    /// The thread's count of polls at the last of them.
    polls: u64,
    len: usize,
}

thread_local! {
    static ROW: Cell<Row> = const { Cell::new(Row { polls: 0, len: 0 }) };
}

/// Makes `future` one that goes on only when the worker that runs it has nothing else to do, or after
/// having given way 256 times: for what may take its time beside what may not, in one pool.
///
/// Where a worker has it in its queue, it counts as work: an idle worker takes it. A single poll is
/// not interrupted, so a long computation should [`yield`](super::yield_now) now and then. It is for
/// tasks that any worker may run; in a bound one, in `block_on`'s own future on a thread that runs no
/// tasks, and on other executors it makes no difference.
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

/// The future of [`background`].
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
    /// How often it has given way since it last went on.
    turns: u32,
    future: F,
}

impl<F: Future> Future for Background<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: the inner future is not moved out of, and the outer one has no `Drop`.
        let this = unsafe { self.get_unchecked_mut() };
        if this.turns < TURNS_MAX && others_wait() {
            this.turns += 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.turns = 0;
        // SAFETY: it is pinned as the outer one is.
        unsafe { Pin::new_unchecked(&mut this.future) }.poll(context)
    }
}

/// Whether this thread has an ordinary task to run, as far as can be told.
fn others_wait() -> bool {
    let Some(context) = local::here() else {
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

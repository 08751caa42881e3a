//! Tasks are futures that the pool's workers run, many on each thread.
//!
//! [`Pool::spawn`](crate::Pool::spawn) creates a task. With its [`JoinHandle`] you wait for the
//! task, abort it or detach it. The workers of the pool and the callers of its `block_on` poll
//! tasks, and only one thread polls a given task at a time. `docs/design/tasks.md` describes the
//! scheduler's rules. Wakers are plain [`std::task::Waker`]s, so futures from any crate work
//! unchanged if the crate does not need its own executor.
//!
//! From the bottom up, the modules are:
//!
//! - `state`, the state word of a task, `slab`, the memory of tasks, `cell`, the task itself, and
//!   `join`, its handle.
//! - `run_queue`, `lifo` and `inject`, the queues.
//! - `local`, the local scheduler that a thread needs to run tasks, `local_context`, the steps of a
//!   thread that holds one, and `steal`, the order in which a thread takes tasks from others.
//! - `tasks`, the state that a pool shares, `turn`, the part of a worker, `block_on_driver`, the
//!   part of a `block_on` caller, and `context`, which pool's code a thread runs.
//! - `spawn` and `end`, the beginning and the end of tasks, and `seeded`, the deterministic mode.
//! - For programs, `background`, `budget` and `yield_now` wrap futures, `join_set` and `token`
//!   group tasks, and `id` identifies a task.

#[cfg(feature = "stream")]
mod as_stream;
mod background;
mod block_on_driver;
mod budget;
mod cell;
mod context;
mod end;
mod id;
mod inject;
mod join;
mod join_set;
mod lifo;
mod local;
mod local_context;
mod part;
mod run_queue;
mod seeded;
mod slab;
mod spawn;
mod state;
mod steal;
mod tasks;
mod token;
mod turn;
mod yield_now;

pub use background::{Background, background};
pub use budget::{Budgeted, Unconstrained, budgeted, unconstrained};
pub use id::{TaskId, id};
pub use join::{AbortOnDrop, JoinError, JoinHandle, Panic};
pub use join_set::JoinSet;
pub use spawn::{spawn, spawn_local};
pub use token::{CancellationToken, Cancelled, DropGuard};
pub use yield_now::{YieldNow, yield_now};

pub(crate) use block_on_driver::BlockOnDriver;
pub(crate) use context::{ContextGuard, Frame};
pub(crate) use end::Stranded;
pub(crate) use local::{block_for_channel, free_channel};
pub(crate) use steal::Progress;
pub(crate) use tasks::Tasks;

#[cfg(all(test, creel_loom))]
mod model;

//! Tasks: plain futures, many to a thread.
//!
//! [`Pool::spawn`](crate::Pool::spawn) makes one, a [`JoinHandle`] waits for it, cancels it or
//! lets it go. A task is polled by the pool's workers, one at a time; `docs/design/tasks.md` tells
//! the scheduler's rules. Wakers are plain [`std::task::Waker`]s, so futures from any crate that
//! does not bring its own executor work unchanged.
//!
//! Bottom up: `state` (the word), `slab` (the memory), `cell` (the task), `join`; `run_queue`,
//! `lifo` and `inject` (the queues), `scheduler` (what a thread needs to run tasks), `context` (what it
//! does there), `steal` (when it takes from another's), `tasks` (what is the pool's), `turn` (a
//! worker's part), `block_on_driver` (a caller's part), `inside` (whose code a thread runs), `spawn`, `end`; on top
//! of a future `background`, `budget`, `yield_now`, of a handle `join_set`, `token`, of a task `id` and
//! [`control`].

mod background;
mod block_on_driver;
mod budget;
mod cell;
mod context;
pub mod control;
mod end;
mod id;
mod inject;
mod join;
mod join_set;
mod lifo;
mod local;
mod local_context;
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
pub use token::{CancellationToken, Cancelled, TokenGuard};
pub use yield_now::{YieldNow, yield_now};

pub(crate) use block_on_driver::BlockOnDriver;
pub(crate) use context::{ContextGuard, Frame, enter, innermost_slots, is_in_context};
pub(crate) use end::Behind;
pub(crate) use local::{block_for_channel, free_channel, runs_tasks_of};
pub(crate) use steal::Progress;
pub(crate) use tasks::Tasks;

#[cfg(all(test, loom))]
mod model;

//! Tasks: plain futures, many to a thread.
//!
//! [`Pool::spawn`](crate::Pool::spawn) makes one, a [`JoinHandle`] waits for it, cancels it or
//! lets it go. A task is polled by the pool's workers, one at a time; `docs/design/tasks.md` tells
//! the scheduler's rules. Wakers are plain [`std::task::Waker`]s, so futures from any crate that
//! does not bring its own executor work unchanged.
//!
//! Bottom up: `state` (the word), `slab` (the memory), `cell` (the task), `join`; `run_queue`,
//! `lifo` and `inject` (the queues), `desk` (what a thread needs to run tasks), `held` (what it
//! does there), `steal` (when it takes from another's), `tasks` (what is the pool's), `turn` (a
//! worker's part), `stand_in` (a caller's part), `inside` (whose code a thread runs), `spawn`, `end`; on top
//! of a future `background`, `budget`, `yield_now`, of a handle `join_set`, `token`, of a task `id` and
//! [`control`].

mod background;
mod budget;
mod cell;
pub mod control;
mod desk;
mod end;
mod held;
mod id;
mod inject;
mod inside;
mod join;
mod join_set;
mod lifo;
mod run_queue;
mod seeded;
mod slab;
mod spawn;
mod stand_in;
mod state;
mod steal;
mod tasks;
mod token;
mod turn;
mod yield_now;

pub use background::{Background, background};
pub use budget::{Budgeted, Unconstrained, budgeted, unconstrained};
pub use id::{TaskId, id};
pub use join::{CancelOnDrop, JoinError, JoinHandle, Panic};
pub use join_set::JoinSet;
pub use spawn::{spawn, spawn_local};
pub use token::{CancellationToken, Cancelled, TokenGuard};
pub use yield_now::{YieldNow, yield_now};

pub(crate) use desk::{block_for_channel, free_channel, holds_a_desk_of};
pub(crate) use end::Behind;
pub(crate) use inside::{Frame, Inside, enter, innermost_seats, is_inside};
pub(crate) use stand_in::StandIn;
pub(crate) use steal::Progress;
pub(crate) use tasks::Tasks;

#[cfg(all(test, loom))]
mod model;

//! Tasks: plain futures, many to a thread.
//!
//! [`Pool::spawn`](crate::Pool::spawn) makes one, a [`JoinHandle`] waits for it, cancels it or
//! lets it go. A task is polled by the pool's workers, one at a time; `docs/design/tasks.md` tells
//! the scheduler's rules. Wakers are plain [`std::task::Waker`]s, so futures from any crate that
//! does not bring its own executor work unchanged.
//!
//! Bottom up: `state` (the word), `slab` (the memory), `cell` (the task), `join`; `hints`,
//! `lifo` and `inject` (the queues), `desk` (a seat's share), `crew` (who works at which desk), `turn` (what
//! a worker does), `spawn`, `block_on`.

mod block_on;
mod cell;
mod crew;
mod desk;
mod hints;
mod inject;
mod join;
mod lifo;
mod seeded;
mod slab;
mod spawn;
mod state;
mod turn;
mod yield_now;

pub use join::{JoinError, JoinHandle};
pub use spawn::{spawn, spawn_local};
pub use yield_now::{YieldNow, yield_now};

pub(crate) use desk::{Desk, block_for_channel, free_channel};
pub(crate) use turn::{
    Rest, Tasks, cancel_all, clear_desk, enter, leave, may_retire, resize, rest, run_due, stats,
    turn,
};

#[cfg(all(test, loom))]
mod model;

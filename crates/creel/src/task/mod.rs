//! Tasks are futures that the pool's workers run, many on each thread.
//!
//! [`Pool::spawn`](crate::Pool::spawn) creates a task. With its [`JoinHandle`] you wait for the
//! task, abort it or detach it. The workers of the pool and the callers of its `block_on` poll
//! tasks, and only one thread polls a given task at a time. `docs/design/tasks.md` describes the
//! scheduler's rules. Wakers are plain [`std::task::Waker`]s, so futures from any crate work
//! unchanged if the crate does not need its own executor.
//!
//! From the bottom up, these modules implement tasks:
//!
//! | module | contents |
//! |---|---|
//! | `state`, `slab`, `cell`, `join` | the state word of a task, the memory of tasks, the task itself, and its handle |
//! | `run_queue`, `lifo`, `inject` | the queues |
//! | `local`, `local_context` | the local scheduler that a thread needs to run tasks, and the steps of a thread that holds one |
//! | `steal` | the rules for taking tasks from other local schedulers |
//! | `tasks`, `turn`, `block_on_driver` | the state that a pool's threads share, and the parts of a worker and of a `block_on` caller |
//! | `context` | the pool whose code a thread runs |
//! | `spawn`, `end`, `seeded` | the beginning and the end of tasks, and the deterministic mode |
//! | `background`, `budget`, `yield_now` | for programs: wrappers of futures |
//! | `join_set`, `token`, `id` | for programs: groups of tasks, and the identity of a task |

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

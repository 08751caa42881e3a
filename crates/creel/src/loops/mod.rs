//! Fork-join loops: the items of a slice shared out among the workers while the caller waits.
//!
//! The invariant: each item is visited exactly once, by one thread, before the call returns; so
//! the outcome has the same bits at any number of workers and under any [`Balance`]. When a
//! closure panics, the items not yet begun may be left out, and the first panic is re-thrown at
//! the caller after everything that was begun has ended.
//!
//! Every closure is told the item's index first. A loop that is called while the pool runs
//! another one (nested, from a worker, from a second thread) runs on its own thread, and is offered
//! to who is idle: never blocked. Left out on purpose: adaptors and lazy chains; a loop is a call.

mod collect;
mod compile_fail;
mod fold;
mod join;
mod nested;
mod outbox;
pub(crate) mod protocol;
mod run;
mod scope;
mod scratch;
mod session;
mod slices;
mod split;

pub use outbox::{Addressed, Outbox, Outboxes, Post};
pub use scope::Scope;
pub use scratch::Scratch;

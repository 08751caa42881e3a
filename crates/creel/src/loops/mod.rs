//! Fork-join loops: items shared out among the workers while the caller waits.
//!
//! The verbs are methods of [`Pool`](crate::Pool); here are the things that they take. What a loop
//! can visit is told by [`ParItems`].
//!
//! The invariant: each item is visited exactly once, by one thread, before the call returns; so
//! the outcome has the same bits at any number of workers and under any [`Balance`](crate::Balance),
//! but where a verb says otherwise. When a closure panics, the items not yet begun may be left out,
//! and the first panic is re-thrown at the caller after everything that was begun has ended.
//!
//! A loop that is called while the pool runs another one (nested, from a worker, from a second
//! thread) runs on its own thread, and is offered to who is idle: never blocked. Left out on purpose:
//! adaptors and lazy chains; a loop is a call.

mod collect;
mod compile_fail;
mod find;
mod fold;
mod items;
mod join;
mod map;
mod nested;
mod outbox;
pub(crate) mod protocol;
mod run;
mod scope;
mod scratch;
mod session;
mod sort;
mod split;
mod tiles;
mod visit;

pub use items::{ChunkOf, HasChunk, HasItem, ItemOf, ParChunks, ParItems};
pub use outbox::{BoundOutbox, Outbox, OutboxSender};
pub use scope::Scope;
pub use scratch::Scratch;
pub use tiles::{Tile, TileMut, Tiles, TilesMut};

//! Fork-join loops, which distribute items among the workers while the caller waits.
//!
//! The loops are methods of [`Pool`](crate::Pool). This module contains the types that they take.
//! [`ParItems`] lists what a loop can visit. For iterators, there are
//! [`for_each_bridged`](crate::Pool::for_each_bridged) and
//! [`map_bridged`](crate::Pool::map_bridged).
//!
//! We guarantee that each item is visited exactly once, by one thread, before the call returns. The
//! result therefore has the same bits at any number of workers and with any
//! [`Balance`](crate::Balance), unless the documentation of a method says otherwise. If a closure
//! panics, some items may not be visited. The call then waits until everything that has begun has
//! ended, and resumes the first panic on the calling thread.
//!
//! You can also call a loop while the pool runs another one, for example inside a loop, on a
//! worker, or on a second thread. Such a loop runs on its own caller, and idle workers help. It
//! never waits for the other loop. We deliberately have no adaptors and no lazy chains, because a
//! loop is one call.

mod bridge;
mod collect;
mod compile_fail;
mod find;
mod fold;
mod gang;
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

pub use gang::{BrokenBarrier, Gang, GangError, Member};
pub use items::{ChunkOf, HasChunk, HasItem, ItemOf, ParChunks, ParItems};
pub use join::Joiner;
pub use outbox::{BoundOutbox, ExchangeSender, Outbox, OutboxSender};
pub use scope::Scope;
pub use scratch::{Scratch, ScratchIntoIter, ScratchIter, ScratchIterMut};
pub use tiles::{Tile, TileMut, Tiles, TilesMut};

//! Workers: how their threads live, sleep and are woken.
//!
//! This is the lowest layer of the runtime. It does not know any kind of work, because loops,
//! tasks, timers and sockets are built on it, and `pool/` combines them. It calls the layers above
//! only through two traits, [`slots::Work`] and [`parker::Poller`]. The traits in `parts.rs` are
//! those by which the pool uses tasks, timers and sockets.

pub(crate) mod budget;
pub(crate) mod current;
pub(crate) mod error;
pub(crate) mod hooks;
pub(crate) mod idle;
pub(crate) mod inbox;
pub(crate) mod knobs;
pub(crate) mod life;
#[cfg(all(test, creel_loom))]
mod model;
pub(crate) mod no_unwind;
pub(crate) mod panics;
pub(crate) mod parker;
pub(crate) mod parts;
pub(crate) mod scoped_job;
#[allow(clippy::module_inception)]
pub(crate) mod slot;
pub(crate) mod slots;
pub(crate) mod stats;
pub(crate) mod steal_order;
pub(crate) mod stored_waker;
pub(crate) mod table;
pub(crate) mod trace;
pub(crate) mod waiter;
pub(crate) mod wakers;
pub(crate) mod woken;

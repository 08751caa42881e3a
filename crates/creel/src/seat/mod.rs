//! Seats: the places of a pool's workers, and how their threads live, sleep and are woken.
//!
//! This is the bottom of the runtime. It knows no kind of work: loops, tasks, timers and sockets
//! are built on it, and `pool/` composes them.

pub(crate) mod idle;
pub(crate) mod lend;
pub(crate) mod life;
pub(crate) mod table;
pub(crate) mod waiter;

//! A deterministic simulation of a machine with caches and many processors.
//!
//! A program that takes its atomics, locks, threads and clock from this crate runs on a machine
//! that you do not have. You get virtual times that are exactly repeatable, however busy the real
//! machine is.
//!
//! ```
//! use creel_sim::{Machine, Sim, now_ns, thread, work};
//!
//! let machine = Machine::named("ryzen-3900x").unwrap();
//! let ns = Sim::new(&machine).run(|| {
//!     let begin = now_ns();
//!     let other = thread::spawn(|| work(50_000));
//!     work(50_000);
//!     other.join().unwrap();
//!     now_ns() - begin
//! });
//! assert!((50_000..100_000).contains(&ns)); // the two run at the same time
//! ```
//!
//! # How it works
//!
//! Each simulated thread is a coroutine, and all of them run on one thread of the system. Every PU
//! has a clock. A thread runs until it is about to do something that other threads can observe. If
//! another PU has an earlier clock, the thread yields to it first. Therefore all observable steps
//! happen in the order of virtual time, and ties are broken by the order of arrival.
//!
//! | file | contents |
//! |---|---|
//! | `machine.rs` | machines as data: a topology, and a table of latencies with their sources |
//! | `engine.rs`, `engine/` | the events, the clocks of the PUs, the scheduler of the simulated system, and the steps of threads |
//! | `cache.rs` | the state of each cache line, and the cost of an access |
//! | `atomic.rs`, `sync.rs`, `thread.rs`, `time.rs` | the types that a program uses in place of those of `std` |
//! | `profile.rs` | the accesses that a simulation waits for, by their position in the source |
//! | `arena.rs` | an allocator that gives every run the same addresses |
//!
//! The atomics are sequentially consistent, whatever ordering the program requests. Use loom to
//! find errors in orderings. Note that shuttle does not find them, because its atomics are
//! sequentially consistent as well.

mod arena;
pub mod atomic;
mod cache;
mod engine;
mod machine;
mod profile;
pub mod sync;
pub mod thread;
mod time;

pub use arena::Arena;
pub use engine::{
    Sim, Stats, hog, interrupt_others, prefetch, prefetch_to_write, spin_loop, touch, touch_mut,
    work,
};
pub use machine::{Costs, Machine, NAMES};
pub use profile::{Waited, profile, profile_only};
pub use time::{Instant, now_ns};

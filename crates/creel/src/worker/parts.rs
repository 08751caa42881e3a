//! The traits by which a pool uses those of its parts that a build can leave out: tasks, timers and
//! sockets.
//!
//! Each trait here has two implementations: the part itself (`part.rs` in its folder), and a
//! replacement that never has any work (`disabled.rs` in the same folder). The pool uses a part
//! only through its trait, and the unit tests compile both implementations. Therefore the compiler
//! reports a replacement that does not match any more.

use super::idle::Search;
use super::parker::Poller;
use super::slot::WorkerSlot;
use super::slots::WorkerSlots;
use super::stats::TaskStats;
use super::stored_waker::StoredWaker;
use super::woken::Woken;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use std::vec::Drain;

/// The tasks of a pool and their scheduler. `task/` implements and documents these methods.
pub(crate) trait TaskPart: Sized {
    /// The timers of a worker.
    type Timers;
    /// How far each worker has got with its tasks, so that the watchdog can find workers without
    /// progress.
    type Progress: Default + PartialEq;
    /// The state of all workers at the last check for stranded tasks.
    type Stranded: Default;
    /// A guard that marks the thread as a worker's.
    type Entered;

    fn new(slots: Arc<WorkerSlots>, seed: Option<u64>) -> Arc<Self>;
    fn enter(this: Arc<Self>, index: usize) -> Self::Entered;
    fn innermost_slots() -> Option<Arc<WorkerSlots>>;
    fn is_in_context(&self) -> bool;
    fn is_run_by_this_thread(&self) -> bool;
    fn any_outside(&self) -> bool;
    fn stats(&self) -> TaskStats;
    fn turn(&self, slot: &WorkerSlot, search: Option<Search>, rescues: bool) -> bool;
    fn before_park(&self, slot: &WorkerSlot) -> bool;
    fn may_retire(&self, slot: &WorkerSlot) -> bool;
    fn record_progress(&self, progress: &mut Self::Progress);
    fn rescue(&self, slot: &WorkerSlot, before: &Self::Progress, now: &Self::Progress) -> bool;
    fn rescue_timers(&self, slot: &WorkerSlot, timers: &Self::Timers) -> bool;
    fn run_due(&self, slot: &WorkerSlot, due: &mut Drain<'_, StoredWaker>);
    fn clear_scheduler(&self, slot: &WorkerSlot);
    fn cancel_all(&self);
    fn run_stranded(&self, last: &mut Self::Stranded, cancel: bool) -> bool;
    fn end(&self);
}

/// The timers of one worker. `time/` implements and documents these methods.
pub(crate) trait TimerPart: Sized {
    /// The clock of the timers.
    type Clock: Clone + Default;
    /// A guard. Until it is dropped, futures that this thread polls use these timers.
    type Entered;

    fn new(clock: Self::Clock) -> Self;
    fn serve(this: Arc<Self>) -> Self::Entered;
    fn clock(&self) -> &Self::Clock;
    fn set_wake(&self, waker: impl FnOnce() -> Waker);
    fn is_used(&self) -> bool;
    fn may_end(&self) -> bool;
    fn reactions(&self) -> u64;
    fn sleep_until(&self) -> Option<u64>;
    fn fire(&self, run: impl FnOnce(&mut Drain<'_, StoredWaker>)) -> Fired;
    fn end(&self);
}

/// The result of firing timers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fired {
    /// The number of timers that fired.
    pub(crate) count: usize,
    /// Whether more timers are due, which are left to the next call.
    pub(crate) more: bool,
}

/// The sockets of a pool. `net/` implements and documents these methods.
pub(crate) trait SocketPart: Poller + Default {
    /// A guard. Until it is dropped, sockets that wait on this thread register with this driver.
    type Entered;

    fn enter(this: Arc<Self>) -> Self::Entered;
    fn set_alone(&self, alone: bool);
    fn is_unsure(&self) -> bool;
    fn set_wake(&self, waker: Waker);
    fn wake_if_unattended(&self);
    fn is_unattended(&self) -> bool;
    fn attended(&self) -> u64;
    fn is_empty(&self) -> bool;
    fn turn(&self, again: bool) -> Option<Found>;
    fn wait(&self, timeout: Option<Duration>, notified: impl FnOnce() -> bool) -> Option<Found>;
    fn end(&self);
}

/// The events that a poll of the sockets found.
#[derive(Default)]
pub(crate) struct Found {
    /// The number of events.
    pub(crate) count: usize,
    /// Whether the buffer of the poll had no room for more events, so that there may be more.
    pub(crate) full: bool,
    /// Whether the worker should poll again at once if an operation on one of these sockets cannot
    /// find out whether there is more to read. The polls that follow each other in this way form a
    /// row (`net/retry.rs`). In the first poll of a row, it is true if one of the sockets is
    /// reported by level. In later polls, it is true if an earlier poll of the row has reported one
    /// of the sockets as well.
    pub(crate) level: bool,
    /// The wakers of the tasks that waited for these events.
    pub(crate) due: Woken,
}

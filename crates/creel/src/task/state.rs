//! The state of a task. It is a single word, and each method in this file makes one atomic step
//! from one value of the word to the next.
//!
//! # The bits
//!
//! | bit | meaning | set by | cleared by |
//! |---|---|---|---|
//! | `SCHEDULED` | a thread must poll the task, or drop its future if it is cancelled | the spawn, a wake-up, a cancellation, or a move from the LIFO slot to a run queue | the claim, or the end of the last poll |
//! | `RUNNING` | one thread has claimed the task, and only this thread may access its future | the claim, or a wake-up into a LIFO slot or into an immediate poll | the end of the poll, or a move from the LIFO slot to a run queue |
//! | `HINTED` | the task is scheduled by hints, which are pointers to it in run queues | the spawn, a wake-up, a poll during which the task was woken, or a move to a run queue | the claim, or a move to another queue |
//! | `COMPLETE` | the future is gone. The output is in the cell if `HANDLE` is set | the end of the last poll | nothing |
//! | `CANCELLED` | the future must be dropped instead of polled again | `abort`, the end of the pool, or the loss of the last reference | nothing |
//! | `HANDLE` | the join handle is alive, and it takes or drops the output | the spawn | the handle, when it is gone |
//! | `JOINER` | the handle's waker is in the cell | the handle | the handle, or the step that sets `COMPLETE`. The worker of that step then owns the waker |
//! | `BOUND` | the task runs on the thread of one worker only. Bits 8 to 23 contain its index | the spawn | nothing |
//! | `SPARE` | one of the counted references has no owner yet | a wake-up, or the spawn | the end of the poll, or a move from a run queue to another queue |
//!
//! The upper 32 bits contain the number of references, which are the handle, every waker, and the
//! spare reference.
//!
//! `SCHEDULED`: while the task is not running, a set bit means that the task is in exactly one
//! place. This is either the only queue that holds it, or the hints. While it is running, a set bit
//! means that the running worker queues it again after the poll.
//!
//! `RUNNING`: if a worker whose LIFO slot is empty wakes a task, it claims the task at once. The
//! task then waits in the slot as `RUNNING`, for that worker or for a thread that steals it from
//! the slot (`lifo.rs`). If the task is woken while it waits there, the poll that follows serves
//! this wake-up too, and clears `SCHEDULED`.
//!
//! `HINTED`: a thread that finds a hint may claim the task by clearing `SCHEDULED` and `HINTED` in
//! one exchange. If the hint is stale, the exchange fails and the thread drops the hint. This holds
//! even if the cell serves another task by then, because cells are type-stable (`slab.rs`). If the
//! exchange succeeds on that other task, that task is scheduled by hints too, and its own hint
//! fails later. The bit is never combined with `BOUND`.
//!
//! `CANCELLED`: a poll that is under way is not interrupted. If that poll is ready, the task has
//! finished and is not cancelled.
//!
//! `SPARE`: this bit saves counting references. A waker that is consumed by its wake-up into a hint,
//! into the LIFO slot or into an immediate poll leaves its reference with the task. A new task that
//! is queued by a hint starts with one. The reference belongs to the next poll. The first waker that
//! this poll clones takes it without counting. If no waker takes it, the step that ends the poll
//! drops it. The bit is never set without `HINTED` or `RUNNING`.
//!
//! # Which step frees the cell
//!
//! `SCHEDULED` and `RUNNING` keep the cell alive, as a reference does. The thread that makes the
//! step to "complete, no references, neither bit" frees the cell. If a task is idle and not
//! complete, and loses its last reference, it can never be woken. In that case it is scheduled once
//! more as cancelled, so that a worker drops its future.
//!
//! # Orderings
//!
//! The steps are `AcqRel`, except where a comment explains a weaker ordering:
//!
//! - A wake-up synchronizes with the claim. Therefore the poll sees what the waking thread wrote
//!   before the wake-up. A wake-up that changes no bit still writes the word for this reason,
//!   because only a write can synchronize with the claim.
//! - The end of a poll synchronizes with the next claim. Therefore the next worker sees the future
//!   as the last poll left it.

use crate::sync::{AtomicU64, Ordering};

const SCHEDULED: u64 = 1;
const RUNNING: u64 = 1 << 1;
const HINTED: u64 = 1 << 2;
const COMPLETE: u64 = 1 << 3;
const CANCELLED: u64 = 1 << 4;
const HANDLE: u64 = 1 << 5;
const JOINER: u64 = 1 << 6;
const BOUND: u64 = 1 << 7;
const WORKER_SHIFT: u32 = 8;
const WORKER_MASK: u64 = 0xffff << WORKER_SHIFT;
const SPARE: u64 = 1 << 24;
const REFERENCE: u64 = 1 << 32;

/// The action that the caller must take after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Do nothing.
    Rest,
    /// Put the task into a queue, because it has just become scheduled.
    Enqueue,
    /// Free the cell.
    Free,
}

/// The result of a claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// Whether the future must be dropped instead of polled.
    pub(super) cancelled: bool,
    /// Whether a reference came with the claim. The claiming thread passes it on, or gives it to
    /// the step that ends the poll.
    pub(super) spare: bool,
}

impl Claim {
    /// The claim of an idle task, which has taken over a waker's reference. It is not cancelled,
    /// because a cancelled task is always scheduled or complete, and never idle.
    const OF_IDLE: Self = Self {
        cancelled: false,
        spare: true,
    };

    fn of(word: u64) -> Self {
        Self {
            cancelled: word & CANCELLED != 0,
            spare: word & SPARE != 0,
        }
    }

    /// Returns the same claim, but cancelled if `cancel` is true.
    pub(super) fn or_cancel(self, cancel: bool) -> Self {
        let cancelled = self.cancelled || cancel;
        Self { cancelled, ..self }
    }

    /// Returns the amount by which the word decreases when the spare reference is dropped.
    fn references(spare: bool) -> u64 {
        if spare { REFERENCE } else { 0 }
    }
}

/// The action that the worker must take after a poll that returned pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterPoll {
    /// Do nothing. The task waits for a wake-up.
    Idle,
    /// Queue the task again, because it was woken during the poll.
    Again,
    /// Drop the future and complete the task as cancelled. The task is still running.
    Cancel,
}

/// The action that the worker must take after it has completed the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completed {
    /// Do nothing. No task waits for the output, and the cell may be gone.
    Rest,
    /// Free the cell.
    Free,
    /// Take the joiner's waker, wake it, and then call [`State::release_run`].
    WakeJoiner,
    /// Drop the output first, because the handle is gone. The step has changed nothing.
    DropOutput,
}

/// The state word of a task.
pub(super) struct State(AtomicU64);

/// Returns whether nothing keeps the cell alive if the word has these bits.
fn is_dead(word: u64) -> bool {
    word & COMPLETE != 0 && word & (RUNNING | SCHEDULED) == 0 && word < REFERENCE
}

/// Returns the next word, and the action for the caller, after a reference was dropped. An idle
/// task that nothing can wake is scheduled, so that its future is dropped.
fn abandon_or_free(word: u64) -> (u64, Then) {
    if word >= REFERENCE || word & (RUNNING | SCHEDULED) != 0 {
        (word, Then::Rest)
    } else if word & COMPLETE != 0 {
        (word, Then::Free)
    } else {
        (word | SCHEDULED | CANCELLED, Then::Enqueue)
    }
}

impl State {
    /// Returns the word of a new task, which is scheduled and has a handle. The task is bound to
    /// the worker `slot`, if there is one.
    #[inline]
    pub(super) fn new_word(slot: Option<u16>, hinted: bool) -> u64 {
        let bound = slot.map_or(0, |slot| BOUND | u64::from(slot) << WORKER_SHIFT);
        let hinted = if hinted {
            HINTED | SPARE | REFERENCE
        } else {
            0
        };
        (SCHEDULED | HANDLE | REFERENCE | bound) + hinted
    }

    pub(super) fn new(word: u64) -> Self {
        Self(AtomicU64::new(word))
    }

    /// Begins a new task in a cell that another task used before. Other threads may read the word
    /// at the same time, because they have stale hints.
    #[inline]
    pub(super) fn restart(&self, word: u64) {
        self.0.store(word, Ordering::Release);
    }

    /// Makes one step. `f` returns the next word and the result, or `None` to leave the word
    /// unchanged.
    #[inline(always)]
    fn step<R>(&self, mut f: impl FnMut(u64) -> Option<(u64, R)>) -> Option<R> {
        // The loads are `Acquire` even if nothing is exchanged. They synchronize with the step that
        // completes the task, because a caller that finds the task complete then takes the output.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let (next, result) = f(seen)?;
            let exchanged =
                self.0
                    .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire);
            match exchanged {
                Ok(_) => return Some(result),
                Err(now) => seen = now,
            }
        }
    }

    /// Returns the worker that the task is bound to.
    pub(super) fn slot(&self) -> Option<u16> {
        let word = self.0.load(Ordering::Relaxed);
        (word & BOUND != 0).then_some(((word & WORKER_MASK) >> WORKER_SHIFT) as u16)
    }

    /// Claims a task that was found by a hint. Returns `None` if the hint was stale.
    #[inline]
    pub(super) fn claim_hinted(&self) -> Option<Claim> {
        self.step(|word| {
            let next = word & !(SCHEDULED | HINTED) | RUNNING;
            (word & HINTED != 0).then_some((next, Claim::of(word)))
        })
    }

    /// Claims a task that was taken out of the only queue that held it.
    pub(super) fn claim_queued(&self) -> Claim {
        let word = self.0.fetch_xor(SCHEDULED | RUNNING, Ordering::AcqRel);
        debug_assert_eq!(word & (SCHEDULED | RUNNING | HINTED), SCHEDULED);
        Claim::of(word)
    }

    /// Returns the claim of a task that was in a LIFO slot, just before its poll.
    #[inline]
    pub(super) fn claimed(&self) -> Claim {
        let mut word = self.0.load(Ordering::Acquire);
        if word & SCHEDULED != 0 {
            // The task was woken while it waited in the slot. The poll that follows serves this
            // wake-up too, so we clear the bit.
            word = self.0.fetch_and(!SCHEDULED, Ordering::AcqRel);
        }
        Claim::of(word)
    }

    /// Claims an idle, unbound task for an immediate poll. The reference of the waker that woke the
    /// task goes with the claim. Returns `None` if nothing was done.
    #[inline]
    pub(super) fn claim_idle(&self) -> Option<Claim> {
        self.wake_into_slot(true).then_some(Claim::OF_IDLE)
    }

    /// Does the same as [`claim_idle`](Self::claim_idle) for a task that is bound to the calling
    /// worker.
    #[inline]
    pub(super) fn claim_idle_bound(&self) -> Option<Claim> {
        self.claim_if_idle(true, 0).then_some(Claim::OF_IDLE)
    }

    /// Gives a claim up without a poll. The task is then scheduled by hints.
    pub(super) fn unclaim(&self) {
        self.step(|word| Some((word & !RUNNING | SCHEDULED | HINTED, ())));
    }

    /// Marks a task as scheduled by hints. The caller has taken the task out of the only queue that
    /// held it.
    pub(super) fn to_hinted(&self) {
        self.0.fetch_or(HINTED, Ordering::AcqRel);
    }

    /// Takes a task out of the hints, so that the caller can put it into a queue that alone holds
    /// it. Returns false if the hint was stale.
    pub(super) fn unhint(&self) -> bool {
        self.step(|word| {
            // If the bit is not set, the hint was stale, and the word belongs to another task or to
            // none.
            (word & HINTED != 0).then(|| {
                let spare = Claim::references(word & SPARE != 0);
                ((word & !(HINTED | SPARE)) - spare, ())
            })
        })
        .is_some()
    }

    /// Ends a poll that returned pending. `spare` says whether the claim's reference is still
    /// unused. If so, this drops the reference, except for [`AfterPoll::Cancel`].
    #[inline]
    pub(super) fn pend(&self, spare: bool) -> AfterPoll {
        let after = self.step(|word| {
            let word = (word & !SPARE) - Claim::references(spare);
            if word & CANCELLED != 0 {
                None
            } else if word & SCHEDULED != 0 {
                let hinted = if word & BOUND == 0 { HINTED } else { 0 };
                Some((word & !RUNNING | hinted, AfterPoll::Again))
            } else if word < REFERENCE {
                None
            } else {
                Some((word & !RUNNING, AfterPoll::Idle))
            }
        });
        after.unwrap_or(AfterPoll::Cancel)
    }

    /// Completes the task. The running worker has put the output into the cell, or has already
    /// dropped it (`has_output` is false). `spare` has the same meaning as for
    /// [`pend`](Self::pend). This drops the reference, except for [`Completed::DropOutput`].
    #[inline]
    pub(super) fn complete(&self, has_output: bool, spare: bool) -> Completed {
        let seen = self.0.load(Ordering::Acquire) - Claim::references(spare);
        if !has_output && seen < REFERENCE {
            // A plain store is enough. Only a thread that walks over all cells to cancel them can
            // still reach this cell, and it comes too late to cancel the task.
            self.0.store(COMPLETE, Ordering::Release);
            return Completed::Free;
        }
        let done = self.step(|word| {
            if has_output && word & HANDLE == 0 {
                return None;
            }
            let word = word - Claim::references(spare);
            let next = word & !(SCHEDULED | JOINER | SPARE) | COMPLETE;
            Some(if word & JOINER != 0 {
                (next, Completed::WakeJoiner)
            } else if is_dead(next & !RUNNING) {
                (next & !RUNNING, Completed::Free)
            } else {
                (next & !RUNNING, Completed::Rest)
            })
        });
        done.unwrap_or(Completed::DropOutput)
    }

    /// Releases the cell after [`Completed::WakeJoiner`].
    pub(super) fn release_run(&self) -> Then {
        let word = self.0.fetch_and(!RUNNING, Ordering::AcqRel);
        if is_dead(word & !RUNNING) {
            Then::Free
        } else {
            Then::Rest
        }
    }

    /// Wakes the task. If `hinted` is true, the caller will queue it by a hint if the result is
    /// [`Then::Enqueue`].
    #[inline]
    pub(super) fn wake(&self, hinted: bool) -> Then {
        let then = self.step(|word| {
            if word & COMPLETE != 0 {
                None
            } else if word & (SCHEDULED | RUNNING) != 0 {
                Some((word | SCHEDULED, Then::Rest))
            } else {
                let hint = if hinted { HINTED } else { 0 };
                Some((word | SCHEDULED | hint, Then::Enqueue))
            }
        });
        then.unwrap_or(Then::Rest)
    }

    /// Wakes an idle, unbound task into the caller's LIFO slot, which must be empty, and claims it.
    /// If `spare` is true, the waker's reference stays with the task. Returns false if nothing was
    /// done.
    #[inline]
    pub(super) fn wake_into_slot(&self, spare: bool) -> bool {
        self.claim_if_idle(spare, BOUND)
    }

    /// Claims the task, unless it is not idle or has one of the bits `excluded`. Returns whether it
    /// did.
    #[inline]
    fn claim_if_idle(&self, spare: bool, excluded: u64) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        let next = seen | RUNNING | if spare { SPARE } else { 0 };
        seen & (SCHEDULED | RUNNING | COMPLETE | excluded) == 0
            && self
                .0
                .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Wakes the task and drops the waker's reference, or leaves the reference with the task for
    /// the next poll.
    #[inline]
    pub(super) fn wake_and_drop(&self, hinted: bool) -> Then {
        let then = self.step(|word| {
            let less = word - REFERENCE;
            Some(if word & COMPLETE != 0 {
                abandon_or_free(less)
            } else if word & (SCHEDULED | RUNNING) != 0 {
                (less | SCHEDULED, Then::Rest)
            } else {
                let next = if hinted { word | HINTED | SPARE } else { less };
                (next | SCHEDULED, Then::Enqueue)
            })
        });
        then.unwrap_or(Then::Rest)
    }

    /// Adds a reference.
    #[inline]
    pub(super) fn add_reference(&self) {
        // Relaxed is enough, because the caller already has a reference, which keeps the cell
        // alive.
        let word = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        if word >> 63 != 0 {
            // The program has leaked two billion wakers of one task. We abort, because the count
            // would wrap.
            std::process::abort();
        }
    }

    pub(super) fn drop_reference(&self) -> Then {
        self.step(|word| Some(abandon_or_free(word - REFERENCE)))
            .unwrap_or(Then::Rest)
    }

    /// Cancels the task, so that its future is dropped. Returns `None` if there is no future any
    /// more.
    pub(super) fn cancel(&self) -> Option<Then> {
        self.step(|word| {
            if word & COMPLETE != 0 || word & (SCHEDULED | RUNNING) == 0 && word < REFERENCE {
                None
            } else if word & (SCHEDULED | RUNNING) != 0 {
                Some((word | CANCELLED, Then::Rest))
            } else {
                Some((word | CANCELLED | SCHEDULED, Then::Enqueue))
            }
        })
    }

    /// Returns whether the word belongs to a task whose future still exists.
    pub(super) fn is_unfinished(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        word & COMPLETE == 0 && (word >= REFERENCE || word & (SCHEDULED | RUNNING) != 0)
    }

    /// Returns whether the future is gone. If so, the output belongs to the handle.
    pub(super) fn is_complete(&self) -> bool {
        self.0.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// Records that the handle has stored its waker. Returns false if the task is complete. In that
    /// case the waker still belongs to the handle.
    pub(super) fn set_joiner(&self) -> bool {
        self.step(|word| (word & COMPLETE == 0).then_some((word | JOINER, ())))
            .is_some()
    }

    /// Takes the handle's waker back. Returns whether there was one, which then belongs to the
    /// handle again.
    pub(super) fn clear_joiner(&self) -> bool {
        self.step(|word| (word & JOINER != 0).then_some((word & !JOINER, ())))
            .is_some()
    }

    /// Drops the handle, whose waker must not be in the cell. Returns `None` if the task is
    /// complete. In that case the caller must drop the output first, and then call
    /// [`drop_handle_after_output`](Self::drop_handle_after_output).
    #[inline]
    pub(super) fn drop_handle(&self) -> Option<Then> {
        self.step(|word| {
            (word & COMPLETE == 0).then(|| abandon_or_free((word & !HANDLE) - REFERENCE))
        })
    }

    /// Drops the handle after it has taken or dropped the output.
    pub(super) fn drop_handle_after_output(&self) -> Then {
        self.step(|word| Some(abandon_or_free((word & !HANDLE) - REFERENCE)))
            .unwrap_or(Then::Rest)
    }
}

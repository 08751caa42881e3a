//! The state of a task: one word, whose every change is a step of this file.
//!
//! # The bits
//!
//! `SCHEDULED`: somebody has to look at the task: to poll it, or to drop its future if it is
//! cancelled. Set by a wake. While the task does not run, a set bit means that it is in exactly
//! one place (a queue, or by hints, below); while it runs, that the running worker queues it
//! again after the poll.
//!
//! `RUNNING`: one worker has the task and alone may touch its future. Set when the task is
//! claimed, cleared after the poll. A wake by a worker whose LIFO slot is empty claims the task at
//! once: it lies there `RUNNING`, for that worker or for who steals it from the slot (`lifo.rs`).
//!
//! `HINTED`: the task is scheduled by hints: pointers to it lie in run queues, and who finds one
//! may claim the task by clearing `SCHEDULED` and `HINTED` in one exchange. A hint that is
//! found too late fails the exchange and is dropped, even if the cell serves another task by
//! then (cells are type-stable: `slab.rs`); if it succeeds on that other task, that task is
//! scheduled by hints too and its own hint fails later. Never with `BOUND`.
//!
//! `COMPLETE`: the future is gone. The output is in the cell if `HANDLE` is set. Never cleared.
//!
//! `CANCELLED`: the future shall be dropped instead of polled again. A poll under way is not
//! disturbed, and if it is ready the task has finished, not been cancelled.
//!
//! `HANDLE`: the join handle lives and the output is its to take or drop. Never set again.
//!
//! `JOINER`: the handle's waker is in the cell. Set and cleared by the handle before `COMPLETE`;
//! the completing worker clears it with setting `COMPLETE` and then owns the waker.
//!
//! `BOUND`: the task runs on one worker's thread only, whose index the word carries. Never changes.
//!
//! `SPARE`: one of the references counted is nobody's yet. A wake into a hint or the slot leaves
//! its reference so, a new task starts with one. It is the poll's: the first waker cloned there
//! has it without counting, and what is left is dropped with the step that ends the poll, which
//! clears the bit. Never without `HINTED` or `RUNNING`.
//!
//! Between: the worker of a bound task (16 bits). Above: the number of references (32 bits): the
//! handle and every waker.
//!
//! # Who frees
//!
//! `SCHEDULED` and `RUNNING` keep the cell alive as a reference does. Whoever makes the step to
//! "complete, no references, neither bit" frees the cell. A task that is idle, not complete and
//! loses its last reference can never be woken: it is scheduled once more, cancelled, so that
//! a worker drops its future.
//!
//! # Orderings
//!
//! Every step is acquire and release: a wake releases what the waker wrote, the claim acquires it
//! for the poll; the end of a poll releases the future to the next worker that polls it. A wake
//! that changes no bit still writes the word, for the same reason.

use crate::sync::{AtomicU64, Ordering};

const SCHEDULED: u64 = 1;
const RUNNING: u64 = 1 << 1;
const HINTED: u64 = 1 << 2;
const COMPLETE: u64 = 1 << 3;
const CANCELLED: u64 = 1 << 4;
const HANDLE: u64 = 1 << 5;
const JOINER: u64 = 1 << 6;
const BOUND: u64 = 1 << 7;
const SEAT_SHIFT: u32 = 8;
const SEAT_MASK: u64 = 0xffff << SEAT_SHIFT;
const SPARE: u64 = 1 << 24;
const REFERENCE: u64 = 1 << 32;

/// What a step leaves its caller to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing.
    Rest,
    /// Put the task in a queue: it has just become scheduled.
    Enqueue,
    /// Free the cell.
    Free,
}

/// What a claim has found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    /// The future shall be dropped instead of polled.
    pub(super) cancelled: bool,
    /// A reference came with it; who claimed hands it on or gives it to the step that ends the
    /// poll.
    pub(super) spare: bool,
}

impl Claim {
    fn of(word: u64) -> Self {
        Self {
            cancelled: word & CANCELLED != 0,
            spare: word & SPARE != 0,
        }
    }

    /// The same, cancelled if `cancel`.
    pub(super) fn or_cancel(self, cancel: bool) -> Self {
        let cancelled = self.cancelled || cancel;
        Self { cancelled, ..self }
    }

    /// What a word loses with the spare reference.
    fn references(spare: bool) -> u64 {
        if spare { REFERENCE } else { 0 }
    }
}

/// What follows a poll that was not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterPoll {
    /// The task waits for a wake.
    Idle,
    /// It was woken meanwhile: queue it again.
    Again,
    /// Still running: drop the future and complete it as cancelled.
    Cancel,
}

/// What follows a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Completed {
    /// Nobody waits; the cell may be gone.
    Rest,
    /// Free the cell.
    Free,
    /// Take the joiner's waker, wake it, then call [`State::release_run`].
    WakeJoiner,
    /// Nothing was changed: the handle is gone, so drop the output first.
    DropOutput,
}

/// The state word.
pub(super) struct State(AtomicU64);

/// Whether a word with these bits is one that nothing keeps alive.
fn is_dead(word: u64) -> bool {
    word & COMPLETE != 0 && word & (RUNNING | SCHEDULED) == 0 && word < REFERENCE
}

/// An idle task that nothing can wake is scheduled to be dropped.
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
    /// A new task, scheduled, with its handle; bound to a worker or not.
    #[inline]
    pub(super) fn new_word(slot: Option<u16>, hinted: bool) -> u64 {
        let bound = slot.map_or(0, |slot| BOUND | u64::from(slot) << SEAT_SHIFT);
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

    /// Starts a life in a cell that had one before. Others may look at the word meanwhile, by
    /// hints.
    #[inline]
    pub(super) fn restart(&self, word: u64) {
        self.0.store(word, Ordering::Release);
    }

    /// Makes one step: `f` gives the next word and the result, `None` to leave it.
    #[inline(always)]
    fn step<R>(&self, mut f: impl FnMut(u64) -> Option<(u64, R)>) -> Option<R> {
        // Acquire also where nothing is exchanged: "it is complete" gives the output away.
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

    /// The worker the task is bound to.
    pub(super) fn slot(&self) -> Option<u16> {
        let word = self.0.load(Ordering::Relaxed);
        (word & BOUND != 0).then_some(((word & SEAT_MASK) >> SEAT_SHIFT) as u16)
    }

    /// Claims a task found by a hint. `None`: the hint was stale.
    #[inline]
    pub(super) fn claim_hinted(&self) -> Option<Claim> {
        self.step(|word| {
            let next = word & !(SCHEDULED | HINTED) | RUNNING;
            (word & HINTED != 0).then_some((next, Claim::of(word)))
        })
    }

    /// Claims a task taken out of a queue that held it alone.
    pub(super) fn claim_queued(&self) -> Claim {
        let word = self.0.fetch_xor(SCHEDULED | RUNNING, Ordering::AcqRel);
        debug_assert_eq!(word & (SCHEDULED | RUNNING | HINTED), SCHEDULED);
        Claim::of(word)
    }

    /// What the claim of a task that lay in a LIFO slot has found, just before its poll.
    #[inline]
    pub(super) fn claimed(&self) -> Claim {
        let mut word = self.0.load(Ordering::Acquire);
        if word & SCHEDULED != 0 {
            // The poll to come is what those wakes asked for.
            word = self.0.fetch_and(!SCHEDULED, Ordering::AcqRel);
        }
        Claim::of(word)
    }

    /// Claims an idle, unbound task for a poll at once, with the reference of the waker that asked
    /// for it. `None`: nothing was done.
    #[inline]
    pub(super) fn claim_idle(&self) -> Option<Claim> {
        // An idle task that is cancelled is scheduled.
        self.wake_into_slot(true).then_some(Claim {
            cancelled: false,
            spare: true,
        })
    }

    /// Gives up a claim without a poll: the task is scheduled by hints.
    pub(super) fn unclaim(&self) {
        self.step(|word| Some((word & !RUNNING | SCHEDULED | HINTED, ())));
    }

    /// Makes a task taken out of a queue that held it alone one that is scheduled by hints.
    pub(super) fn to_hinted(&self) {
        self.0.fetch_or(HINTED, Ordering::AcqRel);
    }

    /// Takes a task out of the hints, into a queue that holds it alone. False: stale.
    pub(super) fn unhint(&self) -> bool {
        self.step(|word| {
            // A stale hint's word is another task's, or nobody's.
            (word & HINTED != 0).then(|| {
                let spare = Claim::references(word & SPARE != 0);
                ((word & !(HINTED | SPARE)) - spare, ())
            })
        })
        .is_some()
    }

    /// After a poll that was not ready. `spare`: the claim's reference is still there; it goes,
    /// but for [`AfterPoll::Cancel`].
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

    /// The running worker has put the output in the cell, or (`has_output` false) already dropped
    /// it. `spare` as for [`pend`](Self::pend); it goes, but for [`Completed::DropOutput`].
    #[inline]
    pub(super) fn complete(&self, has_output: bool, spare: bool) -> Completed {
        let seen = self.0.load(Ordering::Acquire) - Claim::references(spare);
        if !has_output && seen < REFERENCE {
            // Nobody else has a way to the cell but a walk that cancels, and that is too late.
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

    /// After [`Completed::WakeJoiner`]: lets go of the cell.
    pub(super) fn release_run(&self) -> Then {
        let word = self.0.fetch_and(!RUNNING, Ordering::AcqRel);
        if is_dead(word & !RUNNING) {
            Then::Free
        } else {
            Then::Rest
        }
    }

    /// A wake. `hinted`: the caller will enqueue by a hint, if told to.
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

    /// A wake of an idle, unbound task into the caller's LIFO slot, which is empty: claims it.
    /// `spare`: and leaves the waker's reference with it. False: nothing was done.
    #[inline]
    pub(super) fn wake_into_slot(&self, spare: bool) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        let next = seen | RUNNING | if spare { SPARE } else { 0 };
        seen & (SCHEDULED | RUNNING | COMPLETE | BOUND) == 0
            && self
                .0
                .compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// A wake that uses up its reference, or leaves it with the task for the next poll.
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

    /// One more reference.
    #[inline]
    pub(super) fn add_reference(&self) {
        // Relaxed: a reference is only made from another.
        let word = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        if word >> 63 != 0 {
            // Two thousand million wakers of one task have been leaked; counting on would wrap.
            std::process::abort();
        }
    }

    /// One reference less.
    pub(super) fn drop_reference(&self) -> Then {
        self.step(|word| Some(abandon_or_free(word - REFERENCE)))
            .unwrap_or(Then::Rest)
    }

    /// Asks for the future to be dropped. `None`: there is none any more.
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

    /// Whether the word is that of a task whose future is still there.
    pub(super) fn is_unfinished(&self) -> bool {
        let word = self.0.load(Ordering::Acquire);
        word & COMPLETE == 0 && (word >= REFERENCE || word & (SCHEDULED | RUNNING) != 0)
    }

    /// Whether the future is gone; then the output is the handle's.
    pub(super) fn is_complete(&self) -> bool {
        self.0.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// The handle has stored its waker. False: the task is complete, the waker still the handle's.
    pub(super) fn set_joiner(&self) -> bool {
        self.step(|word| (word & COMPLETE == 0).then_some((word | JOINER, ())))
            .is_some()
    }

    /// The handle takes its waker back. True: it had one there, and it is the handle's again.
    pub(super) fn clear_joiner(&self) -> bool {
        self.step(|word| (word & JOINER != 0).then_some((word & !JOINER, ())))
            .is_some()
    }

    /// The handle goes, its waker out of the cell; `None`: the task is complete, the output must
    /// go first, by [`drop_handle_after_output`](Self::drop_handle_after_output).
    #[inline]
    pub(super) fn drop_handle(&self) -> Option<Then> {
        self.step(|word| {
            (word & COMPLETE == 0).then(|| abandon_or_free((word & !HANDLE) - REFERENCE))
        })
    }

    /// The handle goes; it has taken the output or dropped it.
    pub(super) fn drop_handle_after_output(&self) -> Then {
        self.step(|word| Some(abandon_or_free((word & !HANDLE) - REFERENCE)))
            .unwrap_or(Then::Rest)
    }
}

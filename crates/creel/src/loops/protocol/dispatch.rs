//! How a loop gets to the workers and back: one line down, one line a worker up.
//!
//! # The protocol
//!
//! 1. The caller holds the slot (`Protocol::slot`), so there is one loop at a time. It writes the
//!    job down, then swaps a new [`Call`] in, with the next epoch. This one swap publishes
//!    the loop and tells whether somebody sleeps.
//! 2. A worker that sees a new epoch says that it is *in*, and claims blocks: of its own share
//!    from the front; when that is empty, of others' from the back. What is claimed of whom is
//!    in the share's own word (`share.rs`). Then it says that it is *out*.
//! 3. The caller works on its own share, then claims what is left of the others', until every
//!    share is claimed; then it waits for the workers that are *in*. It does not wait for one
//!    that has not begun: there is nothing left for it.
//!
//! Why the job may borrow from the caller's stack: it is looked at only by who has claimed one of
//! its blocks. A claim carries the epoch, so it succeeds only while blocks of that epoch are
//! left; the caller returns after all were claimed and every claimer is out, and a claimer is
//! seen to be *in* by whoever sees its claim. A worker that comes late finds every share closed
//! for its epoch.
//!
//! Why a busy worker cannot hang a loop: the caller looks for those after the swap, and offers their
//! places to idle ones (`places.rs`).
//!
//! Why a lost wake-up cannot hang a loop: the caller never waits for a sleeper. A worker that
//! goes to sleep sets `SLEEPERS` in the call's word: if that finds a new epoch, it looks again;
//! else the next publication's swap finds the bit, and wakes.

use super::{
    Protocol,
    call::{Call, Even, Grain, units_of},
    closure::{Body, Code, Words},
    share::Share,
};
use crate::{
    sync::{
        AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering, UnsafeCell, lock,
        loom_fence, now_ns,
    },
    worker::{
        panics::FirstPanic, slot::WorkerSlot, slots::WorkerSlots, stats::Counters,
        steal_order::by_index, trace::Doing, waiter::Waiter,
    },
};
use crossbeam_utils::CachePadded;
use std::{mem::transmute, ops::Range, ptr};

/// The pool's side of the loop protocol.
pub(crate) struct LoopMailbox {
    down: CachePadded<Down>,
    /// What was thrown in the loop under way.
    pub(in crate::loops) panic: FirstPanic,
    /// Who holds the slot, if it sleeps until a worker is out.
    pub(in crate::loops) caller: Mutex<Option<Waiter>>,
    /// The workers below this index, but for worker 0, are known to have threads. Reset when a thread
    /// ends.
    ensured: AtomicUsize,
    /// When the last waking call was published, for the woken to know how long a wake takes.
    woken_ns: AtomicU64,
    /// What a wake takes until the worker runs, and what it costs its waker; averages over the
    /// last few.
    wake_ns: AtomicU64,
    waker_ns: AtomicU64,
}

/// The one line that goes down. All but the call is read by claimers only.
struct Down {
    /// A [`Call`]. Published by a swap (releases the rest of the line and all that the job
    /// borrows); read with `Acquire` by workers; they add `SLEEPERS`. `SeqCst`: a worker stores that
    /// it leaves idleness before it reads this, and a loop's caller reads that after the swap, so one
    /// of the two sees the other.
    call: AtomicU64,
    /// The two parts of a [`Body`]. The words are written before a call, and read by its
    /// claimers.
    code: AtomicPtr<()>,
    words: UnsafeCell<Words>,
    /// Where the shares begin, and the last one's end; null: they are even.
    bounds: AtomicPtr<usize>,
    /// An [`Even`]: of the shares, or of a queue's blocks.
    base: AtomicUsize,
    extra: AtomicU32,
    /// 1 if what each share takes is measured.
    timed: AtomicU32,
}

// SAFETY: the words are written by who holds the loop slot, before the swap that publishes them;
// read by claimers, who have said that they are out before the slot is given back.
unsafe impl Sync for Down {}
// SAFETY: nothing in it belongs to a thread; what its words point at is borrowed by the loop.
unsafe impl Send for Down {}

#[cfg(all(target_pointer_width = "64", not(any(loom, shuttle))))]
const _: () = assert!(size_of::<Down>() == 64, "one mailbox");

impl Down {
    fn new() -> Self {
        Self {
            call: AtomicU64::new(0),
            code: AtomicPtr::new(ptr::null_mut()),
            words: UnsafeCell::new(Words::default()),
            bounds: AtomicPtr::new(ptr::null_mut()),
            base: AtomicUsize::new(0),
            extra: AtomicU32::new(0),
            timed: AtomicU32::new(0),
        }
    }

    fn write(&self, job: &Job<'_>) {
        let code = job.body.code as *mut ();
        self.code.store(code, Ordering::Relaxed);
        // SAFETY: nobody reads the words now, see above.
        self.words
            .with_mut(|words| unsafe { *words = job.body.words });
        let bounds = job.bounds.map_or(ptr::null(), <[usize]>::as_ptr);
        self.bounds.store(bounds.cast_mut(), Ordering::Relaxed);
        self.base.store(job.even.base, Ordering::Relaxed);
        self.extra.store(job.even.extra as u32, Ordering::Relaxed);
        self.timed.store(job.timed.into(), Ordering::Relaxed);
    }

    /// The units of some blocks of share `home`.
    ///
    /// # Safety
    /// The caller has claimed these blocks of the loop last written, and has not yet said (as
    /// a worker by leaving, as the loop's caller by returning) that it is done with them.
    unsafe fn units(&self, queue: bool, home: usize, blocks: Range<u64>) -> Range<usize> {
        let even = Even {
            base: self.base.load(Ordering::Relaxed),
            extra: self.extra.load(Ordering::Relaxed) as usize,
        };
        if queue {
            let at = |block: u64| even.at(block as usize);
            return at(blocks.start)..at(blocks.end);
        }
        let bounds = self.bounds.load(Ordering::Relaxed);
        let share = if bounds.is_null() {
            even.at(home)..even.at(home + 1)
        } else {
            // SAFETY: `bounds` has one entry more than the loop has workers, and lives as long
            // as what the body borrows.
            let first = unsafe { bounds.add(home) };
            // SAFETY: validity: the share's begin and end, two entries of `bounds` from `first` on,
            // alive as long as what the body borrows. Aliasing: only read while the loop runs.
            let bounds = unsafe { std::slice::from_raw_parts(first, 2) };
            bounds[0]..bounds[1]
        };
        units_of(blocks, share)
    }

    /// Calls the body.
    ///
    /// # Safety
    /// As for [`units`](Self::units).
    unsafe fn run(&self, units: Range<usize>, who: usize) {
        let code = self.code.load(Ordering::Relaxed);
        // SAFETY: it was a `Code` in `write`.
        let code = unsafe { transmute::<*mut (), Code>(code) };
        // SAFETY: code and words are of one body, and all that it borrows is borrowed by the
        // loop's caller until all claimed blocks are done.
        self.words.with(|words| unsafe { code(words, units, who) });
    }
}

/// What a wake is taken to cost before some were measured.
const WAKE_NS_AT_FIRST: u64 = 8_000;
const WAKER_NS_AT_FIRST: u64 = 3_000;
const WAKE_NS_MIN: u64 = 1_000;
const WAKE_NS_MAX: u64 = 50_000;

impl LoopMailbox {
    pub(crate) fn new() -> Self {
        Self {
            down: CachePadded::new(Down::new()),
            panic: FirstPanic::default(),
            caller: Mutex::new(None),
            ensured: AtomicUsize::new(0),
            woken_ns: AtomicU64::new(0),
            wake_ns: AtomicU64::new(WAKE_NS_AT_FIRST),
            waker_ns: AtomicU64::new(WAKER_NS_AT_FIRST),
        }
    }

    /// The last call published.
    pub(crate) fn call(&self) -> Call {
        Call(self.down.call.load(Ordering::SeqCst))
    }

    /// A worker is about to sleep: the last call published, which from here on knows it.
    pub(crate) fn mark_sleeper(&self) -> Call {
        Call(self.down.call.fetch_or(Call::SLEEPERS, Ordering::AcqRel))
    }

    /// A thread has ended, or may.
    pub(crate) fn forget_threads(&self) {
        self.ensured.store(0, Ordering::SeqCst);
    }

    /// When the last waking call was published.
    pub(crate) fn woken_ns(&self) -> u64 {
        self.woken_ns.load(Ordering::Relaxed)
    }

    /// How long it takes from a wake until the worker runs.
    pub(crate) fn wake_ns(&self) -> u64 {
        self.wake_ns.load(Ordering::Relaxed)
    }

    /// A loop that takes longer than this on one thread is worth a wake: with one other the sum
    /// of both costs would be saved, and the caller's is felt even if the other is not.
    pub(in crate::loops) fn wake_pays_ns(&self) -> u64 {
        self.wake_ns() + 2 * self.waker_ns.load(Ordering::Relaxed)
    }

    /// A woken worker runs.
    fn note_wake(&self) {
        let took = now_ns().saturating_sub(self.woken_ns());
        if took < WAKE_NS_MIN {
            return; // it was awake
        }
        follow(&self.wake_ns, took);
    }

    /// A wake was not worth it: think it a little cheaper, so that it is tried again some day.
    pub(in crate::loops) fn forget_wake(&self) {
        for cost in [&self.wake_ns, &self.waker_ns] {
            let average = cost.load(Ordering::Relaxed);
            cost.store(average - average / 256, Ordering::Relaxed);
        }
    }

    /// Makes sure that the workers below `slots` have threads, but for the caller's. One that the
    /// system refuses is no matter: the caller claims what nobody else does.
    pub(in crate::loops) fn ensure_threads(&self, all: &WorkerSlots, slots: usize, caller: usize) {
        // Worker 0 is left out where a thread from outside takes its share.
        let first = caller == 0 || all.at(0).thread.is_running();
        if first && self.ensured.load(Ordering::Relaxed) >= slots {
            return;
        }
        let others = (0..slots).filter(|slot| *slot != caller);
        let mut started = others.map(|slot| all.ensure_started(all.at(slot)));
        if started.all(|started| started.is_ok()) {
            self.ensured.store(slots, Ordering::SeqCst);
        }
    }

    /// Publishes `job` and wakes who sleeps. `cold` says that somebody may.
    pub(in crate::loops) fn publish(
        &self,
        slots: &WorkerSlots,
        job: &Job<'_>,
        call: Call,
        cold: bool,
    ) -> Call {
        self.down.write(job);
        let call = if cold {
            self.woken_ns.store(now_ns(), Ordering::Relaxed);
            call.waking()
        } else {
            call
        };
        let before = Call(self.down.call.swap(call.0, Ordering::SeqCst));
        loom_fence();
        if cold {
            wake_children(slots, call, call.caller());
            let took = now_ns() - self.woken_ns();
            if took >= WAKE_NS_MIN {
                follow(&self.waker_ns, took);
            }
        } else if before.has_sleepers() {
            let others = (0..call.workers()).filter(|slot| *slot != call.caller());
            others.for_each(|slot| {
                slots.at(slot).notify();
            });
        }
        call
    }
}

/// Moves an average towards what was measured: slowly, and without its outliers.
fn follow(average: &AtomicU64, measured: u64) {
    let before = average.load(Ordering::Relaxed);
    let next = (before * 7 + measured.min(2 * before)) / 8;
    average.store(next.clamp(WAKE_NS_MIN, WAKE_NS_MAX), Ordering::Relaxed);
}

/// Wakes the two children of worker `me` in the tree whose root is the caller.
fn wake_children(all: &WorkerSlots, call: Call, me: usize) {
    let slots = call.workers();
    let rank = (me + slots - call.caller()) % slots;
    for child in (2 * rank + 1..=2 * rank + 2).take_while(|child| *child < slots) {
        let slot = (call.caller() + child) % slots;
        all.at(slot).notify();
    }
}

/// What a loop's caller writes down.
#[derive(Clone, Copy)]
pub(in crate::loops) struct Job<'a> {
    pub(in crate::loops) body: Body<'a>,
    /// Where the shares begin, and the last one's end; none: they are even.
    pub(in crate::loops) bounds: Option<&'a [usize]>,
    /// How the units are cut into even shares, or into a queue's blocks.
    pub(in crate::loops) even: Even,
    /// Whether what each share takes is measured.
    pub(in crate::loops) timed: bool,
}

/// One thread's part in a loop: it claims blocks and runs them.
#[derive(Clone, Copy)]
pub(in crate::loops) struct Part<'a> {
    pub(in crate::loops) loops: &'a Protocol,
    pub(in crate::loops) call: Call,
    /// The one whose share it takes.
    pub(in crate::loops) slot: &'a WorkerSlot,
    /// Those of the worker that is this thread's own, or is taken to be.
    pub(in crate::loops) counters: &'a Counters,
}

impl<'a> Part<'a> {
    pub(in crate::loops) fn share(&self, slot: usize) -> &'a Share {
        self.loops.shares.at(slot)
    }

    /// Whom to take blocks from, the nearest first.
    fn victims(&self) -> impl Iterator<Item = usize> {
        let (slots, who) = (self.call.workers(), self.slot.index);
        let near = self.slot.near();
        let cache = near.len();
        let near = (0..cache).map(move |at| near[at]);
        // Who is not known there: all, or those of a pool that has just grown.
        let rest = by_index(slots, who).filter(move |other| *other > cache || cache == 0);
        near.filter(move |other| *other < slots).chain(rest)
    }

    /// Runs the own share, then what others have left that is worth taking.
    pub(in crate::loops) fn work(&self) {
        let (epoch, grain) = (self.call.epoch(), self.call.grain());
        if grain == Grain::QUEUE {
            let caller = self.call.caller();
            while let Some(blocks) = self.share(caller).claim_one(epoch) {
                self.run(caller, blocks);
            }
            return;
        }
        while let Some(blocks) = self.share(self.slot.index).claim_front(epoch, grain) {
            self.run(self.slot.index, blocks);
        }
        if grain != Grain::WHOLE {
            for victim in self.victims() {
                while let Some(blocks) = self.share(victim).claim_back(epoch, grain) {
                    self.counters.steals.add(1);
                    self.run(victim, blocks);
                }
            }
        }
    }

    /// Runs blocks of share `home` that this thread has claimed.
    pub(in crate::loops) fn run(&self, home: usize, blocks: Range<u64>) {
        let mailbox = &self.loops.mailbox;
        let queue = self.call.grain() == Grain::QUEUE;
        // SAFETY: this thread has claimed these blocks of `self.call`'s epoch and runs them
        // now. The claim read from what was written after that epoch's job, and the next job
        // is written after this loop, so what is read is this epoch's.
        let units = unsafe { mailbox.down.units(queue, home, blocks) };
        if units.is_empty() || mailbox.panic.thrown() {
            return;
        }
        let (who, counters) = (self.slot.index, self.counters);
        counters.loop_blocks.add(1);
        counters.loop_units.add(units.len() as u64);
        // SAFETY: this thread has claimed these blocks and has not said that it is out: validity,
        // the body read is this epoch's and its borrows last; aliasing, the closure is `Sync` and
        // shared.
        let run = || unsafe { mailbox.down.run(units, who) };
        if mailbox.down.timed.load(Ordering::Relaxed) == 1 {
            let begin = now_ns();
            mailbox.panic.catch(run);
            self.share(home).add_cost(now_ns() - begin);
        } else {
            mailbox.panic.catch(run);
        }
    }
}

impl Protocol {
    /// Whether there is a loop that this worker has not looked at; a moment ago.
    #[inline]
    pub(crate) fn has_part(&self, slot: &WorkerSlot) -> bool {
        self.shares.at(slot.index).is_unseen(self.mailbox.call())
    }

    /// A worker's source of work: takes part in the loop under way, if it has not yet. Says
    /// whether it did.
    pub(crate) fn take_part(&self, slot: &WorkerSlot) -> bool {
        let call = self.mailbox.call();
        let (who, share) = (slot.index, self.shares.at(slot.index));
        let mine = who < call.workers() && who != call.caller();
        if !share.is_news(call) || !mine {
            return false;
        }
        if call.wakes() {
            // Also where it stays out: nobody else wakes these.
            wake_children(&self.slots, call, who);
        }
        // While it idles nobody takes its place, and it does without a swap.
        let taken = || match slot.is_idle() {
            true => share.is_taken(call.epoch()),
            false => !share.take_place(call.epoch()),
        };
        if share.sits_out() || taken() {
            return false;
        }
        share.enter(call.epoch());
        if call.wakes() {
            self.mailbox.note_wake();
        }
        let traced = self.slots.tracing.begin();
        let part = Part {
            loops: self,
            call,
            slot,
            counters: &slot.counters,
        };
        part.work();
        slot.spans.note(Doing::Loop, traced);
        if share.leave(call.epoch()) {
            let caller = lock(&self.mailbox.caller).clone();
            caller.iter().for_each(Waiter::wake);
        }
        part.report();
        true
    }
}

//! How a caller publishes a loop to the workers, and learns that they are done with it. One cache
//! line goes down to all workers, and one cache line per worker goes up to the caller.
//!
//! # The protocol
//!
//! 1. The caller holds the loop lock (`Protocol::lock`), so there is one loop at a time. It writes
//!    the job into the mailbox. Then it swaps in a new [`Call`] with the next epoch. This one swap
//!    publishes the loop, and returns whether any worker sleeps.
//! 2. A worker that sees a new epoch records that it is *in*, and claims blocks. It takes blocks of
//!    its own share from the front. When that share is empty, it takes blocks of others from the
//!    back. The word of each share records which of its blocks have been claimed (`share.rs`). When
//!    the worker is done, it records that it is *out*.
//! 3. The caller works on its own share. Then it claims what is left of the others, until every
//!    share is claimed. Finally it waits for the workers that are *in*. It does not wait for a
//!    worker that has not begun, because nothing is left for it.
//!
//! The job may borrow from the caller's stack, because only a thread that has claimed one of its
//! blocks reads it. A claim carries the epoch, so it succeeds only while blocks of that epoch are
//! left. The caller returns after all blocks were claimed and every claiming worker is out. Any
//! thread that sees a claim also sees that its worker is *in*. A worker that comes late finds every
//! share closed for its epoch.
//!
//! A busy worker cannot block a loop, because the caller checks for busy workers after the swap and
//! shares their places with idle ones (`places.rs`).
//!
//! A lost wake-up cannot block a loop, because the caller never waits for a sleeping worker. A
//! worker that goes to sleep sets `SLEEPERS` in the call's word. If it finds a new epoch there, it
//! checks again. Otherwise the swap of the next publication finds the bit, and wakes the worker.

use super::{
    Protocol,
    call::{Call, Even, Grain, units_of},
    closure::{Body, Code, Words},
    share::Share,
    wake_tree,
};
use crate::{
    sync::{
        AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering, UnsafeCell, lock,
        loom_fence, now_ns,
    },
    worker::{
        panics::FirstPanic, slot::WorkerSlot, slots::WorkerSlots, stats::LoopCounters,
        steal_order::by_index, trace::Doing, waiter::Waiter,
    },
};
use crossbeam_utils::CachePadded;
use std::{mem::transmute, ops::Range, ptr};

/// The loop mailbox, which is the pool's side of the loop protocol.
pub(crate) struct LoopMailbox {
    down: CachePadded<Down>,
    /// The first panic of the current loop.
    pub(in crate::loops) panic: FirstPanic,
    /// The thread that holds the loop lock, if it sleeps until a worker has left the loop.
    pub(in crate::loops) caller: Mutex<Option<Waiter>>,
    /// The workers below this index, except for worker 0, are known to have threads. It is reset
    /// when a thread ends.
    ensured: AtomicUsize,
    /// On a cache line of its own, because all workers read the fields above in each loop.
    wakes: CachePadded<Wakes>,
}

/// The times that wake-ups take.
struct Wakes {
    /// The time at which the last call that wakes workers was published. From it, woken workers
    /// measure how long a wake-up takes.
    woken_ns: AtomicU64,
    /// The time from a wake-up until the worker runs, as an average over the last few wake-ups.
    wake_ns: AtomicU64,
    /// The time that a wake-up costs the waking thread, as an average over the last few wake-ups.
    waker_ns: AtomicU64,
}

/// The cache line that goes down to the workers. Everything in it except the call is read only by
/// threads that have claimed blocks.
struct Down {
    /// A [`Call`]. The caller publishes it by a swap. This swap synchronizes with the workers'
    /// loads, so that they see the rest of the cache line and everything that the job borrows. A
    /// worker also adds `SLEEPERS`, with a `fetch_or`.
    ///
    /// The swap and the loads are `SeqCst` because of workers that stop being idle. Such a worker
    /// stores this in `WorkerSlot::idle` and then reads this word. A loop's caller reads that flag
    /// after the swap. At least one of them sees the other's write. Otherwise, the caller could
    /// wait for the share of a worker that has begun other code.
    call: AtomicU64,
    /// The two parts of a [`Body`]. The words are written before a call, and read by threads that
    /// have claimed blocks of it.
    code: AtomicPtr<()>,
    words: UnsafeCell<Words>,
    /// The index at which each share begins, followed by the end of the last one. Null means that
    /// the shares are even.
    bounds: AtomicPtr<usize>,
    /// The two fields of an [`Even`], which describes the shares, or the blocks of a queue.
    base: AtomicUsize,
    extra: AtomicU32,
    /// 1 if the time of each share is measured, and otherwise 0.
    timed: AtomicU32,
}

// SAFETY: the thread that holds the loop lock writes the words, before the swap that publishes
// them. Only threads that have claimed blocks read them. Each of these threads has recorded that it
// is out before the loop lock is released.
unsafe impl Sync for Down {}
// SAFETY: nothing in it belongs to a particular thread. The loop borrows the data that its words
// point to.
unsafe impl Send for Down {}

#[cfg(all(target_pointer_width = "64", not(any(creel_loom, creel_shuttle))))]
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
        // SAFETY: no thread reads the words now, as explained above.
        self.words
            .with_mut(|words| unsafe { *words = job.body.words });
        let bounds = job.bounds.map_or(ptr::null(), <[usize]>::as_ptr);
        self.bounds.store(bounds.cast_mut(), Ordering::Relaxed);
        self.base.store(job.even.base, Ordering::Relaxed);
        self.extra.store(job.even.extra as u32, Ordering::Relaxed);
        self.timed.store(job.timed.into(), Ordering::Relaxed);
    }

    /// Returns the units of some blocks of share `home`.
    ///
    /// # Safety
    ///
    /// The caller must have claimed these blocks of the loop that was last written. It must not yet
    /// have reported that it is done with them, which a worker does by leaving the loop, and the
    /// loop's caller by returning.
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
            // SAFETY: `bounds` has one entry more than the loop has workers, and lives as long as
            // everything that the body borrows.
            let first = unsafe { bounds.add(home) };
            // SAFETY: validity: these are the share's begin and end, two entries of `bounds` from
            // `first` on. They live as long as everything that the body borrows. Aliasing: they are
            // only read while the loop runs.
            let bounds = unsafe { std::slice::from_raw_parts(first, 2) };
            bounds[0]..bounds[1]
        };
        units_of(blocks, share)
    }

    /// Calls the body.
    ///
    /// # Safety
    ///
    /// The same conditions as for [`units`](Self::units) apply.
    unsafe fn run(&self, units: Range<usize>, who: usize) {
        let code = self.code.load(Ordering::Relaxed);
        // SAFETY: `write` has stored a function of type `Code` in this word.
        let code = unsafe { transmute::<*mut (), Code>(code) };
        // SAFETY: the code and the words belong to the same body. The loop's caller keeps all its
        // borrows alive until all claimed blocks are done.
        self.words.with(|words| unsafe { code(words, units, who) });
    }
}

/// The assumed costs of a wake-up before any was measured.
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
            wakes: CachePadded::new(Wakes {
                woken_ns: AtomicU64::new(0),
                wake_ns: AtomicU64::new(WAKE_NS_AT_FIRST),
                waker_ns: AtomicU64::new(WAKER_NS_AT_FIRST),
            }),
        }
    }

    /// Returns the last call that was published.
    pub(crate) fn call(&self) -> Call {
        Call(self.down.call.load(Ordering::SeqCst))
    }

    /// Announces that a worker is about to sleep. Returns the last call that was published. Its
    /// word now records that there is a sleeping worker.
    pub(crate) fn mark_sleeper(&self) -> Call {
        Call(self.down.call.fetch_or(Call::SLEEPERS, Ordering::AcqRel))
    }

    /// Forgets which workers are known to have threads. It is called when a thread has ended or may
    /// end.
    pub(crate) fn forget_threads(&self) {
        self.ensured.store(0, Ordering::SeqCst);
    }

    /// Returns the time at which the last call that wakes workers was published.
    pub(crate) fn woken_ns(&self) -> u64 {
        self.wakes.woken_ns.load(Ordering::Relaxed)
    }

    /// Returns the time in ns from a wake-up until the worker runs, as an average over the last few
    /// wake-ups.
    pub(crate) fn wake_ns(&self) -> u64 {
        self.wakes.wake_ns.load(Ordering::Relaxed)
    }

    /// Returns the duration on one thread from which a loop is worth a wake-up. A loop of this
    /// duration saves as much with one other worker as the wake-up costs. The waker's cost counts
    /// twice, because the caller always pays it, even if the woken worker comes too late.
    pub(in crate::loops) fn wake_pays_ns(&self) -> u64 {
        self.wake_ns() + 2 * self.wakes.waker_ns.load(Ordering::Relaxed)
    }

    /// Measures a wake-up. Only the first two workers that the caller has woken call this. If all
    /// woken workers called it, they would wait for each other's writes to the same cache line.
    fn note_wake(&self) {
        let took = now_ns().saturating_sub(self.woken_ns());
        self.learn_wake(took);
    }

    /// Learns that a wake-up took `ns`.
    pub(crate) fn learn_wake(&self, ns: u64) {
        // A shorter one means that the worker was awake.
        if ns >= WAKE_NS_MIN {
            follow(&self.wakes.wake_ns, ns);
        }
    }

    /// Lowers the average costs of a wake-up a little. It is called when a loop ran on its caller
    /// alone, because a wake-up seemed too expensive. Therefore we will try a wake-up again at some
    /// point.
    pub(in crate::loops) fn forget_wake(&self) {
        for cost in [&self.wakes.wake_ns, &self.wakes.waker_ns] {
            let average = cost.load(Ordering::Relaxed);
            cost.store(average - average / 256, Ordering::Relaxed);
        }
    }

    /// Ensures that the workers below `slots` have threads, except for the caller's. If the OS
    /// refuses a thread, we ignore the error, because the caller claims every block that no other
    /// thread claims.
    pub(in crate::loops) fn ensure_threads(&self, all: &WorkerSlots, slots: usize, caller: usize) {
        // `ensured` does not cover worker 0, because it needs no thread if a thread from outside
        // takes its share.
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

    /// Publishes `job` and wakes the sleeping workers. If `cold`, some of the workers may sleep.
    /// This then wakes some of them, and each of these wakes others (`wake_tree.rs`).
    pub(in crate::loops) fn publish(
        &self,
        slots: &WorkerSlots,
        job: &Job<'_>,
        call: Call,
        cold: bool,
    ) -> Call {
        self.down.write(job);
        let call = if cold {
            self.wakes.woken_ns.store(now_ns(), Ordering::Relaxed);
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
                follow(&self.wakes.waker_ns, took);
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

/// Moves an average towards a new measurement. It moves slowly and limits outliers.
fn follow(average: &AtomicU64, measured: u64) {
    let before = average.load(Ordering::Relaxed);
    let next = (before * 7 + measured.min(2 * before)) / 8;
    average.store(next.clamp(WAKE_NS_MIN, WAKE_NS_MAX), Ordering::Relaxed);
}

/// Returns the rank of worker `who` in the tree of wakes, whose root is the caller.
fn rank_of(who: usize, call: Call) -> usize {
    (who + call.workers() - call.caller()) % call.workers()
}

/// Returns whether worker `who` is one of the first two that the caller wakes.
fn is_measured(call: Call, who: usize) -> bool {
    let rank = rank_of(who, call);
    let mut first = wake_tree::children(0, call.workers()).take(2);
    first.any(|child| child == rank)
}

/// Wakes the workers that worker `me` has to wake.
fn wake_children(all: &WorkerSlots, call: Call, me: usize) {
    let slots = call.workers();
    for child in wake_tree::children(rank_of(me, call), slots) {
        let slot = (call.caller() + child) % slots;
        all.at(slot).notify();
    }
}

/// The job that a loop's caller writes into the mailbox.
#[derive(Clone, Copy)]
pub(in crate::loops) struct Job<'a> {
    pub(in crate::loops) body: Body<'a>,
    /// The index at which each share begins, followed by the end of the last one. `None` means that
    /// the shares are even.
    pub(in crate::loops) bounds: Option<&'a [usize]>,
    /// The way in which the units are cut into even shares, or into the blocks of a queue.
    pub(in crate::loops) even: Even,
    /// Whether we measure the time that each share takes.
    pub(in crate::loops) timed: bool,
}

/// One thread's part in a loop, in which it claims blocks and runs them.
#[derive(Clone, Copy)]
pub(in crate::loops) struct Part<'a> {
    pub(in crate::loops) loops: &'a Protocol,
    pub(in crate::loops) call: Call,
    /// The worker whose share the thread takes.
    pub(in crate::loops) slot: &'a WorkerSlot,
    /// The counters of this thread. No other thread adds to them at the same time.
    pub(in crate::loops) counters: &'a LoopCounters,
}

impl<'a> Part<'a> {
    pub(in crate::loops) fn share(&self, slot: usize) -> &'a Share {
        self.loops.shares.at(slot)
    }

    /// Returns the workers from which this thread takes blocks. The nearest workers come first.
    fn victims(&self) -> impl Iterator<Item = usize> {
        let (slots, who) = (self.call.workers(), self.slot.index);
        let near = self.slot.near();
        let listed = near.len();
        let near = (0..listed).map(move |at| near[at]);
        // The workers that are missing in `near` follow. These are all other workers if `near` is
        // empty, and the new workers if the pool has just grown.
        let rest = by_index(slots, who).filter(move |other| *other > listed || listed == 0);
        near.filter(move |other| *other < slots).chain(rest)
    }

    /// Runs the thread's own share, and then the blocks of other shares that are worth taking.
    pub(in crate::loops) fn work(&self) {
        let (epoch, grain) = (self.call.epoch(), self.call.grain());
        if grain == Grain::QUEUE {
            let caller = self.call.caller();
            while let Some(blocks) = self.share(caller).claim_one(epoch) {
                self.run(caller, blocks);
            }
            return;
        }
        let own = self.slot.index;
        while let Some(blocks) = self.share(own).claim_front(epoch, grain) {
            self.note_claim(own);
            self.run(own, blocks);
        }
        if grain != Grain::WHOLE && !self.are_all_claimed() {
            for victim in self.victims() {
                if self.is_group_claimed(victim) {
                    continue;
                }
                let workers = self.call.workers();
                while let Some(blocks) = self.share(victim).claim_back(epoch, grain, workers) {
                    self.note_claim(victim);
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
        // SAFETY: this thread has claimed these blocks of the epoch of `self.call`, and runs them
        // now. The claim read a value that was written after that epoch's job, and the next job is
        // written after this loop. What we read therefore belongs to this epoch.
        let units = unsafe { mailbox.down.units(queue, home, blocks) };
        if units.is_empty() || mailbox.panic.thrown() {
            return;
        }
        let (who, counters) = (self.slot.index, self.counters);
        counters.blocks.add(1);
        counters.units.add(units.len() as u64);
        // SAFETY: this thread has claimed these blocks and has not recorded that it is out.
        // Validity: the body that we read belongs to this epoch, and its borrows are alive.
        // Aliasing: the closure is `Sync` and shared.
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
    /// Returns whether there is a loop that this worker has not looked at. The answer may be out of
    /// date.
    #[inline]
    pub(crate) fn has_part(&self, slot: &WorkerSlot) -> bool {
        self.shares.at(slot.index).is_unseen(self.mailbox.call())
    }

    /// Takes part in the current loop, if the worker has a share in it and has not looked at it
    /// yet. A worker stays out if it is excluded, or if another thread has taken its place. Returns
    /// whether it took part. Workers call this as one of their sources of work.
    pub(crate) fn take_part(&self, slot: &WorkerSlot) -> bool {
        let call = self.mailbox.call();
        let (who, share) = (slot.index, self.shares.at(slot.index));
        let mine = who < call.workers() && who != call.caller();
        if !share.is_news(call) || !mine {
            return false;
        }
        if call.wakes() {
            // The worker wakes its children in the wake tree even if it stays out of the loop,
            // because no other worker wakes them.
            wake_children(&self.slots, call, who);
        }
        // While the worker is idle, no other thread takes its place, so it does not need a swap.
        let taken = || match slot.is_idle() {
            true => share.is_taken(call.epoch()),
            false => !share.take_place(call.epoch()),
        };
        if call.is_optional() && share.is_excluded() || taken() {
            return false;
        }
        share.enter(call.epoch());
        if call.wakes() && is_measured(call, who) {
            self.mailbox.note_wake();
        }
        let traced = self.slots.tracing.begin();
        let part = Part {
            loops: self,
            call,
            slot,
            counters: &slot.counters.loops,
        };
        part.work();
        slot.spans.record(Doing::Loop, traced);
        if share.leave(call.epoch()) {
            let caller = lock(&self.mailbox.caller).clone();
            caller.iter().for_each(Waiter::wake);
        }
        part.report();
        true
    }
}

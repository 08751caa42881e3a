//! How a loop gets to the workers and back: one line down, one line a worker up.
//!
//! # The protocol
//!
//! 1. The caller holds the slot (`Line::state`), so there is one loop at a time. It writes the
//!    job's address, then swaps a new [`Call`] in, with the next epoch. This one swap publishes
//!    the loop and tells whether somebody sleeps.
//! 2. A worker that sees a new epoch says that it is *in*, and claims blocks: of its own share
//!    from the front; when that is empty, of others' from the back. What is claimed of whom is
//!    in the share's own word (`share.rs`). Then it says that it is *out*.
//! 3. The caller works on its own share, then claims what is left of the others', until every
//!    share is claimed; then it waits for the workers that are *in*. It does not wait for one
//!    that has not begun: there is nothing left for it.
//!
//! Why the job may live on the caller's stack: it is looked at only by who has claimed one of
//! its blocks. A claim carries the epoch, so it succeeds only while blocks of that epoch are
//! left; the caller returns after all were claimed and every claimer is out, and a claimer is
//! seen to be *in* by whoever sees its claim. A worker that comes late finds every share closed
//! for its epoch.
//!
//! Why a lost wake-up cannot hang a loop: the caller never waits for a sleeper. A worker that
//! goes to sleep sets `SLEEPERS` in the call's word: if that finds a new epoch, it looks again;
//! else the next publication's swap finds the bit, and wakes.

use super::{
    share::Share,
    words::{BLOCKS, Call, Grain, units_of},
};
use crate::{
    pool::{panics::FirstPanic, seat::Seat, shared::Shared},
    sync::{AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering, now_ns},
};
use crossbeam_utils::CachePadded;
use std::{ops::Range, ptr, sync::Arc};

/// What a loop does with some of its units: told which, and the index (below the number of
/// seats) of the one who does it, which no other thread has during this loop.
pub(super) type Body<'a> = &'a (dyn Fn(Range<usize>, usize) + Sync);

/// The pool's side of the loop protocol.
pub(crate) struct Line {
    down: CachePadded<Down>,
    /// The slot: who holds it may call a loop.
    pub(super) state: CachePadded<Mutex<super::run::State>>,
    /// The seats below this index are known to have threads. Reset when a thread ends.
    ensured: AtomicUsize,
    /// When the last waking call was published, for the woken to know how long a wake takes.
    woken_ns: AtomicU64,
    /// What a wake takes until the worker runs, an average over the last few.
    wake_ns: AtomicU64,
}

/// The one line that goes down.
struct Down {
    /// A [`Call`]. Published by a swap (releases `job` and all that it borrows); read with
    /// `Acquire` by workers; they add `SLEEPERS`.
    call: AtomicU64,
    /// A `Job`. Read by claimers only.
    job: AtomicPtr<()>,
}

/// What a wake is taken to cost before one was measured.
const WAKE_NS_AT_FIRST: u64 = 8_000;
const WAKE_NS_MAX: u64 = 50_000;

impl Line {
    pub(crate) fn new() -> Self {
        Self {
            down: CachePadded::new(Down {
                call: AtomicU64::new(0),
                job: AtomicPtr::new(ptr::null_mut()),
            }),
            state: CachePadded::new(Mutex::new(super::run::State::default())),
            ensured: AtomicUsize::new(0),
            woken_ns: AtomicU64::new(0),
            wake_ns: AtomicU64::new(WAKE_NS_AT_FIRST),
        }
    }

    /// The last call published.
    pub(crate) fn call(&self) -> Call {
        Call(self.down.call.load(Ordering::Acquire))
    }

    /// A worker is about to sleep: the last call published, which from here on knows it.
    pub(crate) fn mark_sleeper(&self) -> Call {
        Call(self.down.call.fetch_or(Call::SLEEPERS, Ordering::AcqRel))
    }

    /// A thread has ended, or may.
    pub(crate) fn forget_threads(&self) {
        self.ensured.store(0, Ordering::SeqCst);
    }

    /// How long it takes from a wake until the worker runs.
    pub(crate) fn wake_ns(&self) -> u64 {
        self.wake_ns.load(Ordering::Relaxed)
    }

    /// A woken worker runs. What a wake takes is followed slowly, and without its outliers.
    fn note_wake(&self) {
        let took = now_ns().saturating_sub(self.woken_ns.load(Ordering::Relaxed));
        let average = self.wake_ns();
        let next = (average * 7 + took.min(2 * average)) / 8;
        self.wake_ns
            .store(next.clamp(1_000, WAKE_NS_MAX), Ordering::Relaxed);
    }

    /// A wake was not worth it: think it a little cheaper, so that it is tried again some day.
    pub(super) fn forget_wake(&self) {
        let average = self.wake_ns();
        self.wake_ns
            .store(average - average / 256, Ordering::Relaxed);
    }

    /// Makes sure that the seats below `seats` have threads, but for the caller's.
    pub(super) fn ensure_threads(&self, shared: &Arc<Shared>, seats: usize, caller: usize) {
        if self.ensured.load(Ordering::Relaxed) >= seats {
            return;
        }
        let others = (0..seats).filter(|seat| *seat != caller);
        others.for_each(|seat| shared.ensure_started(shared.seats.seat(seat)));
        self.ensured.store(seats, Ordering::SeqCst);
    }

    /// Publishes `job` and wakes who sleeps. `cold` says that somebody may.
    pub(super) fn publish(&self, shared: &Shared, job: &Job<'_>, call: Call, cold: bool) -> Call {
        let address = ptr::from_ref(job).cast::<()>().cast_mut();
        self.down.job.store(address, Ordering::Relaxed);
        let call = if cold {
            self.woken_ns.store(now_ns(), Ordering::Relaxed);
            call.waking()
        } else {
            call
        };
        let before = Call(self.down.call.swap(call.0, Ordering::AcqRel));
        if cold {
            wake_children(shared, call, call.caller());
        } else if before.has_sleepers() {
            let others = (0..call.seats()).filter(|seat| *seat != call.caller());
            others.for_each(|seat| shared.seats.seat(seat).notify());
        }
        call
    }
}

/// Wakes the two children of seat `me` in the tree whose root is the caller.
fn wake_children(shared: &Shared, call: Call, me: usize) {
    let seats = call.seats();
    let rank = (me + seats - call.caller()) % seats;
    for child in (2 * rank + 1..=2 * rank + 2).take_while(|child| *child < seats) {
        let seat = (call.caller() + child) % seats;
        shared.seats.seat(seat).notify();
    }
}

/// A loop, on its caller's stack.
pub(super) struct Job<'a> {
    pub(super) body: Body<'a>,
    pub(super) units: usize,
    /// Where the shares begin, and the last one's end; none: they are even.
    pub(super) bounds: Option<&'a [usize]>,
    pub(super) layout: Layout,
    /// Whether what each share takes is measured.
    pub(super) timed: bool,
    pub(super) panic: FirstPanic,
}

/// How a loop's units lie in the shares.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    /// A share a seat, each of [`BLOCKS`] blocks.
    Shares(usize),
    /// All in the caller's share, in this number of blocks.
    Queue(u64),
}

impl Job<'_> {
    /// The units of some blocks of a share.
    fn units_of(&self, share: usize, blocks: Range<u64>) -> Range<usize> {
        match (self.layout, self.bounds) {
            (Layout::Queue(total), _) => units_of(blocks, total, 0..self.units),
            (Layout::Shares(_), Some(bounds)) => {
                units_of(blocks, BLOCKS, bounds[share]..bounds[share + 1])
            }
            (Layout::Shares(shares), None) => {
                let at =
                    |share: usize| (self.units as u128 * share as u128 / shares as u128) as usize;
                units_of(blocks, BLOCKS, at(share)..at(share + 1))
            }
        }
    }
}

/// One thread's part in a loop: it claims blocks and runs them.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) shared: &'a Shared,
    pub(super) call: Call,
    /// The seat whose share it takes.
    pub(super) who: usize,
}

impl<'a> Part<'a> {
    pub(super) fn share(&self, seat: usize) -> &'a Share {
        &self.shared.seats.seat(seat).share
    }

    /// The others, the nearest in index first.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> {
        let (seats, who) = (self.call.seats(), self.who);
        (1..seats).map(move |distance| {
            let step = distance.div_ceil(2);
            match distance % 2 {
                1 => (who + step) % seats,
                _ => (who + seats - step) % seats,
            }
        })
    }

    /// Runs the own share, then what others have left that is worth taking.
    pub(super) fn work(&self) {
        let (epoch, grain) = (self.call.epoch(), self.call.grain());
        if grain == Grain::QUEUE {
            let caller = self.call.caller();
            while let Some(blocks) = self.share(caller).claim_one(epoch) {
                self.run(caller, blocks);
            }
            return;
        }
        while let Some(blocks) = self.share(self.who).claim_front(epoch, grain) {
            self.run(self.who, blocks);
        }
        if grain != Grain::WHOLE {
            for victim in self.others() {
                while let Some(blocks) = self.share(victim).claim_back(epoch, grain) {
                    self.shared.seats.seat(self.who).counters.steals.add(1);
                    self.run(victim, blocks);
                }
            }
        }
    }

    /// Runs blocks of share `home` that this thread has claimed.
    pub(super) fn run(&self, home: usize, blocks: Range<u64>) {
        let job = self.shared.line.down.job.load(Ordering::Relaxed);
        // SAFETY: this thread has claimed blocks of `self.call`'s epoch and has not run them,
        // so that loop's caller has not returned; the job is on its stack and is only shared.
        // The address is this epoch's: the claim read from what was written after it (see the
        // module), and the next one is written after this loop.
        let job = unsafe { &*job.cast::<Job<'_>>() };
        let units = job.units_of(home, blocks);
        if units.is_empty() || job.panic.thrown() {
            return;
        }
        let counters = &self.shared.seats.seat(self.who).counters;
        counters.loop_blocks.add(1);
        counters.loop_units.add(units.len() as u64);
        if job.timed {
            let begin = now_ns();
            job.panic.catch(|| (job.body)(units, self.who));
            self.share(home).add_cost(now_ns() - begin);
        } else {
            job.panic.catch(|| (job.body)(units, self.who));
        }
    }
}

/// A worker's source of work: takes part in the loop under way, if it has not yet. Says
/// whether it did.
pub(crate) fn take_part(shared: &Shared, seat: &Seat) -> bool {
    let call = shared.line.call();
    let (who, share) = (seat.index, &seat.share);
    if !share.is_news(call) || who >= call.seats() || who == call.caller() || share.is_benched() {
        return false;
    }
    share.enter(call.epoch());
    if call.wakes() {
        shared.line.note_wake();
        wake_children(shared, call, who);
    }
    Part { shared, call, who }.work();
    share.leave(call.epoch(), |caller| shared.seats.seat(caller).notify());
    true
}

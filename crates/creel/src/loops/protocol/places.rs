//! The places in a loop whose workers run other code: any idle worker takes one.
//!
//! A loop is shared out when all its workers are idle. That they are is decided before the loop is
//! published, and one of them may begin something else in between, which may take for ever and may
//! even wait for this loop. So the caller looks again after it has published the loop, and a worker
//! that leaves idleness looks for a loop after it has stored that it does. Both pairs are `SeqCst`, so
//! one of the two sees the other: either the worker takes its share before it begins the other code,
//! or the caller sees it elsewhere. For these the caller offers the loop's places like anything else
//! that it shares (`offers.rs`): an idle worker is called for them, one that becomes idle finds them,
//! and the watch takes over the call of one that does not come.
//!
//! # Who has a place
//!
//! The body knows a worker by its seat's index, and no two threads may have the same one (that is
//! what `Scratch` relies on). A helper runs a share *in its worker's place*, under that index, so it
//! must exclude the worker:
//!
//! | the seat's thread | takes its own place | another takes it |
//! |---|---|---|
//! | idles | by a plain store: a hot loop costs no swap | never |
//! | works | by a swap of `taken` | by the same swap, under the book's lock, if it has not entered |
//! | is absent: the system refused it, or the pool has shrunk | | the same, under the thread's lock |
//!
//! A thread becomes idle under the book's lock, and starts under its own, so after that it sees
//! whether its place was taken.
//!
//! A helper is inside of the offer until it has left the loop, and the caller closes the offer before
//! it returns. So nobody is late here, and what the loop borrows lives.

use super::{
    dispatch::Part,
    offers::{Offer, Open},
};
use crate::{
    seat::{current, seat::Seat},
    sync::{AtomicUsize, Ordering},
};
use std::ptr::NonNull;

#[repr(C)]
struct Places<'a> {
    offer: Offer,
    /// The caller's.
    part: Part<'a>,
    /// The next seat whose place a helper looks at. Relaxed: each gets another one, and what they
    /// read beyond is ordered by the lock of the offers' list.
    next: AtomicUsize,
}

/// Whether a worker of the loop, which has been published, runs other code or has no thread. It may
/// not come.
pub(in crate::loops) fn any_elsewhere(part: &Part<'_>) -> bool {
    let seats = &part.loops.seats;
    let mut others = (0..part.call.seats()).filter(|seat| *seat != part.call.caller());
    // In the deterministic mode the caller has no company.
    let absent = |seat: &Seat| !seat.thread.is_running() && !seats.is_threadless();
    others.any(|seat| {
        let seat = seats.at(seat);
        seat.is_elsewhere() || absent(seat)
    })
}

/// Offers the places of busy and absent workers to idle ones, while `f` runs the caller's part of
/// the loop. When this returns, no helper is in the loop.
pub(in crate::loops) fn offer_while<R>(part: &Part<'_>, f: impl FnOnce() -> R) -> R {
    let (loops, call) = (part.loops, part.call);
    if call.wakes() {
        // A worker that runs other code does not wake the workers below it in the tree.
        (0..call.seats()).for_each(|seat| {
            loops.seats.at(seat).notify();
        });
    }
    let places = Places {
        offer: Offer::new(Places::help, true),
        part: *part,
        next: AtomicUsize::new(0),
    };
    // SAFETY: it lives until the end of this function, is not moved, is `Sync`, and `open` is dropped
    // before it.
    let open = unsafe { Open::new(loops, NonNull::from(&places).cast()) };
    // One piece per seat: the helper that takes it looks whether that place is free.
    open.add(call.seats());
    let result = f();
    // Everything is claimed, so nobody needs to come any more.
    while loops.offers.claim(&places.offer) {}
    drop(open);
    result
}

impl Places<'_> {
    /// # Safety
    ///
    /// It is a `Places` that begins with the offer, and it is alive.
    unsafe fn help(offer: NonNull<Offer>) -> bool {
        // SAFETY: validity: it is a `Places` that begins with the offer, and alive, says the caller.
        // Aliasing: it is only shared; what changes in it is atomic.
        let this = unsafe { offer.cast::<Places<'_>>().as_ref() };
        let claimed = this.part.loops.offers.claim(&this.offer);
        if claimed {
            this.take(this.next.fetch_add(1, Ordering::Relaxed));
        }
        claimed
    }

    /// Works in the place of this seat, if its worker has not taken it, and runs other code or is
    /// absent. An idle one looks for the loop before it runs anything else.
    fn take(&self, seat: usize) {
        let Part { loops, call, .. } = self.part;
        let share = loops.shares.at(seat);
        let epoch = call.epoch();
        let free = || !share.has_entered(epoch) && share.take_place(epoch);
        let absent = || loops.seats.at(seat).thread.while_absent(free);
        if seat == call.caller() || !loops.seats.idle.while_works(seat, free) && !absent() {
            return;
        }
        let own = current::index_in(&loops.seats);
        let part = Part {
            seat: loops.seats.at(seat),
            counters: own.map_or(self.part.counters, |own| &loops.seats.at(own).counters),
            ..self.part
        };
        part.work();
    }
}

//! Models of the loop protocol for loom: every interleaving of a caller and a worker, up to a
//! bound on preemptions. `RUSTFLAGS="--cfg loom" cargo test -p creel --lib --release loops`.

use super::{
    body::Body,
    dispatch::{Job, Part, take_part},
    words::{Call, Even, Grain},
};
use crate::pool::{Pool, Wait, shared::Shared};
use loom::{cell::UnsafeCell, model::Builder, thread};
use std::{ops::Range, sync::Arc};

/// An item that loom watches.
struct Item(UnsafeCell<u64>);

// SAFETY: whether it is used by one thread at a time is what loom checks here.
unsafe impl Sync for Item {}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

fn shared(seats: usize) -> Arc<Shared> {
    let pool = Pool::builder().workers(seats).wait(Wait::Park).build();
    let shared = Arc::clone(&pool.expect("in range").shared);
    // Loom does not see that who finds a seat made comes after who made it.
    (0..seats).for_each(|seat| shared.seats.at(seat).share.close(0));
    shared
}

/// Calls one loop, from the last of so many seats, of a unit a seat, and waits for it. Loom
/// watches the items, and the frame that the body borrows: nobody may touch them after the
/// return.
fn call_loop(shared: &Arc<Shared>, epoch: u64, grain: Grain) {
    let (seats, caller) = (shared.workers(), shared.workers() - 1);
    let items = (0..seats).map(|_| Item(UnsafeCell::new(0)));
    let items: Arc<[Item]> = items.collect();
    let watched = Arc::clone(&items);
    let body = move |units: Range<usize>, _: usize| {
        for unit in units {
            // SAFETY: each unit is given out once; that is what is checked here.
            watched[unit].0.with_mut(|item| unsafe { *item += 1 });
        }
    };
    // SAFETY: it is used through this only.
    let body = unsafe { Body::new(&body) };
    let job = Job {
        body,
        bounds: None,
        even: Even::new(seats, seats),
        timed: false,
    };
    if grain == Grain::QUEUE {
        shared.seats.at(caller).share.lay_out(epoch, seats as u64);
    }
    let call = Call::new(epoch, seats, caller, grain);
    let call = shared.line.publish(shared, &job, call, false);
    let part = Part {
        shared,
        call,
        seat: shared.seats.at(caller),
    };
    part.work_and_join(seats, 0);
    for item in items.iter() {
        // SAFETY: all have left the loop; that is what is checked here.
        item.0.with_mut(|item| assert_eq!(unsafe { *item }, 1));
    }
}

/// Two loops one after the other, while a worker looks for work twice.
fn claim_and_join(grain: Grain) {
    check(3, move || {
        let shared = shared(2);
        let other = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let seat = other.seats.at(0);
            take_part(&other, seat);
            take_part(&other, seat);
        });
        call_loop(&shared, 1, grain);
        call_loop(&shared, 2, grain);
        worker.join().expect("no panic");
    });
}

#[test]
fn a_whole_share_is_claimed_once_and_no_late_comer_touches_the_callers_frame() {
    claim_and_join(Grain::WHOLE);
}

#[test]
fn a_cut_share_is_claimed_once_and_no_late_comer_touches_the_callers_frame() {
    claim_and_join(Grain(5));
}

#[test]
fn a_queue_is_claimed_once_and_no_late_comer_touches_the_callers_frame() {
    claim_and_join(Grain::QUEUE);
}

/// Two workers of one group, whose last one tells the caller.
#[test]
fn a_group_is_out_when_the_last_of_it_says_so() {
    check(2, || {
        let shared = shared(3);
        let workers = [0, 1].map(|seat| {
            let other = Arc::clone(&shared);
            thread::spawn(move || take_part(&other, other.seats.at(seat)))
        });
        call_loop(&shared, 1, Grain::WHOLE);
        for worker in workers {
            worker.join().expect("no panic");
        }
    });
}

/// A worker that goes to sleep for good would hang this model: loom reports it.
#[test]
fn a_worker_that_goes_to_sleep_learns_of_the_next_loop() {
    check(3, || {
        let shared = shared(2);
        let other = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            let seat = other.seats.at(0);
            loop {
                seat.begin_turn();
                take_part(&other, seat);
                let call = other.line.mark_sleeper();
                if !seat.share.is_unseen(call) {
                    if call.epoch() == 1 {
                        return; // there is no further loop to be woken for
                    }
                    seat.park(None);
                }
            }
        });
        call_loop(&shared, 1, Grain::WHOLE);
        worker.join().expect("no panic");
    });
}

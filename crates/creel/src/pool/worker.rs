//! What a seat's thread does: one turn after another, and a wait when a turn found nothing.
//!
//! A turn looks at every source of work in a fixed order, and each source gives a bounded
//! amount, so that none starves another:
//!
//! 1. the pool's loop, if one is under way and this seat has a share in it;
//! 2. the seat's urgent jobs;
//! 3. tasks;
//! 4. due timers and ready sockets.
//!
//! A source is anything that (a) publishes its work before it calls [`Seat::notify`], and (b)
//! can be asked in a turn. That is all it takes to be sure that no work is slept over.

use super::{
    current,
    seat::Seat,
    shared::{Rouse, Shared},
    trace::Doing,
    wait::Pace,
};
use crate::{
    loops::dispatch,
    net::{driver::Found, io},
    task::{self, Rest},
    time::timers,
};
use std::sync::Arc;

/// Ends the process when it is dropped by a panic: what a worker runs for others is run under
/// `catch_unwind`, so this is a defect, and those who wait for the worker would wait for ever.
struct NoWayOut;

impl Drop for NoWayOut {
    fn drop(&mut self) {
        if std::thread::panicking() && !cfg!(shuttle) {
            eprintln!("creel: a worker's thread has panicked; ending the process");
            std::process::abort();
        }
    }
}

/// The body of a seat's thread.
pub(crate) fn run(shared: Arc<Shared>, index: usize) {
    let _no_way_out = NoWayOut;
    let mut seated = sit_down(&shared, index);
    let _entered = current::enter(Arc::clone(&shared), index);
    let seat = shared.seats.seat(index);
    let rouse = Rouse::waker(&shared, index);
    seat.timers.set_rouse(rouse.clone());
    shared.driver.set_rouse(rouse);
    let _timers = timers::serve(Arc::clone(&seat.timers));
    let _driver = io::enter(Arc::clone(&shared.driver));
    let mut pace = Pace::new(&shared, seat);
    loop {
        seat.begin_turn();
        if shared.seating.version() != seated {
            seated = sit_down(&shared, index);
        }
        if turn(seat, &shared, &mut pace) {
            pace.worked();
            continue;
        }
        if shared.wants_gone(index) {
            task::clear_desk(&shared, seat);
            let unbound = || {
                let timers = shared.is_closing() || seat.timers.may_end();
                shared.wants_gone(index) && timers && task::may_retire(&shared, seat)
            };
            if seat.retire(unbound) {
                shared.seating.leave(index);
                shared.line.forget_threads();
                task::leave(&shared);
                return;
            }
        }
        if let Rest::For(watch) = task::rest(&shared, seat) {
            let found = pace.wait(watch);
            take_up(seat, &shared, &mut pace, found);
        }
    }
}

/// Goes where worker `index` sits now; returns the version of the layout that says so.
fn sit_down(shared: &Shared, index: usize) -> usize {
    let version = shared.seating.sit_down(index);
    shared
        .seats
        .seat(index)
        .set_near(shared.seating.nearest(index));
    version
}

/// One turn, with or without a look at timers and sockets. Says whether there may be more to do
/// at once.
fn turn(seat: &Seat, shared: &Arc<Shared>, pace: &mut Pace) -> bool {
    let looped = dispatch::take_part(shared, seat);
    let traced = shared.tracing.begin();
    let urgent = seat.run_urgent();
    seat.spans.note(Doing::Urgent, traced.filter(|_| urgent));
    let tasks = task::turn(shared, seat);
    let reacted = pace.reacts() && react(seat, shared, pace);
    looped || urgent || tasks || reacted
}

/// Wakes what waits for due timers, and after the last of these for ready sockets. Says whether
/// there was any.
fn react(seat: &Seat, shared: &Arc<Shared>, pace: &mut Pace) -> bool {
    let fired = seat.timers.fire(|due| task::run_due(shared, seat, due));
    seat.counters.timers.add(fired.count as u64);
    pace.leaves_due(fired.more);
    if fired.more {
        return true;
    }
    let found = shared.driver.turn(pace.asks_again());
    let events = found.map_or(0, |found| take_up(seat, shared, pace, found));
    fired.count + events > 0
}

/// Wakes what waits for the sockets that were found ready. Returns how many events that were.
fn take_up(seat: &Seat, shared: &Arc<Shared>, pace: &mut Pace, found: Found) -> usize {
    seat.counters.events.add(found.count as u64);
    found.due.run(|due| task::run_due(shared, seat, due));
    pace.leaves_ready(found.full || found.level && shared.driver.is_unsure());
    found.count
}

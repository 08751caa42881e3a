//! What a seat's thread does: one turn after another, and a wait when a turn found nothing.
//!
//! A turn looks at every source of work in a fixed order, and each source gives a bounded
//! amount, so that none starves another:
//!
//! 1. the pool's loop, if one is under way and this seat has a share in it;
//! 2. the seat's urgent jobs;
//! 3. what others have offered to share: joins, scopes, loops inside of loops;
//! 4. tasks;
//! 5. due timers and ready sockets.
//!
//! A source is anything that (a) publishes its work before it calls [`Seat::notify`] or
//! [`Seats::call`](crate::seat::seats::Seats::call), and (b) can be asked in a turn. That is all it takes to be sure that no work
//! is slept over; what is published where only a busy worker looks is the watch's (`watch.rs`).

use super::{shared::Shared, wait::Pace, watch::Watch};
use crate::{
    net::{driver::Found, io},
    seat::{current, idle::Search, seat::Seat, seats::Work, trace::Doing, wakers::SeatWaker},
    task,
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
pub(super) fn run(shared: &Arc<Shared>, index: usize) {
    let _no_way_out = NoWayOut;
    let mut seated = sit_down(shared, index);
    let (seats, timers) = (&shared.seats, shared.timers.at(index));
    let _entered = current::enter(Arc::clone(seats), index);
    let _inside = task::enter(Arc::clone(&shared.tasks), index);
    let seat = seats.at(index);
    timers.set_rouse(|| SeatWaker::waker(seats, index));
    let _timers = timers::serve(Arc::clone(timers));
    let _driver = io::enter(Arc::clone(&shared.driver));
    let mut pace = Pace::new(shared, seat);
    let mut watch = Watch::new(shared);
    loop {
        seat.parker.begin_turn();
        if shared.seating.version() != seated {
            seated = sit_down(shared, index);
        }
        if turn(seat, shared, &mut pace, &mut watch) {
            pace.worked();
            continue;
        }
        if seats.wants_gone(index) {
            shared.tasks.clear_desk(seat);
            let unbound = || {
                let timers = seats.is_closing() || timers.may_end();
                // A caller that does not see the call of this loop here sees that no thread runs.
                let asked = seat.urgent.any() || seat.is_called() || shared.loops.has_part(seat);
                seats.wants_gone(index) && timers && !asked && shared.tasks.may_retire(seat)
            };
            // Its turn looks again once it has been woken, as all who stay do.
            if shared.is_served_without(index) && seat.thread.retire(unbound) {
                break;
            }
        }
        // It looks at all that anybody may take after it said that it idles.
        if shared.tasks.rest(seat) && !shared.loops.offers.any_left() {
            let found = pace.wait(watch.timeout(shared, seat));
            take_up(seat, shared, &mut pace, found);
        }
    }
    shared.seating.leave(index);
    shared.loops.forget_threads();
    if !seats.is_closing() {
        // The next one's thread begins as an idle one, whom others may have to look for sockets.
        seats.enter_idle(seat);
        shared.driver.rouse_if_unattended();
    }
    seats.leave();
}

/// Goes where worker `index` sits now; returns the version of the layout that says so.
fn sit_down(shared: &Shared, index: usize) -> usize {
    let version = shared.seating.sit_down(index);
    shared
        .seats
        .at(index)
        .set_near(shared.seating.nearest(index));
    version
}

/// One turn, with or without a look at timers and sockets. Says whether there may be more to do
/// at once.
fn turn(seat: &Seat, shared: &Shared, pace: &mut Pace, watch: &mut Watch) -> bool {
    // The search is this worker's until it has found a task, or runs something else. Nobody can take
    // it away any more, so each of these ends it before it runs anybody's code.
    let mut search = seat
        .take_called()
        .then(|| shared.seats.leave_idle(seat))
        .flatten();
    let calls = shared.loops.has_part(seat);
    if calls {
        shared.seats.end_search_of(&mut search);
    }
    let looped = calls && take_part(seat, shared);
    let urgent = run_urgent(seat, shared, &mut search);
    // A worker that has a search is not the watch, because it does not idle.
    let watched = watch.look(shared, seat);
    // To fire timers it may have left idleness without a look at the loops.
    let looped = watched.fired && shared.loops.has_part(seat) && take_part(seat, shared) || looped;
    let helped = help(seat, shared, &mut search);
    let tasks = shared.tasks.turn(seat, search, watched.tasks);
    let reacted = (pace.reacts() || watched.sockets) && react(seat, shared, pace);
    looped || urgent || helped || tasks || reacted || watched.fired
}

/// Takes part in what others have offered to share.
fn help(seat: &Seat, shared: &Shared, search: &mut Option<Search>) -> bool {
    // A loop that this seat has a share in may have been called since it last looked, and then have
    // made offers.
    if shared.loops.offers.left() == 0 || shared.loops.has_part(seat) {
        return false;
    }
    let leaves = seat.is_idle();
    if let Some(left) = shared.seats.leave_idle_for_code(seat) {
        *search = Some(left);
    }
    let Some(inside) = shared.loops.offers.enter(None) else {
        return false;
    };
    if let Some(search) = search.take() {
        shared.seats.idle.end_search(search);
    }
    if inside.leaves_some() || shared.tasks.any_outside() {
        shared.seats.call_if_work();
    }
    inside.run(|| seat.urgent.any());
    drop(inside);
    if leaves {
        // At once: the next loop may come before this worker's turn has ended.
        shared.seats.enter_idle(seat);
    }
    true
}

/// Calls another worker for what is offered, because this one is about to run something else. It
/// may be the only one that was woken for it (`Open::add_near`).
fn pass_on_offers(shared: &Shared) {
    if shared.loops.offers.left() > 0 {
        shared.seats.call_if_work();
    }
}

fn take_part(seat: &Seat, shared: &Shared) -> bool {
    // By the book it idles on, so that a loop costs nothing, unless something would wait for it. If
    // it is appointed the watch after this look, it is awake, and that is taken back.
    pass_on_offers(shared);
    let leaves =
        seat.is_idle() && (shared.hides(seat.index) || shared.seats.idle.is_watch(seat.index));
    if leaves {
        seat.set_looping(true);
        shared.seats.leave_idle_for_long(seat);
    }
    let looped = shared.loops.take_part(seat);
    if leaves {
        shared.seats.enter_idle(seat);
        seat.set_looping(false);
    }
    looped
}

fn run_urgent(seat: &Seat, shared: &Shared, search: &mut Option<Search>) -> bool {
    if !seat.urgent.any() {
        return false;
    }
    shared.seats.end_search_of(search);
    let leaves = seat.is_idle();
    let mut left = shared.seats.leave_idle_for_code(seat);
    shared.seats.end_search_of(&mut left);
    pass_on_offers(shared);
    let traced = shared.seats.tracing.begin();
    let urgent = seat.run_urgent();
    if leaves {
        shared.seats.enter_idle(seat);
    }
    seat.spans.note(Doing::Urgent, traced.filter(|_| urgent));
    urgent
}

/// Wakes what waits for due timers, and after the last of these for ready sockets. Says whether
/// there was any.
fn react(seat: &Seat, shared: &Shared, pace: &mut Pace) -> bool {
    let timers = shared.timers.at(seat.index);
    let fired = timers.fire(|due| shared.tasks.run_due(seat, due));
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
fn take_up(seat: &Seat, shared: &Shared, pace: &mut Pace, found: Found) -> usize {
    seat.counters.events.add(found.count as u64);
    found.due.run(|due| shared.tasks.run_due(seat, due));
    pace.leaves_ready(found.full || found.level && shared.driver.is_unsure());
    found.count
}

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
//! [`Shared::call`], and (b) can be asked in a turn. That is all it takes to be sure that no work
//! is slept over; what is published where only a busy worker looks is the watch's (`watch.rs`).

use super::{
    current,
    seat::Seat,
    shared::{Attend, Rouse, Shared},
    trace::Doing,
    wait::Pace,
    watch::Watch,
};
use crate::{
    loops::dispatch,
    net::{driver::Found, io},
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
pub(crate) fn run(shared: Arc<Shared>, index: usize) {
    let _no_way_out = NoWayOut;
    let mut seated = sit_down(&shared, index);
    let _entered = current::enter(Arc::clone(&shared), index);
    let seat = shared.seats.at(index);
    let rouse = Rouse::waker(&shared, index);
    seat.timers.set_rouse(rouse);
    shared.driver.set_rouse(Attend::waker(&shared));
    let _timers = timers::serve(Arc::clone(&seat.timers));
    let _driver = io::enter(Arc::clone(&shared.driver));
    let mut pace = Pace::new(&shared, seat);
    let mut watch = Watch::new(&shared);
    loop {
        seat.begin_turn();
        if shared.seating.version() != seated {
            seated = sit_down(&shared, index);
        }
        if turn(seat, &shared, &mut pace, &mut watch) {
            pace.worked();
            continue;
        }
        if shared.wants_gone(index) {
            task::clear_desk(&shared, seat);
            let unbound = || {
                let timers = shared.is_closing() || seat.timers.may_end();
                let asked = seat.has_urgent() || seat.is_called();
                shared.wants_gone(index) && timers && !asked && task::may_retire(&shared, seat)
            };
            if seat.thread.retire(unbound) {
                break;
            }
        }
        if task::rest(&shared, seat) {
            let found = pace.wait(watch.timeout(&shared, seat));
            take_up(seat, &shared, &mut pace, found);
        }
    }
    shared.seating.leave(index);
    shared.line.forget_threads();
    if shared.is_closing() {
        return shared.leave();
    }
    // The next one's thread begins as an idle one, whom others may have to look for sockets.
    shared.enter_idle(seat);
    shared.driver.rouse_if_unattended();
    shared.leave();
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
fn turn(seat: &Seat, shared: &Arc<Shared>, pace: &mut Pace, watch: &mut Watch) -> bool {
    // The search is this worker's until it has found a task, or runs something else.
    let mut searches = seat.take_called() && shared.leave_idle(seat);
    let calls = dispatch::has_part(shared, seat);
    if (calls || seat.has_urgent()) && std::mem::take(&mut searches) {
        shared.end_search();
    }
    let looped = calls && take_part(seat, shared);
    let urgent = run_urgent(seat, shared);
    let watched = watch.look(shared, seat);
    let helped = help(seat, shared, &mut searches);
    let tasks = task::turn(shared, seat, searches, watched.tasks);
    let reacted = (pace.reacts() || watched.sockets) && react(seat, shared, pace);
    looped || urgent || helped || tasks || reacted || watched.fired
}

/// Takes part in what others have offered to share.
fn help(seat: &Seat, shared: &Arc<Shared>, searches: &mut bool) -> bool {
    // A loop that this seat has a share in may have been called since it last looked, and then have
    // made offers.
    if shared.offers.left() == 0 || dispatch::has_part(shared, seat) {
        return false;
    }
    let leaves = seat.is_idle();
    *searches |= shared.leave_idle(seat);
    let Some(inside) = shared.offers.enter(None) else {
        return false;
    };
    if std::mem::take(searches) {
        shared.idle.end_search();
    }
    if inside.leaves_some() || shared.tasks.outside.len() > 0 {
        shared.call_if_work();
    }
    inside.run(|| seat.has_urgent());
    drop(inside);
    if leaves {
        // At once: the next loop may come before this worker's turn has ended.
        shared.enter_idle(seat);
    }
    true
}

fn take_part(seat: &Seat, shared: &Arc<Shared>) -> bool {
    // By the book it idles on, so that a loop costs nothing, unless something would wait for it.
    let leaves = seat.is_idle() && (shared.hides(seat) || shared.idle.is_watch(seat.index));
    if leaves {
        seat.set_looping(true);
        shared.leave_idle_for_long(seat);
    }
    let looped = dispatch::take_part(shared, seat);
    if leaves {
        shared.enter_idle(seat);
        seat.set_looping(false);
    }
    looped
}

fn run_urgent(seat: &Seat, shared: &Arc<Shared>) -> bool {
    if !seat.has_urgent() {
        return false;
    }
    let leaves = seat.is_idle();
    shared.leave_idle_for_long(seat);
    let traced = shared.tracing.begin();
    let urgent = seat.run_urgent();
    if leaves {
        shared.enter_idle(seat);
    }
    seat.spans.note(Doing::Urgent, traced.filter(|_| urgent));
    urgent
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

//! What a worker's thread does: one turn after another, and a wait when a turn found nothing.
//!
//! A turn looks at every source of work in a fixed order, and each source gives a bounded
//! amount, so that none starves another:
//!
//! 1. the pool's loop, if one is under way and this worker has a share in it;
//! 2. the worker's urgent jobs;
//! 3. what others have offered to share: joins, scopes, loops inside of loops;
//! 4. tasks;
//! 5. due timers and ready sockets.
//!
//! A source is anything that (a) publishes its work before it calls [`WorkerSlot::notify`] or
//! [`WorkerSlots::call`](crate::worker::workers::Workers::call), and (b) can be asked in a turn. That is all it takes to be sure that no work
//! is slept over; what is published where only a busy worker looks is the watchdog's (`watchdog.rs`).

use super::{shared::Shared, wait::Pace, watchdog::Watchdog};
use crate::{
    net::{driver::Found, io},
    task,
    time::timers,
    worker::{
        current, idle::Search, slot::WorkerSlot, slots::Work, trace::Doing, wakers::WorkerWaker,
    },
};
use std::sync::Arc;

/// Ends the process when it is dropped by a panic: what a worker runs for others is run under
/// `catch_unwind`, so this is a defect, and those who wait for the worker would wait for ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() && !cfg!(shuttle) {
            eprintln!("creel: a worker's thread has panicked; ending the process");
            std::process::abort();
        }
    }
}

/// The body of a worker's thread.
pub(super) fn run(shared: &Arc<Shared>, index: usize) {
    let _no_way_out = AbortOnPanic;
    let mut pinned = attach(shared, index);
    let (slots, timers) = (&shared.slots, shared.timers.at(index));
    let _entered = current::enter(Arc::clone(slots), index);
    let _inside = task::enter(Arc::clone(&shared.tasks), index);
    let slot = slots.at(index);
    timers.set_wake(|| WorkerWaker::waker(slots, index));
    let _timers = timers::serve(Arc::clone(timers));
    let _driver = io::enter(Arc::clone(&shared.driver));
    let mut pace = Pace::new(shared, slot);
    let mut watchdog = Watchdog::new(shared);
    loop {
        slot.parker.begin_turn();
        if shared.pinning.version() != pinned {
            pinned = attach(shared, index);
        }
        if turn(slot, shared, &mut pace, &mut watchdog) {
            pace.worked();
            continue;
        }
        if slots.wants_gone(index) {
            shared.tasks.clear_scheduler(slot);
            let unbound = || {
                let timers = slots.is_closing() || timers.may_end();
                // A caller that does not see the call of this loop here sees that no thread runs.
                let asked = slot.inbox.any() || slot.is_notified() || shared.loops.has_part(slot);
                slots.wants_gone(index) && timers && !asked && shared.tasks.may_retire(slot)
            };
            // Its turn looks again once it has been woken, as all who stay do.
            if shared.is_served_without(index) && slot.thread.retire(unbound) {
                break;
            }
        }
        // It looks at all that anybody may take after it said that it idles.
        if shared.tasks.rest(slot) && !shared.loops.shared_jobs.any_left() {
            let found = pace.wait(watchdog.timeout(shared, slot));
            take_up(slot, shared, &mut pace, found);
        }
    }
    shared.pinning.leave(index);
    shared.loops.forget_threads();
    if !slots.is_closing() {
        // The next one's thread begins as an idle one, whom others may have to look for sockets.
        slots.enter_idle(slot);
        shared.driver.wake_if_unattended();
    }
    slots.leave();
}

/// Goes where worker `index` sits now; returns the version of the layout that says so.
fn attach(shared: &Shared, index: usize) -> usize {
    let version = shared.pinning.attach(index);
    shared
        .slots
        .at(index)
        .set_near(shared.pinning.nearest(index));
    version
}

/// One turn, with or without a look at timers and sockets. Says whether there may be more to do
/// at once.
fn turn(slot: &WorkerSlot, shared: &Shared, pace: &mut Pace, watchdog: &mut Watchdog) -> bool {
    // The search is this worker's until it has found a task, or runs something else. Nobody can take
    // it away any more, so each of these ends it before it runs anybody's code.
    let mut search = slot
        .take_notified()
        .then(|| shared.slots.leave_idle(slot))
        .flatten();
    let calls = shared.loops.has_part(slot);
    if calls {
        shared.slots.end_search_of(&mut search);
    }
    let looped = calls && take_part(slot, shared);
    let urgent = run_inbox(slot, shared, &mut search);
    // A worker that has a search is not the watchdog, because it does not idle.
    let found = watchdog.look(shared, slot);
    // To fire timers it may have left idleness without a look at the loops.
    let looped = found.fired && shared.loops.has_part(slot) && take_part(slot, shared) || looped;
    let helped = help(slot, shared, &mut search);
    let tasks = shared.tasks.turn(slot, search, found.tasks);
    let reacted = (pace.reacts() || found.sockets) && react(slot, shared, pace);
    looped || urgent || helped || tasks || reacted || found.fired
}

/// Takes part in what others have offered to share.
fn help(slot: &WorkerSlot, shared: &Shared, search: &mut Option<Search>) -> bool {
    // A loop that this worker has a share in may have been called since it last looked, and then have
    // made offers.
    if shared.loops.shared_jobs.left() == 0 || shared.loops.has_part(slot) {
        return false;
    }
    let leaves = slot.is_idle();
    if let Some(left) = shared.slots.leave_idle_for_code(slot) {
        *search = Some(left);
    }
    let Some(inside) = shared.loops.shared_jobs.enter(None) else {
        return false;
    };
    if let Some(search) = search.take() {
        shared.slots.idle.end_search(search);
    }
    if inside.leaves_some() || shared.tasks.any_outside() {
        shared.slots.notify_if_work();
    }
    inside.run(|| slot.inbox.any());
    drop(inside);
    if leaves {
        // At once: the next loop may come before this worker's turn has ended.
        shared.slots.enter_idle(slot);
    }
    true
}

/// Calls another worker for what is offered, because this one is about to run something else. It
/// may be the only one that was woken for it (`Open::add_near`).
fn pass_on_shared_jobs(shared: &Shared) {
    if shared.loops.shared_jobs.left() > 0 {
        shared.slots.notify_if_work();
    }
}

fn take_part(slot: &WorkerSlot, shared: &Shared) -> bool {
    // By the book it idles on, so that a loop costs nothing, unless something would wait for it. If
    // it is appointed the watchdog after this look, it is awake, and that is taken back.
    pass_on_shared_jobs(shared);
    let leaves =
        slot.is_idle() && (shared.hides(slot.index) || shared.slots.idle.is_watchdog(slot.index));
    if leaves {
        slot.set_looping(true);
        shared.slots.leave_idle_for_long(slot);
    }
    let looped = shared.loops.take_part(slot);
    if leaves {
        shared.slots.enter_idle(slot);
        slot.set_looping(false);
    }
    looped
}

fn run_inbox(slot: &WorkerSlot, shared: &Shared, search: &mut Option<Search>) -> bool {
    if !slot.inbox.any() {
        return false;
    }
    shared.slots.end_search_of(search);
    let leaves = slot.is_idle();
    let mut left = shared.slots.leave_idle_for_code(slot);
    shared.slots.end_search_of(&mut left);
    pass_on_shared_jobs(shared);
    let traced = shared.slots.tracing.begin();
    let urgent = slot.run_inbox();
    if leaves {
        shared.slots.enter_idle(slot);
    }
    slot.spans.note(Doing::Inbox, traced.filter(|_| urgent));
    urgent
}

/// Wakes what waits for due timers, and after the last of these for ready sockets. Says whether
/// there was any.
fn react(slot: &WorkerSlot, shared: &Shared, pace: &mut Pace) -> bool {
    let timers = shared.timers.at(slot.index);
    let fired = timers.fire(|due| shared.tasks.run_due(slot, due));
    slot.counters.timers.add(fired.count as u64);
    pace.leaves_due(fired.more);
    if fired.more {
        return true;
    }
    let found = shared.driver.turn(pace.asks_again());
    let events = found.map_or(0, |found| take_up(slot, shared, pace, found));
    fired.count + events > 0
}

/// Wakes what waits for the sockets that were found ready. Returns how many events that were.
fn take_up(slot: &WorkerSlot, shared: &Shared, pace: &mut Pace, found: Found) -> usize {
    slot.counters.events.add(found.count as u64);
    found.due.run(|due| shared.tasks.run_due(slot, due));
    pace.leaves_ready(found.full || found.level && shared.driver.is_unsure());
    found.count
}

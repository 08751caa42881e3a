//! The loop of a worker's thread: one turn after another, and a wait whenever a turn found nothing.
//!
//! A turn checks every source of work in a fixed order. Each source runs a limited amount of work,
//! so that no source starves another:
//!
//! 1. The pool's loop, if one is running and this worker has a share in it.
//! 2. The worker's inbox jobs.
//! 3. Forks and shared jobs of other threads, which are joins, scopes, and loops inside loops.
//! 4. The program's own queues (`source.rs`).
//! 5. Tasks.
//! 6. Due timers and ready sockets.
//!
//! A source must satisfy two conditions. It publishes its work before it calls
//! [`WorkerSlot::notify`] or
//! [`WorkerSlots::notify_one`](crate::worker::slots::WorkerSlots::notify_one), and a turn can check
//! it for work. These conditions are enough to ensure that no worker sleeps while there is work for
//! it. Work that only a busy worker can reach is handled by the watchdog (`watchdog.rs`).

use super::{shared::Shared, wait::Pace, watchdog::Watchdog};
use crate::{
    loops::protocol::forks::Forks,
    net::driver::Driver,
    task::Tasks,
    time::timers::Timers,
    worker::{
        current,
        idle::Search,
        parts::{Found, SocketPart, TaskPart, TimerPart},
        slot::WorkerSlot,
        slots::Work,
        trace::Doing,
        wakers::WorkerWaker,
    },
};
use std::sync::Arc;

/// Aborts the process if a panic drops it. A worker runs the program's code under `catch_unwind`,
/// except for the hooks of `source.rs`, which must not panic. Any other panic here is a bug in
/// Creel. Threads that wait for the worker would otherwise wait for ever.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() && !cfg!(creel_shuttle) {
            eprintln!("creel: a worker's thread has panicked; ending the process");
            std::process::abort();
        }
    }
}

/// Runs the worker `index` on the calling thread, until the worker ends.
pub(super) fn run(shared: &Arc<Shared>, index: usize) {
    let _no_way_out = AbortOnPanic;
    let mut pinned = attach(shared, index);
    let (slots, timers) = (&shared.slots, shared.timers.at(index));
    let _entered = current::enter(Arc::clone(slots), index);
    let _inside = Tasks::enter(Arc::clone(&shared.tasks), index);
    let slot = slots.at(index);
    timers.set_wake(|| WorkerWaker::waker(slots, index));
    let _timers = Timers::serve(Arc::clone(timers));
    let _driver = Driver::enter(Arc::clone(&shared.driver));
    slots.hooks.started(index);
    let mut pace = Pace::new(shared, slot);
    let mut watchdog = Watchdog::new(shared);
    shared.loops.forks.prepare(index);
    // Whether the worker has not waited yet for forks that are too young to steal, since it last had
    // work.
    let mut young = true;
    loop {
        slot.parker.begin_turn();
        Forks::stop_forking(&shared.loops, index);
        if shared.pinning.version() != pinned {
            pinned = attach(shared, index);
        }
        if turn(slot, shared, &mut pace, &mut watchdog) {
            pace.worked();
            young = true;
            continue;
        }
        if slots.wants_gone(index) {
            shared.tasks.clear_scheduler(slot);
            let unbound = || {
                let timers = slots.is_closing() || timers.may_end();
                // A loop that includes this worker may be published at this moment. If we do not
                // see it here, its caller will see that this worker has no thread.
                let asked = slot.inbox.any() || slot.is_notified() || shared.loops.has_part(slot);
                slots.wants_gone(index) && timers && !asked && shared.tasks.may_retire(slot)
            };
            // A removed worker that has to stay waits below like any other worker, and checks again
            // after it was woken.
            if shared.is_served_without(index) && slot.thread.retire(unbound) {
                break;
            }
        }
        // The worker first adds itself to the idle list, and then checks everything that any worker
        // may take.
        let loops = &shared.loops;
        let mut any_forks = || {
            let young = std::mem::take(&mut young);
            loops.forks.any_for_idle(&shared.slots, slot.index, young)
        };
        if shared.tasks.before_park(slot)
            && !loops.shared_jobs.any_left()
            && !any_forks()
            && !shared.has_jobs()
        {
            let found = pace.wait(watchdog.timeout(shared, slot));
            take_up(slot, shared, &mut pace, found);
        }
    }
    Forks::stop_forking(&shared.loops, index);
    slots.hooks.stops(index);
    shared.pinning.leave(index);
    shared.loops.forget_threads();
    if !slots.is_closing() {
        // We leave the worker idle, because its next thread starts as an idle one. Another worker
        // may have to poll the sockets from now on.
        slots.enter_idle(slot);
        shared.driver.wake_if_unattended();
    }
    slots.leave();
}

/// Pins the calling thread to the place of worker `index`, if the layout has a place for it.
/// Returns the version of the layout that it used.
fn attach(shared: &Shared, index: usize) -> usize {
    let version = shared.pinning.attach(index);
    shared
        .slots
        .at(index)
        .set_near(shared.pinning.nearest(index));
    version
}

/// Runs one turn, which may or may not check timers and sockets. Returns whether there may be more
/// to do at once.
fn turn(slot: &WorkerSlot, shared: &Shared, pace: &mut Pace, watchdog: &mut Watchdog) -> bool {
    // The worker owns the search until it has found a task or runs something else. No other thread
    // can take the search away any more. Each of the steps below therefore ends it before it runs
    // user code.
    let mut search = slot
        .take_notified()
        .then(|| shared.slots.leave_idle(slot))
        .flatten();
    let calls = shared.loops.has_part(slot);
    if calls {
        shared.slots.end_search_of(&mut search);
    }
    let looped = calls && take_part(slot, shared);
    let inbox = run_inbox(slot, shared, &mut search);
    // A worker with a search is not the watchdog, because it is not idle.
    let found = watchdog.check(shared, slot);
    // To fire timers, the watchdog may have left the idle state without a check for loops. We do
    // this check here.
    let looped = found.fired && shared.loops.has_part(slot) && take_part(slot, shared) || looped;
    let helped = steal(slot, shared, &mut search) | help(slot, shared, &mut search);
    let jobs = run_jobs(slot, shared, &mut search);
    let tasks = shared.tasks.turn(slot, search, found.tasks);
    let reacted = (pace.reacts() || found.sockets) && react(slot, shared, pace);
    looped || inbox || helped || jobs || tasks || reacted || found.fired
}

/// A worker of a large pool tries other victims until more than this number of steals in a row have
/// failed.
const FAILED_MAX: usize = 16;

/// Steals forks of other threads and runs them. Returns whether it did.
fn steal(slot: &WorkerSlot, shared: &Shared, search: &mut Option<Search>) -> bool {
    let loops = &shared.loops;
    if !loops.forks.any_active() {
        return false;
    }
    let busy = || {
        let called = loops.has_part(slot) || slot.inbox.any();
        called || loops.shared_jobs.seems_left() || shared.tasks.any_outside() || shared.has_jobs()
    };
    let leaves = slot.is_idle();
    let is_large = shared.slots.is_large();
    let failed_max = if is_large { FAILED_MAX } else { 0 };
    let (mut stole, mut failed) = (false, 0);
    while !loops.has_part(slot)
        && let Some(target) = Forks::hunt(loops, slot, stole, failed, busy)
    {
        if let Some(left) = shared.slots.leave_idle_for_code(slot) {
            *search = Some(left);
        }
        if is_large {
            // The steal takes a while, and others need not wait for it.
            shared.slots.end_search_of(search);
        }
        let begin = |leaves_some| {
            shared.slots.end_search_of(search);
            shared.slots.notify_if_work();
            if is_large && leaves_some {
                shared.slots.wake_neighbours(slot.index);
            }
        };
        let ran = target.run(slot, false, begin);
        stole |= ran;
        // Another thread may have been faster. In a large pool that happens often, and it is not
        // worth two changes of the idle list.
        failed = if ran { 0 } else { failed + 1 };
        if failed > failed_max || busy() {
            break;
        }
    }
    Forks::stop_forking(loops, slot.index);
    if leaves {
        shared.slots.enter_idle(slot);
    }
    stole
}

/// Helps with shared jobs. Returns whether it did.
fn help(slot: &WorkerSlot, shared: &Shared, search: &mut Option<Search>) -> bool {
    // A loop that includes this worker may have started since the worker last checked. The shared
    // jobs may come from that loop, and then the worker takes its own share first.
    if !shared.loops.shared_jobs.seems_left() || shared.loops.has_part(slot) {
        return false;
    }
    let leaves = slot.is_idle();
    if let Some(left) = shared.slots.leave_idle_for_code(slot) {
        *search = Some(left);
    }
    let Some(helper) = shared.loops.shared_jobs.enter(None) else {
        return false;
    };
    if let Some(search) = search.take() {
        shared.slots.idle.end_search(search);
    }
    if helper.leaves_some() || shared.tasks.any_outside() {
        shared.slots.notify_if_work();
    }
    helper.run(|| slot.inbox.any());
    drop(helper);
    if leaves {
        // We mark the worker as idle at once, and not at the end of the turn, because the next loop
        // may start before that.
        shared.slots.enter_idle(slot);
    }
    true
}

/// The number of jobs of the program's own queues that a worker runs in one turn.
const JOBS: usize = 64;

/// Runs jobs of the program's own queues. Returns whether it did.
fn run_jobs(slot: &WorkerSlot, shared: &Shared, search: &mut Option<Search>) -> bool {
    // As in `help`, a loop that includes this worker may have started in the meantime.
    if !shared.has_jobs() || shared.loops.has_part(slot) {
        return false;
    }
    let leaves = slot.is_idle();
    if let Some(left) = shared.slots.leave_idle_for_code(slot) {
        *search = Some(left);
    }
    let mut ran = 0;
    while ran < JOBS
        && shared.run_source(slot, &mut || {
            shared.slots.end_search_of(search);
            pass_on_shared_jobs(shared);
        })
    {
        ran += 1;
        if slot.inbox.any() || shared.loops.has_part(slot) {
            break;
        }
    }
    if leaves {
        shared.slots.enter_idle(slot);
    }
    ran > 0
}

/// Notifies another worker of shared jobs, because this one is about to run something else. This
/// worker may be the only one that was woken for them (`Open::notify_near`).
fn pass_on_shared_jobs(shared: &Shared) {
    if shared.loops.shared_jobs.seems_left() {
        shared.slots.notify_if_work();
    }
}

fn take_part(slot: &WorkerSlot, shared: &Shared) -> bool {
    // A worker that takes part in a loop usually stays in the idle list, because leaving it would
    // make each loop slower. It leaves the list only if it has private work, or if it is the
    // watchdog. If it is appointed as the watchdog after this check, the appointment is withdrawn,
    // because the worker is awake.
    pass_on_shared_jobs(shared);
    let idle = slot.is_idle();
    if idle && (shared.has_private_work(slot.index) || shared.slots.idle.is_watchdog(slot.index)) {
        slot.set_looping(true);
        shared.slots.leave_idle_for_long(slot);
    }
    let looped = shared.loops.take_part(slot);
    // The worker may have left the idle state above, or in the code of the loop, for example by a
    // join.
    if idle && !slot.is_idle() {
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
    let inbox = slot.run_inbox();
    if leaves {
        shared.slots.enter_idle(slot);
    }
    slot.spans.record(Doing::Inbox, traced.filter(|_| inbox));
    inbox
}

/// Fires due timers. If none are left, it also checks for ready sockets. Returns whether a timer
/// was due or a socket was ready.
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

/// Wakes the tasks that wait for the sockets that were found ready. Returns the number of events.
fn take_up(slot: &WorkerSlot, shared: &Shared, pace: &mut Pace, found: Found) -> usize {
    slot.counters.events.add(found.count as u64);
    found.due.run(|due| shared.tasks.run_due(slot, due));
    pace.leaves_ready(found.full || found.level && shared.driver.is_unsure());
    found.count
}

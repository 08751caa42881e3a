//! The end of a pool's tasks.

use super::desk::{self, Desk};
use super::slab::Heap;
use super::state::Then;
use super::steal::Progress;
use super::tasks::for_each_cell;
use crate::pool::shared::Shared;
use crate::seat::idle::Called;
use crate::sync::{lock, thread};
use std::sync::Arc;

/// Cancels every task of the pool that is not complete; their workers drop the futures.
pub(crate) fn cancel_all(pool: &Arc<Shared>) {
    let mut scheduled = Vec::new();
    for_each_cell(pool, |task| {
        if let Some(Then::Enqueue) = task.state().cancel() {
            scheduled.push(task);
        }
    });
    for task in scheduled {
        match task.state().seat() {
            Some(seat) => {
                let seat = pool.seats.at(seat.into());
                seat.desk.bound.push(task);
                seat.notify();
            }
            None => pool.tasks.outside.push(task),
        }
    }
}

/// How far all had come at the owner's last look.
#[derive(Default)]
pub(crate) struct Behind {
    progress: Progress,
    called: Option<Called>,
}

/// Called from time to time by a pool's owner, who waits for its end: cancels what lies behind
/// workers that have not come further than `last`, and renews that.
pub(crate) fn cancel_behind(pool: &Arc<Shared>, last: &mut Behind) {
    let (mut now, called) = (Progress::default(), pool.idle.called());
    now.take(pool);
    if let Some(called) = called.filter(|called| last.called == Some(*called)) {
        // It has not come, as nobody else would find out: somebody must be able to search.
        pool.idle.give_up(called);
    }
    let stuck = now.mark_stuck(&last.progress, pool);
    *last = Behind {
        progress: now,
        called,
    };
    if !stuck && pool.tasks.outside.len() == 0 || !desk::may_sit_down() {
        return;
    }
    let guest = pool.tasks.guests.take();
    // SAFETY: the desk has just been given to this thread, which holds no other.
    unsafe { pool.tasks.guests.desk(guest).sit_down(pool) };
    if let Some(held) = desk::here_in(pool) {
        while held.step(true) {}
        held.clear();
        held.stand_up();
    }
    pool.tasks.guests.give_back(guest);
}

/// Drops what is left of the tasks and lets go of the heaps. Called once, by the last user to leave
/// the pool: nobody serves it any more, and nobody enters.
pub(crate) fn end(pool: &Arc<Shared>) {
    let tasks = &pool.tasks;
    loop {
        cancel_all(pool);
        let bound = || pool.seats.made().find_map(|seat| seat.desk.bound.pop());
        while let Some(task) = tasks.outside.pop().or_else(bound) {
            let claim = task.state().claim_queued().or_cancel(true);
            // SAFETY: just claimed. A bound task that is still here is one of `spawn_on`, which
            // any thread may drop: a seat's thread outlives its `spawn_local` tasks.
            unsafe { task.run(claim, &tasks.dropped) };
        }
        for desk in all_desks(pool) {
            // SAFETY: nobody serves the pool any more.
            while let Some((task, claim)) = unsafe { desk.pop_left() } {
                // SAFETY: just claimed.
                unsafe { task.run(claim.or_cancel(true), &tasks.dropped) };
            }
        }
        // A task that another thread has just woken is on its way to a queue.
        let mut unfinished = false;
        for_each_cell(pool, |task| unfinished |= task.state().is_unfinished());
        if !unfinished {
            break;
        }
        thread::yield_now();
    }
    let outside = lock(&tasks.outside_heap).0.take();
    for heap in all_desks(pool).filter_map(Desk::take_heap).chain(outside) {
        // SAFETY: nobody holds a desk any more, nor reads a hint, nor makes a task.
        unsafe { Heap::orphan(heap) };
    }
}

fn all_desks(pool: &Shared) -> impl Iterator<Item = &Desk> {
    let seats = pool.seats.made().map(|seat| &seat.desk);
    seats.chain(pool.tasks.guests.all())
}

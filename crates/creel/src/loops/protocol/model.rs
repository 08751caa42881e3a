//! Models of the loop protocol for loom. They cover a caller with one worker or a group of two, and
//! the owner and a helper of a shared job. loom runs every interleaving up to a bound on
//! preemptions. Run them with
//! `cargo test --release --manifest-path crates/models/Cargo.toml --features loom --lib loops`.
//!
//! The models of shared jobs do not cover two cases. The notification of an idle worker is in
//! `worker/model.rs`. Jobs that come from other jobs are left out, because loom's threads share a
//! thread-local of `std`.

use super::{
    Protocol,
    call::{Call, Even, Grain},
    closure::Body,
    dispatch::{Job, Part},
    places,
    shared_jobs::{Open, SharedJob},
};
use crate::{
    sync::{AtomicUsize, Ordering},
    worker::{hooks::Hooks, parker::Poller, slots::WorkerSlots},
};
use loom::{cell::UnsafeCell, model::Builder, thread};
use std::{ops::Range, ptr::NonNull, sync::Arc};

/// An item whose accesses loom checks.
struct Item(UnsafeCell<u64>);

// SAFETY: loom checks in these models that one thread at a time uses the item.
unsafe impl Sync for Item {}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A poller that does nothing.
struct NoPoller;

impl Poller for NoPoller {
    fn interrupt(&self) {}
}

fn protocol(slots: usize) -> Arc<Protocol> {
    let slots_of = WorkerSlots::new(
        "model".into(),
        slots,
        true,
        None,
        Hooks::default(),
        Arc::new(NoPoller),
    );
    let loops = Protocol::new(slots_of);
    // We create the workers before the threads start, because loom does not see that a thread that
    // finds a worker created comes after the thread that created it.
    for slot in 0..slots {
        loops.slots.at(slot);
        loops.shares.at(slot).close(0);
    }
    Arc::new(loops)
}

/// Calls one loop from the last worker, with one unit per worker, and waits for it. Loom checks the
/// items, and the stack frame that the body borrows, because no thread may touch them after the
/// return.
fn call_loop(loops: &Arc<Protocol>, epoch: u64, grain: Grain) {
    let (slots, caller) = (loops.slots.workers(), loops.slots.workers() - 1);
    let items = (0..slots).map(|_| Item(UnsafeCell::new(0)));
    let items: Arc<[Item]> = items.collect();
    let visited = Arc::clone(&items);
    let body = move |units: Range<usize>, _: usize| {
        for unit in units {
            // SAFETY: each unit is given out once, which is what this model checks.
            visited[unit].0.with_mut(|item| unsafe { *item += 1 });
        }
    };
    // SAFETY: the closure is used only through this body.
    let body = unsafe { Body::new(&body) };
    let job = Job {
        body,
        bounds: None,
        even: Even::new(slots, slots),
        timed: false,
    };
    if grain == Grain::QUEUE {
        loops.shares.at(caller).lay_out(epoch, slots as u64);
    }
    let call = Call::new(epoch, slots, caller, grain);
    let call = loops.mailbox.publish(&loops.slots, &job, call, false);
    let part = Part {
        loops,
        call,
        slot: loops.slots.at(caller),
        counters: &loops.slots.at(caller).counters.loops,
    };
    part.work_and_join(slots, 0);
    for item in items.iter() {
        // SAFETY: all threads have left the loop, which is what this model checks.
        item.0.with_mut(|item| assert_eq!(unsafe { *item }, 1));
    }
}

/// Two loops run one after the other, while a worker checks for work twice.
fn claim_and_join(grain: Grain) {
    check(3, move || {
        let loops = protocol(2);
        let other = Arc::clone(&loops);
        let worker = thread::spawn(move || {
            let slot = other.slots.at(0);
            other.take_part(slot);
            other.take_part(slot);
        });
        call_loop(&loops, 1, grain);
        call_loop(&loops, 2, grain);
        worker.join().expect("no panic");
    });
}

#[test]
fn a_whole_share_is_claimed_once_and_latecomers_do_not_touch_the_callers_frame() {
    claim_and_join(Grain::WHOLE);
}

#[test]
fn a_split_share_is_claimed_once_and_latecomers_do_not_touch_the_callers_frame() {
    claim_and_join(Grain(5));
}

#[test]
fn a_queue_is_claimed_once_and_latecomers_do_not_touch_the_callers_frame() {
    claim_and_join(Grain::QUEUE);
}

/// Two workers are in one group, and the last of them reports to the caller.
#[test]
fn a_group_has_left_the_loop_when_its_last_worker_reports() {
    check(2, || {
        let loops = protocol(3);
        let workers = [0, 1].map(|slot| {
            let other = Arc::clone(&loops);
            thread::spawn(move || other.take_part(other.slots.at(slot)))
        });
        call_loop(&loops, 1, Grain::WHOLE);
        for worker in workers {
            worker.join().expect("no panic");
        }
    });
}

/// If the worker went to sleep for good, this model would hang, and loom would report it.
#[test]
fn a_worker_that_goes_to_sleep_is_woken_for_the_next_loop() {
    check(3, || {
        let loops = protocol(2);
        let other = Arc::clone(&loops);
        let worker = thread::spawn(move || {
            let slot = other.slots.at(0);
            loop {
                slot.parker.begin_turn();
                other.take_part(slot);
                let call = other.mailbox.mark_sleeper();
                if !other.shares.at(0).is_unseen(call) {
                    if call.epoch() == 1 {
                        return; // there is no further loop to be woken for
                    }
                    slot.parker.park(None);
                }
            }
        });
        call_loop(&loops, 1, Grain::WHOLE);
        worker.join().expect("no panic");
    });
}

/// The behaviour of a share's worker while a loop is called.
#[derive(Clone, Copy)]
enum Owner {
    /// The worker is idle, and leaves for other code.
    Leaves,
    /// The worker runs other code and becomes idle.
    ComesBack,
    /// The worker runs other code, and its next turn begins with the loop.
    Turns,
}

/// Checks that the share of a busy worker is run before the loop's caller begins its own share.
/// Either that worker runs it, or an idle worker, whose part the caller's thread plays. Loom checks
/// the data that belongs to the index of a worker.
fn no_share_waits_for_a_busy_worker(grain: Grain, owner: Owner) {
    const UNITS: usize = 3;
    check(3, move || {
        let loops = protocol(2);
        (0..2).for_each(|slot| loops.slots.at(slot).thread.mark_running());
        if !matches!(owner, Owner::Leaves) {
            assert_eq!(loops.slots.leave_idle(loops.slots.at(0)), None);
        }
        let scratch: Arc<[Item]> = (0..2).map(|_| Item(UnsafeCell::new(0))).collect();
        let visited = Arc::clone(&scratch);
        let body = move |units: Range<usize>, who: usize| {
            // SAFETY: each index belongs to one thread, which is what this model checks.
            visited[who]
                .0
                .with_mut(|item| unsafe { *item += units.len() as u64 });
        };
        // SAFETY: the closure is used only through this body.
        let body = unsafe { Body::new(&body) };
        let blocks = if grain == Grain::QUEUE { UNITS } else { 2 };
        let job = Job {
            body,
            bounds: None,
            even: Even::new(UNITS, blocks),
            timed: false,
        };
        let other = Arc::clone(&loops);
        let worker = thread::spawn(move || {
            let slot = other.slots.at(0);
            match owner {
                Owner::Leaves => {
                    assert_eq!(other.slots.leave_idle(slot), None);
                    if other.has_part(slot) {
                        other.take_part(slot);
                    }
                }
                Owner::ComesBack => {
                    other.slots.enter_idle(slot);
                    other.take_part(slot);
                }
                Owner::Turns => _ = other.take_part(slot),
            }
        });
        if grain == Grain::QUEUE {
            loops.shares.at(1).lay_out(1, UNITS as u64);
        }
        let call = Call::new(1, 2, 1, grain);
        let call = loops.mailbox.publish(&loops.slots, &job, call, false);
        let slot = loops.slots.at(1);
        let part = Part {
            loops: &loops,
            call,
            slot,
            counters: &slot.counters.loops,
        };
        let leaves = matches!(owner, Owner::Leaves);
        let mut worker = Some(worker);
        let mut join_worker = || {
            let worker = worker.take().into_iter();
            worker.for_each(|worker| worker.join().expect("no panic"));
        };
        if places::any_elsewhere(&part) {
            places::share_places_while(&part, || {
                let helper = loops.shared_jobs.enter(None);
                helper.iter().for_each(|helper| helper.run(|| false));
                drop(helper);
                if leaves && !loops.shares.at(0).is_claimed(1) {
                    // The worker checks for the loop before it begins the other code.
                    join_worker();
                    assert!(loops.shares.at(0).is_claimed(1), "a share is left");
                }
                part.work_and_join(UNITS, 0);
            });
        } else {
            if leaves {
                join_worker();
                assert!(loops.shares.at(0).is_claimed(1), "a share is left");
            }
            part.work_and_join(UNITS, 0);
        }
        join_worker();
        let count = |item: &Item| {
            // SAFETY: all threads have left the loop, so none changes the item.
            item.0.with(|item| unsafe { *item })
        };
        assert_eq!(scratch.iter().map(count).sum::<u64>(), UNITS as u64);
    });
}

#[test]
fn a_share_is_run_although_its_worker_leaves_for_other_code() {
    no_share_waits_for_a_busy_worker(Grain::WHOLE, Owner::Leaves);
}

#[test]
fn a_worker_index_belongs_to_one_thread_if_each_share_is_claimed_as_a_whole() {
    no_share_waits_for_a_busy_worker(Grain::WHOLE, Owner::ComesBack);
    no_share_waits_for_a_busy_worker(Grain::WHOLE, Owner::Turns);
}

#[test]
fn a_worker_index_belongs_to_one_thread_if_all_workers_use_one_queue() {
    no_share_waits_for_a_busy_worker(Grain::QUEUE, Owner::ComesBack);
    no_share_waits_for_a_busy_worker(Grain::QUEUE, Owner::Turns);
}

/// A type with a shared job, whose pieces each add one to an item of their own. Loom checks the
/// items, and the frame, which represents the owner's stack.
#[repr(C)]
struct Shared {
    shared_job: SharedJob,
    loops: Arc<Protocol>,
    next: AtomicUsize,
    items: Vec<Item>,
    frame: Item,
}

// SAFETY: loom checks here how its non-atomic parts are used.
unsafe impl Sync for Shared {}
// SAFETY: loom checks here how its non-atomic parts are used, and the parent of the shared job is
// null.
unsafe impl Send for Shared {}

impl Shared {
    fn new(loops: &Arc<Protocol>, pieces: usize) -> Arc<Self> {
        Arc::new(Self {
            shared_job: SharedJob::new(Self::run, true),
            loops: Arc::clone(loops),
            next: AtomicUsize::new(0),
            items: (0..pieces).map(|_| Item(UnsafeCell::new(0))).collect(),
            frame: Item(UnsafeCell::new(0)),
        })
    }

    /// # Safety
    ///
    /// The shared job must be the first field of a live `Shared`.
    unsafe fn run(shared_job: NonNull<SharedJob>, _: &dyn Fn() -> bool) -> bool {
        // SAFETY: the caller guarantees that the shared job is the first field of a `Shared`.
        let this = unsafe { shared_job.cast::<Self>().as_ref() };
        // SAFETY: no thread writes to the frame while a helper is inside, which is what this model
        // checks.
        this.frame.0.with(|frame| assert_eq!(unsafe { *frame }, 0));
        if !this.loops.shared_jobs.claim(&this.shared_job) {
            return false;
        }
        let item = &this.items[this.next.fetch_add(1, Ordering::Relaxed)];
        // SAFETY: each piece is claimed once, which is what this model checks.
        item.0.with_mut(|item| unsafe { *item += 1 });
        true
    }
}

/// An owner and a helper run, and the helper looks for a job `visits` times. Once the job is
/// closed, only the owner uses the frame again. If the owner waits for the helper, its wake-up is
/// not lost.
fn share_and_close(preemptions: usize, pieces: usize, visits: usize) {
    check(preemptions, move || {
        let loops = protocol(1);
        let shared = Shared::new(&loops, pieces);
        let others = Arc::clone(&loops);
        // We keep the value as long as the helper runs. If a helper comes too late, loom then
        // detects it, and no freed memory is used.
        let kept = Arc::clone(&shared);
        let visitor = thread::spawn(move || {
            for _ in 0..visits {
                if let Some(inside) = others.shared_jobs.enter(None) {
                    inside.run(|| false);
                }
            }
            drop(kept);
        });
        {
            // SAFETY: `shared` is alive and does not move until the end of this function. Loom
            // checks how threads share it. `open` is dropped at the end of this block.
            let open = unsafe { Open::new(&loops, NonNull::from(&*shared).cast()) };
            open.add(pieces);
            while open.run_some() {}
        }
        // SAFETY: no helper is inside the shared job, which is what this model checks.
        shared.frame.0.with_mut(|frame| unsafe { *frame = 1 });
        for item in &shared.items {
            // SAFETY: no helper is inside the shared job, so no thread changes the item.
            item.0.with(|item| assert_eq!(unsafe { *item }, 1));
        }
        assert_eq!(loops.shared_jobs.left(), 0);
        assert!(!loops.shared_jobs.any_left());
        visitor.join().expect("no panic");
    });
}

#[test]
fn a_closed_shared_job_belongs_to_its_owner_again() {
    share_and_close(3, 1, 1);
}

#[test]
fn each_piece_is_run_once_and_a_returning_helper_finds_the_job_closed() {
    share_and_close(2, 2, 2);
}

//! The data that a scope's threads share: its jobs, and the threads that have some of them.
//!
//! A job is either in the *queue*, which has a lock, or in a *lane*. Each thread that works for the
//! scope has a lane of its own ([`Local`]). A job that is spawned on such a thread goes into that
//! thread's lane. This costs a few stores, as the fork of a join does, and no other thread is
//! notified unless it is idle. Threads that have nothing to do steal half of a lane into their own.
//!
//! # When the scope is done
//!
//! Jobs in lanes are not counted. Instead, the latch counts the threads that work for the scope.
//! Such a thread counts itself before it takes its first job, and leaves when it finds no more. The
//! scope's caller returns when its own lane is empty and the latch is open. It checks the lane
//! first. If a thief has taken the last job of it, the caller then sees the thief in the latch.

use super::{
    job::ScopeJob,
    lane::{Batch, Lane, Segment},
};
use crate::{
    loops::protocol::{
        Protocol,
        shared_jobs::{Open, SharedJob},
        wake_throttle::WakeThrottle,
    },
    sync::{AtomicBool, Mutex, Ordering, barrier, local, lock, now_ns, spin_loop, thread_local},
    worker::{current, panics::FirstPanic, waiter::Latch},
};
use std::{
    cell::Cell,
    collections::VecDeque,
    ptr::{self, NonNull},
    sync::Arc,
};

/// The worker that a job is meant for, and the time until which other threads leave the job to it.
#[derive(Clone, Copy)]
pub(super) struct Near {
    pub(super) worker: usize,
    pub(super) until_ns: u64,
}

/// A job of the queue, and the worker that it is meant for.
struct Spawned {
    job: ScopeJob,
    near: Option<Near>,
}

/// The jobs of a scope that are in no lane and that no thread has taken.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Spawned>,
    /// The number of jobs that are meant for a particular worker.
    meant: usize,
}

/// The number of jobs at the front of the queue that a thread searches. It looks for a job that is
/// meant for it, or for one that is not reserved for another worker.
const LOOK: usize = 64;

/// A thief that has run a whole batch within this time looks again only after a pause of this
/// length. Otherwise it would take the cache lines of the lane away from the owner for too little.
/// If it finds nothing after the pause, it looks once more, and then leaves.
const TINY_NS: u64 = 1_000;

/// The data that the scope and its helpers share.
#[repr(C)]
pub(super) struct Core<'a> {
    shared_job: SharedJob,
    pub(super) loops: &'a Protocol,
    queue: Mutex<Queue>,
    /// The lanes that may have jobs. Their owners remove them before they end.
    lanes: Mutex<Vec<Listed>>,
    /// Whether the scope's caller waits and has found no job. The caller stores it before it checks
    /// the lanes once more, and the owner of a lane reads it after it has added a job. The owner
    /// has the light barrier in between, and the caller the heavy one. If there are no lanes, the
    /// lock of their list orders these accesses.
    rests: AtomicBool,
    /// Counts the jobs outside of lanes that are not done, and the threads that work for the scope.
    pub(super) latch: Arc<Latch>,
    pub(super) panic: Arc<FirstPanic>,
}

/// A lane that is alive while it is in the list of its scope.
#[derive(PartialEq)]
struct Listed(NonNull<Lane<ScopeJob>>);

// SAFETY: a lane is `Sync`, and its owner removes it from the list before it ends.
unsafe impl Send for Listed {}

impl Listed {
    fn lane(&self) -> &Lane<ScopeJob> {
        // SAFETY: validity: the lane's owner removes it from the list before it ends. Aliasing: a
        // lane is only shared.
        unsafe { self.0.as_ref() }
    }
}

thread_local! {
    /// The [`Local`] with which this thread works for its innermost scope, or null.
    static CURRENT: Cell<*const Local<'static>> = const { Cell::new(ptr::null()) };
    /// The memory of this thread's last lane, so that a scope does not allocate it again.
    static SPARE: Cell<Vec<Segment<ScopeJob>>> = const { Cell::new(Vec::new()) };
}

/// A thread that works for a scope: the scope's caller or a helper.
pub(super) struct Local<'a> {
    core: &'a Core<'a>,
    lane: Lane<ScopeJob>,
    /// Whether the lane is in the list of the scope.
    is_listed: Cell<bool>,
    /// The worker whose thread this is. It is `None` for a thread from outside.
    own: Option<usize>,
    /// Whether there seems to be an idle worker that this thread may notify.
    idle: &'a AtomicBool,
    throttle: WakeThrottle,
}

impl<'a> Local<'a> {
    /// Calls `f` with a lane of the calling thread. In the meantime, jobs that this thread spawns
    /// go into this lane.
    pub(super) fn with<R>(core: &Core<'_>, f: impl FnOnce(&Local<'_>) -> R) -> R {
        let own = current::index_in(&core.loops.slots);
        // This value must not move, because other threads know the address of its lane.
        let this = Local {
            core,
            lane: Lane::new(local(&SPARE, Cell::take).unwrap_or_default()),
            is_listed: Cell::new(false),
            own,
            idle: core
                .loops
                .slots
                .idle
                .seems_listed_from(core.loops.slots.first_helper(own)),
            throttle: WakeThrottle::new(),
        };
        // The lane leaves the list before `this` is borrowed mutably to be dropped.
        let _leave = Leave(&this);
        this.while_current(|| f(&this))
    }

    /// Returns the lane of the calling thread, if it is working for `core`.
    #[inline(always)]
    fn current<'c>(core: &'c Core<'_>) -> Option<&'c Local<'c>> {
        let current = local(&CURRENT, Cell::get).unwrap_or(ptr::null());
        // SAFETY: validity: `while_current` keeps a reference while the thread-local contains it.
        // Aliasing: it is only shared. The result lives no longer than the core, and nobody keeps
        // it: the methods of `Core` and `Scope` use it before they return.
        let current: &'c Local<'c> = unsafe { current.cast::<Local<'c>>().as_ref() }?;
        ptr::addr_eq(current.core, core).then_some(current)
    }

    fn while_current<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Restore(*const Local<'static>);
        impl Drop for Restore {
            fn drop(&mut self) {
                local(&CURRENT, |place| place.set(self.0));
            }
        }
        let this = ptr::from_ref(self).cast::<Local<'static>>();
        let before = local(&CURRENT, |place| place.replace(this));
        let _restore = before.map(Restore);
        f()
    }

    /// Adds a job, on the thread of this lane.
    #[inline(always)]
    fn push(&self, job: ScopeJob) {
        // SAFETY: the calling thread owns the lane, because a `Local` is not `Sync`.
        unsafe { self.lane.push(job) };
        if !self.is_listed.get() {
            self.list();
        }
        barrier::light();
        if self.idle.load(Ordering::Relaxed) {
            self.notify();
        }
        if self.core.rests.load(Ordering::Relaxed) {
            self.core.wake_caller();
        }
    }

    /// Notifies an idle worker of the jobs, but not each time.
    #[cold]
    #[inline(never)]
    fn notify(&self) {
        let slots = &self.core.loops.slots;
        let first = slots.first_helper(self.own);
        self.throttle
            .notify(slots, first, self.own, self.lane.steals());
    }

    /// Adds the lane to the list. Other threads have seen none of its jobs yet.
    #[cold]
    #[inline(never)]
    fn list(&self) {
        self.is_listed.set(true);
        let core = self.core;
        lock(&core.lanes).push(Listed(NonNull::from(&self.lane)));
        core.loops.shared_jobs.open_lane();
        core.loops.slots.notify_other(self.own);
        core.wake_caller();
    }

    /// Takes the oldest job.
    #[inline(always)]
    fn pop(&self) -> Option<ScopeJob> {
        // SAFETY: the calling thread owns the lane, because a `Local` is not `Sync`.
        unsafe { self.lane.pop() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lane.is_empty()
    }
}

/// Removes a lane from the list of its scope when dropped.
struct Leave<'l, 'a>(&'l Local<'a>);

impl Drop for Leave<'_, '_> {
    fn drop(&mut self) {
        let Leave(local) = *self;
        if local.is_listed.get() {
            let core = local.core;
            // A helper that leaves early may have jobs left. It moves them to the queue, so that
            // any thread can take them.
            while let Some(job) = local.pop() {
                core.enqueue(job, None);
                core.loops.slots.notify_other(local.own);
            }
            let listed = Listed(NonNull::from(&local.lane));
            lock(&core.lanes).retain(|other| *other != listed);
            core.loops.shared_jobs.close_lane();
        }
    }
}

impl Drop for Local<'_> {
    fn drop(&mut self) {
        let segments = self.lane.take_segments();
        local(&SPARE, |spare| spare.set(segments));
    }
}

impl<'a> Core<'a> {
    pub(super) fn new(loops: &'a Protocol) -> Self {
        Self {
            shared_job: SharedJob::with_lanes(Self::run, Self::any_in_lanes),
            loops,
            queue: Mutex::default(),
            lanes: Mutex::default(),
            rests: AtomicBool::new(false),
            latch: Latch::new(1),
            panic: Arc::default(),
        }
    }

    /// Spawns a job, which any thread of the scope may run.
    #[inline(always)]
    pub(super) fn spawn(&self, open: &Open<'_>, job: ScopeJob) {
        match Local::current(self) {
            Some(local) => local.push(job),
            None => self.spawn_elsewhere(open, job),
        }
    }

    /// Spawns a job of this scope from a thread that works for no scope, or whose innermost scope
    /// is a different one.
    #[cold]
    fn spawn_elsewhere(&self, open: &Open<'_>, job: ScopeJob) {
        self.enqueue(job, None);
        open.notify();
    }

    /// Spawns a job that is meant for a particular worker.
    pub(super) fn spawn_near(&self, open: &Open<'_>, job: ScopeJob, near: Near) {
        self.enqueue(job, Some(near));
        open.notify_near(near.worker);
    }

    /// Adds a job to the queue, and wakes the scope's caller if it sleeps. The caller of this
    /// function notifies a worker.
    fn enqueue(&self, job: ScopeJob, near: Option<Near>) {
        self.latch.add();
        let mut queue = lock(&self.queue);
        queue.jobs.push_back(Spawned { job, near });
        queue.meant += usize::from(near.is_some());
        drop(queue);
        self.loops.shared_jobs.count(&self.shared_job, 1);
        self.latch.nudge();
    }

    /// Runs jobs until none is left, or `enough` returns true. Returns whether there was one.
    ///
    /// # Safety
    ///
    /// `shared_job` is the first field of a `Core`, which is alive.
    unsafe fn run(shared_job: NonNull<SharedJob>, enough: &dyn Fn() -> bool) -> bool {
        // SAFETY: Validity: the caller promises that this is a `Core` that begins with the shared
        // job, and that it is alive. Aliasing: it is only shared, and what changes in it is locked
        // or atomic.
        let this = unsafe { shared_job.cast::<Core<'_>>().as_ref() };
        if let Some(local) = Local::current(this) {
            return this.work(local, enough);
        }
        // The scope's caller waits for this thread, and then for the jobs that it leaves behind.
        this.latch.add();
        let ran = Local::with(this, |local| this.work(local, enough));
        this.latch.done();
        ran
    }

    /// Returns whether a lane has jobs.
    ///
    /// # Safety
    ///
    /// `shared_job` is the first field of a `Core`, which is alive.
    unsafe fn any_in_lanes(shared_job: NonNull<SharedJob>) -> bool {
        // SAFETY: Validity: the caller promises that this is a `Core` that begins with the shared
        // job, and that it is alive. Aliasing: it is only shared, and what changes in it is locked
        // or atomic.
        let this = unsafe { shared_job.cast::<Core<'_>>().as_ref() };
        this.is_any_listed_full()
    }

    fn is_any_listed_full(&self) -> bool {
        let lanes = lock(&self.lanes);
        lanes.iter().any(|listed| !listed.lane().is_empty())
    }

    /// Runs jobs on the thread of `local`. The jobs store their panics, so this does not unwind.
    fn work(&self, local: &Local<'_>, enough: &dyn Fn() -> bool) -> bool {
        let (mut ran, mut stole_ns) = (false, None);
        loop {
            let queued = match self.shared_job.is_empty() {
                true => None,
                false => self.take(),
            };
            if let Some(job) = queued {
                job.run(&self.panic);
                self.latch.done();
            } else if let Some(job) = local.pop() {
                job.run(&self.panic);
            } else {
                let now = now_ns();
                let tiny = stole_ns.is_some_and(|stole| now - stole < TINY_NS);
                if tiny && !cfg!(creel_shuttle) {
                    while now_ns() - now < TINY_NS {
                        spin_loop();
                    }
                }
                let Some(batch) = self.steal(local) else {
                    if tiny {
                        continue;
                    }
                    return ran;
                };
                stole_ns = Some(now_ns());
                batch.for_each(|job| local.push(job));
                continue;
            }
            ran = true;
            if enough() {
                return true;
            }
        }
    }

    /// Takes jobs from the lane of another thread.
    fn steal(&self, local: &Local<'_>) -> Option<Batch<ScopeJob>> {
        let lanes = lock(&self.lanes);
        let others = lanes.iter().map(Listed::lane);
        let mut others = others.filter(|lane| !ptr::eq(*lane, &local.lane));
        others.find_map(Lane::steal)
    }

    /// Takes the oldest job that is meant for this thread, or otherwise the oldest job that is not
    /// reserved for another worker. A job is reserved until its worker is late. It only searches
    /// the first [`LOOK`] jobs of the queue.
    fn take(&self) -> Option<ScopeJob> {
        let mut queue = lock(&self.queue);
        let at = self.pick(&queue)?;
        // A job is put into the queue before it is counted, so a claim always finds one.
        let claimed = self.loops.shared_jobs.claim(&self.shared_job);
        let spawned = claimed.then(|| queue.jobs.remove(at)).flatten()?;
        queue.meant -= usize::from(spawned.near.is_some());
        Some(spawned.job)
    }

    fn pick(&self, queue: &Queue) -> Option<usize> {
        if queue.meant == 0 {
            return (!queue.jobs.is_empty()).then_some(0);
        }
        let queue = || queue.jobs.iter().take(LOOK);
        let own = current::index_in(&self.loops.slots);
        let mine = |spawned: &Spawned| own.is_some() && spawned.near.map(|near| near.worker) == own;
        let mut now = None;
        let mut free = |spawned: &Spawned| match spawned.near {
            None => true,
            Some(near) => near.until_ns <= *now.get_or_insert_with(now_ns),
        };
        queue()
            .position(mine)
            .or_else(|| queue().position(&mut free))
    }

    /// Returns whether there is a job that is meant for a particular worker.
    fn waits_for_another(&self) -> bool {
        !self.shared_job.is_empty() && lock(&self.queue).meant > 0
    }

    /// Wakes the scope's caller if it has found nothing to do.
    #[cold]
    #[inline(never)]
    fn wake_caller(&self) {
        if self.rests.swap(false, Ordering::SeqCst) {
            self.latch.nudge();
        }
    }

    /// Waits for all jobs, on the thread of the scope's caller, and helps.
    pub(super) fn wait(&self, open: &Open<'_>, local: &Local<'_>) {
        self.latch.done();
        self.latch.wait_also(
            || local.is_empty(),
            || {
                self.rests.store(false, Ordering::Relaxed);
                if open.run_some() || open.help_under() {
                    return true;
                }
                // A job is meant for another worker, which has not started it yet. If that worker
                // is late, this thread runs the job, so it keeps spinning.
                if self.waits_for_another() {
                    spin_loop();
                    return true;
                }
                self.rests.store(true, Ordering::SeqCst);
                if lock(&self.lanes).is_empty() {
                    return false;
                }
                // This thread has stored that it rests, and now looks for jobs. The owner of a lane
                // does the opposite: it adds a job and then checks whether this thread rests, with
                // the light barrier in between.
                if !barrier::heavy() {
                    spin_loop();
                    return true;
                }
                self.is_any_listed_full()
            },
        );
    }

    /// Returns the number of jobs that are not done, or a few more.
    pub(super) fn pending(&self) -> usize {
        let lanes = lock(&self.lanes);
        let in_lanes: usize = lanes.iter().map(|listed| listed.lane().len()).sum();
        self.latch.pending() + in_lanes
    }
}

//! Shared jobs, which threads share with idle workers. Examples are the jobs of a scope, the items
//! of a loop over an iterator, and the places of busy workers in a loop. The second closures of
//! joins are not shared jobs but forks (`forks.rs`).
//!
//! A shared job is on its owner's stack, or the owner keeps it elsewhere. It is in the pool's list
//! while it is open. Workers that have nothing to do search the list from the front, where the jobs
//! are usually older. A worker *enters* a shared job as a helper and runs pieces of it. The owner
//! runs pieces too. At the end, the owner closes the job and waits for the helpers that are inside.
//! Entering, leaving and closing happen under the lock of the list, so that no thread uses a shared
//! job after its owner has closed it.
//!
//! A thread that waits for its shared job helps only with jobs that come from it, because these are
//! part of what it waits for. If it holds a lock, unrelated work on its stack can therefore not
//! take that lock again.

use super::Protocol;
use crate::{
    sync::{AtomicUsize, Mutex, Ordering, barrier, local, lock, thread_local},
    worker::{current, parker::PrevState, waiter::Waiter},
};
use std::{cell::Cell, ptr, ptr::NonNull};

/// The shared jobs of a pool.
pub(crate) struct SharedJobs {
    list: Mutex<Vec<Entry>>,
    /// The number of pieces of all shared jobs that no thread has taken. A job's own count is
    /// changed before this one. Therefore this count is too high in the middle of a `claim`, and
    /// too low in the middle of a `count`. It may even wrap below 0 for a moment, which counts as
    /// pieces left.
    ///
    /// It is `SeqCst`. A publisher changes it and then checks for an idle worker. A worker that
    /// becomes idle announces that and then reads this. At least one of them sees the other's
    /// write. Otherwise, the worker could sleep although there are pieces left.
    left: AtomicUsize,
    /// The number of lanes of all shared jobs. A lane is a queue that its thread fills without
    /// counting the pieces. It is `SeqCst` for the same reason as `left`.
    lanes: AtomicUsize,
}

struct Entry {
    shared_job: NonNull<SharedJob>,
    /// The number of helpers that are inside.
    inside: usize,
    /// The owner, if it waits until no helper is inside.
    closed: Option<Waiter>,
}

// SAFETY: other threads use a shared job only while they are inside, and the owner waits for them.
// The code that creates the job guarantees that what they use of it is `Sync`.
unsafe impl Send for Entry {}

impl Entry {
    fn is_worth_entering(&self) -> bool {
        // SAFETY: a shared job in the list is alive, because its owner closes it before it ends.
        let shared_job = unsafe { self.shared_job.as_ref() };
        // SAFETY: `any_in_lanes` was made for this shared job, which is alive.
        let any_in_lanes = || unsafe { (shared_job.any_in_lanes)(self.shared_job) };
        self.closed.is_none() && (!shared_job.is_empty() || any_in_lanes())
    }
}

/// A shared job. It is the first field of the type that contains what is shared.
#[repr(C)]
pub(crate) struct SharedJob {
    ancestor: Ancestor,
    run: Run,
    /// The number of pieces that no thread has taken. It is only a hint for threads that are not
    /// inside.
    left: AtomicUsize,
    /// Whether a helper always notifies another worker, even if it takes the last piece that seems
    /// to be left.
    splits: bool,
    any_in_lanes: AnyInLanes,
}

/// A function that takes one or more pieces of the shared job and runs them. It returns false if it
/// found no piece. It ends soon after the second argument returns true. It does not panic.
pub(in crate::loops) type Run = unsafe fn(NonNull<SharedJob>, &dyn Fn() -> bool) -> bool;

/// A function that returns whether a lane of the shared job has pieces.
type AnyInLanes = unsafe fn(NonNull<SharedJob>) -> bool;

/// The position of a job or a fork in the tree of jobs and forks. A thread that waits for a job
/// helps only with jobs below it. Each job has a pointer to its parent, which is the job whose
/// piece created it.
pub(crate) struct Ancestor {
    /// The job of which the owner is running a piece. It outlives this job, because this job ends
    /// before that piece does. It is only compared, and followed to its own parent.
    parent: *const Self,
}

// SAFETY: the parent never changes, and everyone who follows it guarantees that it is alive.
unsafe impl Sync for Ancestor {}
// SAFETY: the data of an ancestor belong to no particular thread.
unsafe impl Send for Ancestor {}

thread_local! {
    /// The job of which this thread is running a piece, or null.
    static CURRENT_JOB: Cell<*const Ancestor> = const { Cell::new(ptr::null()) };
}

/// Calls `f`, while `job` is the current job of this thread.
pub(super) fn with_current_job<R>(job: *const Ancestor, f: impl FnOnce() -> R) -> R {
    let outer = local(&CURRENT_JOB, |place| place.replace(job));
    let result = current::helping(f);
    if let Some(outer) = outer {
        local(&CURRENT_JOB, |place| place.set(outer));
    }
    result
}

impl Ancestor {
    /// Creates the ancestor of a job that the calling thread creates now.
    #[inline(always)]
    pub(in crate::loops) fn new() -> Self {
        // Under loom we cannot use this thread-local, because loom's threads share it.
        let parent = (!cfg!(creel_loom))
            .then(|| local(&CURRENT_JOB, Cell::get))
            .flatten();
        Self {
            parent: parent.unwrap_or(ptr::null()),
        }
    }

    /// Returns whether this job comes from a piece of `above`.
    ///
    /// # Safety
    ///
    /// The job must be alive. Then all jobs that it comes from are alive too.
    unsafe fn is_under(&self, above: *const Self) -> bool {
        let mut parent = self.parent;
        while !parent.is_null() {
            if ptr::eq(parent, above) {
                return true;
            }
            // SAFETY: validity: the caller guarantees that the job is alive, and with it all jobs
            // that it comes from. Aliasing: `parent` is only read, and it never changes.
            parent = unsafe { (*parent).parent };
        }
        false
    }
}

impl SharedJob {
    /// Creates a shared job. `run` must be made for the type that begins with this job.
    pub(in crate::loops) fn new(run: Run, splits: bool) -> Self {
        Self {
            ancestor: Ancestor::new(),
            run,
            left: AtomicUsize::new(0),
            splits,
            any_in_lanes: |_| false,
        }
    }

    /// Creates a shared job that also has lanes. Both functions must be made for the type that
    /// begins with this job.
    pub(in crate::loops) fn with_lanes(run: Run, any_in_lanes: AnyInLanes) -> Self {
        Self {
            any_in_lanes,
            ..Self::new(run, false)
        }
    }

    /// Returns whether all pieces have been taken. The answer may be out of date.
    pub(in crate::loops) fn is_empty(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

impl SharedJobs {
    pub(crate) fn new() -> Self {
        Self {
            list: Mutex::new(Vec::new()),
            left: AtomicUsize::new(0),
            lanes: AtomicUsize::new(0),
        }
    }

    /// Returns the number of pieces outside of lanes that no thread has taken.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    fn has_lanes(&self) -> bool {
        self.lanes.load(Ordering::SeqCst) > 0
    }

    /// Returns whether the shared job seems to have pieces left.
    pub(crate) fn seems_left(&self) -> bool {
        self.left() > 0 || self.has_lanes() && self.any_worth_entering()
    }

    /// Returns whether an open shared job has pieces left. A worker that finds none, and that has
    /// become idle before, may sleep.
    pub(crate) fn any_left(&self) -> bool {
        let lanes = self.has_lanes();
        // The owner of a lane adds a piece and then looks for an idle worker, with the light
        // barrier in between. This worker has announced that it is idle and now looks for pieces,
        // with the heavy barrier in between.
        if lanes && !barrier::heavy() {
            return true;
        }
        (lanes || self.left() > 0) && self.any_worth_entering()
    }

    fn any_worth_entering(&self) -> bool {
        lock(&self.list).iter().any(Entry::is_worth_entering)
    }

    /// Counts a lane that has been opened, which from now on is in the list of its shared job.
    pub(in crate::loops) fn open_lane(&self) {
        self.lanes.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a lane that has been closed.
    pub(in crate::loops) fn close_lane(&self) {
        self.lanes.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts pieces that have been added to `shared_job`.
    pub(in crate::loops) fn count(&self, shared_job: &SharedJob, pieces: usize) {
        shared_job.left.fetch_add(pieces, Ordering::Release);
        self.left.fetch_add(pieces, Ordering::SeqCst);
    }

    /// Takes a piece of `shared_job`. Returns false if no piece is left.
    pub(in crate::loops) fn claim(&self, shared_job: &SharedJob) -> bool {
        // We do this in one step, so that no thread finds a piece that another thread is about to
        // take.
        let one_less = |left: usize| left.checked_sub(1);
        let claimed = shared_job
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less)
            .is_ok();
        if claimed {
            self.left.fetch_sub(1, Ordering::SeqCst);
        }
        claimed
    }

    /// Enters the first shared job that has pieces left. If `above` is given, it enters the last
    /// such job that comes from `above`.
    pub(crate) fn enter(&self, above: Option<&Ancestor>) -> Option<Helper<'_>> {
        if self.left() == 0 && !self.has_lanes() {
            return None;
        }
        let shared_job = self.find(above)?;
        Some(Helper {
            shared_jobs: self,
            shared_job,
        })
    }

    /// Runs pieces of a shared job that comes from `above`. Returns whether there was one.
    pub(in crate::loops) fn help_under(&self, above: &Ancestor) -> bool {
        let inside = self.enter(Some(above));
        inside.iter().for_each(|inside| inside.run(|| false));
        inside.is_some()
    }

    fn find(&self, above: Option<&Ancestor>) -> Option<NonNull<SharedJob>> {
        let mut list = lock(&self.list);
        let fits = |entry: &&mut Entry| {
            // SAFETY: everything in the list is alive, and is only shared.
            let shared_job = unsafe { entry.shared_job.as_ref() };
            // SAFETY: the jobs that it comes from are alive too.
            let is_under = |above: &Ancestor| unsafe { shared_job.ancestor.is_under(above) };
            entry.is_worth_entering() && above.is_none_or(is_under)
        };
        let entry = match above {
            None => list.iter_mut().find(fits),
            Some(_) => list.iter_mut().rev().find(fits),
        }?;
        entry.inside += 1;
        Some(entry.shared_job)
    }

    fn leave(&self, shared_job: NonNull<SharedJob>) {
        let mut list = lock(&self.list);
        let Some(at) = list.iter().position(|entry| entry.shared_job == shared_job) else {
            unreachable!("a shared job stays in the list while a helper runs it");
        };
        list[at].inside -= 1;
        if list[at].inside == 0 && list[at].closed.is_some() {
            let entry = list.swap_remove(at);
            entry.closed.iter().for_each(Waiter::wake);
        }
    }

    fn is_listed(&self, shared_job: NonNull<SharedJob>) -> bool {
        lock(&self.list)
            .iter()
            .any(|entry| entry.shared_job == shared_job)
    }
}

/// A thread that is inside a shared job. The job stays alive until this value is dropped.
pub(crate) struct Helper<'a> {
    shared_jobs: &'a SharedJobs,
    shared_job: NonNull<SharedJob>,
}

impl Helper<'_> {
    /// Returns whether there is work for others, in addition to the piece that this thread will
    /// take. If another thread takes that piece first, this thread runs nothing and searches again
    /// at once.
    pub(crate) fn leaves_some(&self) -> bool {
        // SAFETY: the shared job is alive while this helper is inside.
        let shared_job = unsafe { self.shared_job.as_ref() };
        let shared_jobs = self.shared_jobs;
        let any_in_lanes = || shared_jobs.has_lanes() && shared_jobs.any_worth_entering();
        shared_job.splits || shared_jobs.left() > 1 || any_in_lanes()
    }

    /// Runs pieces until none is left, or until `enough` returns true.
    pub(crate) fn run(&self, enough: impl Fn() -> bool) {
        // SAFETY: the shared job is alive while this helper is inside.
        let SharedJob { run, ancestor, .. } = unsafe { self.shared_job.as_ref() };
        with_current_job(ancestor, || {
            // SAFETY: `run` was made for this shared job, which is alive.
            while unsafe { run(self.shared_job, &enough) } && !enough() {}
        });
    }
}

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.shared_jobs.leave(self.shared_job);
    }
}

/// A shared job that is open until this value is dropped. After the drop, no helper is inside.
pub(in crate::loops) struct Open<'a> {
    loops: &'a Protocol,
    shared_job: NonNull<SharedJob>,
    /// The worker whose thread owns the shared job. It is `None` if the owner is a thread from
    /// outside.
    own: Option<usize>,
}

// SAFETY: the code that opens the shared job guarantees that it may be shared, and this type only
// reads its address.
unsafe impl Sync for Open<'_> {}

impl<'a> Open<'a> {
    /// Puts the shared job into the list, with no pieces yet.
    ///
    /// # Safety
    ///
    /// Until this value is dropped, the shared job must be alive, must not move, and must be safe
    /// to share. `run` must be made for the type of which the job is the first field. The returned
    /// value must be dropped and not leaked.
    pub(in crate::loops) unsafe fn new(
        loops: &'a Protocol,
        shared_job: NonNull<SharedJob>,
    ) -> Self {
        let entry = Entry {
            shared_job,
            inside: 0,
            closed: None,
        };
        lock(&loops.shared_jobs.list).push(entry);
        let own = current::index_in(&loops.slots);
        if own.is_none() {
            loops.slots.idle.begin_outside();
        }
        Self {
            loops,
            shared_job,
            own,
        }
    }

    fn shared_job(&self) -> &SharedJob {
        // SAFETY: the caller of `new` guarantees that the job is alive as long as this value.
        unsafe { self.shared_job.as_ref() }
    }

    /// Adds `pieces` pieces, and notifies an idle worker.
    pub(in crate::loops) fn add(&self, pieces: usize) {
        let shared_jobs = &self.loops.shared_jobs;
        shared_jobs.count(self.shared_job(), pieces);
        self.notify();
    }

    /// Adds one piece that the owner may not take, because it may block. Notifies an idle worker.
    pub(in crate::loops) fn add_for_others(&self) {
        let shared_jobs = &self.loops.shared_jobs;
        shared_jobs.count(self.shared_job(), 1);
        self.loops.slots.notify_any_other(self.own);
    }

    /// Notifies an idle worker of pieces that have been added.
    pub(in crate::loops) fn notify(&self) {
        self.loops.slots.notify_other(self.own);
    }

    /// Unparks the worker `near`, for which one piece has been added, if it is idle. Otherwise it
    /// notifies any idle worker.
    pub(in crate::loops) fn notify_near(&self, near: usize) {
        let slots = &self.loops.slots;
        let slot = slots.at(near);
        if !slot.is_idle() || slots.is_threadless() || slots.ensure_started(slot).is_err() {
            return self.notify();
        }
        if slot.notify() != PrevState::Asleep {
            // The worker may have begun something else since we saw it idle.
            self.notify();
        }
        // If the unparked worker wakes up now, it sees the piece. If it begins something else
        // first, it notifies another worker (`pool/worker_loop.rs`).
    }

    /// Takes pieces and runs them on the owner's thread. Returns false if no piece was left.
    pub(in crate::loops) fn run_some(&self) -> bool {
        let SharedJob { run, ancestor, .. } = self.shared_job();
        // SAFETY: `run` belongs to this shared job.
        with_current_job(ancestor, || unsafe { run(self.shared_job, &|| false) })
    }

    /// Runs pieces of a shared job that comes from this one. Returns whether there was one.
    pub(in crate::loops) fn help_under(&self) -> bool {
        let shared_jobs = &self.loops.shared_jobs;
        shared_jobs.help_under(&self.shared_job().ancestor)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let shared_jobs = &self.loops.shared_jobs;
        let mut list = lock(&shared_jobs.list);
        if let Some(at) = list
            .iter()
            .position(|entry| entry.shared_job == self.shared_job)
        {
            if list[at].inside == 0 {
                list.swap_remove(at);
                drop(list);
            } else {
                let waiter = Waiter::current();
                list[at].closed = Some(waiter.clone());
                drop(list);
                waiter.wait_until(
                    || !shared_jobs.is_listed(self.shared_job),
                    || self.help_under(),
                );
            }
        }
        if self.own.is_none() {
            self.loops.slots.idle.end_outside();
        }
    }
}

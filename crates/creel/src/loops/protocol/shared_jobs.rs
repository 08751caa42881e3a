//! What threads offer to share with whoever is idle: the other side of a join, the jobs of a scope,
//! the blocks of a loop inside of another.
//!
//! An offer lies on its owner's stack, or is kept by it, and is in the pool's list while it is
//! open. Workers that have nothing to do look through the list, the oldest first, go *inside* an
//! offer and run pieces of it. The owner runs pieces, too; in the end it closes the offer and waits
//! for those who are inside. Entering, leaving and closing happen under the list's lock, so that
//! nobody looks at an offer that its owner has given up.
//!
//! A thread that waits for its offer helps those that come from it, and no others: what it runs
//! then is a part of what it waits for. So a lock that it holds is not taken again by a stranger's
//! work on its stack.

use super::Protocol;
use crate::{
    sync::{AtomicUsize, Mutex, Ordering, local, lock, thread_local},
    worker::{current, parker::PrevState, slots::When, waiter::Waiter},
};
use std::{cell::Cell, ptr, ptr::NonNull};

/// The offers of a pool.
pub(crate) struct SharedJobs {
    list: Mutex<Vec<Entry>>,
    /// Pieces of all offers that nobody has taken, or a few more: an offer's own count goes up
    /// before this does, and down before. `SeqCst`: stored before its publisher looks for an idle
    /// worker; a worker that becomes idle says so before it looks here.
    left: AtomicUsize,
}

struct Entry {
    shared_job: NonNull<SharedJob>,
    /// How many threads but the owner run pieces of it.
    inside: usize,
    /// The owner waits until that is none.
    closed: Option<Waiter>,
}

// SAFETY: an offer is used by other threads only while they are inside, which the owner waits for;
// what they may use of it is `Sync`, says who makes it.
unsafe impl Send for Entry {}

impl Entry {
    fn is_worth_entering(&self) -> bool {
        // SAFETY: what is in the list is alive.
        let left = unsafe { self.shared_job.as_ref() }
            .left
            .load(Ordering::Acquire);
        self.closed.is_none() && left > 0
    }
}

/// Something offered: the first field of what there is to share.
pub(crate) struct SharedJob {
    /// The offer of which the owner runs a piece. It outlives this one, because that piece does.
    parent: *const SharedJob,
    run: Run,
    /// Pieces that nobody has taken; a hint to those outside.
    left: AtomicUsize,
    /// Whether a piece that is taken leaves others.
    splits: bool,
}

// SAFETY: the parent is only compared, and followed to its own parent, which does not change.
unsafe impl Sync for SharedJob {}

/// Takes a piece of the offer and runs it; false: there was none. Does not panic.
pub(in crate::loops) type Run = unsafe fn(NonNull<SharedJob>) -> bool;

thread_local! {
    /// The offer of which this thread runs a piece, or null.
    static CURRENT_JOB: Cell<*const SharedJob> = const { Cell::new(ptr::null()) };
}

/// Makes `shared_job` the one inside of which this thread is, while it calls `f`.
fn with_current_job<R>(shared_job: *const SharedJob, f: impl FnOnce() -> R) -> R {
    let outer = local(&CURRENT_JOB, |place| place.replace(shared_job));
    let result = f();
    if let Some(outer) = outer {
        local(&CURRENT_JOB, |place| place.set(outer));
    }
    result
}

impl SharedJob {
    /// `run` is for the type that begins with this.
    pub(in crate::loops) fn new(run: Run, splits: bool) -> Self {
        // Loom's threads share what is the thread's own.
        let parent = (!cfg!(loom))
            .then(|| local(&CURRENT_JOB, Cell::get))
            .flatten();
        Self {
            parent: parent.unwrap_or(ptr::null()),
            run,
            left: AtomicUsize::new(0),
            splits,
        }
    }

    /// Whether nobody has left a piece of it; a moment ago.
    pub(in crate::loops) fn is_empty(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Whether it comes from a piece of `above`.
    ///
    /// # Safety
    ///
    /// The offer, and so all that it comes from, is alive.
    unsafe fn is_under(&self, above: NonNull<SharedJob>) -> bool {
        let mut parent = self.parent;
        while !parent.is_null() {
            if ptr::eq(parent, above.as_ptr()) {
                return true;
            }
            // SAFETY: validity: alive, and so is all that it comes from, says the caller. Aliasing:
            // `parent` is only read; it never changes.
            parent = unsafe { (*parent).parent };
        }
        false
    }
}

impl SharedJobs {
    pub(crate) fn new() -> Self {
        Self {
            list: Mutex::new(Vec::new()),
            left: AtomicUsize::new(0),
        }
    }

    /// Pieces that nobody has taken.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    /// Whether there are some now, in an offer that is open. A worker that finds none may sleep.
    pub(crate) fn any_left(&self) -> bool {
        self.left() > 0 && lock(&self.list).iter().any(Entry::is_worth_entering)
    }

    /// Takes a piece of `shared_job`, if nobody has taken the last one.
    pub(in crate::loops) fn claim(&self, shared_job: &SharedJob) -> bool {
        // One step, so that nobody finds a piece that somebody is about to take.
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

    /// Goes inside the first offer with something left, or of those under `above` the last.
    pub(crate) fn enter(&self, above: Option<NonNull<SharedJob>>) -> Option<Helper<'_>> {
        if self.left() == 0 {
            return None;
        }
        let shared_job = self.find(above)?;
        Some(Helper {
            shared_jobs: self,
            shared_job,
        })
    }

    fn find(&self, above: Option<NonNull<SharedJob>>) -> Option<NonNull<SharedJob>> {
        let mut list = lock(&self.list);
        let fits = |entry: &&mut Entry| {
            // SAFETY: what is in the list is alive, and is only shared.
            let shared_job = unsafe { entry.shared_job.as_ref() };
            // SAFETY: so is all that it comes from.
            let is_under = |above| unsafe { shared_job.is_under(above) };
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
            unreachable!("an shared_job stays in the list while somebody is inside");
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

/// A thread's stay inside an offer: until it is dropped, the offer lives.
pub(crate) struct Helper<'a> {
    shared_jobs: &'a SharedJobs,
    shared_job: NonNull<SharedJob>,
}

impl Helper<'_> {
    /// Whether there is work for others, beside the piece that this thread will take. If that piece
    /// has gone meanwhile, this thread runs nothing and looks again at once.
    pub(crate) fn leaves_some(&self) -> bool {
        // SAFETY: it lives.
        let splits = unsafe { self.shared_job.as_ref() }.splits;
        splits || self.shared_jobs.left() > 1
    }

    /// Runs pieces until there are no more, or `enough`.
    pub(crate) fn run(&self, enough: impl Fn() -> bool) {
        // SAFETY: it lives.
        let run = unsafe { self.shared_job.as_ref() }.run;
        with_current_job(self.shared_job.as_ptr(), || {
            // SAFETY: `run` was made for this offer, which lives.
            while unsafe { run(self.shared_job) } && !enough() {}
        });
    }
}

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.shared_jobs.leave(self.shared_job);
    }
}

/// An offer that is open, until this is dropped: then nobody is inside any more.
pub(in crate::loops) struct Open<'a> {
    loops: &'a Protocol,
    shared_job: NonNull<SharedJob>,
    /// The owner is no worker of the pool: it is as good as worker 0.
    outside: bool,
}

// SAFETY: an offer may be shared, says who opens it, and this only reads where it is.
unsafe impl Sync for Open<'_> {}

impl<'a> Open<'a> {
    /// Puts the offer in the list, with nothing to share yet.
    ///
    /// # Safety
    ///
    /// The offer is alive, does not move, and may be shared, until this is dropped; `run` and what
    /// it is the first field of were made for each other. The open one is dropped, not leaked.
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
        let outside = current::index_in(&loops.slots).is_none();
        if outside {
            loops.slots.idle.begin_outside();
        }
        Self {
            loops,
            shared_job,
            outside,
        }
    }

    fn shared_job(&self) -> &SharedJob {
        // SAFETY: alive while this is, says who made it.
        unsafe { self.shared_job.as_ref() }
    }

    /// There are so many more pieces; one of the idle is called for them.
    pub(in crate::loops) fn add(&self, pieces: usize) {
        self.count(pieces);
        self.call();
    }

    fn count(&self, pieces: usize) {
        self.shared_job().left.fetch_add(pieces, Ordering::Release);
        self.loops
            .shared_jobs
            .left
            .fetch_add(pieces, Ordering::SeqCst);
    }

    /// Has one of the idle come.
    fn call(&self) {
        // Where no thread can be had, the owner does it all.
        let _ = self
            .loops
            .slots
            .notify_one(usize::from(self.outside), When::Now);
    }

    /// There is one more piece, meant for the worker `near`: that one is told of it, if it idles.
    pub(in crate::loops) fn add_near(&self, near: usize) {
        let slots = &self.loops.slots;
        let slot = slots.at(near);
        if !slot.is_idle() || slots.is_threadless() || slots.ensure_started(slot).is_err() {
            return self.add(1);
        }
        self.count(1);
        if slot.notify() != PrevState::Asleep {
            // It may have begun something else since it was seen idle.
            self.call();
        }
        // One that wakes now sees the piece, and calls another if it begins something else first
        // (`pool/worker_loop.rs`).
    }

    /// Takes a piece and runs it on the owner's thread.
    pub(in crate::loops) fn run_one(&self) -> bool {
        let run = self.shared_job().run;
        // SAFETY: `run` is the offer's own.
        with_current_job(self.shared_job.as_ptr(), || unsafe { run(self.shared_job) })
    }

    /// Runs a piece of an offer that comes from this one.
    pub(in crate::loops) fn help_under(&self) -> bool {
        let inside = self.loops.shared_jobs.enter(Some(self.shared_job));
        inside.iter().for_each(|inside| inside.run(|| false));
        inside.is_some()
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
        if self.outside {
            self.loops.slots.idle.end_outside();
        }
    }
}

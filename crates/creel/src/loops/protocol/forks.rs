//! Forks: the second closures of `join`, which idle workers steal.
//!
//! Each thread that forks has a [`Forker`] with a deque (`deque.rs`). A worker has one of its own.
//! A thread from outside borrows one while it is inside its outermost join, as a *guest*.
//!
//! # Work first
//!
//! A fork that nobody steals must cost as little as possible, because almost all forks of a deep
//! recursion are such forks. The thread that forks therefore only writes to its own memory, and
//! executes two full barriers, of a few nanoseconds each. All other costs are paid by the thief:
//!
//! - It finds out by itself which threads have forks ([`Forks::hunt`]).
//! - It takes the *oldest* fork, which is the largest piece of a recursion.
//! - It steals only from a recursion that has been running for [`PATIENCE_NS`]. A shorter one is
//!   not worth a steal.
//!
//! # Liveness
//!
//! A thread that forks while a worker is idle notifies that worker ([`Forker::push`]). The thread
//! pushes first and then looks for an idle worker. A worker that becomes idle announces this first
//! and then looks for forks ([`Forks::any_for_idle`]). The barriers in between ensure that at
//! least one of them sees the other.
//!
//! If a thread has to notify often, it does so only from time to time. It relies on the watchdog in
//! between, which hunts every millisecond. Therefore it notifies at once if there is no watchdog.
//! The same applies to forks of a recursion that is too young. If a thread from outside has only
//! had short recursions, it does not notify at first, and ensures that there is a watchdog
//! (`wake_throttle.rs`).
//!
//! A guest takes the place of worker 0, so that no more threads compute than the pool has workers.
//! While guests make progress, worker 0 steals nothing, and no thread notifies it of forks that
//! belong to a guest's recursion ([`Forks::is_worker_0_replaced`]). If the guests are blocked,
//! worker 0 finds the forks as the watchdog.
//!
//! # Waiting for a stolen fork
//!
//! The owner of a stolen fork helps the thief in the meantime, by stealing back forks that belong
//! to the stolen one (leapfrogging; Wagner and Calder, 1993). While the thief runs the stolen fork,
//! each fork in its deque from a certain index on was created inside the stolen one. Therefore the
//! owner runs nothing that it does not wait for anyway, and its stack grows no deeper than that of
//! the plain recursion. There is one exception (`apart.rs`). After one millisecond, the owner also
//! runs jobs of the program's own queues, because the stolen fork may wait for one of them.

mod apart;
mod enter;
mod hunt;

pub(in crate::loops) use enter::Entered;

use super::{
    Protocol,
    cutoff::{Cutoff, Place},
    deque::Deque,
    shared_jobs::{Ancestor, with_current_job},
    wake_throttle::{Deferral, WakeThrottle},
};
use crate::{
    sync::{
        AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Mutex, Ordering, UnsafeCell, barrier, local,
        now_ns, spin_loop, thread_local,
    },
    worker::{slots::WorkerSlots, table::Table, waiter::Waiter},
};
use apart::Late;
use crossbeam_utils::CachePadded;
use std::{
    cell::Cell,
    mem::MaybeUninit,
    ptr::{self, NonNull},
    sync::Arc,
    time::Duration,
};

/// The age at which forks may be stolen, counted from the moment at which their thread began to
/// fork. It is about the time that a steal costs both threads.
const PATIENCE_NS: u64 = if cfg!(creel_shuttle) { 0 } else { 3_000 };
/// If a guest has pushed no fork for this time, worker 0 steals forks although the guest takes its
/// place.
const GUEST_STUCK_NS: u64 = if cfg!(creel_shuttle) { 0 } else { 1_000_000 };
/// The time for which the owner of a stolen fork looks for forks to steal back before it sleeps.
const HELP_SPIN_NS: u64 = 20_000;
/// The number of pauses between two looks at the deque of another thread.
const PAUSES: usize = if cfg!(any(creel_loom, creel_shuttle)) {
    1
} else {
    16
};
/// The interval at which the owner wakes up to look again, once it sleeps.
const HELP_EVERY: Duration = Duration::from_micros(200);

/// The head of a fork, which is on the stack of the thread that forks.
#[repr(C)]
pub(in crate::loops) struct Fork {
    /// The position of the fork in the tree of jobs and forks (see [`Ancestor`]).
    ancestor: Ancestor,
    /// Runs the closure and stores its result. It does not panic.
    run: unsafe fn(NonNull<Fork>, &Forker),
    /// The number of forks that enclose this fork.
    depth: usize,
    /// The thief writes it under the lock of the deque, before anybody reads it. The owner reads it
    /// after it has found out under that lock that the fork was stolen.
    stolen: UnsafeCell<MaybeUninit<Stolen>>,
}

/// The data that the owner of a stolen fork has about the thief.
struct Stolen {
    /// Whether the result has been stored. The thief sets it last (`SeqCst`, as
    /// [`Waiter::wake_if_asleep`] asks for), and does not use the fork after that.
    done: AtomicBool,
    thief: NonNull<Forker>,
    /// The forks of the thief from this index on belong to the stolen fork, until it is done.
    from: usize,
}

impl Fork {
    #[inline(always)]
    pub(in crate::loops) fn new(run: unsafe fn(NonNull<Fork>, &Forker), depth: usize) -> Self {
        Self {
            ancestor: Ancestor::new(),
            run,
            depth,
            stolen: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Returns what the thief wrote.
    ///
    /// # Safety
    ///
    /// The fork was stolen, and the calling thread has seen this under the lock of the deque, or
    /// holds that lock, or is the thief.
    unsafe fn stolen(&self) -> &Stolen {
        self.stolen.with(|stolen| {
            // SAFETY: validity: it lives as long as the fork. Aliasing: it is only shared after the
            // thief has written it.
            let stolen = unsafe { &*stolen };
            // SAFETY: the thief has written it, as the caller guarantees.
            unsafe { stolen.assume_init_ref() }
        })
    }
}

thread_local! {
    /// The forker of this thread, while it is active, or null.
    static CURRENT: Cell<*const Forker> = const { Cell::new(ptr::null()) };
}

/// A thread that forks, as others see it.
pub(crate) struct Forker {
    deque: Deque,
    cutoff: Cutoff,
    /// The pool in which the forker is active, or null.
    loops: AtomicPtr<Protocol>,
    /// The time at which the thread began to fork. Thieves use it as a hint.
    begun_ns: AtomicU64,
    /// Whether the forker is counted in `Forks::active`. Only its own thread uses this.
    is_counted: AtomicBool,
    /// The worker whose forker this is. It is `None` for a guest.
    own: Option<usize>,
    /// The first worker that the thread may notify of its forks. It is 1 while the thread runs a
    /// part of a guest's recursion, because the guest takes the place of worker 0. Only its own
    /// thread writes it. A thief reads it with relaxed ordering, as a hint.
    first: AtomicUsize,
    throttle: WakeThrottle,
    /// Only a guest uses this. A worker stays active until its next turn, so it does not begin a
    /// recursion for each join.
    deferral: Deferral,
}

impl Forker {
    /// Creates the forker of a worker, or of a guest.
    ///
    /// # Safety
    ///
    /// The workers must live as long as the forker.
    unsafe fn new(slots: &WorkerSlots, own: Option<usize>) -> Self {
        let first = slots.first_helper(own);
        let idle = slots.idle.seems_listed_from(first);
        Self {
            // SAFETY: the caller guarantees that the flag, which is a part of `slots`, is alive.
            deque: unsafe { Deque::new(idle) },
            cutoff: Cutoff::new(),
            loops: AtomicPtr::new(ptr::null_mut()),
            begun_ns: AtomicU64::new(0),
            is_counted: AtomicBool::new(false),
            own,
            first: AtomicUsize::new(first),
            throttle: WakeThrottle::new(),
            deferral: Deferral::new(),
        }
    }

    /// Returns the forker of the calling thread in this pool, if it is active.
    #[inline(always)]
    pub(in crate::loops) fn current(loops: &Protocol) -> Option<&Self> {
        let current = local(&CURRENT, Cell::get).unwrap_or(ptr::null());
        // SAFETY: the thread-local contains a forker only while the thread uses its pool.
        let forker = unsafe { current.as_ref() }?;
        ptr::eq(forker.loops.load(Ordering::Relaxed), loops).then_some(forker)
    }

    /// Returns the pool of this forker, which is active.
    fn loops(&self) -> &Protocol {
        // SAFETY: validity: a forker is part of its pool, so the pool is alive. `begin` has set the
        // pointer. Aliasing: a pool is only shared.
        unsafe { &*self.loops.load(Ordering::Relaxed) }
    }

    /// Returns the cutoff of the recursion.
    #[inline(always)]
    pub(in crate::loops) fn cutoff(&self) -> &Cutoff {
        &self.cutoff
    }

    /// Pushes a fork and returns its index. If there is an idle worker, it calls `notify`.
    ///
    /// # Safety
    ///
    /// The fork must stay alive and in its place until [`pop`](Self::pop) has returned true, or
    /// [`wait`](Self::wait) has returned. The calling thread owns this forker.
    #[inline(always)]
    pub(in crate::loops) unsafe fn push(&self, fork: NonNull<Fork>) -> usize {
        // SAFETY: the caller guarantees the same.
        let index = unsafe { self.deque.push(fork) };
        barrier::full();
        if self.deque.any_idle() {
            self.notify();
        }
        index
    }

    /// Takes back the youngest fork, as [`Deque::pop`].
    #[inline(always)]
    pub(in crate::loops) fn pop(&self, index: usize) -> bool {
        self.deque.pop(index)
    }

    /// Notifies an idle worker of the forks, except in these cases:
    ///
    /// - A worker is already searching.
    /// - This thread has just notified one, and there is a watchdog.
    /// - The thread defers the notification (`wake_throttle.rs`).
    #[cold]
    #[inline(never)]
    fn notify(&self) {
        let slots = &self.loops().slots;
        let begun_ns = self.begun_ns.load(Ordering::Relaxed);
        if self.deferral.defers(slots, begun_ns) {
            return;
        }
        let first = self.first.load(Ordering::Relaxed);
        self.throttle
            .notify(slots, first, self.own, self.deque.stolen());
    }

    /// Sets the first worker that the thread may notify of its forks. Returns the previous one.
    fn set_first(&self, first: usize) -> usize {
        let before = self.first.load(Ordering::Relaxed);
        if before != first {
            self.first.store(first, Ordering::Relaxed);
            let idle = self.loops().slots.idle.seems_listed_from(first);
            // SAFETY: the flag lives as long as the workers, and so does the forker.
            unsafe { self.deque.set_idle(idle) };
        }
        before
    }

    /// Begins to fork, on the calling thread. `begun_ns` is the time at which the thread began to
    /// fork. A thief is not counted in `Forks::active`, because the recursion from which it steals
    /// is counted until the stolen fork is done. If we counted thieves, every steal would write to
    /// a cache line that all thieves read.
    fn begin(&self, loops: &Protocol, begun_ns: u64, is_counted: bool) {
        self.deque.set_owner(Some(Waiter::current()));
        self.cutoff.go_to(Place::default());
        self.loops
            .store(ptr::from_ref(loops).cast_mut(), Ordering::Relaxed);
        self.begun_ns.store(begun_ns, Ordering::Relaxed);
        self.is_counted.store(is_counted, Ordering::Relaxed);
        if is_counted {
            loops.forks.active.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn end(&self, loops: &Protocol) {
        if self.is_counted.load(Ordering::Relaxed) {
            loops.forks.active.fetch_sub(1, Ordering::SeqCst);
        }
        self.loops.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Returns whether the recursion has been running for long enough to steal from it.
    fn is_old(&self, now: u64) -> bool {
        now.saturating_sub(self.begun_ns.load(Ordering::Relaxed)) >= PATIENCE_NS
    }

    fn is_active(&self) -> bool {
        !self.loops.load(Ordering::Relaxed).is_null()
    }

    /// Runs a fork that this thread has stolen.
    fn run(&self, prey: Prey) {
        let Prey {
            fork,
            waiter,
            place,
            first,
        } = prey;
        let before = (self.cutoff.go_to(place), self.set_first(first));
        // SAFETY: validity: the fork was stolen by this thread, and its owner keeps it alive until
        // it is done. Aliasing: it is only shared.
        let head = unsafe { fork.as_ref() };
        let run = head.run;
        with_current_job(&head.ancestor, || {
            // SAFETY: `run` was made for this fork, which only this thread runs.
            unsafe { run(fork, self) };
        });
        self.cutoff.go_to(before.0);
        self.set_first(before.1);
        // SAFETY: this thread is the thief.
        let stolen = unsafe { head.stolen() };
        stolen.done.swap(true, Ordering::SeqCst);
        // The fork may be gone from here on.
        waiter.wake_if_asleep();
    }

    /// Steals the oldest fork of this forker for `thief`, unless its index is below `from` or
    /// `fits` is false.
    fn steal(
        &self,
        thief: &Self,
        from: Option<usize>,
        fits: impl FnOnce() -> bool,
    ) -> Option<Prey> {
        self.deque.steal(from, |fork, waiter| {
            if !fits() {
                return None;
            }
            // SAFETY: validity: the fork is in the deque, so its owner keeps it alive. Aliasing: it
            // is only shared.
            let head = unsafe { fork.as_ref() };
            let stolen = Stolen {
                done: AtomicBool::new(false),
                thief: NonNull::from(thief),
                from: thief.deque.bottom(),
            };
            head.stolen.with_mut(|place| {
                // SAFETY: validity: the cell is inside the fork. Aliasing: nobody reads it before
                // it is written, and only the one thief writes it, under the lock.
                unsafe { place.write(MaybeUninit::new(stolen)) };
            });
            let place = self.cutoff.place(head.depth + 1);
            Some(Prey {
                fork,
                waiter,
                place,
                first: self.first.load(Ordering::Relaxed),
            })
        })
    }

    /// Waits until a fork of this thread, which was stolen, is done. Helps with what belongs to it.
    #[cold]
    pub(in crate::loops) fn wait(&self, fork: &Fork) {
        let loops = self.loops();
        // SAFETY: `pop` has returned false for this fork, so this thread has seen under the lock
        // that it was stolen.
        let stolen = unsafe { fork.stolen() };
        // SAFETY: the forkers of a pool live as long as the pool, which the caller borrows.
        let thief = unsafe { stolen.thief.as_ref() };
        let done = || stolen.done.load(Ordering::SeqCst);
        let help = || {
            let prey = thief.steal(self, Some(stolen.from), || !done());
            if let Some(prey) = prey {
                self.run(prey);
                return true;
            }
            loops.shared_jobs.help_under(&fork.ancestor)
        };
        let mut since = None;
        let spin_ns = (2 * loops.mailbox.wake_ns()).max(HELP_SPIN_NS);
        while !done() {
            if help() {
                since = None;
                continue;
            }
            // The thief writes to the cache line of its deque with each fork, so we rarely look at
            // it.
            for _ in 0..PAUSES {
                spin_loop();
                if done() {
                    return;
                }
            }
            let now = now_ns();
            if now - *since.get_or_insert(now) >= spin_ns || cfg!(creel_shuttle) {
                break;
            }
        }
        let late = Late::new(loops);
        late.waiter
            .wait_looking(Some(HELP_EVERY), done, || help() || late.run(self));
    }
}

/// A fork that was stolen and must be run.
#[must_use = "its owner waits until it has been run"]
struct Prey {
    fork: NonNull<Fork>,
    /// The owner, which waits for the fork or will.
    waiter: Waiter,
    /// The place of the fork's closure in the recursion.
    place: Place,
    /// See `Forker::first`.
    first: usize,
}

/// The threads of a pool that fork.
pub(crate) struct Forks {
    /// The number of active forkers, except for those that only run stolen forks. It is `SeqCst`,
    /// like everything that a worker reads after it has announced that it is idle and before it
    /// sleeps (`worker/idle.rs`).
    active: AtomicUsize,
    workers: Table<CachePadded<Forker>>,
    guests: Table<CachePadded<Forker>>,
    /// `workers_made` is one more than the highest index of a worker that has been active so far.
    /// `guests_made` is the number of guests so far. A thread may read an old value. It then finds
    /// the new forker later.
    workers_made: AtomicUsize,
    guests_made: AtomicUsize,
    /// The guests that no thread uses.
    free_guests: Mutex<Vec<usize>>,
    /// The number of forks that the active guests had pushed at `guests_ns`, when this number had
    /// last changed. Only hints, which several threads may write.
    guests_pushed: AtomicUsize,
    guests_ns: AtomicU64,
}

impl Forks {
    pub(super) fn new(slots: &Arc<WorkerSlots>) -> Self {
        // For the lanes of scopes.
        barrier::prepare();
        let table = |is_guest: bool| {
            let slots = Arc::clone(slots);
            Table::new(move |index| {
                let own = (!is_guest).then_some(index);
                // SAFETY: the table keeps this closure, and with it the slots.
                CachePadded::new(unsafe { Forker::new(&slots, own) })
            })
        };
        Self {
            active: AtomicUsize::new(0),
            workers: table(false),
            guests: table(true),
            workers_made: AtomicUsize::new(0),
            guests_made: AtomicUsize::new(0),
            free_guests: Mutex::default(),
            guests_pushed: AtomicUsize::new(0),
            guests_ns: AtomicU64::new(0),
        }
    }

    /// Returns whether some thread may have forks.
    #[inline]
    pub(crate) fn any_active(&self) -> bool {
        self.active.load(Ordering::SeqCst) > 0
    }

    /// Allocates what a worker needs for forks, so that forking and stealing allocate nothing.
    pub(crate) fn prepare(&self, index: usize) {
        self.workers.at(index);
    }

    /// Returns the forker of the calling worker, which is active from now on. `begun_ns` returns
    /// the time at which the worker began to fork. It is `None` if the worker only runs stolen
    /// forks.
    fn worker(
        &self,
        loops: &Protocol,
        index: usize,
        begun_ns: Option<impl FnOnce() -> u64>,
    ) -> &Forker {
        let forker = &**self.workers.at(index);
        if !forker.is_active() {
            self.workers_made.fetch_max(index + 1, Ordering::Relaxed);
            let is_counted = begun_ns.is_some();
            // The forks of a thief belong to a recursion that has been running for long, so others
            // may steal them at once. Therefore their time is 0.
            forker.begin(loops, begun_ns.map_or(0, |begun_ns| begun_ns()), is_counted);
        }
        forker
    }

    /// Ends the forking of a worker, whose thread calls this when it is in no user code.
    #[inline]
    pub(crate) fn stop_forking(loops: &Protocol, index: usize) {
        let forker = loops.forks.workers.at(index);
        if forker.is_active() {
            local(&CURRENT, |current| current.set(ptr::null()));
            forker.end(loops);
        }
    }

    /// Returns whether there seem to be forks that an idle worker should steal.
    pub(crate) fn any_old(&self, slots: &WorkerSlots) -> bool {
        let any = self.any_active() && self.any_old_at(now_ns());
        let from_1 = || slots.idle.seems_listed_from(1).load(Ordering::Relaxed);
        any && (from_1() || !self.is_worker_0_replaced(slots))
    }

    /// Does the same as [`any_old`](Self::any_old), for worker `own`, which has just become idle.
    /// If `young` is true, the forks may also be too young. Either this sees a fork, or the thread
    /// that pushes it sees the idle worker.
    pub(crate) fn any_for_idle(&self, slots: &WorkerSlots, own: usize, young: bool) -> bool {
        let now = if young { u64::MAX } else { now_ns() };
        barrier::full();
        self.any_active() && self.any_old_at(now) && (own > 0 || !self.is_worker_0_replaced(slots))
    }

    fn any_old_at(&self, now: u64) -> bool {
        let old = |forker: &Forker| forker.deque.has_forks() && forker.is_old(now);
        self.others(usize::MAX).any(old)
    }

    /// Returns whether a guest forks in the place of worker 0. With worker 0, there would be one
    /// more busy thread than the pool has workers.
    ///
    /// This does not apply to a guest that has pushed no fork for [`GUEST_STUCK_NS`]. It may be
    /// blocked, and its forks must not wait for it.
    pub(in crate::loops) fn is_worker_0_replaced(&self, slots: &WorkerSlots) -> bool {
        if !self.any_active() || slots.first_helper(None) == 0 {
            return false;
        }
        let guests = 0..self.guests_made.load(Ordering::Relaxed);
        let active = guests
            .map(|guest| self.guests.at(guest))
            .filter(|guest| guest.is_active());
        let (count, pushed) = active.fold((0, 0_usize), |(count, pushed), guest| {
            (count + 1, pushed.wrapping_add(guest.deque.pushed()))
        });
        if count == 0 {
            return false;
        }
        let now = now_ns();
        if self.guests_pushed.swap(pushed, Ordering::Relaxed) != pushed {
            self.guests_ns.store(now, Ordering::Relaxed);
            return true;
        }
        now.saturating_sub(self.guests_ns.load(Ordering::Relaxed)) < GUEST_STUCK_NS
    }

    /// Returns all forkers that may be active, except for that of worker `own`.
    fn others(&self, own: usize) -> impl Iterator<Item = &Forker> {
        let guests = 0..self.guests_made.load(Ordering::Relaxed);
        let guests = guests.map(|guest| &**self.guests.at(guest));
        let workers = self.workers_made.load(Ordering::Relaxed);
        // Among the workers, each thief begins with the one after itself, so that the thieves do
        // not all begin with the same one.
        let after = own.min(workers);
        let workers = (after..workers)
            .chain(0..after)
            .filter(move |worker| *worker != own);
        guests.chain(workers.map(|worker| &**self.workers.at(worker)))
    }
}

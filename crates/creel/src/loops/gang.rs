//! Gangs: workers that run a region together, all at the same time.
//!
//! A loop may run all its shares (the parts of its items) on one thread, so its closure must not
//! wait for another share. Code with barriers of its own needs the opposite guarantee: every member
//! of a region is on a thread of its own. A gang gives that guarantee, because its workers join it
//! once, before its first region, and stay until it is dropped.
//!
//! # The protocol
//!
//! The leader writes the region's closure, and then increments `epoch`. A member that sees a new
//! epoch runs the closure and decrements `pending`. The leader runs its own part, and returns when
//! `pending` is 0. Therefore no member uses the closure after the leader has returned.
//!
//! A member waits in the same way for a region, at a barrier, and for the other members. It spins
//! for a while. Then it counts itself in `sleepers`, leaves its [`Waiter`] in its place, checks its
//! condition once more, and sleeps. A thread that changes a condition reads `sleepers` after the
//! change. All of these accesses are `SeqCst`, so either the thread finds the sleeper, or the
//! sleeper sees the change. Otherwise, a member could sleep for ever.

use crate::{
    pool::{Pool, Wait},
    sync::{
        AtomicBool, AtomicU64, AtomicUsize, LOOKS, Mutex, Ordering, UnsafeCell, lock, now_ns,
        spin_loop,
    },
    worker::{current, error::WorkerError, panics::FirstPanic, waiter::Waiter},
};
use crossbeam_utils::CachePadded;
use std::{fmt, marker::PhantomData, panic::resume_unwind, ptr, sync::Arc};

/// The time for which a member spins if the pool's wait is `Adaptive`. It is about ten times the
/// cost of a sleep.
const SPIN_NS: u64 = 100_000;
/// If two readings of the clock by a spinning member are this far apart, its thread was preempted
/// between them.
const PREEMPTED_NS: u64 = 400_000;
/// The time for which no member spins after one member was preempted.
const QUIET_NS: u64 = 100_000_000;
/// The epoch that makes the members leave the gang.
const END: u64 = u64::MAX;

/// The reason why a pool could not form a gang.
///
/// ```
/// use creel::GangError;
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let _first = pool.gang(2).unwrap();
/// assert!(matches!(pool.gang(2), Err(GangError::Busy)));
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum GangError {
    /// The number of members is 0, higher than the number of workers, or higher than 1 on a pool
    /// without threads.
    Members {
        /// The number of members that you asked for.
        members: usize,
        /// The number of workers in the pool.
        workers: usize,
    },
    /// The pool has a gang already. Two gangs could wait for each other's workers for ever.
    Busy,
    /// The calling thread is a worker of the pool. Two workers that form gangs could wait for each
    /// other for ever.
    OnWorker,
    /// A worker has no thread, because the system refused one or the pool has ended.
    Worker(WorkerError),
}

impl fmt::Display for GangError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Members { members, workers } => write!(
                f,
                "cannot form a gang of {members} members: the pool has {workers} workers"
            ),
            Self::Busy => f.write_str(
                "the pool already has a gang, and it can have only one at a time: drop the other \
                 gang first",
            ),
            Self::OnWorker => f.write_str(
                "a worker of the pool cannot form a gang of this pool: call Pool::gang on another \
                 thread",
            ),
            Self::Worker(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GangError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The message is that of the inner error, so the cause is the inner error's cause.
            Self::Worker(error) => error.source(),
            _ => None,
        }
    }
}

/// The error of a barrier in a region in which a member has panicked or has called
/// [`Member::break_barriers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenBarrier;

impl fmt::Display for BrokenBarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another member of the gang has failed, so it never arrives at the barrier")
    }
}

impl std::error::Error for BrokenBarrier {}

/// The function that calls a region's closure.
type Code = unsafe fn(*const (), Member<'_>);

/// A region's closure.
#[derive(Clone, Copy)]
struct Region {
    code: Code,
    closure: *const (),
}

struct State {
    /// The number of regions so far, or [`END`]. It is `SeqCst`, as the module's documentation
    /// explains. The leader's change of it synchronizes with a member's load, so that the member
    /// sees the new `region`.
    epoch: CachePadded<AtomicU64>,
    /// The closure of the current region. The leader writes it after it has found `pending` at 0,
    /// and before it increments `epoch`. A member reads it after it has seen the new epoch and
    /// before it decrements `pending`.
    region: UnsafeCell<Region>,
    /// The number of members for which the leader waits. It waits until all members have joined the
    /// gang, until they have run the region, and until they have left the gang.
    ///
    /// A member's decrement synchronizes with the leader's load of 0. Therefore the leader sees
    /// everything that the member has written, and the member's read of `region` happens before
    /// the leader's next write to it.
    pending: CachePadded<AtomicUsize>,
    barrier: CachePadded<Barrier>,
    /// The number of members that never joined the gang. Relaxed is enough, because this is changed
    /// before a decrement of `pending`, and the leader reads it after it has found `pending` at 0.
    absent: AtomicUsize,
    /// The number of threads that sleep or are about to sleep.
    sleepers: AtomicUsize,
    /// The waiters of the sleeping members, by the index of the member. The leader is member 0.
    places: Vec<CachePadded<Mutex<Option<Waiter>>>>,
    panic: FirstPanic,
    spin_ns: u64,
    /// The time until which no member spins, because one was preempted. Relaxed is enough, because
    /// the time is only a hint.
    quiet_until_ns: AtomicU64,
}

struct Barrier {
    /// The number of members that wait at the barrier in this round. The last member to arrive
    /// resets the number before it opens the barrier.
    arrived: AtomicUsize,
    /// The number of rounds of the barrier so far. The last member's increment synchronizes with
    /// the loads of the waiting members. Together with the increments of `arrived`, this makes
    /// everything that any member does before the barrier happen before everything that any member
    /// does after it.
    rounds: AtomicUsize,
    /// Whether the barrier is broken, because a member has panicked or has called `break_barriers`.
    broken: AtomicBool,
}

// SAFETY: `region` is written and read as its documentation says. Its closure is `Sync`, and
// everything else is atomic or behind a lock.
unsafe impl Sync for State {}
// SAFETY: the closure belongs to no particular thread.
unsafe impl Send for State {}

impl State {
    fn new(members: usize, spin_ns: u64) -> Self {
        Self {
            epoch: CachePadded::new(AtomicU64::new(0)),
            region: UnsafeCell::new(Region {
                code: nothing,
                closure: ptr::null(),
            }),
            pending: CachePadded::new(AtomicUsize::new(members - 1)),
            barrier: CachePadded::new(Barrier {
                arrived: AtomicUsize::new(0),
                rounds: AtomicUsize::new(0),
                broken: AtomicBool::new(false),
            }),
            absent: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            places: (0..members).map(|_| CachePadded::default()).collect(),
            panic: FirstPanic::default(),
            spin_ns,
            quiet_until_ns: AtomicU64::new(0),
        }
    }

    /// Blocks member `index` until `done` returns true. `done` must read with `SeqCst`.
    fn wait(&self, index: usize, done: impl Fn() -> bool) {
        if self.spin(&done) {
            return;
        }
        let waiter = Waiter::current();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        *lock(&self.places[index]) = Some(waiter.clone());
        waiter.wait_until(done, || false);
        *lock(&self.places[index]) = None;
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Spins until `done` returns true or spinning does not pay. Returns what `done` returned last.
    fn spin(&self, done: impl Fn() -> bool) -> bool {
        let (mut begin, mut last) = (0, 0);
        loop {
            for look in 0..LOOKS {
                if done() {
                    return true;
                }
                if look % 4 == 3 {
                    spin_loop();
                }
            }
            let now = now_ns();
            if begin == 0 {
                (begin, last) = (now, now);
            }
            if now - last > PREEMPTED_NS {
                self.quiet_until_ns.store(now + QUIET_NS, Ordering::Relaxed);
            }
            let quiet = now < self.quiet_until_ns.load(Ordering::Relaxed);
            if quiet || now - begin >= self.spin_ns || cfg!(any(creel_loom, creel_shuttle)) {
                return done();
            }
            last = now;
        }
    }

    /// Wakes the sleeping members, if there are any. Call this after each change that a member may
    /// be waiting for.
    #[inline]
    fn changed(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        for place in &self.places {
            let waiter = lock(place).clone();
            if let Some(waiter) = waiter {
                waiter.wake();
            }
        }
    }

    /// Records that a member has done what the leader waits for.
    fn done(&self) {
        if self.pending.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.changed();
        }
    }

    /// Blocks the leader until all other members are done.
    fn wait_for_members(&self) {
        self.wait(0, || self.pending.load(Ordering::SeqCst) == 0);
    }

    /// Runs regions as member `index`, until the gang ends.
    fn serve(&self, index: usize) {
        let mut seen = 0;
        self.done();
        loop {
            self.wait(index, || self.epoch.load(Ordering::SeqCst) != seen);
            seen = self.epoch.load(Ordering::SeqCst);
            if seen == END {
                break;
            }
            // SAFETY: validity: the leader has written the region before this epoch. Aliasing: it
            // writes the next one only when this member has decremented `pending`.
            let region = self.region.with(|region| unsafe { *region });
            self.run(region, index);
            self.done();
        }
        self.done();
    }

    /// Runs one member's part of a region.
    fn run(&self, region: Region, index: usize) {
        let member = Member {
            state: self,
            index,
            not_send: PhantomData,
        };
        // SAFETY: the closure was made for this code, and the leader keeps it alive until all
        // members are done with the region.
        let ran = self
            .panic
            .catch(|| unsafe { (region.code)(region.closure, member) });
        if ran.is_none() {
            self.break_barriers();
        }
    }

    fn break_barriers(&self) {
        self.barrier.broken.store(true, Ordering::SeqCst);
        self.changed();
    }
}

/// A member's job on its way to the worker. If the worker never runs it, for example because the
/// pool ends, the leader must not wait for it.
struct MemberJob {
    state: Arc<State>,
    index: usize,
    begun: bool,
}

impl MemberJob {
    fn serve(mut self) {
        self.begun = true;
        self.state.serve(self.index);
    }
}

impl Drop for MemberJob {
    fn drop(&mut self) {
        if !self.begun {
            self.state.absent.fetch_add(1, Ordering::Relaxed);
            self.state.done();
        }
    }
}

unsafe fn nothing(_: *const (), _: Member<'_>) {}

/// # Safety
///
/// `closure` must point to a live `F`.
unsafe fn call<F: Fn(Member<'_>) + Sync>(closure: *const (), member: Member<'_>) {
    // SAFETY: validity: the caller guarantees it. Aliasing: the closure is only shared, because it
    // is `Sync`.
    let closure = unsafe { &*closure.cast::<F>() };
    closure(member);
}

/// Workers that run regions together. Each member has a thread of its own. [`Pool::gang`] creates
/// it.
///
/// The workers belong to the gang until it is dropped. Between two regions they spin for a while,
/// as far as the pool's [`Wait`] allows, and then sleep. Tasks and jobs that are bound to one of
/// these workers wait until the gang is dropped. Loops of the pool get no help from them either.
///
/// A gang of a [`Pool`] keeps its workers alive. Drop a gang of a [handle](Pool::handle) before the
/// pool, because the drop of the pool waits for the gang.
pub struct Gang {
    state: Arc<State>,
    pool: Pool,
}

/// One member's view of a region.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    state: &'a State,
    index: usize,
    /// Makes the type neither `Send` nor `Sync`. A member stays on its thread, because each member
    /// waits in a place of its own.
    not_send: PhantomData<*const ()>,
}

impl Pool {
    /// Forms a gang of `members` threads: the calling thread, and the workers from 1 on. Blocks
    /// until all workers have joined, which takes tens of microseconds if they are idle.
    ///
    /// Use a gang for code that has barriers of its own. For everything else, a loop is better,
    /// because the workers remain free and a loop needs no particular worker.
    ///
    /// # Errors
    /// Returns an error in these cases:
    ///
    /// - `members` is 0, or the pool has fewer workers.
    /// - The pool has a gang already, or has ended.
    /// - The system refuses a thread, or the pool has no threads and `members` is more than 1.
    /// - The calling thread is one of the pool's own workers.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut gang = pool.gang(2).unwrap();
    /// let (sum, sums) = (AtomicUsize::new(0), AtomicUsize::new(0));
    /// gang.run(|member| {
    ///     sum.fetch_add(1 + member.index(), Ordering::Relaxed);
    ///     member.barrier();
    ///     sums.fetch_add(sum.load(Ordering::Relaxed), Ordering::Relaxed);
    /// });
    /// assert_eq!(sums.into_inner(), 6);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn gang(&self, members: usize) -> Result<Gang, GangError> {
        let shared = self.shared();
        let (slots, workers) = (&shared.slots, self.workers());
        if members == 0 || members > workers || members > 1 && slots.is_threadless() {
            return Err(GangError::Members { members, workers });
        }
        if current::index_in(slots).is_some() {
            return Err(GangError::OnWorker);
        }
        if slots.is_forked() || slots.is_closing() {
            return Err(GangError::Worker(WorkerError::Ended));
        }
        if shared.has_gang.swap(true, Ordering::AcqRel) {
            return Err(GangError::Busy);
        }
        shared.pin_for_loops();
        let spin_ns = match shared.wait {
            Wait::Spin(time) => u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            Wait::Adaptive if members <= shared.threads() => SPIN_NS,
            Wait::Adaptive | Wait::Park | Wait::Throttle(_) => 0,
        };
        let state = Arc::new(State::new(members, spin_ns));
        // From here on, dropping `gang` ends the members that have joined so far, also if we return
        // an error.
        let gang = Gang {
            state: Arc::clone(&state),
            pool: self.clone(),
        };
        let mut refused = None;
        for index in 1..members {
            let state = Arc::clone(&state);
            let job = MemberJob {
                state,
                index,
                begun: false,
            };
            // If a worker refuses its job, the job is dropped. This drop counts the member as
            // absent.
            let sent = slots.send(slots.at(index), Box::new(move || job.serve()));
            refused = refused.or(sent.err());
        }
        state.wait_for_members();
        if state.absent.load(Ordering::Relaxed) > 0 {
            let error = refused.unwrap_or_else(|| std::io::Error::other("the pool has ended"));
            return Err(GangError::Worker(slots.refused(error)));
        }
        Ok(gang)
    }
}

impl Gang {
    /// Returns the number of members, including the leader.
    #[must_use]
    pub fn members(&self) -> usize {
        self.state.places.len()
    }

    /// Calls `f` once for each member, all at the same time, and returns when all calls have ended.
    /// The calling thread is member 0.
    ///
    /// An empty closure takes about a microsecond while the members spin.
    ///
    /// # Panics
    /// Resumes the first panic of `f`, after all members have ended. Barriers are broken from the
    /// moment of the panic on, so no member waits for the one that has panicked.
    ///
    /// Panics if the calling thread is a worker of this gang, because this worker would have to be
    /// two members at once.
    #[track_caller]
    pub fn run<F: Fn(Member<'_>) + Sync>(&mut self, f: F) {
        assert!(
            !self.is_on_member(),
            "a gang must be run by one of its own workers"
        );
        let state = &*self.state;
        let region = Region {
            code: call::<F>,
            closure: ptr::from_ref(&f).cast(),
        };
        state.barrier.arrived.store(0, Ordering::Relaxed);
        state.barrier.broken.store(false, Ordering::Relaxed);
        state.pending.store(self.members() - 1, Ordering::Relaxed);
        // SAFETY: no member reads the region now, because all of them are done with the last one.
        state.region.with_mut(|place| unsafe { *place = region });
        state.epoch.fetch_add(1, Ordering::SeqCst);
        state.changed();
        state.run(region, 0);
        state.wait_for_members();
        if let Some(payload) = state.panic.take() {
            resume_unwind(payload);
        }
    }

    /// Returns whether the calling thread is a worker that belongs to the gang.
    fn is_on_member(&self) -> bool {
        let index = current::index_in(&self.pool.shared().slots);
        index.is_some_and(|index| (1..self.members()).contains(&index))
    }
}

impl fmt::Debug for Gang {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Gang");
        debug.field("members", &self.members());
        debug.finish_non_exhaustive()
    }
}

impl fmt::Debug for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Member");
        debug.field("index", &self.index);
        debug.field("members", &self.members());
        debug.finish()
    }
}

impl Member<'_> {
    /// Returns the index of this member. The leader is member 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of members, including the leader.
    #[must_use]
    pub fn members(&self) -> usize {
        self.state.places.len()
    }

    /// Waits until all members have called this. Everything that they wrote before is visible
    /// afterwards. Every member must pass the same barriers in the same order.
    ///
    /// # Panics
    /// Panics if a member has panicked or has broken the barriers. The panic reaches the leader,
    /// unless another one came first.
    pub fn barrier(&self) {
        if let Err(broken) = self.try_barrier() {
            // If the other member has panicked, the panic hook has reported that already.
            resume_unwind(Box::new(broken));
        }
    }

    /// Does the same as [`barrier`](Self::barrier), but returns an error in place of a panic.
    ///
    /// # Errors
    /// Returns an error if a member has panicked or has broken the barriers.
    pub fn try_barrier(&self) -> Result<(), BrokenBarrier> {
        let (state, barrier) = (self.state, &self.state.barrier);
        let is_broken = || barrier.broken.load(Ordering::SeqCst);
        let round = barrier.rounds.load(Ordering::SeqCst);
        let is_open = || barrier.rounds.load(Ordering::SeqCst) != round;
        if is_broken() {
            return Err(BrokenBarrier);
        }
        // Each increment of `arrived` synchronizes with the later ones in this round. The last
        // member therefore sees what all members wrote before the barrier. Its increment of
        // `rounds` makes this visible to the other members.
        if barrier.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.members() {
            barrier.arrived.store(0, Ordering::Relaxed);
            barrier.rounds.fetch_add(1, Ordering::SeqCst);
            state.changed();
            return Ok(());
        }
        state.wait(self.index, || is_open() || is_broken());
        if is_open() {
            Ok(())
        } else {
            Err(BrokenBarrier)
        }
    }

    /// Makes every barrier of this region fail, also for members that wait at one. Call it if this
    /// member cannot go on, so that no other member waits for it. Barriers work again in the next
    /// region.
    pub fn break_barriers(&self) {
        self.state.break_barriers();
    }
}

impl Drop for Gang {
    fn drop(&mut self) {
        // A process that was forked from this one has none of the members' threads, so it must not
        // wait for them.
        if self.pool.shared().slots.is_forked() {
            return;
        }
        let state = &*self.state;
        state.wait_for_members();
        let came = self.members() - state.absent.load(Ordering::Relaxed);
        state.pending.store(came - 1, Ordering::Relaxed);
        state.epoch.swap(END, Ordering::SeqCst);
        state.changed();
        // If a member drops the gang, it leaves only after this drop, so it must not wait for
        // itself.
        if !self.is_on_member() {
            state.wait_for_members();
        }
        self.pool.shared().has_gang.store(false, Ordering::Release);
    }
}

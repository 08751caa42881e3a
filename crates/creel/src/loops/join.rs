//! Joins, which run two closures at the same time. A recursion may use them at any depth.

use super::protocol::{
    cutoff::{Cutoff, stamp},
    forks::{Entered, Fork, Forker},
};
use crate::{pool::Pool, sync::UnsafeCell, worker::panics::discard};
use std::{
    fmt,
    marker::PhantomData,
    mem::{ManuallyDrop, MaybeUninit},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
    thread,
};

/// Runs two closures at the same time, inside [`Pool::recurse`].
///
/// A `Joiner` knows the pool and the thread that it is used on, so [`join`](Self::join) is cheaper
/// than [`Pool::join`]. Each closure receives the `Joiner` of the thread that runs it.
#[derive(Clone, Copy)]
pub struct Joiner<'p> {
    forker: &'p Forker,
    /// Makes the type neither `Send` nor `Sync`, because a `Joiner` belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// The second closure of a join.
#[repr(C)]
struct Second<B, R> {
    fork: Fork,
    /// The closure, until a thread runs it.
    work: UnsafeCell<ManuallyDrop<B>>,
    /// The result, if a thief (another thread that has stolen the fork) has run the closure.
    result: UnsafeCell<MaybeUninit<thread::Result<R>>>,
}

impl<B: FnOnce(Joiner<'_>, bool) -> R + Send, R: Send> Second<B, R> {
    /// Runs the closure on the thread of `forker`, which has stolen it.
    ///
    /// # Safety
    ///
    /// The fork is the head of a `Second<B, R>`, which is alive. Only this thread runs it.
    unsafe fn run(fork: NonNull<Fork>, forker: &Forker) {
        // SAFETY: validity: the caller guarantees that this is a live `Second<B, R>`. Aliasing: it
        // is only shared. Its owner does not use the cells until the fork is done.
        let this = unsafe { fork.cast::<Self>().as_ref() };
        // SAFETY: only this thread runs the closure.
        let work = unsafe { this.take() };
        let joiner = Joiner::new(forker);
        let result = catch_unwind(AssertUnwindSafe(|| work(joiner, true)));
        this.result.with_mut(|place| {
            // SAFETY: validity: the cell is inside the live `Second`. Aliasing: see above.
            unsafe { place.write(MaybeUninit::new(result)) };
        });
    }
}

impl<B, R> Second<B, R> {
    /// Takes the closure.
    ///
    /// # Safety
    ///
    /// This is called once, by the thread that has popped or stolen the fork.
    #[inline(always)]
    unsafe fn take(&self) -> B {
        self.work.with_mut(|work| {
            // SAFETY: validity: the cell is alive. Aliasing: only the thread with the fork uses it.
            let work = unsafe { &mut *work };
            // SAFETY: the closure is there, because it is taken once.
            unsafe { ManuallyDrop::take(work) }
        })
    }

    /// Takes the result of a thief.
    ///
    /// # Safety
    ///
    /// The thief is done, and this is called once.
    unsafe fn result(&self) -> thread::Result<R> {
        self.result.with_mut(|result| {
            // SAFETY: validity: the cell is alive. Aliasing: the thief does not use it any more.
            let result = unsafe { &*result };
            // SAFETY: a thief that is done has stored a result, which is taken once.
            unsafe { result.assume_init_read() }
        })
    }
}

/// A guard for a join whose first closure panics. When dropped, it runs the second closure, unless
/// a thief does, and drops the result of that closure.
struct Unwinding<'j, B: FnOnce(Joiner<'_>, bool) -> R + Send, R: Send> {
    joiner: Joiner<'j>,
    second: &'j Second<B, R>,
    index: usize,
}

impl<B: FnOnce(Joiner<'_>, bool) -> R + Send, R: Send> Drop for Unwinding<'_, B, R> {
    #[inline(always)]
    fn drop(&mut self) {
        self.joiner.end(self.second, self.index);
    }
}

/// One level of a recursion of joins. The level ends when this value is dropped.
struct Level<'a> {
    cutoff: &'a Cutoff,
    depth: usize,
    timed: bool,
}

impl<'a> Level<'a> {
    #[inline(always)]
    fn new(cutoff: &'a Cutoff) -> Self {
        let depth = cutoff.depth();
        let timed = cutoff.begin(depth);
        Self {
            cutoff,
            depth,
            timed,
        }
    }
}

impl Drop for Level<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.cutoff.end(self.depth);
    }
}

/// The second closure of a join that is not offered to thieves. It runs even if the first closure
/// panics.
struct CalledAnyway<'j, B: FnOnce(Joiner<'_>, bool) -> R, R> {
    joiner: Joiner<'j>,
    b: ManuallyDrop<B>,
}

impl<B: FnOnce(Joiner<'_>, bool) -> R, R> CalledAnyway<'_, B, R> {
    #[inline(always)]
    fn get(self) -> B {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `self` is not dropped, so the closure is taken once.
        unsafe { ManuallyDrop::take(&mut this.b) }
    }
}

impl<B: FnOnce(Joiner<'_>, bool) -> R, R> Drop for CalledAnyway<'_, B, R> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: a drop runs once, and only if `get` was not called, so the closure is still
        // there.
        let b = unsafe { ManuallyDrop::take(&mut self.b) };
        let joiner = self.joiner;
        discard(catch_unwind(AssertUnwindSafe(|| b(joiner, false))));
    }
}

/// A result that must not abort the process if it is dropped while another panic unwinds.
struct Kept<T>(ManuallyDrop<T>);

impl<T> Kept<T> {
    #[inline(always)]
    fn get(self) -> T {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `self` is not dropped, so the value is taken once.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<T> Drop for Kept<T> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: a drop runs once, and only if `get` was not called, so the value is still there.
        discard(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

impl<'p> Joiner<'p> {
    #[inline(always)]
    fn new(forker: &'p Forker) -> Self {
        Self {
            forker,
            thread: PhantomData,
        }
    }

    /// Runs `a` and `b`, at the same time if another worker is free, and returns both results. This
    /// does the same as [`Pool::join`], and costs less.
    ///
    /// # Panics
    /// Resumes the panic of `a`, or that of `b` if only `b` has panicked, after both have ended.
    ///
    /// ```
    /// use creel::Joiner;
    ///
    /// fn sum(joiner: Joiner, values: &[u64]) -> u64 {
    ///     match values {
    ///         [] => 0,
    ///         [value] => *value,
    ///         _ => {
    ///             let (left, right) = values.split_at(values.len() / 2);
    ///             let (a, b) = joiner.join(|j| sum(j, left), |j| sum(j, right));
    ///             a + b
    ///         }
    ///     }
    /// }
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let values: Vec<u64> = (0..1000).collect();
    /// assert_eq!(pool.recurse(|joiner| sum(joiner, &values)), 499_500);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn join<A, B: Send>(
        self,
        a: impl FnOnce(Joiner<'_>) -> A,
        b: impl FnOnce(Joiner<'_>) -> B + Send,
    ) -> (A, B) {
        self.join_context(a, |joiner, _| b(joiner))
    }

    /// Does the same as [`join`](Self::join), and also passes to `b` whether it has *migrated*,
    /// which means that another thread runs it. You can use this to divide work more finely only if
    /// other threads are free.
    ///
    /// # Panics
    /// Resumes the panic of `a`, or that of `b` if only `b` has panicked, after both have ended.
    #[inline(always)]
    pub fn join_context<A, B: Send>(
        self,
        a: impl FnOnce(Joiner<'_>) -> A,
        b: impl FnOnce(Joiner<'_>, bool) -> B + Send,
    ) -> (A, B) {
        if self.forker.cutoff().is_below() {
            return self.call(a, b);
        }
        self.fork(a, b)
    }

    /// Offers `b` to thieves and runs `a`, at a level of the recursion. This is not inlined, so
    /// that the code around a call stays small.
    #[inline(never)]
    fn fork<A, B: Send>(
        self,
        a: impl FnOnce(Joiner<'_>) -> A,
        b: impl FnOnce(Joiner<'_>, bool) -> B + Send,
    ) -> (A, B) {
        let level = Level::new(self.forker.cutoff());
        let timed = |joiner: Joiner<'_>| {
            let begun = if level.timed { stamp() } else { 0 };
            let a = a(joiner);
            if level.timed {
                let time = stamp().saturating_sub(begun);
                level.cutoff.learn(level.depth, time);
            }
            a
        };
        self.fork_with(timed, b, level.depth)
    }

    /// Offers `b` to thieves and runs `a`, even if the cutoff says that such closures are too
    /// short.
    #[inline(always)]
    fn fork_with<A, B: Send>(
        self,
        a: impl FnOnce(Joiner<'_>) -> A,
        b: impl FnOnce(Joiner<'_>, bool) -> B + Send,
        depth: usize,
    ) -> (A, B) {
        let second = second(b, depth);
        // SAFETY: `second` lives until the end of this function and is not moved. Before it ends,
        // normally or by a panic, the fork has been popped, or its thief is done. Other threads use
        // only the closure and its result, which are `Send`. The calling thread owns the forker,
        // because a `Joiner` does not leave its thread.
        let index = unsafe { self.forker.push(NonNull::from(&second).cast()) };
        let unwinding = Unwinding {
            joiner: self,
            second: &second,
            index,
        };
        let a = a(self);
        std::mem::forget(unwinding);
        if self.forker.pop(index) {
            // SAFETY: this thread has popped the fork, so no thief runs the closure.
            let b = unsafe { second.take() };
            let a = Kept(ManuallyDrop::new(a));
            let b = b(self, false);
            return (a.get(), b);
        }
        self.forker.wait(&second.fork);
        // SAFETY: the thief has run the closure and stored its result.
        match unsafe { second.result() } {
            Ok(b) => (a, b),
            Err(payload) => {
                discard(a);
                resume_unwind(payload)
            }
        }
    }

    /// Does the same as [`join`](Self::join), but always offers `b` to thieves, even if such
    /// closures have been very short.
    pub(super) fn join_always<A, B: Send>(
        self,
        a: impl FnOnce(Joiner<'_>) -> A,
        b: impl FnOnce(Joiner<'_>) -> B + Send,
    ) -> (A, B) {
        let depth = self.forker.cutoff().depth();
        self.fork_with(a, |joiner, _| b(joiner), depth)
    }

    /// Calls `a` and then `b` on this thread, without offering `b` to other threads.
    #[inline(always)]
    fn call<A, B>(
        self,
        a: impl FnOnce(Joiner<'_>) -> A,
        b: impl FnOnce(Joiner<'_>, bool) -> B,
    ) -> (A, B) {
        let b = CalledAnyway {
            joiner: self,
            b: ManuallyDrop::new(b),
        };
        let a = Kept(ManuallyDrop::new(a(self)));
        let b = b.get()(self, false);
        (a.get(), b)
    }

    /// Ends a join whose first closure has panicked.
    #[cold]
    #[inline(never)]
    fn end<B: FnOnce(Joiner<'_>, bool) -> R + Send, R: Send>(
        self,
        second: &Second<B, R>,
        index: usize,
    ) {
        if self.forker.pop(index) {
            // SAFETY: this thread has popped the fork, so no thief runs the closure.
            let work = unsafe { second.take() };
            discard(catch_unwind(AssertUnwindSafe(|| work(self, false))));
        } else {
            self.forker.wait(&second.fork);
            // SAFETY: the thief has run the closure and stored its result.
            discard(unsafe { second.result() });
        }
    }
}

#[inline(always)]
fn second<B: FnOnce(Joiner<'_>, bool) -> R + Send, R: Send>(work: B, depth: usize) -> Second<B, R> {
    Second {
        fork: Fork::new(Second::<B, R>::run, depth),
        work: UnsafeCell::new(ManuallyDrop::new(work)),
        result: UnsafeCell::new(MaybeUninit::uninit()),
    }
}

impl fmt::Debug for Joiner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joiner").finish_non_exhaustive()
    }
}

impl Pool {
    /// Runs `a` and `b`, at the same time if another worker is free, and returns both results. The
    /// calling thread runs `a`. It then also runs `b`, unless another worker has started it. Blocks
    /// until both are done. While the caller waits, it only helps with work that comes from `b`.
    /// There are two exceptions. A worker also runs closures that other workers send to it with
    /// [`run_on`](Self::run_on). After one millisecond, every caller also runs jobs of a
    /// [`Source`](crate::Source).
    ///
    /// A calling thread that is not a worker takes the place of worker 0 until the outermost join
    /// returns. Worker 0 then only runs closures if the caller blocks for a millisecond.
    ///
    /// A recursion needs no threshold below which it does not call `join`. A `b` that no worker
    /// takes costs a few nanoseconds, and the pool only calls `a` and `b` where they were very short
    /// so far. Therefore do not write closures that wait for each other. However, a recursion of a
    /// few microseconds in total is faster without `join`.
    ///
    /// # Panics
    /// Resumes the panic of `a`, or that of `b` if only `b` has panicked, after both have ended. If `a`
    /// panics, `b` still runs.
    ///
    /// ```
    /// fn fibonacci(pool: &creel::Pool, n: u64) -> u64 {
    ///     if n < 2 {
    ///         return n;
    ///     }
    ///     let (a, b) = pool.join(|| fibonacci(pool, n - 1), || fibonacci(pool, n - 2));
    ///     a + b
    /// }
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// assert_eq!(fibonacci(&pool, 10), 55);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[inline(always)]
    pub fn join<A, B: Send>(&self, a: impl FnOnce() -> A, b: impl FnOnce() -> B + Send) -> (A, B) {
        match Forker::current(&self.shared().loops) {
            Some(forker) => Joiner::new(forker).join(|_| a(), |_| b()),
            None => self.recurse_outermost(|joiner| joiner.join(|_| a(), |_| b())),
        }
    }

    /// Calls `f` on the calling thread with a [`Joiner`], with which `f` and the closures that it
    /// joins can run two closures at the same time.
    ///
    /// [`Joiner::join`] does the same as [`join`](Self::join), but need not find out which pool and
    /// thread it is on. It can be a little faster, or as fast. Measure it if a recursion does very
    /// little between two joins. [`Joiner::join`] has an example.
    ///
    /// A `Joiner` belongs to its thread, so a closure that may run on another thread cannot capture
    /// it. The closures of `Joiner::join` get the `Joiner` of their own thread as an argument.
    ///
    /// # Panics
    /// Resumes the panic of `f`.
    #[inline(always)]
    pub fn recurse<R>(&self, f: impl FnOnce(Joiner<'_>) -> R) -> R {
        match Forker::current(&self.shared().loops) {
            Some(forker) => f(Joiner::new(forker)),
            None => self.recurse_outermost(f),
        }
    }

    #[cold]
    #[inline(never)]
    fn recurse_outermost<R>(&self, f: impl FnOnce(Joiner<'_>) -> R) -> R {
        let entered = Entered::new(&self.shared().loops);
        f(Joiner::new(entered.forker()))
    }
}

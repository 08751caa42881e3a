//! Loops over iterators, which the caller pulls while the workers run the items.
//!
//! The other loops know how many items there are, and split them. An iterator gives one item after
//! another, and the next one may not exist yet, for example if it is a line of a socket. Therefore
//! the caller puts each item into a queue as soon as the iterator has returned it. The loop
//! publishes this queue as a shared job (`protocol/shared_jobs.rs`), so that idle workers help. If
//! `bound` items are in flight (pulled but not done), the caller runs items as well, until it may
//! pull the next one.
//!
//! We notify any idle worker, including worker 0. In other loops, a caller that is not a worker
//! takes the place of worker 0. Here, the caller may block in the iterator, so the loop cannot
//! count on it.

use super::protocol::{
    Protocol,
    shared_jobs::{Open, SharedJob},
};
use crate::{
    pool::Pool,
    sync::{AtomicUsize, Mutex, Ordering, lock},
    worker::{
        current,
        panics::{FirstPanic, discard},
        waiter::Waiter,
    },
};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr::NonNull,
};

/// The data that the caller and its helpers share.
#[repr(C)]
struct Core<'a, T, F> {
    shared_job: SharedJob,
    loops: &'a Protocol,
    /// The items that no thread has taken.
    queue: Mutex<VecDeque<T>>,
    /// The number of items that were pulled and are not done. It is `SeqCst`, because
    /// [`Waiter::wake_if_asleep`] needs that.
    unfinished: AtomicUsize,
    caller: Waiter,
    panic: FirstPanic,
    f: F,
}

impl<T: Send, F: Fn(T) + Sync> Core<'_, T, F> {
    /// Runs one item of the queue. Returns whether the queue had an item.
    ///
    /// # Safety
    ///
    /// `shared_job` is the first field of a `Core` with these type parameters, which is alive.
    unsafe fn run(shared_job: NonNull<SharedJob>, _: &dyn Fn() -> bool) -> bool {
        // SAFETY: Validity: the caller promises that this is a `Core` that begins with the shared
        // job, and that it is alive. Aliasing: it is only shared, and everything that changes in it
        // is locked or atomic.
        let this = unsafe { shared_job.cast::<Self>().as_ref() };
        if !this.loops.shared_jobs.claim(&this.shared_job) {
            return false;
        }
        // The caller puts an item into the queue before it counts the item. Therefore a thread that
        // has claimed an item always finds one.
        let item = lock(&this.queue).pop_front();
        if let Some(item) = item {
            if this.panic.thrown() {
                discard(item);
            } else {
                this.panic.catch(|| (this.f)(item));
            }
            this.unfinished.fetch_sub(1, Ordering::SeqCst);
            this.caller.wake_if_asleep();
        }
        true
    }

    fn unfinished(&self) -> usize {
        self.unfinished.load(Ordering::SeqCst)
    }

    /// Adds an item that the caller has pulled.
    fn push(&self, item: T, open: &Open<'_>) {
        self.unfinished.fetch_add(1, Ordering::SeqCst);
        lock(&self.queue).push_back(item);
        open.add_for_others();
    }

    /// Runs items until all items have ended or `ready(unfinished)` returns true. After a closure
    /// has panicked, it waits for all items. Sleeps if there is nothing to run.
    fn help_until(&self, open: &Open<'_>, ready: impl Fn(usize) -> bool) {
        let done = || {
            let unfinished = self.unfinished();
            unfinished == 0 || (!self.panic.thrown() && ready(unfinished))
        };
        if !done() {
            let help = || open.run_some() || open.help_under();
            self.caller.wait_until(done, help);
        }
    }
}

/// Returns the address of the shared job at the beginning of a [`Core`], which must be `Sync`.
fn shared_job<C: Sync>(core: &C) -> NonNull<SharedJob> {
    NonNull::from(core).cast()
}

/// The results of an ordered loop that the caller has not passed on.
struct Results<R> {
    /// The number of the first item in `slots`.
    first: usize,
    /// The results, in the order in which their items were pulled. An entry is `None` until its
    /// item is done.
    slots: VecDeque<Option<R>>,
}

/// # Loops over iterators
impl Pool {
    /// Calls `f(item)` once for each item of an iterator, on all workers, while at most `bound`
    /// items are in flight. Blocks until the iterator has ended and all items are done. This
    /// corresponds to rayon's `par_bridge`.
    ///
    /// Use it for everything that is not a slice or a range: the lines of a file, a channel, a
    /// directory walk, or a map or vector by value. The iterator may also be *live*, which means
    /// that its next item does not exist yet. If it blocks, the workers run the items that it has
    /// already returned, and then other work of the pool.
    ///
    /// - **The caller pulls.** Only the calling thread uses the iterator, so the iterator does not
    ///   have to be `Send`.
    /// - **Backpressure.** An item is in flight from the moment at which it is pulled until `f` has
    ///   returned. While `bound` items are in flight, the caller does not pull. It runs items
    ///   instead. If the times of your items differ a lot, use a bound of several times the number
    ///   of workers. The workers then have enough to do while the caller runs a long item.
    /// - **Order.** Items begin in the order in which they are pulled.
    /// - **Cost.** Each item is passed on by itself, which takes some hundred nanoseconds but no
    ///   allocation. If the items are shorter than that, let the iterator return groups of them. A
    ///   slice is better visited with [`for_each`](Self::for_each).
    ///
    /// If there is no second thread that could run items, then the caller runs each item before it
    /// pulls the next one. This is the case on the only worker of a pool, on a pool without
    /// threads, and with [`with_max_workers(1)`](Self::with_max_workers). For any other number `n`,
    /// `with_max_workers(n)` limits the items in flight to `n`.
    ///
    /// # Panics
    /// Panics if `bound` is 0. Resumes the first panic of the iterator or of `f`. In that case, the
    /// loop stops pulling, drops the items that have not begun, and waits for the items that have
    /// begun. Note that it notices a panic of `f` only when the iterator returns.
    ///
    /// ```
    /// use std::{collections::HashMap, sync::mpsc, thread};
    ///
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let (send, receive) = mpsc::channel();
    /// let reader = thread::spawn(move || (0..100).for_each(|n| send.send(n).unwrap()));
    /// let sum = std::sync::atomic::AtomicU64::new(0);
    /// pool.for_each_bridged(receive, 8, |n| _ = sum.fetch_add(n, std::sync::atomic::Ordering::Relaxed));
    /// reader.join().unwrap();
    /// assert_eq!(sum.into_inner(), 4950);
    ///
    /// // A map by value.
    /// let songs = HashMap::from([("intro", vec![1, 2]), ("outro", vec![3])]);
    /// pool.for_each_bridged(songs, 8, |(_name, samples)| drop(samples));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[doc(alias = "par_bridge")]
    #[track_caller]
    pub fn for_each_bridged<T: Send>(
        &self,
        iterator: impl IntoIterator<Item = T>,
        bound: usize,
        f: impl Fn(T) + Sync,
    ) {
        check(bound);
        if self.runs_alone() {
            return iterator.into_iter().for_each(f);
        }
        let room = |unfinished: usize, limit: usize| unfinished < limit;
        if let Err(payload) = self.bridge(iterator, bound, f, room, |unfinished| unfinished) {
            resume_unwind(payload);
        }
    }

    /// Calls `sink(f(item))` for each item of an iterator, in the order of the items. `f` runs on
    /// all workers, and `sink` on the calling thread. Blocks until `sink` has received all results.
    ///
    /// This does the same as [`for_each_bridged`](Self::for_each_bridged), with two differences.
    /// First, an item is in flight until `sink` has received its result, so at most `bound` results
    /// are kept. Second, a long item delays the results after it. With a small bound, it therefore
    /// also delays the items after it.
    ///
    /// The caller passes results to `sink` between two pulls. If the iterator blocks, results wait
    /// until it returns.
    ///
    /// # Panics
    /// Panics if `bound` is 0. Resumes the first panic of the iterator, `f` or `sink`, as
    /// [`for_each_bridged`](Self::for_each_bridged) does. The results that `sink` has not received
    /// are dropped.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let text = "one\ntwo\nthree";
    /// let mut out = Vec::new();
    /// pool.map_bridged(text.lines(), 8, |line| line.to_uppercase(), |line| out.push(line));
    /// assert_eq!(out, ["ONE", "TWO", "THREE"]);
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    #[doc(alias = "par_bridge")]
    #[track_caller]
    pub fn map_bridged<T: Send, R: Send>(
        &self,
        iterator: impl IntoIterator<Item = T>,
        bound: usize,
        f: impl Fn(T) -> R + Sync,
        mut sink: impl FnMut(R),
    ) {
        check(bound);
        if self.runs_alone() {
            return iterator.into_iter().map(f).for_each(sink);
        }
        let results = Mutex::new(Results {
            first: 0,
            slots: VecDeque::new(),
        });
        let numbered = iterator.into_iter().enumerate().inspect(|_| {
            lock(&results).slots.push_back(None);
        });
        let store = |(number, item): (usize, T)| {
            let result = f(item);
            let mut results = lock(&results);
            let at = number - results.first;
            results.slots[at] = Some(result);
        };
        let room = |_: usize, limit: usize| {
            let slots = &lock(&results).slots;
            slots.len() < limit || matches!(slots.front(), Some(Some(_)))
        };
        let pass_on = |_: usize| {
            loop {
                let mut results = lock(&results);
                if !matches!(results.slots.front(), Some(Some(_))) {
                    return results.slots.len();
                }
                results.first += 1;
                let result = results.slots.pop_front().flatten();
                drop(results);
                result.into_iter().for_each(&mut sink);
            }
        };
        let thrown = self.bridge(numbered, bound, store, room, pass_on);
        if let Err(payload) = thrown {
            discard(results);
            resume_unwind(payload);
        }
    }

    /// Returns whether no other thread could run items of a loop that this thread calls.
    fn runs_alone(&self) -> bool {
        let slots = &self.shared().loops.slots;
        let only = || slots.workers() == 1 && current::index_in(slots).is_some();
        slots.is_threadless() || self.most == 1 || only()
    }

    /// Calls `f` for each item. Returns the first panic after all items have ended.
    ///
    /// `settle(unfinished)` passes on results, and returns the number of items in flight.
    /// `room(unfinished, limit)` returns whether a call of `settle` would pass on a result, or
    /// return less than `limit`.
    fn bridge<T: Send>(
        &self,
        iterator: impl IntoIterator<Item = T>,
        bound: usize,
        f: impl Fn(T) + Sync,
        room: impl Fn(usize, usize) -> bool,
        mut settle: impl FnMut(usize) -> usize,
    ) -> std::thread::Result<()> {
        let bound = bound.min(self.most);
        let loops = &self.shared().loops;
        let core = new_core(loops, f);
        // SAFETY: `core` lives until the end of this function, is not moved, and is `Sync`, which
        // `shared_job` checks. `open` is dropped before it.
        let open = unsafe { Open::new(loops, shared_job(&core)) };
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let mut iterator = iterator.into_iter();
            let mut has_room = |limit| loop {
                core.help_until(&open, |unfinished| room(unfinished, limit));
                if core.panic.thrown() {
                    return false;
                }
                if settle(core.unfinished()) < limit {
                    return true;
                }
            };
            while has_room(bound) {
                match iterator.next() {
                    Some(item) => core.push(item, &open),
                    None => {
                        has_room(1);
                        return;
                    }
                }
            }
        }));
        if let Err(payload) = caught {
            core.panic.keep(payload);
        }
        core.help_until(&open, |_| false);
        drop(open);
        core.panic.take().map_or(Ok(()), Err)
    }
}

fn new_core<T: Send, F: Fn(T) + Sync>(loops: &Protocol, f: F) -> Core<'_, T, F> {
    Core {
        shared_job: SharedJob::new(Core::<T, F>::run, false),
        loops,
        queue: Mutex::default(),
        unfinished: AtomicUsize::new(0),
        caller: Waiter::current(),
        panic: FirstPanic::default(),
        f,
    }
}

#[track_caller]
fn check(bound: usize) {
    assert!(
        bound > 0,
        "the bound must allow at least one item in flight, not 0"
    );
}

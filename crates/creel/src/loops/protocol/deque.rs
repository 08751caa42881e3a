//! The deque of a thread's forks, which other threads can steal from.
//!
//! The owner pushes and pops at the bottom. A thief takes the oldest fork from the top. This is the
//! protocol of Cilk-5 (Frigo, Leiserson, Randall, 1998):
//!
//! | | the owner pops | a thief steals |
//! |---|---|---|
//! | 1 | | takes the lock of the deque |
//! | 2 | moves `bottom` down | moves `top` up |
//! | 3 | full barrier | full barrier |
//! | 4 | reads `top` | reads `bottom` |
//! | 5 | if `top` is above its fork, it takes the lock and reads `top` again | if `bottom` is below the new `top`, it moves `top` back |
//!
//! The barriers ensure that at least one of the two sees the other's step 2. If the thief sees that
//! the owner has taken the fork, it retreats. If the owner sees that a thief may have taken the
//! fork, it waits until the thief has decided, because the thief decides under the lock.
//!
//! The indices only grow. `top` grows by one with each steal. It never returns to an earlier value,
//! except inside the lock.

use super::forks::Fork;
use crate::{
    sync::{
        AtomicBool, AtomicPtr, AtomicUsize, Mutex, Ordering, UnsafeCell, barrier, lock, try_lock,
    },
    worker::waiter::Waiter,
};
use crossbeam_utils::CachePadded;
use std::ptr::{self, NonNull};

/// The number of forks that a deque can hold at first. It grows for a deeper recursion.
const ENTRIES: usize = if cfg!(any(creel_loom, creel_shuttle)) {
    2
} else {
    64
};

pub(super) struct Deque {
    own: CachePadded<Own>,
    steal: CachePadded<Steal>,
}

/// The cache line that the owner writes.
struct Own {
    /// The index after the youngest fork. Only the owner writes it. Its `Release` stores, in `push`
    /// and in `pop`, synchronize with a thief's `Acquire` load in `steal`, so that the thief sees
    /// the entry and the fork.
    bottom: AtomicUsize,
    /// The owner checks for room when `bottom` reaches this index. Only the owner uses it, so
    /// relaxed is enough.
    limit: AtomicUsize,
    /// The number of forks that the owner has pushed so far. Others read it to see whether the
    /// owner makes progress, so relaxed is enough.
    pushed: AtomicUsize,
    /// The entry of an index is at this index modulo the length, which is a power of two. The owner
    /// replaces the box under the lock, and thieves read it under the lock. The entries themselves
    /// are relaxed. The owner's store of an entry happens before a thief's load of it because of
    /// `bottom`, or because of the lock if `make_room` has copied the entry.
    entries: UnsafeCell<Box<[AtomicPtr<Fork>]>>,
    /// Whether there is an idle worker that the owner may notify. Only the owner uses the pointer.
    idle: AtomicPtr<AtomicBool>,
}

/// The cache line that thieves write.
struct Steal {
    /// The index of the oldest fork. Only the thread that holds the lock writes it. Relaxed is
    /// enough, because the barriers and the lock order it (see the table in the module's
    /// documentation).
    top: AtomicUsize,
    /// The lock of the deque. It contains the owner's waiter while the owner may push.
    lock: Mutex<Option<Waiter>>,
}

// SAFETY: validity: the entries point to forks, which their owner keeps alive while they are in the
// deque or stolen, and `idle` points to a flag that outlives the deque. Aliasing: the owner
// replaces the box of entries under the lock. Other threads read it under the lock, and the owner
// reads it without, because no other thread replaces it.
unsafe impl Sync for Deque {}
// SAFETY: nothing in it belongs to a particular thread.
unsafe impl Send for Deque {}

/// Returns whether index `a` is below index `b`. Indices may wrap around.
#[inline(always)]
fn is_below(a: usize, b: usize) -> bool {
    b.wrapping_sub(a).cast_signed() > 0
}

fn entries(len: usize) -> Box<[AtomicPtr<Fork>]> {
    (0..len).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
}

impl Deque {
    /// Creates an empty deque. Its owner may notify an idle worker while `idle` is true.
    ///
    /// # Safety
    ///
    /// `idle` must live as long as the deque.
    pub(super) unsafe fn new(idle: &AtomicBool) -> Self {
        Self {
            own: CachePadded::new(Own {
                bottom: AtomicUsize::new(0),
                limit: AtomicUsize::new(ENTRIES),
                pushed: AtomicUsize::new(0),
                entries: UnsafeCell::new(entries(ENTRIES)),
                idle: AtomicPtr::new(ptr::from_ref(idle).cast_mut()),
            }),
            steal: CachePadded::new(Steal {
                top: AtomicUsize::new(0),
                lock: Mutex::new(None),
            }),
        }
    }

    /// Sets the thread that waits for stolen forks, or `None` if the deque has no owner any more.
    pub(super) fn set_owner(&self, waiter: Option<Waiter>) {
        *lock(&self.steal.lock) = waiter;
    }

    /// Returns whether there seems to be an idle worker that the owner may notify.
    #[inline(always)]
    pub(super) fn any_idle(&self) -> bool {
        // SAFETY: validity: the callers of `new` and `set_idle` guarantee that the flag is alive.
        // Aliasing: it is only shared.
        let idle = unsafe { &*self.own.idle.load(Ordering::Relaxed) };
        idle.load(Ordering::Relaxed)
    }

    /// Replaces the flag that says whether there is an idle worker that the owner may notify. Only
    /// the owner may call this.
    ///
    /// # Safety
    ///
    /// `idle` must live as long as the deque.
    pub(super) unsafe fn set_idle(&self, idle: &AtomicBool) {
        let idle = ptr::from_ref(idle).cast_mut();
        self.own.idle.store(idle, Ordering::Relaxed);
    }

    /// Returns the number of forks that the owner has pushed so far.
    pub(super) fn pushed(&self) -> usize {
        self.own.pushed.load(Ordering::Relaxed)
    }

    /// Returns the index of the next fork that is pushed.
    #[inline(always)]
    pub(super) fn bottom(&self) -> usize {
        self.own.bottom.load(Ordering::Relaxed)
    }

    /// Returns the number of forks that have been stolen so far.
    pub(super) fn stolen(&self) -> usize {
        self.steal.top.load(Ordering::Relaxed)
    }

    /// Returns the number of forks, which may be out of date.
    pub(super) fn len(&self) -> usize {
        let (top, bottom) = (self.stolen(), self.bottom());
        match is_below(top, bottom) {
            true => bottom.wrapping_sub(top),
            false => 0,
        }
    }

    /// Returns whether there seems to be a fork.
    pub(super) fn has_forks(&self) -> bool {
        self.len() > 0
    }

    /// Pushes a fork and returns its index. Only the owner may call this.
    ///
    /// # Safety
    ///
    /// The fork must stay alive and in its place until [`pop`](Self::pop) has returned true, or
    /// until the thread that has stolen it is done with it.
    #[inline(always)]
    pub(super) unsafe fn push(&self, fork: NonNull<Fork>) -> usize {
        let bottom = self.bottom();
        if bottom == self.own.limit.load(Ordering::Relaxed) {
            self.make_room(bottom);
        }
        self.own.entries.with(|entries| {
            // SAFETY: validity: the box lives as long as the deque. Aliasing: only the owner
            // replaces it, and the owner is here.
            let entries = unsafe { &*entries };
            let at = bottom & (entries.len() - 1);
            // SAFETY: the length is a power of two, so the index is below it.
            let entry = unsafe { entries.get_unchecked(at) };
            entry.store(fork.as_ptr(), Ordering::Relaxed);
        });
        let next = bottom.wrapping_add(1);
        self.own.bottom.store(next, Ordering::Release);
        let pushed = self.pushed().wrapping_add(1);
        self.own.pushed.store(pushed, Ordering::Relaxed);
        bottom
    }

    /// Moves the limit on, and doubles the entries if all of them are in use.
    #[cold]
    #[inline(never)]
    fn make_room(&self, bottom: usize) {
        let _lock = lock(&self.steal.lock);
        let top = self.stolen();
        self.own.entries.with_mut(|place| {
            // SAFETY: validity: the box lives as long as the deque. Aliasing: this thread is the
            // owner and holds the lock, so no other thread uses the box.
            let place = unsafe { &mut *place };
            let len = place.len();
            let used = bottom.wrapping_sub(top);
            if used == len {
                let more = entries(2 * len);
                for index in (0..used).map(|n| top.wrapping_add(n)) {
                    let fork = place[index & (len - 1)].load(Ordering::Relaxed);
                    more[index & (2 * len - 1)].store(fork, Ordering::Relaxed);
                }
                *place = more;
            }
            let limit = top.wrapping_add(place.len());
            self.own.limit.store(limit, Ordering::Relaxed);
        });
    }

    /// Takes back the youngest fork, whose index is `index`. Returns false if a thief has stolen
    /// it. Only the owner may call this, once for each fork that it has pushed.
    ///
    /// The owner passes the index, although it is one less than `bottom`. To read `bottom`, the
    /// processor would have to wait for the store of the previous join.
    #[inline(always)]
    #[must_use]
    pub(super) fn pop(&self, index: usize) -> bool {
        // Release, because a thief may read this value and then use a fork that we pushed before
        // it. Its acquire load must synchronize with this store, since it does not read the value
        // that `push` has stored.
        self.own.bottom.store(index, Ordering::Release);
        barrier::full();
        let top = self.steal.top.load(Ordering::Relaxed);
        !is_below(index, top) || self.pop_contended(index)
    }

    #[cold]
    #[inline(never)]
    fn pop_contended(&self, index: usize) -> bool {
        let _lock = lock(&self.steal.lock);
        let top = self.steal.top.load(Ordering::Relaxed);
        let own = !is_below(index, top);
        if !own {
            self.own.bottom.store(top, Ordering::Release);
        }
        own
    }

    /// Steals the oldest fork, unless its index is below `from`. Calls `claim` under the lock with
    /// the fork and with its owner's waiter. Returns `None` if no such fork exists, if the deque
    /// has no owner, if another thread has the lock, or if `claim` returns `None`. In the last two
    /// cases the fork stays in the deque.
    pub(super) fn steal<R>(
        &self,
        from: Option<usize>,
        claim: impl FnOnce(NonNull<Fork>, Waiter) -> Option<R>,
    ) -> Option<R> {
        if !self.has_forks() {
            return None;
        }
        let owner = try_lock(&self.steal.lock)?;
        let waiter = (*owner).clone()?;
        let top = self.steal.top.load(Ordering::Relaxed);
        if from.is_some_and(|from| is_below(top, from)) || !is_below(top, self.bottom()) {
            return None;
        }
        let next = top.wrapping_add(1);
        self.steal.top.store(next, Ordering::Relaxed);
        barrier::full();
        let bottom = self.own.bottom.load(Ordering::Acquire);
        let claimed = (!is_below(bottom, next))
            .then(|| self.entry(top))
            .flatten()
            .and_then(|fork| claim(fork, waiter));
        if claimed.is_none() {
            self.steal.top.store(top, Ordering::Relaxed);
        }
        claimed
    }

    /// Returns the entry of an index. The caller holds the lock.
    fn entry(&self, index: usize) -> Option<NonNull<Fork>> {
        self.own.entries.with(|entries| {
            // SAFETY: validity: the box lives as long as the deque. Aliasing: the owner replaces it
            // under the lock only, which the caller holds.
            let entries = unsafe { &*entries };
            NonNull::new(entries[index & (entries.len() - 1)].load(Ordering::Relaxed))
        })
    }
}

/// A model for loom. Run it with `cargo test --release --manifest-path crates/models/Cargo.toml --features loom --lib deque`.
#[cfg(all(test, creel_loom))]
mod model {
    use super::*;
    use loom::{cell::UnsafeCell as Checked, model::Builder, thread};
    use std::sync::Arc;

    const FORKS: usize = 3;

    /// Items that each belong to a fork. Loom checks that only one thread uses each of them.
    struct Items {
        deque: Deque,
        items: [Checked<u32>; FORKS],
        /// The flag of idle workers, which the deque points to.
        _idle: Box<AtomicBool>,
    }

    // SAFETY: loom checks here whether one thread at a time uses an item.
    unsafe impl Sync for Items {}
    // SAFETY: the same reason applies.
    unsafe impl Send for Items {}

    /// Returns a pointer that stands for a fork. It is never dereferenced.
    fn fork(item: usize) -> NonNull<Fork> {
        NonNull::new(ptr::without_provenance_mut(8 * (item + 1))).expect("it is not null")
    }

    impl Items {
        fn new() -> Arc<Self> {
            let idle = Box::new(AtomicBool::new(false));
            // SAFETY: the box is alive as long as the deque.
            let deque = unsafe { Deque::new(&idle) };
            deque.set_owner(Some(Waiter::current()));
            Arc::new(Self {
                deque,
                items: std::array::from_fn(|_| Checked::new(0)),
                _idle: idle,
            })
        }

        /// Uses the item, which must not have been used before.
        fn run(&self, item: usize) {
            self.items[item].with_mut(|used| {
                // SAFETY: loom checks that no other thread is here.
                let used = unsafe { &mut *used };
                assert_eq!(*used, 0, "a fork runs once");
                *used = 1;
            });
        }

        fn steal_one(&self) -> bool {
            let stolen = self
                .deque
                .steal(None, |fork, _| Some(fork.as_ptr().addr() / 8 - 1));
            stolen.inspect(|item| self.run(*item)).is_some()
        }
    }

    /// The owner pushes three forks, so that the deque grows, and pops them. `thieves` steal.
    fn check(thieves: usize, preemptions: usize) {
        let mut builder = Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let items = Items::new();
            let thieves: Vec<_> = (0..thieves)
                .map(|_| {
                    let items = Arc::clone(&items);
                    thread::spawn(move || usize::from(items.steal_one()))
                })
                .collect();
            let mut popped = 0;
            let mut take = |index, item| {
                if items.deque.pop(index) {
                    items.run(item);
                    popped += 1;
                }
            };
            // SAFETY: forks are never dereferenced here.
            let push = |item| unsafe { items.deque.push(fork(item)) };
            let first = push(0);
            let second = push(1);
            let third = push(2);
            take(third, 2);
            take(second, 1);
            take(first, 0);
            let stolen: usize = thieves
                .into_iter()
                .map(|t| t.join().expect("no panic"))
                .sum();
            assert_eq!(popped + stolen, FORKS, "each fork was taken");
            assert!(!items.deque.has_forks());
        });
    }

    #[test]
    fn a_fork_is_either_popped_or_stolen() {
        check(1, 3);
    }

    #[test]
    fn two_thieves_take_different_forks() {
        check(2, 2);
    }
}

//! Sessions, in which a program calls several loops in a row, for example those of a frame. The
//! workers of an adaptive pool spin for longer between these loops. On a pinned pool, the caller is
//! pinned too, unless it is a worker.

use crate::{
    pool::{Pool, shared::Shared},
    sync::Ordering,
    worker::current,
};

/// Makes the workers of an adaptive pool spin for longer, until this value is dropped.
struct Hot<'a> {
    shared: &'a Shared,
    /// Whether no other session of the pool was running when this one began.
    first: bool,
}

impl<'a> Hot<'a> {
    fn new(shared: &'a Shared) -> Self {
        let before = shared.sessions.fetch_add(1, Ordering::Relaxed);
        let first = before == 0;
        Self { shared, first }
    }
}

impl Drop for Hot<'_> {
    fn drop(&mut self) {
        self.shared.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    /// Runs `f`, which calls several loops in a row, for example the phases of a frame. Returns its
    /// result.
    ///
    /// On a pool with [`Wait::Adaptive`](crate::Wait::Adaptive), workers that wait between the
    /// loops spin for longer than usual, which is up to half a millisecond at a time. If the next
    /// loop comes within this time, they are awake for it. On every pool that is pinned, the
    /// calling thread is pinned to worker 0's CPUs. Both end when `f` returns or panics, and the
    /// thread then gets its previous affinity mask back. The loops inside are ordinary loops, so
    /// one phase may borrow what the previous phase wrote. Note that pinning and unpinning cost a
    /// few microseconds. A session is therefore worth it for a few phases, but not for one short
    /// loop.
    ///
    /// If you call this on a worker of any pool, the calling thread is not pinned. If another
    /// session of the pool is running on a different thread, worker 0 does not move to the CPU of
    /// the caller.
    ///
    /// ```
    /// let pool = creel::Pool::builder().workers(2).build()?;
    /// let mut place = vec![0.0; 1000];
    /// let mut speed = vec![1.0; 1000];
    /// let furthest = pool.session(|frame| {
    ///     frame.for_each(&mut speed, |v| *v *= 0.5);
    ///     frame.for_each((&mut place, &speed), |(x, v)| *x += v);
    ///     frame.map_reduce(&place, |x| *x, f64::max)
    /// });
    /// assert_eq!(furthest, Some(0.5));
    /// # Ok::<(), creel::BuildError>(())
    /// ```
    pub fn session<R>(&self, f: impl FnOnce(&Pool) -> R) -> R {
        let hot = Hot::new(&self.shared);
        if current::worker().is_some() {
            return f(self);
        }
        self.shared.pin_for_loops();
        // Worker 0 must not move if another session's caller is already pinned to its CPUs.
        let pinning = &self.shared.pinning;
        pinning.with_caller_pinned(hot.first, || f(self))
    }
}

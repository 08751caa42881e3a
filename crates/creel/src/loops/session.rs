//! A frame of several loops during which the workers stay awake and the caller is pinned.

use crate::{
    pool::{Pool, shared::Shared},
    sync::Ordering,
    worker::current,
};

/// Keeps the workers hot while it lives.
struct Hot<'a> {
    shared: &'a Shared,
    /// Whether there was no other.
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
    /// Runs `f`, which is a frame of several loops, and gives back its result.
    ///
    /// Until `f` returns (or panics), workers that wait spin longer between loops, for at most
    /// half a millisecond at a time, and the calling thread is pinned to the worker of worker 0
    /// if the pool is pinned. Then it has its own mask back. Each loop inside is an ordinary
    /// one, so what one phase wrote the next may borrow. Pinning and giving back costs some
    /// microseconds: worth it for a few phases, not for one short loop.
    ///
    /// On a worker, or in another session's thread, `f` just runs.
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
        // Another session's caller is pinned where worker 0 sits now.
        let pinning = &self.shared.pinning;
        pinning.with_caller_pinned(hot.first, || f(self))
    }
}

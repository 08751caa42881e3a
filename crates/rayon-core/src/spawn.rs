//! Spawned jobs, which no thread waits for.

use crate::{job::JobRef, registry::Registry};
use std::sync::Arc;

/// Spawns a closure on the current pool. Returns at once. If the calling thread belongs to the
/// pool, it runs the newest of the jobs that it has spawned first.
///
/// A panic of the closure is passed to the pool's panic handler. If the pool has no panic handler,
/// it aborts the process.
///
/// ```
/// let (sender, receiver) = std::sync::mpsc::channel();
/// rayon_core::spawn(move || sender.send(6 * 7).unwrap());
/// assert_eq!(receiver.recv(), Ok(42));
/// ```
pub fn spawn<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    spawn_in(&Registry::current(), func);
}

/// Does the same as [`spawn`], but the calling thread runs the jobs that it has spawned in this way
/// in the order in which they were spawned.
pub fn spawn_fifo<F>(func: F)
where
    F: FnOnce() + Send + 'static,
{
    spawn_fifo_in(&Registry::current(), func);
}

pub(crate) fn spawn_in(registry: &Arc<Registry>, func: impl FnOnce() + Send + 'static) {
    registry.push(job(registry, func));
}

pub(crate) fn spawn_fifo_in(registry: &Arc<Registry>, func: impl FnOnce() + Send + 'static) {
    let job = job(registry, func);
    match registry.worker() {
        Some(worker) => worker.push_fifo(job),
        None => registry.inject(job),
    }
}

/// Turns a closure into a job. The job counts as a user of the pool, so the threads of the pool do
/// not end before it has run.
fn job(registry: &Arc<Registry>, func: impl FnOnce() + Send + 'static) -> JobRef {
    registry.enter();
    let registry = Arc::clone(registry);
    let f = move || {
        registry.catch(func);
        registry.leave();
    };
    // SAFETY: the closure borrows nothing, and its panic is caught.
    unsafe { JobRef::boxed(f) }
}

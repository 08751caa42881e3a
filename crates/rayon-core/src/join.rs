//! Runs two closures, at the same time if a thread is free.

use crate::registry::{Registry, WorkerThread};
use std::marker::PhantomData;

/// The context that [`join_context`] passes to its closures. A closure can ask it whether it runs
/// on another thread than the caller.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// The raw pointer makes the type neither `Send` nor `Sync`, because the context belongs to one
    /// thread.
    thread: PhantomData<*mut ()>,
}

impl FnContext {
    #[inline]
    fn new(migrated: bool) -> Self {
        Self {
            migrated,
            thread: PhantomData,
        }
    }

    /// Returns whether the closure runs on another thread than the one that called
    /// [`join_context`]. rayon's iterators then split the work further, because other threads seem
    /// to be idle.
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, at the same time if another thread is free, and returns both results.
///
/// # Panics
/// If a closure panics, the function waits for the other one and then resumes the panic. If both
/// panic, it resumes the panic of `oper_a`.
///
/// ```
/// fn sum(values: &[u64]) -> u64 {
///     match values {
///         [] => 0,
///         [value] => *value,
///         _ => {
///             let (left, right) = values.split_at(values.len() / 2);
///             let (a, b) = rayon_core::join(|| sum(left), || sum(right));
///             a + b
///         }
///     }
/// }
/// let values: Vec<u64> = (0..1000).collect();
/// assert_eq!(sum(&values), 499_500);
/// ```
#[inline]
pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match WorkerThread::current() {
        Some(worker) => worker.join(|_| oper_a(), |_| oper_b(), false),
        None => Registry::global().run(|worker, _| worker.join(|_| oper_a(), |_| oper_b(), true)),
    }
}

/// Does the same as [`join`], and passes a context to each closure. The closure can ask the context
/// whether it runs on another thread.
///
/// # Panics
/// If a closure panics, the function waits for the other one and then resumes the panic. If both
/// panic, it resumes the panic of `oper_a`.
#[inline]
pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let a = |migrated| oper_a(FnContext::new(migrated));
    let b = |migrated| oper_b(FnContext::new(migrated));
    match WorkerThread::current() {
        Some(worker) => worker.join(a, b, false),
        None => Registry::global().run(|worker, injected| worker.join(a, b, injected)),
    }
}

//! Runs two closures, at the same time if a thread is free.

use crate::registry::{Registry, WorkerThread};
use std::marker::PhantomData;

/// The context of a closure of [`join_context`]. It says whether the closure runs on another
/// thread.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// The context must not be used on another thread.
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

    /// Returns whether the closure runs on another thread than the one that has called
    /// [`join_context`].
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}

/// Runs both closures, at the same time if another thread is free, and returns both results.
///
/// # Panics
/// Resumes the panic of `oper_a` or otherwise that of `oper_b`, after both have ended.
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

/// Does the same as [`join`], and passes to each closure whether it has moved to another thread.
///
/// # Panics
/// Resumes the panic of `oper_a` or otherwise that of `oper_b`, after both have ended.
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

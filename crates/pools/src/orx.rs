//! The thread pool that orx-parallel needs: a scope for closures, and the number of threads.
//!
//! orx-parallel distributes the items itself, with a concurrent iterator from which its closures
//! take items. Creel only runs these closures, so the balance of the pool does not matter.

use creel::{Pool, Scope};
use orx_parallel::ThreadPool;
use std::num::NonZeroUsize;

/// A Creel pool in the form that orx-parallel accepts.
///
/// ```
/// use creel_pools::Orx;
/// use orx_parallel::*;
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let numbers: Vec<u64> = (0..1000).collect();
/// let numbers = numbers.par().runner(Runner::fixed_with_pool(Orx(&pool)));
/// assert_eq!(numbers.filter(|n| **n % 2 == 0).count(), 500);
/// # Ok::<(), creel::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Orx<'p>(pub &'p Pool);

/// A scope of Creel in the form that orx-parallel accepts.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct OrxScope<'s, 'env>(&'s Scope<'s, 'env>);

impl<'s, 'env, 'scope> orx_parallel::Scope<'s, 'env, 'scope> for OrxScope<'s, 'env> {
    fn run<W>(self, work: W)
    where
        'scope: 's,
        'env: 'scope + 's,
        W: FnOnce() + Send + 'scope + 'env,
    {
        self.0.spawn(work);
    }
}

impl ThreadPool for Orx<'_> {
    type ScopeRef<'s, 'env, 'scope>
        = OrxScope<'s, 'env>
    where
        'scope: 's,
        'env: 'scope + 's;

    fn scope<'env, 'scope, F>(&'env self, f: F)
    where
        'env: 'scope,
        for<'s> F: FnOnce(OrxScope<'s, 'env>) + Send,
    {
        self.0.scope(|scope| f(OrxScope(scope)));
    }

    fn max_num_threads(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.0.workers()).unwrap_or(NonZeroUsize::MIN)
    }
}

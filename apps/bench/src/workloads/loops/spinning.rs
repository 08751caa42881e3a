//! Peers that exist only if `creel-bench` is built with the feature `peers`. They are pools that
//! were designed for loops of a few microseconds.

use std::num::NonZero;

use anyhow::anyhow;
use chili::{Config, Scope, ThreadPool};
use fork_union::{DynamicScheduler, IntoParallelIterator, ParallelIteratorExt};

use super::floor;
use super::openmp::openmp;
use super::work::Loop;
use crate::harness::Subject;

/// Returns each of these peers with `workers` workers.
pub fn loops<T, F>(work: &Loop<T, F>, workers: usize) -> Vec<Subject>
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Sync + Send + 'static,
{
    vec![
        floor::spin_pool(work, workers),
        fork_union_static(work.clone(), workers),
        fork_union_dynamic(work.clone(), workers),
        openmp(work.clone(), workers),
        chili(work.clone(), workers),
    ]
}

fn fork_union(workers: usize) -> anyhow::Result<fork_union::ThreadPool> {
    let pool = fork_union::ThreadPool::try_spawn(workers);
    pool.map_err(|error| anyhow!("cannot create a pool of fork_union: {error:?}"))
}

/// Returns fork_union with one share per thread. Each thread runs an ordinary loop over its share.
fn fork_union_static<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Sync + 'static,
{
    Subject::new("fork_union static", move |plan| {
        let mut pool = fork_union(workers)?;
        let (items, each) = (&work.items, &work.each);
        let share = items.len().div_ceil(workers);
        let mut shares: Vec<Vec<T>> = items.chunks(share).map(<[T]>::to_vec).collect();
        Ok(work.measure(plan, || {
            let shares = (&mut shares[..]).into_par_iter().with_pool(&mut pool);
            shares.for_each(|share: &mut Vec<T>| share.iter_mut().for_each(each));
        }))
    })
}

/// Returns fork_union with 64 equal blocks, which free threads take.
fn fork_union_dynamic<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Sync + 'static,
{
    Subject::new("fork_union dynamic", move |plan| {
        let mut pool = fork_union(workers)?;
        let (items, each) = (&work.items, &work.each);
        let mut blocks: Vec<Vec<T>> = items.chunks(block(items)).map(<[T]>::to_vec).collect();
        Ok(work.measure(plan, || {
            let blocks = (&mut blocks[..])
                .into_par_iter()
                .with_schedule(&mut pool, DynamicScheduler);
            blocks.for_each(|block: &mut Vec<T>| block.iter_mut().for_each(each));
        }))
    })
}

/// Returns chili with recursive halves, down to a 64th of the items.
fn chili<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Sync + 'static,
{
    Subject::new("chili", move |plan| {
        let thread_count = NonZero::new(workers);
        let pool = ThreadPool::with_config(Config {
            thread_count,
            ..Config::default()
        });
        let mut scope = pool.scope();
        let (mut items, each) = (work.items.clone(), &work.each);
        let block = block(&items);
        Ok(work.measure(plan, || halves(&mut scope, &mut items, block, each)))
    })
}

fn halves<T: Send, F: Fn(&mut T) + Sync>(
    scope: &mut Scope<'_>,
    items: &mut [T],
    block: usize,
    each: &F,
) {
    if items.len() <= block {
        return items.iter_mut().for_each(each);
    }
    let (left, right) = items.split_at_mut(items.len() / 2);
    scope.join(
        |scope| halves(scope, left, block, each),
        |scope| halves(scope, right, block, each),
    );
}

/// Returns a 64th of the number of items, rounded up.
fn block<T>(items: &[T]) -> usize {
    items.len().div_ceil(64)
}

//! The other libraries with which the workload `loops` compares Creel, used as their documentation
//! recommends.

use std::hint::black_box;
use std::thread;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::work::Loop;
use crate::harness::{ONE_THREAD, Plan, Subject};

/// Returns one thread, and each peer with `workers` workers.
pub fn loops<T, F>(work: &Loop<T, F>, workers: usize) -> Vec<Subject>
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Sync + Send + 'static,
{
    vec![
        one_thread(work.clone()),
        threads(work.clone(), workers),
        rayon_scope(work.clone(), workers),
        rayon_chunks(work.clone(), workers),
        rayon_items(work.clone(), workers),
    ]
}

/// Returns an ordinary loop.
pub fn one_thread<T: Clone + 'static, F: Fn(&mut T) + 'static>(work: Loop<T, F>) -> Subject {
    Subject::new(ONE_THREAD, move |plan| {
        let mut items = work.items.clone();
        Ok(work.measure(plan, || {
            black_box(&mut items).iter_mut().for_each(&work.each)
        }))
    })
}

/// Returns a loop that starts threads in each call. The caller works, too.
fn threads<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Sync + 'static,
{
    Subject::new("threads", move |plan| {
        let (mut items, each) = (work.items.clone(), &work.each);
        let share = items.len().div_ceil(workers);
        Ok(work.measure(plan, || {
            thread::scope(|scope| {
                let mut shares = items.chunks_mut(share);
                let own = shares.next();
                for share in shares {
                    scope.spawn(|| share.iter_mut().for_each(each));
                }
                own.into_iter().flatten().for_each(each);
            });
        }))
    })
}

/// Returns a rayon scope with one spawn per share. The caller is outside of the pool.
pub fn rayon_scope<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Sync + Send + 'static,
{
    Subject::new("rayon scope", move |plan| {
        let pool = rayon(workers)?;
        let mut items = work.items.clone();
        let share = items.len().div_ceil(workers);
        let each = &work.each;
        Ok(work.measure(plan, || {
            pool.scope(|scope| {
                for share in items.chunks_mut(share) {
                    scope.spawn(move |_| share.iter_mut().for_each(each));
                }
            });
        }))
    })
}

/// Returns a parallel iterator over shares. The caller is outside of the pool.
fn rayon_chunks<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Sync + Send + 'static,
{
    Subject::new("rayon chunks", move |plan| {
        let pool = rayon(workers)?;
        let (mut items, each) = (work.items.clone(), &work.each);
        let share = items.len().div_ceil(workers);
        Ok(work.measure(plan, || {
            let shares = items.par_chunks_mut(share);
            pool.install(|| shares.for_each(|share| share.iter_mut().for_each(each)));
        }))
    })
}

/// Returns a parallel iterator over items, which rayon splits adaptively.
fn rayon_items<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Sync + Send + 'static,
{
    Subject::new("rayon items", move |plan| {
        let pool = rayon(workers)?;
        let (mut items, each) = (work.items.clone(), &work.each);
        Ok(work.measure(plan, || {
            pool.install(|| items.par_iter_mut().for_each(each));
        }))
    })
}

/// Returns rayon called from one of its own threads. This saves passing the call from an outside
/// caller to the pool, which the subjects of [`loops`] pay in each call. In the first subject, the
/// whole sample runs inside `install`. In the second one, the caller has joined the pool with
/// `use_current_thread`. A program can be written like this if all of it may run inside the pool.
pub fn rayon_inside<T, F>(work: &Loop<T, F>, workers: usize) -> Vec<Subject>
where
    T: Clone + Send + Sync + 'static,
    F: Fn(&mut T) + Clone + Sync + Send + 'static,
{
    let (in_install, on_caller) = (work.clone(), work.clone());
    vec![
        Subject::new("rayon items in install", move |plan| {
            let pool = rayon(workers)?;
            Ok(pool.install(|| measure_inside(&in_install, plan)))
        }),
        Subject::new("rayon items on its caller", move |plan| {
            // With `use_current_thread`, a thread belongs to its pool until the thread ends.
            // Therefore each sample calls from a new thread.
            thread::scope(|scope| {
                let caller = scope.spawn(|| {
                    let builder = ThreadPoolBuilder::new().num_threads(workers);
                    let _pool = builder.use_current_thread().build()?;
                    Ok(measure_inside(&on_caller, plan))
                });
                caller.join().expect("a loop does not panic")
            })
        }),
    ]
}

/// Measures a parallel iterator over items, called by one of rayon's threads.
fn measure_inside<T, F>(work: &Loop<T, F>, plan: &Plan) -> f64
where
    T: Clone + Send,
    F: Fn(&mut T) + Sync + Send,
{
    let (mut items, each) = (work.items.clone(), &work.each);
    work.measure(plan, || items.par_iter_mut().for_each(each))
}

/// Returns a rayon pool with `workers` threads.
pub fn rayon(workers: usize) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(workers).build()?)
}

//! The peers, each as its documentation says it should be used.

use std::hint::black_box;
use std::thread;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::work::Loop;
use crate::harness::Subject;

/// A loop run by one thread and by each peer with so many workers.
pub fn loops<T, F>(work: &Loop<T, F>, workers: usize) -> Vec<Subject>
where
    T: Send + 'static,
    F: Fn(&mut T) + Clone + Sync + Send + 'static,
{
    vec![
        one_thread(work.clone()),
        threads(work.clone(), workers),
        rayon_scope(work.clone(), workers),
        rayon_chunks(work.clone(), workers),
    ]
}

/// An empty function run by every worker of each peer.
pub fn empty(workers: usize) -> Vec<Subject> {
    let nothing = || black_box(());
    vec![
        Subject::new("one thread", move |plan| Ok(plan.time(nothing))),
        Subject::new("threads", move |plan| {
            Ok(plan.time(|| {
                thread::scope(|scope| {
                    for _ in 1..workers {
                        scope.spawn(nothing);
                    }
                    nothing();
                });
            }))
        }),
        Subject::new("rayon broadcast", move |plan| {
            let pool = rayon(workers)?;
            Ok(plan.time(|| _ = pool.broadcast(|_| nothing())))
        }),
        Subject::new("rayon scope", move |plan| {
            let pool = rayon(workers)?;
            Ok(plan.time(|| {
                pool.scope(|scope| (0..workers).for_each(|_| scope.spawn(move |_| nothing())))
            }))
        }),
    ]
}

fn one_thread<T: 'static, F: Fn(&mut T) + 'static>(work: Loop<T, F>) -> Subject {
    Subject::new("one thread", move |plan| {
        let mut items = (work.items)();
        Ok(work.measure(plan, || {
            black_box(&mut items).iter_mut().for_each(&work.each)
        }))
    })
}

/// Fresh threads in each call; the caller works too.
fn threads<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Send + 'static,
    F: Fn(&mut T) + Sync + 'static,
{
    Subject::new("threads", move |plan| {
        let mut items = (work.items)();
        let share = items.len().div_ceil(workers);
        Ok(work.measure(plan, || {
            thread::scope(|scope| {
                let mut shares = items.chunks_mut(share);
                let own = shares.next();
                for share in shares {
                    scope.spawn(|| share.iter_mut().for_each(&work.each));
                }
                own.into_iter().flatten().for_each(&work.each);
            });
        }))
    })
}

/// A scope with a spawn a share, called from outside the pool.
fn rayon_scope<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Send + 'static,
    F: Fn(&mut T) + Sync + Send + 'static,
{
    Subject::new("rayon scope", move |plan| {
        let pool = rayon(workers)?;
        let mut items = (work.items)();
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

/// A parallel iterator over shares, called from outside the pool.
fn rayon_chunks<T, F>(work: Loop<T, F>, workers: usize) -> Subject
where
    T: Send + 'static,
    F: Fn(&mut T) + Sync + Send + 'static,
{
    Subject::new("rayon chunks", move |plan| {
        let pool = rayon(workers)?;
        let mut items = (work.items)();
        let share = items.len().div_ceil(workers);
        Ok(work.measure(plan, || {
            pool.install(|| {
                items
                    .par_chunks_mut(share)
                    .for_each(|share| share.iter_mut().for_each(&work.each));
            });
        }))
    })
}

fn rayon(workers: usize) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(workers).build()?)
}

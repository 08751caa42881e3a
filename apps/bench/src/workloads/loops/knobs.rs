//! Creel, with its knobs turned several ways; the first is what a frame loop should use.

use std::time::Duration;

use creel::{Balance, PoolBuilder, Placement, Pool, Wait};

use super::work::Loop;
use crate::harness::Subject;

/// Long enough to span the gap between two calls of every case but those that sleep.
const SPIN: Wait = Wait::Spin(Duration::from_micros(50));

/// The settings that are compared, the recommended first.
const SETTINGS: [(&str, Balance, Wait); 4] = [
    ("creel [sticky, adaptive]", Balance::Sticky, Wait::Adaptive),
    ("creel [fixed, spin]", Balance::Fixed, SPIN),
    ("creel [fixed, park]", Balance::Fixed, Wait::Park),
    ("creel [shared, park]", Balance::Shared, Wait::Park),
];

/// A loop under each setting.
pub fn loops<T, F>(work: &Loop<T, F>, workers: usize) -> Vec<Subject>
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Send + Sync + 'static,
{
    let subjects = SETTINGS.iter().map(|&(name, balance, wait)| {
        let builder = Pool::builder().workers(workers).balance(balance).wait(wait);
        subject(name.into(), work.clone(), builder)
    });
    subjects.chain([unpinned(work, workers)]).collect()
}

/// The recommended setting.
pub fn pinned<T, F>(work: &Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Send + Sync + 'static,
{
    let (name, balance, wait) = SETTINGS[0];
    let builder = Pool::builder().workers(workers).balance(balance).wait(wait);
    subject(name.into(), work.clone(), builder)
}

/// The same, but that the system places the workers.
pub fn unpinned<T, F>(work: &Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Send + Sync + 'static,
{
    let (_, balance, wait) = SETTINGS[0];
    let builder = Pool::builder().workers(workers).balance(balance).wait(wait);
    let builder = builder.placement(Placement::Unpinned);
    subject("creel [unpinned]".into(), work.clone(), builder)
}

/// The recommended setting with so many workers, which the subject's name tells.
pub fn not_oversubscribed<T, F>(work: &Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Send + Sync + 'static,
{
    let (name, balance, wait) = SETTINGS[0];
    let builder = Pool::builder().workers(workers).balance(balance).wait(wait);
    subject(format!("{name} {workers} workers"), work.clone(), builder)
}

fn subject<T, F>(name: String, work: Loop<T, F>, builder: PoolBuilder) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Send + Sync + 'static,
{
    Subject::new(name, move |plan| {
        let pool = builder.clone().build()?;
        let mut items = work.items.clone();
        Ok(work.measure(plan, || pool.for_each(&mut items, |item| (work.each)(item))))
    })
}

//! Creel with several settings. The first one is what we recommend for a frame loop.

use std::time::Duration;

use creel::{Balance, Placement, Pool, PoolBuilder, Wait};

use super::work::Loop;
use crate::harness::Subject;

/// A spin that is longer than the gap between two calls in all cases that do not sleep.
const SPIN: Wait = Wait::Spin(Duration::from_micros(50));

/// The settings that we compare, with the names of their subjects. The first one is the recommended
/// one.
const SETTINGS: [(&str, Balance, Wait); 4] = [
    ("creel [sticky, adaptive]", Balance::Sticky, Wait::Adaptive),
    ("creel [fixed, spin]", Balance::Fixed, SPIN),
    ("creel [fixed, park]", Balance::Fixed, Wait::Park),
    ("creel [shared, park]", Balance::Shared, Wait::Park),
];

/// Returns one subject for each setting, and one with the recommended setting and unpinned workers.
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

/// Returns the subject with the recommended setting, whose workers are pinned.
pub fn pinned<T, F>(work: &Loop<T, F>, workers: usize) -> Subject
where
    T: Clone + Send + 'static,
    F: Fn(&mut T) + Clone + Send + Sync + 'static,
{
    let (name, balance, wait) = SETTINGS[0];
    let builder = Pool::builder().workers(workers).balance(balance).wait(wait);
    subject(name.into(), work.clone(), builder)
}

/// Returns the subject with the recommended setting, but with unpinned workers.
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

/// Returns the subject with the recommended setting, and with the number of workers in its name.
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

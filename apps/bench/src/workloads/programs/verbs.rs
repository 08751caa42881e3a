//! Single functions compared with those of rayon: folds into large maps, and sorts.

use std::collections::HashMap;
use std::hint::black_box;

use rayon::prelude::*;

use super::{ONE_THREAD, Plan, Subject, creel, program, rayon};

const ITEMS: u64 = 200_000;
const SORTED: u64 = 500_000;

type Counts = HashMap<u64, u64>;

fn mixed(n: u64) -> u64 {
    (n ^ (n >> 7)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Returns the items. There are at most half as many different keys as items, without an order.
fn keys() -> Vec<u64> {
    (0..ITEMS).map(|n| mixed(n) % (ITEMS / 2)).collect()
}

fn merge(mut a: Counts, b: Counts) -> Counts {
    for (key, count) in b {
        *a.entry(key).or_default() += count;
    }
    a
}

/// Returns the subjects of the case `large maps`. They count items in maps with up to half as many
/// entries as there are items.
pub fn large_maps(workers: usize) -> Vec<Subject> {
    fn add(counts: &mut Counts, key: &u64) {
        *counts.entry(*key).or_default() += 1;
    }
    program(
        workers,
        [
            ("creel fold", |plan, workers| {
                let (pool, keys) = (creel(workers)?, keys());
                Ok(plan.time(|| _ = black_box(pool.fold(&keys, Counts::new, add, merge))))
            }),
            ("creel fold_with_leaves 8", |plan, workers| {
                let (pool, keys) = (creel(workers)?, keys());
                let count = || pool.fold_with_leaves(8, &keys, Counts::new, add, merge);
                Ok(plan.time(|| _ = black_box(count())))
            }),
            ("creel fold_by_worker", |plan, workers| {
                let (pool, keys) = (creel(workers)?, keys());
                let count = || pool.fold_by_worker(&keys, Counts::new, add, merge);
                Ok(plan.time(|| _ = black_box(count())))
            }),
            (ONE_THREAD, |plan, _| {
                let keys = keys();
                Ok(plan.time(|| {
                    let mut counts = Counts::new();
                    keys.iter().for_each(|key| add(&mut counts, key));
                    black_box(counts);
                }))
            }),
            ("rayon", |plan, workers| {
                let (pool, keys) = (rayon(workers)?, keys());
                let count = || {
                    let counts = keys.par_iter().fold(Counts::new, |mut counts, key| {
                        add(&mut counts, key);
                        counts
                    });
                    counts.reduce(Counts::new, merge)
                };
                Ok(plan.time(|| _ = black_box(pool.install(count))))
            }),
            ("rayon clever", |plan, workers| {
                let (pool, keys) = (rayon(workers)?, keys());
                let count = || {
                    let shares = keys.par_chunks(keys.len().div_ceil(workers));
                    let counts = shares.map(|share| {
                        let mut counts = Counts::new();
                        share.iter().for_each(|key| add(&mut counts, key));
                        counts
                    });
                    counts.reduce_with(merge)
                };
                Ok(plan.time(|| _ = black_box(pool.install(count))))
            }),
        ],
    )
}

/// Measures `sort` on 500,000 unordered numbers.
fn sorts(plan: &Plan, mut sort: impl FnMut(&mut [u64])) -> f64 {
    let unsorted: Vec<u64> = (0..SORTED).map(mixed).collect();
    let place = std::cell::RefCell::new(unsorted.clone());
    plan.time_with_setup(
        || place.borrow_mut().copy_from_slice(&unsorted),
        || sort(&mut place.borrow_mut()),
    )
}

/// Returns the subjects of the case `sort`, which are stable sorts.
pub fn sort(workers: usize) -> Vec<Subject> {
    program(
        workers,
        [
            ("creel", |plan, workers| {
                let pool = creel(workers)?;
                Ok(sorts(plan, |items| pool.sort(items)))
            }),
            (ONE_THREAD, |plan, _| Ok(sorts(plan, <[u64]>::sort))),
            ("rayon", |plan, workers| {
                let pool = rayon(workers)?;
                Ok(sorts(plan, |items| pool.install(|| items.par_sort())))
            }),
        ],
    )
}

/// Returns the subjects of the case `sort unstable`, which are unstable sorts.
pub fn sort_unstable(workers: usize) -> Vec<Subject> {
    program(
        workers,
        [
            ("creel", |plan, workers| {
                let pool = creel(workers)?;
                Ok(sorts(plan, |items| pool.sort_unstable(items)))
            }),
            (ONE_THREAD, |plan, _| {
                Ok(sorts(plan, <[u64]>::sort_unstable))
            }),
            ("rayon", |plan, workers| {
                let pool = rayon(workers)?;
                let sort = |items: &mut [u64]| pool.install(|| items.par_sort_unstable());
                Ok(sorts(plan, sort))
            }),
        ],
    )
}

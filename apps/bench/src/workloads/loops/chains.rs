//! Chains of parallel iterators, as users of rayon write them, and two loops at the same time.
//!
//! Each library that has parallel iterators runs the same line:
//! `a.par_iter().zip(&b).map(…).sum()`.

use std::hint::black_box;

use creel::Pool;
use creel_rayon::On;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::work::busy_work;
use crate::harness::{ONE_THREAD, Plan, Subject};

/// The two slices of floats whose products the subjects add up.
struct Numbers {
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Numbers {
    fn new(count: usize) -> Self {
        let wave = |factor: f32| (0..count).map(|i| (i as f32 * factor).sin()).collect();
        Self {
            a: wave(0.1),
            b: wave(0.3),
        }
    }
}

fn rayon(workers: usize) -> anyhow::Result<ThreadPool> {
    Ok(ThreadPoolBuilder::new().num_threads(workers).build()?)
}

/// Returns subjects that compute the sum of the products of `count` pairs of numbers.
pub fn zip_map_sum(count: usize, workers: usize) -> Vec<Subject> {
    let subject = |name: &str, sample: fn(&Plan, &Numbers, usize) -> anyhow::Result<f64>| {
        Subject::new(name, move |plan| {
            sample(plan, &Numbers::new(count), workers)
        })
    };
    let subjects = vec![
        subject("creel-rayon", |plan, Numbers { a, b }, workers| {
            let pool = Pool::builder().workers(workers).build()?;
            Ok(plan.time(|| {
                let products = a.par_iter().zip(b).on(&pool).map(|(a, b)| a * b);
                black_box(products.sum::<f32>());
            }))
        }),
        subject("creel fold", |plan, Numbers { a, b }, workers| {
            let pool = Pool::builder().workers(workers).build()?;
            Ok(plan.time(|| {
                let add = |sum: &mut f32, (a, b): (&f32, &f32)| *sum += a * b;
                black_box(pool.fold((a, b), || 0.0, add, |a, b| a + b));
            }))
        }),
        subject(ONE_THREAD, |plan, Numbers { a, b }, _| {
            Ok(plan.time(|| {
                black_box(a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>());
            }))
        }),
        subject("rayon", |plan, Numbers { a, b }, workers| {
            let pool = rayon(workers)?;
            Ok(plan.time(|| {
                let sum = || a.par_iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
                black_box(pool.install(sum));
            }))
        }),
        subject("rayon in install", |plan, Numbers { a, b }, workers| {
            let pool = rayon(workers)?;
            Ok(pool.install(|| {
                plan.time(|| {
                    black_box(a.par_iter().zip(b).map(|(a, b)| a * b).sum::<f32>());
                })
            }))
        }),
    ];
    #[cfg(feature = "micropool")]
    let subjects = {
        let more = [
            subject("creel paralight", paralight::creel),
            subject("micropool", paralight::micropool),
        ];
        subjects.into_iter().chain(more).collect()
    };
    subjects
}

#[cfg(feature = "micropool")]
mod paralight {
    use super::{Numbers, Plan, Pool, black_box};
    use creel_pools::Paralight;
    use paralight::prelude::*;

    pub fn creel(plan: &Plan, numbers: &Numbers, workers: usize) -> anyhow::Result<f64> {
        let pool = Pool::builder().workers(workers).build()?;
        Ok(plan.time(|| _ = black_box(sum(numbers, Paralight(&pool)))))
    }

    /// Measures micropool. The caller is one of its workers, so it has one thread less, but at
    /// least one.
    pub fn micropool(plan: &Plan, numbers: &Numbers, workers: usize) -> anyhow::Result<f64> {
        let threads = (workers - 1).max(1);
        let pool = micropool::ThreadPoolBuilder::default()
            .num_threads(threads)
            .build();
        Ok(plan.time(|| _ = black_box(sum(numbers, pool.split_by_threads()))))
    }

    fn sum(Numbers { a, b }: &Numbers, pool: impl GenericThreadPool) -> f32 {
        let pairs = (a.par_iter(), b.par_iter()).zip_eq().with_thread_pool(pool);
        pairs.map(|(a, b)| a * b).sum()
    }
}

/// Returns subjects that run two loops: one over 20,000 items, and one over as many items that take
/// twice as long. They run both at the same time, except for `one thread`.
pub fn nested(workers: usize) -> Vec<Subject> {
    const ITEMS: u64 = 20_000;
    fn halves() -> (Vec<u64>, Vec<u64>) {
        ((0..ITEMS).collect(), (0..ITEMS).collect())
    }
    fn light(item: &mut u64) {
        *item = busy_work(*item, 4);
    }
    fn heavy(item: &mut u64) {
        *item = busy_work(*item, 8);
    }
    let subject = |name: &str, sample: fn(&Plan, usize) -> anyhow::Result<f64>| {
        Subject::new(name, move |plan| sample(plan, workers))
    };
    vec![
        subject("creel [sticky, adaptive]", |plan, workers| {
            let pool = Pool::builder().workers(workers).build()?;
            let (mut a, mut b) = halves();
            Ok(plan.time(|| {
                let first = || pool.for_each(&mut a, light);
                pool.join(first, || pool.for_each(&mut b, heavy));
            }))
        }),
        subject("creel-rayon", |plan, workers| {
            let pool = Pool::builder().workers(workers).build()?;
            let (mut a, mut b) = halves();
            Ok(plan.time(|| {
                let first = || a.par_iter_mut().on(&pool).for_each(light);
                pool.join(first, || b.par_iter_mut().on(&pool).for_each(heavy));
            }))
        }),
        subject(ONE_THREAD, |plan, _| {
            let (mut a, mut b) = halves();
            Ok(plan.time(|| {
                a.iter_mut().for_each(light);
                b.iter_mut().for_each(heavy);
            }))
        }),
        subject("rayon", |plan, workers| {
            let pool = rayon(workers)?;
            let (mut a, mut b) = halves();
            Ok(plan.time(|| {
                let first = || a.par_iter_mut().for_each(light);
                let second = || b.par_iter_mut().for_each(heavy);
                pool.install(|| rayon::join(first, second));
            }))
        }),
    ]
}

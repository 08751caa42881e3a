//! Tests of paralight's iterators on Creel pools.
#![cfg(feature = "paralight")]

use creel::Pool;
use creel_pools::Paralight;
use paralight::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn pools() -> [Pool; 3] {
    [1, 2, 5].map(|workers| {
        Pool::builder()
            .workers(workers)
            .build()
            .expect("the settings are valid")
    })
}

#[test]
fn results_are_those_of_one_thread_for_every_length() {
    for pool in pools() {
        for len in [0, 1, 2, 63, 64, 65, 1000] {
            let items: Vec<u64> = (0..len).collect();
            let on = || items.par_iter().with_thread_pool(Paralight(&pool));
            assert_eq!(on().sum::<u64>(), items.iter().sum());
            let doubled: Vec<u64> = items
                .par_iter()
                .map(|n| n * 2)
                .with_thread_pool(Paralight(&pool))
                .collect();
            assert_eq!(doubled, items.iter().map(|n| n * 2).collect::<Vec<_>>());
            assert_eq!(
                on().find_first(|n| **n % 50 == 49),
                items.iter().find(|n| **n % 50 == 49)
            );
            assert_eq!(on().find_any(|n| **n == len), None);
            assert_eq!(on().max(), items.iter().max());
        }
    }
}

/// Counts how many values of this type were dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn each_item_is_dropped_once_after_a_match_or_a_panic() {
    for pool in pools() {
        for end in (0..300).step_by(7) {
            let dropped = Arc::new(AtomicUsize::new(0));
            let items =
                || -> Vec<Counted> { (0..300).map(|_| Counted(Arc::clone(&dropped))).collect() };
            let numbers: Vec<usize> = (0..300).collect();
            // After a match, the remaining items are cleaned up.
            let pairs = (items().into_par_iter(), numbers.par_iter()).zip_eq();
            let found = pairs
                .with_thread_pool(Paralight(&pool))
                .find_any(|(_, n)| **n == end);
            assert!(found.is_some());
            drop(found);
            assert_eq!(dropped.swap(0, Ordering::Relaxed), 300);
            // After a panic, the remaining items are cleaned up, too.
            let pairs = (items().into_par_iter(), numbers.par_iter()).zip_eq();
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                let on = pairs.with_thread_pool(Paralight(&pool));
                on.for_each(|(_, n)| assert_ne!(*n, end));
            }));
            assert!(thrown.is_err());
            assert_eq!(
                dropped.load(Ordering::Relaxed),
                300,
                "panic at {end}, {pool:?}"
            );
        }
    }
}

#[test]
fn loops_can_be_nested() {
    for pool in pools() {
        let rows: Vec<Vec<u64>> = (0..20).map(|row| (0..row * 10).collect()).collect();
        let row_sum = |row: &Vec<u64>| {
            row.par_iter()
                .with_thread_pool(Paralight(&pool))
                .sum::<u64>()
        };
        let sum = rows
            .par_iter()
            .with_thread_pool(Paralight(&pool))
            .map(row_sum)
            .sum::<u64>();
        assert_eq!(sum, rows.iter().flatten().sum());
    }
}

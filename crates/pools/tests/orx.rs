//! Tests of orx-parallel's iterators on Creel pools.
#![cfg(feature = "orx-parallel")]

use creel::Pool;
use creel_pools::Orx;
use orx_parallel::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

#[test]
fn results_are_those_of_one_thread() {
    for workers in [1, 2, 5] {
        let pool = Pool::builder().workers(workers).build().unwrap();
        let items: Vec<u64> = (0..10_000).collect();
        let sum = items
            .par()
            .runner(Runner::fixed_with_pool(Orx(&pool)))
            .map(|n| n * 3)
            .sum();
        assert_eq!(sum, items.iter().sum::<u64>() * 3);
        let odd: Vec<u64> = items
            .par()
            .runner(Runner::fixed_with_pool(Orx(&pool)))
            .copied()
            .filter(|n| n % 2 == 1)
            .collect();
        assert_eq!(
            odd,
            items
                .iter()
                .copied()
                .filter(|n| n % 2 == 1)
                .collect::<Vec<_>>()
        );
        assert_eq!(
            items
                .par()
                .runner(Runner::fixed_with_pool(Orx(&pool)))
                .find(|n| **n == 777),
            Some(&777)
        );
    }
}

#[test]
fn closures_run_only_on_threads_of_the_pool_and_the_caller() {
    let pool = Pool::builder().workers(2).name("own").build().unwrap();
    assert_eq!(Orx(&pool).max_num_threads().get(), 2);
    let names = Mutex::new(Vec::new());
    (0..1000_usize)
        .into_par()
        .runner(Runner::fixed_with_pool(Orx(&pool)))
        .for_each(|_| {
            let thread = thread::current();
            let mut names = names.lock().unwrap();
            let name = thread.name().unwrap_or_default().to_string();
            if !names.contains(&name) {
                names.push(name);
            }
        });
    let caller = thread::current().name().unwrap_or_default().to_string();
    let names = names.into_inner().unwrap();
    assert!(
        names
            .iter()
            .all(|name| name.starts_with("own") || *name == caller),
        "{names:?}"
    );
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_remains_usable() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let thrown = catch_unwind(AssertUnwindSafe(|| {
        (0..1000_usize)
            .into_par()
            .runner(Runner::fixed_with_pool(Orx(&pool)))
            .for_each(|n| assert_ne!(n, 500));
    }));
    assert!(thrown.is_err());
    assert_eq!(
        (0..10_usize)
            .into_par()
            .runner(Runner::fixed_with_pool(Orx(&pool)))
            .sum(),
        45
    );
}

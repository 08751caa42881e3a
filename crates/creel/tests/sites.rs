//! Loops that share one call site, because they are called through a function pointer.

use creel::{Pool, Wait};
use std::{
    collections::HashSet,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

const ITEMS: usize = 64;

/// Calls every loop of this test, as a C interface would.
fn call(pool: &Pool, body: &(dyn Fn(usize) + Sync)) {
    pool.for_each(0..ITEMS, body);
}

fn tiny(pool: &Pool) {
    call(pool, &|index| {
        std::hint::black_box(index);
    });
}

/// Returns whether more than one thread took part in a heavy loop.
fn is_shared(pool: &Pool) -> bool {
    let threads = Mutex::new(HashSet::new());
    call(pool, &|_| {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(200) {}
        threads.lock().unwrap().insert(thread::current().id());
    });
    threads.into_inner().unwrap().len() > 1
}

#[test]
fn a_heavy_loop_after_tiny_ones_is_shared_if_it_has_a_site_of_its_own() {
    let pool = Pool::builder()
        .workers(2)
        .wait(Wait::Adaptive)
        .build()
        .unwrap();
    for _ in 0..40 {
        tiny(&pool.with_site(1));
    }
    // The first calls of a site are always shared. A worker may still come too late for one loop.
    assert!((0..4).any(|_| is_shared(&pool.with_site(2))));
}

#[test]
fn a_loop_that_becomes_heavy_is_shared_after_a_few_calls() {
    let pool = Pool::builder()
        .workers(2)
        .wait(Wait::Adaptive)
        .build()
        .unwrap();
    for _ in 0..40 {
        tiny(&pool);
    }
    let heavy: Vec<bool> = (0..24).map(|_| is_shared(&pool)).collect();
    let shared = heavy[17..].iter().filter(|shared| **shared).count();
    assert!(shared > 0, "{heavy:?}");
}

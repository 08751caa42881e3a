//! Tests of loops that share one call site, because they are called through a function pointer.

use creel::{Pool, Wait};
use std::time::{Duration, Instant};

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

/// Calls a loop with much work per item, and returns whether it was shared with other workers. A
/// loop that is not shared consists of one block. A shared loop has more blocks, even if all other
/// workers come too late to take one.
fn is_shared(pool: &Pool) -> bool {
    let blocks = || -> u64 { pool.stats().workers.iter().map(|w| w.loop_blocks).sum() };
    let before = blocks();
    call(pool, &|_| {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(50) {}
    });
    blocks() - before > 1
}

/// Returns a pool with `Wait::Park`. On such a pool, a loop uses all workers even if other programs
/// use the CPUs.
fn pool() -> Pool {
    let builder = Pool::builder().workers(4).wait(Wait::Park);
    builder.build().unwrap()
}

#[test]
fn a_long_loop_after_tiny_loops_is_shared_if_it_has_a_site_of_its_own() {
    let pool = pool();
    for _ in 0..40 {
        tiny(&pool.with_site(1));
    }
    assert!(is_shared(&pool.with_site(2)));
}

#[test]
fn a_loop_that_becomes_longer_is_shared_after_a_few_calls() {
    let pool = pool();
    for _ in 0..40 {
        tiny(&pool);
    }
    let heavy: Vec<bool> = (0..40).map(|_| is_shared(&pool)).collect();
    // On a busy machine, later calls may run alone again, because the woken workers come too late.
    assert!(heavy.contains(&true), "{heavy:?}");
}

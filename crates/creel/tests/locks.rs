//! Tests of locks that are held across a loop, a join or a scope.
//!
//! Stolen work must not take such a lock again on the same stack. Therefore a thread that waits
//! runs only work that comes from the operation it waits for. `docs/design/loops.md` explains why.
//! Each test here would hang if a waiting thread ran any other work.

use creel::{Balance, Pool, Wait};
use std::{
    cell::Cell,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

mod deadline;
use deadline::bounded;

thread_local! {
    /// Whether this thread holds the lock.
    static HOLDS: Cell<bool> = const { Cell::new(false) };
}

/// A lock that panics if its thread already holds it, instead of hanging.
#[derive(Default)]
struct Strict(Mutex<usize>);

impl Strict {
    /// Runs `f` under the lock.
    fn hold(&self, f: impl FnOnce()) {
        assert!(!HOLDS.get(), "taken again by stolen work on the same stack");
        let mut count = self.0.lock().unwrap();
        HOLDS.set(true);
        f();
        HOLDS.set(false);
        *count += 1;
    }
}

fn pools() -> impl Iterator<Item = Pool> {
    let balances = [Balance::Fixed, Balance::Sticky, Balance::Shared];
    let settings = [1, 2, 4]
        .into_iter()
        .flat_map(move |n| balances.map(|b| (n, b)));
    settings.map(|(workers, balance)| {
        let builder = Pool::builder().workers(workers).wait(Wait::Park);
        builder.balance(balance).build().unwrap()
    })
}

/// Runs a loop that idle workers are likely to help with.
fn work(pool: &Pool) {
    let sum = AtomicUsize::new(0);
    pool.for_each(0..8, |n| {
        std::thread::yield_now();
        sum.fetch_add(n, Relaxed);
    });
    assert_eq!(sum.into_inner(), 28);
}

/// Each item takes the lock and runs a loop under it (the first case of rayon's issue 592).
#[test]
fn items_of_a_loop_may_run_a_loop_under_a_lock() {
    bounded("loops under a lock", || {
        for pool in pools() {
            let lock = Strict::default();
            pool.for_each(0..40, |_| lock.hold(|| work(&pool)));
            assert_eq!(*lock.0.lock().unwrap(), 40);
        }
    });
}

#[test]
fn closures_of_joins_may_join_under_a_lock() {
    fn halves(pool: &Pool, lock: &Strict, depth: usize) {
        lock.hold(|| _ = pool.join(|| work(pool), || work(pool)));
        if depth > 0 {
            let side = || halves(pool, lock, depth - 1);
            pool.join(side, side);
        }
    }
    bounded("joins under a lock", || {
        for pool in pools() {
            let lock = Strict::default();
            halves(&pool, &lock, 4);
            assert_eq!(*lock.0.lock().unwrap(), 31);
        }
    });
}

#[test]
fn jobs_of_a_scope_may_run_a_scope_under_a_lock() {
    bounded("scopes under a lock", || {
        for pool in pools() {
            let lock = Strict::default();
            let job = || {
                lock.hold(|| {
                    pool.scope(|s| (0..4).for_each(|_| s.spawn(|| work(&pool))));
                });
            };
            pool.scope(|s| (0..20).for_each(|_| s.spawn(job)));
            assert_eq!(*lock.0.lock().unwrap(), 20);
        }
    });
}

/// The waiting thread has tasks of its own pool to run, and does not run them until the wait ends.
#[test]
fn tasks_do_not_run_on_a_stack_that_waits_for_a_loop() {
    bounded("tasks under a lock", || {
        for pool in pools() {
            let (pool, lock) = (
                &*Box::leak(Box::new(pool)),
                &*Box::leak(Box::new(Strict::default())),
            );
            let tasks: Vec<_> = (0..20)
                .map(|_| pool.spawn(async move { lock.hold(|| work(pool)) }))
                .collect();
            lock.hold(|| work(pool));
            pool.block_on(async {
                for task in tasks {
                    task.await.unwrap();
                }
            });
            assert_eq!(*lock.0.lock().unwrap(), 21);
        }
    });
}

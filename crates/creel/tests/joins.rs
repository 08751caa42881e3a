//! Tests of joins at any depth: what they return, how they panic, and that no closure waits while a
//! worker is idle.

mod deadline;

use creel::{Balance, Joiner, Pool, Wait};
use deadline::bounded;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, panic_any},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

fn fibonacci(pool: &Pool, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = pool.join(|| fibonacci(pool, n - 1), || fibonacci(pool, n - 2));
    a + b
}

fn fibonacci_with(joiner: Joiner<'_>, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = joiner.join(|j| fibonacci_with(j, n - 1), |j| fibonacci_with(j, n - 2));
    a + b
}

#[test]
fn a_recursion_without_a_cutoff_returns_the_right_result() {
    for workers in [1, 2, 3, 8] {
        for wait in [Wait::Adaptive, Wait::Park] {
            let pool = Pool::builder().workers(workers).wait(wait).build().unwrap();
            for n in [0, 1, 2, 10, 20, 24] {
                let right = fibonacci_plain(n);
                assert_eq!(fibonacci(&pool, n), right, "{workers} workers, {wait:?}");
                assert_eq!(pool.recurse(|j| fibonacci_with(j, n)), right);
                assert_eq!(pool.run_on(0, || fibonacci(&pool, n)).unwrap(), right);
            }
        }
    }
}

fn fibonacci_plain(n: u64) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

#[test]
fn many_threads_recurse_on_one_pool() {
    let pool = pool(2);
    std::thread::scope(|s| {
        for n in 0..6 {
            let pool = &pool;
            s.spawn(move || {
                for _ in 0..20 {
                    assert_eq!(fibonacci(pool, 12 + n), fibonacci_plain(12 + n));
                }
            });
        }
    });
}

/// Nests `depth` joins in their first closures. The innermost first closure waits until all second
/// closures have run.
fn chain(pool: &Pool, depth: usize, ran: &AtomicUsize, all: usize) {
    if depth == 0 {
        while ran.load(Ordering::Acquire) < all {
            std::thread::yield_now();
        }
        return;
    }
    let second = || _ = ran.fetch_add(1, Ordering::Release);
    pool.join(|| chain(pool, depth - 1, ran, all), second);
}

#[test]
fn each_second_closure_runs_while_the_first_one_blocks() {
    bounded("chains of joins that block", || {
        for workers in [2, 3] {
            let pool = pool(workers);
            for depth in [1, 2, 10, 100, 1000] {
                let ran = AtomicUsize::new(0);
                chain(&pool, depth, &ran, depth);
                let ran = AtomicUsize::new(0);
                pool.run_on(0, || chain(&pool, depth, &ran, depth)).unwrap();
            }
        }
    });
}

/// While it forks, a thread from outside counts as worker 0. If it blocks, worker 0 must run the
/// forks all the same, also those of a thread that has stolen from it.
#[test]
fn a_blocked_caller_from_outside_leaves_its_forks_to_all_workers() {
    bounded("a caller that blocks", || {
        let pool = pool(2);
        for _ in 0..20 {
            let done = AtomicBool::new(false);
            let blocks = || {
                while !done.load(Ordering::Acquire) {
                    thread::yield_now();
                }
            };
            let stolen = || _ = pool.join(blocks, || done.store(true, Ordering::Release));
            pool.join(blocks, stolen);
        }
    });
}

/// Nobody is notified of these forks, because only worker 0 is idle.
#[test]
fn a_caller_from_outside_can_wait_for_its_fork_if_only_worker_0_is_idle() {
    bounded("forks for worker 0", || {
        for workers in [1, 2, 3] {
            for busy_first in [true, false] {
                let pool = pool(workers);
                let release = AtomicBool::new(false);
                let hold = &|| {
                    while !release.load(Ordering::Acquire) {
                        thread::yield_now();
                    }
                };
                let busy = Barrier::new(workers);
                thread::scope(|s| {
                    for worker in 1..workers {
                        let (pool, busy) = (&pool, &busy);
                        let block = move || {
                            busy.wait();
                            hold();
                        };
                        s.spawn(move || pool.run_on(worker, block).unwrap());
                    }
                    let ran = AtomicBool::new(false);
                    let wait = || {
                        if !busy_first {
                            busy.wait();
                        }
                        while !ran.load(Ordering::Acquire) {
                            thread::yield_now();
                        }
                    };
                    if busy_first {
                        busy.wait();
                    }
                    pool.join(wait, || ran.store(true, Ordering::Release));
                    release.store(true, Ordering::Release);
                });
            }
        }
    });
}

/// The thread from outside runs the inner second closure, for which a worker waits. That worker must
/// run the closures that the thread from outside sends to it.
#[test]
fn a_stolen_closure_can_run_code_on_the_worker_that_waits_for_it() {
    bounded("run_on from a stolen closure", || {
        for _ in 0..20 {
            let pool = pool(2);
            let state = AtomicUsize::new(0);
            let until = |enough: usize| {
                while state.load(Ordering::Acquire) < enough {
                    thread::yield_now();
                }
            };
            let everywhere = || (0..2).for_each(|worker| pool.run_on(worker, || ()).unwrap());
            let inner_first = || {
                state.store(1, Ordering::Release);
                until(2);
            };
            let inner_second = || {
                state.store(2, Ordering::Release);
                everywhere();
            };
            pool.join(|| until(1), || _ = pool.join(inner_first, inner_second));
            pool.scope(|s| {
                s.spawn(|| {
                    pool.scope(|inner| (0..8).for_each(|_| inner.spawn(everywhere)));
                });
            });
        }
    });
}

#[test]
fn the_leaves_of_a_recursion_can_wait_for_each_other() {
    fn split(pool: &Pool, leaves: usize, all: &Barrier) {
        if leaves == 1 {
            all.wait();
            return;
        }
        let (left, right) = (leaves / 2, leaves - leaves / 2);
        pool.join(|| split(pool, left, all), || split(pool, right, all));
    }
    bounded("leaves that meet", || {
        for workers in [2, 4, 7] {
            let pool = pool(workers);
            for _ in 0..20 {
                split(&pool, workers, &Barrier::new(workers));
            }
        }
    });
}

/// After short recursions, a thread does not notify a worker of its first forks. The watchdog must
/// find the fork that this join waits for.
#[test]
fn closures_that_wait_for_each_other_after_short_recursions_make_progress() {
    for wait in [Wait::Adaptive, Wait::Park] {
        let pool = Pool::builder().workers(2).wait(wait).build().unwrap();
        bounded("joins that wait after short ones", move || {
            for round in 0..20 {
                for _ in 0..40 {
                    assert_eq!(pool.recurse(|j| fibonacci_with(j, 5)), 5);
                }
                if round % 2 == 0 {
                    // In every second round, we wait for a moment. By then, all workers usually
                    // sleep, and there is no watchdog any more.
                    thread::sleep(Duration::from_millis(5));
                }
                let both = Barrier::new(2);
                pool.recurse(|j| j.join(|_| both.wait(), |_| both.wait()));
            }
        });
    }
}

#[test]
fn a_very_deep_recursion_needs_no_more_stack_than_a_plain_one() {
    const LEVELS: usize = 100_000;
    fn deep(joiner: Joiner<'_>, level: usize, sum: &AtomicUsize) -> usize {
        if level == 0 {
            return 0;
        }
        let add = |_: Joiner<'_>| _ = sum.fetch_add(1, Ordering::Relaxed);
        let (depth, ()) = joiner.join(|j| deep(j, level - 1, sum), add);
        depth + 1
    }
    let run = || {
        let (pool, sum) = (pool(2), AtomicUsize::new(0));
        assert_eq!(pool.recurse(|j| deep(j, LEVELS, &sum)), LEVELS);
        assert_eq!(sum.into_inner(), LEVELS);
    };
    let thread = std::thread::Builder::new().stack_size(1 << 30).spawn(run);
    thread.unwrap().join().unwrap();
}

/// The nodes and the leaves of a recursion that have been visited.
#[derive(Default)]
struct Visits {
    nodes: AtomicUsize,
    leaves: AtomicUsize,
}

/// Runs a recursion of joins in which the node that is visited as number `at` panics. Nodes are
/// counted from 0.
fn bomb(pool: &Pool, depth: u32, visits: &Visits, at: usize) {
    if depth == 0 {
        visits.leaves.fetch_add(1, Ordering::Relaxed);
    } else {
        let side = || bomb(pool, depth - 1, visits, at);
        pool.join(side, side);
    }
    if visits.nodes.fetch_add(1, Ordering::Relaxed) == at {
        panic_any("the bomb");
    }
}

#[test]
fn a_panic_at_any_level_reaches_the_caller_after_all_closures_have_ended() {
    for workers in [1, 2, 3] {
        let pool = pool(workers);
        for at in 0..63 {
            let visits = Visits::default();
            let caught = catch_unwind(AssertUnwindSafe(|| bomb(&pool, 5, &visits, at)));
            let payload = caught.expect_err("it panics");
            assert_eq!(payload.downcast_ref(), Some(&"the bomb"));
            // All leaves run, because the other closure of each join runs in any case.
            assert_eq!(
                visits.leaves.into_inner(),
                32,
                "{workers} workers, panic {at}"
            );
        }
        assert_eq!(fibonacci(&pool, 15), 610);
    }
}

#[test]
fn the_second_closure_runs_although_the_first_one_panics() {
    for workers in [1, 2] {
        let pool = pool(workers);
        for _ in 0..100 {
            let ran = AtomicBool::new(false);
            let join = || pool.join(|| panic_any(1), || ran.store(true, Ordering::Relaxed));
            let payload = catch_unwind(AssertUnwindSafe(join)).expect_err("it panics");
            assert_eq!(payload.downcast_ref(), Some(&1));
            assert!(ran.into_inner());
        }
    }
}

#[test]
fn all_closures_of_a_deep_recursion_run_although_one_panics() {
    const DEPTH: u32 = 13;
    for workers in [1, 2] {
        let pool = pool(workers);
        // Most joins of such a recursion are plain calls, because its closures are very short.
        for at in (1..1 << DEPTH).step_by(509) {
            let visits = Visits::default();
            let caught = catch_unwind(AssertUnwindSafe(|| bomb(&pool, DEPTH, &visits, at)));
            assert!(caught.is_err());
            let leaves = visits.leaves.into_inner();
            assert_eq!(leaves, 1 << DEPTH, "{workers} workers, panic {at}");
        }
    }
}

struct DropBomb;

impl Drop for DropBomb {
    fn drop(&mut self) {
        panic_any("dropped");
    }
}

#[test]
fn results_that_panic_when_dropped_do_not_abort() {
    for workers in [1, 2] {
        let pool = pool(workers);
        for _ in 0..50 {
            let first = || pool.join(|| DropBomb, || panic_any(2));
            let payload = catch_unwind(AssertUnwindSafe(first)).map(std::mem::forget);
            assert_eq!(payload.expect_err("it panics").downcast_ref(), Some(&2));
            let second = || pool.join(|| panic_any(1), || DropBomb);
            let payload = catch_unwind(AssertUnwindSafe(second)).map(std::mem::forget);
            assert_eq!(payload.expect_err("it panics").downcast_ref(), Some(&1));
        }
    }
}

#[test]
fn joins_can_be_nested_in_loops_scopes_tasks_and_other_pools() {
    for balance in [Balance::Fixed, Balance::Shared, Balance::Sticky] {
        let pool = Pool::builder().workers(2).balance(balance).build().unwrap();
        let other = self::pool(2);
        let mut sums = vec![0; 50];
        pool.for_each_indexed(&mut sums, |n, sum| *sum = fibonacci(&pool, n as u64 % 15));
        let right: Vec<_> = (0..50).map(|n| fibonacci_plain(n % 15)).collect();
        assert_eq!(sums, right);
        let count = AtomicUsize::new(0);
        let add = &|_: usize| _ = count.fetch_add(1, Ordering::Relaxed);
        let pool = &pool;
        pool.join(
            || pool.for_each(0..100, |n| _ = pool.join(|| add(n), || add(n))),
            || {
                pool.scope(|s| {
                    (0..100).for_each(|n| s.spawn(move || _ = pool.join(|| add(n), || add(n))))
                })
            },
        );
        assert_eq!(count.into_inner(), 400);
        let (a, b) = pool.join(
            || other.join(|| fibonacci(pool, 12), || fibonacci(&other, 12)),
            || {
                other
                    .run_on(1, || pool.join(|| 1, || fibonacci(&other, 10)).1)
                    .unwrap()
            },
        );
        assert_eq!((a, b), ((144, 144), 55));
        let handle = pool.handle();
        let task = pool.spawn(async move { fibonacci(&handle, 16) });
        assert_eq!(pool.block_on(task).unwrap(), 987);
    }
}

#[test]
fn a_joiner_says_which_closures_have_migrated() {
    bounded("a closure that migrates", || {
        let pool = pool(2);
        let stolen = AtomicBool::new(false);
        let thread = std::thread::current().id();
        let (_, (migrated, other)) = pool.recurse(|joiner| {
            joiner.join_context(
                |_| {
                    while !stolen.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                },
                |_, migrated| {
                    stolen.store(true, Ordering::Release);
                    (migrated, std::thread::current().id() != thread)
                },
            )
        });
        assert!(migrated && other);
        let alone = self::pool(1);
        let (_, migrated) = alone.recurse(|j| j.join_context(|_| (), |_, migrated| migrated));
        assert!(!migrated);
    });
}

#[test]
fn joins_work_on_a_pool_that_ends() {
    let pool = pool(2);
    let gate = Mutex::new(());
    let handle = pool.handle();
    let held = gate.lock().unwrap();
    std::thread::scope(|s| {
        let joins = s.spawn(|| handle.join(|| drop(gate.lock()), || fibonacci(&handle, 15)));
        drop(pool);
        drop(held);
        assert_eq!(joins.join().unwrap().1, 610);
    });
}

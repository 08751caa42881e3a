//! Tests of behaviour that also holds on a system without threads.
//!
//! `.ci/run` builds these tests for `wasm32-wasip1` and runs them there. On that target everything
//! runs on the thread that calls it.

use creel::channel::{bounded, oneshot};
use creel::task::{self, JoinSet};
use creel::time::{interval, sleep, timeout};
use creel::{JoinError, Pool};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn pools() -> impl Iterator<Item = Pool> {
    [1, 3]
        .into_iter()
        .map(|workers| Pool::builder().workers(workers).build().unwrap())
}

#[test]
fn loops_process_each_item() {
    for pool in pools().chain([Pool::new()]) {
        let mut items: Vec<usize> = (0..10_000).collect();
        pool.for_each(&mut items, |item| *item *= 2);
        assert_eq!(pool.sum(&items, |item| *item), 10_000 * 9_999);
        let squares = pool.map(0..100, |n| n * n);
        assert_eq!(squares[99], 99 * 99);
        let (a, b) = pool.join(|| pool.sum(0..10, |n| n), || 7);
        assert_eq!((a, b), (45, 7));
        let count = AtomicUsize::new(0);
        pool.scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(count.into_inner(), 10);
        pool.session(|pool| assert_eq!(pool.sum(0..10, |n| n), 45));
    }
}

#[test]
fn each_worker_runs_its_own_job() {
    for pool in pools() {
        let workers = pool.workers();
        assert_eq!(pool.broadcast(|worker| worker), Vec::from_iter(0..workers));
        assert_eq!(pool.run_on(workers - 1, || 7).unwrap(), 7);
    }
}

#[test]
fn tasks_may_wait_for_each_other() {
    for pool in pools() {
        let (tx, rx) = bounded::channel(2);
        let sends = pool.spawn(async move {
            for n in 0..1_000 {
                tx.send(n).await.unwrap();
            }
        });
        let sums = pool.spawn(async move {
            let mut sum = 0;
            while let Ok(n) = rx.recv().await {
                sum += n;
            }
            sum
        });
        assert_eq!(pool.block_on(sums).unwrap(), 499_500);
        pool.block_on(sends).unwrap();
        let sum = pool.block_on(async {
            let mut set = JoinSet::new();
            (0..100).for_each(|n| set.spawn(async move { n }));
            let mut sum = 0;
            while let Some(n) = set.join_next().await {
                sum += n.unwrap();
            }
            sum
        });
        assert_eq!(sum, 4_950);
    }
}

#[test]
fn tasks_can_be_bound_to_a_worker() {
    for pool in pools() {
        let bound = pool.spawn_on(pool.workers() - 1, async {
            let local = std::rc::Rc::new(7);
            task::spawn_local(async move { *local }).await.unwrap()
        });
        let (tx, rx) = oneshot::channel();
        let near = pool.spawn_near(0, async { rx.await.unwrap() });
        let both = async {
            let bound = bound.await.unwrap();
            tx.send(bound + 1).unwrap();
            near.await.unwrap()
        };
        assert_eq!(pool.block_on(both), 8);
    }
}

#[test]
fn timers_fire() {
    for pool in pools() {
        let begin = Instant::now();
        let naps = pool.spawn(async {
            sleep(Duration::from_millis(3)).await;
            let mut ticks = interval(Duration::from_millis(1));
            ticks.tick().await;
            ticks.tick().await;
        });
        pool.block_on(naps).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(5));
        let never = timeout(Duration::from_millis(1), std::future::pending::<()>());
        pool.block_on(never).unwrap_err();
    }
}

/// Other tasks are always ready here. Timers, and tasks that are bound to a worker, must still get
/// their turn.
#[test]
fn timers_fire_next_to_a_busy_task() {
    for pool in pools() {
        let busy = pool.spawn(async {
            loop {
                task::yield_now().await;
            }
        });
        pool.block_on(sleep(Duration::from_millis(2)));
        assert_eq!(pool.block_on(pool.spawn_on(0, async { 7 })).unwrap(), 7);
        busy.abort();
        assert!(matches!(pool.block_on(busy), Err(JoinError::Cancelled)));
    }
}

#[test]
fn blocking_calls_return_their_result() {
    for pool in pools() {
        assert_eq!(pool.block_on(creel::blocking(|| 7)), 7);
    }
}

#[test]
fn a_pool_that_ends_drops_its_tasks() {
    for pool in pools() {
        let (tx, rx) = oneshot::channel::<()>();
        pool.spawn(async move {
            std::future::pending::<()>().await;
            drop(tx);
        })
        .detach();
        drop(pool);
        assert!(rx.recv_blocking().is_err());
    }
}

/// The hour of sleep takes no time, because the clock of a seeded pool jumps to the next timer.
#[test]
fn the_same_seed_gives_the_same_order() {
    let run = |seed| {
        Pool::seeded(seed).block_on(async {
            sleep(Duration::from_secs(3600)).await;
            let (tx, rx) = bounded::channel(3);
            for name in ["a", "b", "c"] {
                let tx = tx.clone();
                task::spawn(async move { tx.send(name).await }).detach();
            }
            [rx.recv().await, rx.recv().await, rx.recv().await]
        })
    };
    assert_eq!(run(7), run(7));
}

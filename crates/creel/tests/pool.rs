//! Tests of the public pool: workers, inbox jobs, panics, resizing and shutdown.

use creel::{Balance, BuildError, JoinError, NamedPools, Pool, Wait, WorkerError, net::UdpSocket};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, ThreadId},
    time::Duration,
};

fn pool(workers: usize, wait: Wait) -> Pool {
    Pool::builder().workers(workers).wait(wait).build().unwrap()
}

const WAITS: [Wait; 3] = [
    Wait::Park,
    Wait::Adaptive,
    Wait::Spin(Duration::from_micros(5)),
];

#[test]
fn a_worker_keeps_its_thread_and_threads_differ() {
    for wait in WAITS {
        let pool = pool(3, wait);
        let first: Vec<ThreadId> = pool.broadcast(|_| thread::current().id());
        for round in 0..100 {
            let slot = round % 3;
            assert_eq!(
                pool.run_on(slot, || thread::current().id()).unwrap(),
                first[slot]
            );
        }
        assert!(!first.contains(&thread::current().id()));
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
    }
}

#[test]
fn inbox_jobs_run_in_order_and_may_borrow() {
    let pool = pool(1, Wait::Park);
    let mut log = Vec::new();
    for i in 0..1000 {
        pool.run_on(0, || log.push(i)).unwrap();
    }
    assert_eq!(log, (0..1000).collect::<Vec<_>>());
    assert_eq!(pool.stats().workers[0].inbox, 1000);
}

#[test]
fn a_panic_reaches_the_caller_after_all_jobs_have_ended() {
    let pool = pool(4, Wait::Park);
    for bad in 0..4 {
        let ended = AtomicUsize::new(0);
        let thrown = catch_unwind(AssertUnwindSafe(|| {
            pool.broadcast(|index| {
                assert!(index != bad, "worker {index} fails");
                ended.fetch_add(1, Ordering::Relaxed);
            })
        }));
        let payload = thrown.unwrap_err();
        let text = payload.downcast_ref::<String>().unwrap();
        assert_eq!(*text, format!("worker {bad} fails"));
        assert_eq!(ended.into_inner(), 3);
    }
    assert_eq!(pool.broadcast(|index| index), [0, 1, 2, 3]);
}

#[test]
fn workers_may_wait_for_each_other_and_for_themselves() {
    let pool = pool(2, Wait::Park);
    let both_inside = Barrier::new(2);
    let sums = pool.broadcast(|index| {
        both_inside.wait();
        let other = pool.run_on(1 - index, || 10 * (1 - index)).unwrap();
        let own = pool.run_on(index, || index).unwrap();
        other + own + pool.broadcast(|i| i).iter().sum::<usize>()
    });
    assert_eq!(sums, [11, 2]);
}

#[test]
fn work_for_a_missing_worker_is_an_error() {
    let missing = |error| {
        matches!(
            error,
            WorkerError::NoSuchWorker {
                worker: 2,
                workers: 2
            }
        )
    };
    let pool = pool(2, Wait::Park);
    assert!(missing(pool.run_on(2, || ()).unwrap_err()));
    let text = pool.run_on(2, || ()).unwrap_err().to_string();
    assert_eq!(text, "the pool has no worker 2: it has 2 workers");
    assert!(missing(pool.scope(|s| s.spawn_on(2, || ())).unwrap_err()));
    let Err(JoinError::Spawn(error)) = pool.block_on(pool.spawn_on(2, async {})) else {
        panic!("the task is not spawned");
    };
    assert!(missing(error));
    // After the pool has shrunk to one worker, the index 1 names no worker any more.
    pool.run_on(1, || ()).unwrap();
    pool.resize(1).unwrap();
    assert!(pool.run_on(1, || ()).is_err());
    assert!(pool.wake(1).is_err() && pool.wake(0).is_ok());
    // For `spawn_near`, the worker is only a hint. Therefore a missing worker is not an error.
    assert_eq!(pool.block_on(pool.spawn_near(9, async { 7 })).unwrap(), 7);
    let mut ran = false;
    pool.scope(|s| s.spawn_near(9, || ran = true));
    assert!(ran);
    let handle = pool.handle();
    drop(pool);
    assert!(matches!(handle.run_on(0, || ()), Err(WorkerError::Ended)));
}

#[test]
fn a_pool_lives_until_its_last_clone_is_dropped() {
    let first = pool(2, Wait::Park);
    let (second, handle) = (first.clone(), first.handle());
    drop(first);
    assert_eq!(second.run_on(1, || 7).unwrap(), 7);
    assert_eq!(handle.clone().run_on(0, || 8).unwrap(), 8);
    drop(second);
    assert!(handle.run_on(0, || ()).is_err());
    // A shutdown ends the pool for its other clones as well.
    let first = pool(1, Wait::Park);
    let second = first.clone();
    first.shutdown_timeout(Duration::from_secs(60));
    assert!(second.run_on(0, || ()).is_err());
    drop(second);
    // Now several threads drop the clones at the same time. The pool must have ended afterwards.
    for _ in 0..100 {
        let pool = pool(1, Wait::Park);
        let handle = pool.handle();
        thread::scope(|s| {
            for clone in [pool.clone(), pool.clone(), pool] {
                s.spawn(move || drop(clone));
            }
        });
        assert!(handle.run_on(0, || ()).is_err());
    }
}

#[test]
fn sizes_out_of_range_are_rejected() {
    let refused = Pool::builder().workers(0).build().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot create a pool with 0 workers: use 1 to 16383"
    );
    let pool = pool(2, Wait::Park);
    assert!(matches!(
        pool.resize(1 << 20),
        Err(BuildError::Workers {
            asked: 0x10_0000,
            ..
        })
    ));
    assert_eq!(pool.workers(), 2);
}

#[test]
fn resizing_ends_and_restarts_threads_and_loses_nothing() {
    let pool = pool(1, Wait::Park);
    let runs = AtomicUsize::new(0);
    for round in 0..300 {
        let workers = 1 + (round * 7) % 9;
        pool.resize(workers).unwrap();
        pool.broadcast(|_| runs.fetch_add(1, Ordering::Relaxed));
        assert_eq!(pool.stats().workers.len(), workers);
    }
    let expected: usize = (0..300).map(|round| 1 + (round * 7) % 9).sum();
    assert_eq!(runs.into_inner(), expected);
}

#[test]
fn many_callers_share_one_worker() {
    let pool = pool(2, Wait::Spin(Duration::from_micros(1)));
    let total = Mutex::new(0_u64);
    thread::scope(|s| {
        for caller in 0..8 {
            let (pool, total) = (&pool, &total);
            s.spawn(move || {
                for i in 0..500 {
                    pool.run_on(caller % 2, || *total.lock().unwrap() += i)
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(total.into_inner().unwrap(), 8 * 500 * 499 / 2);
}

#[test]
fn nul_bytes_are_removed_from_a_thread_name() {
    let pool = Pool::builder().workers(1).name("a\0b").build().unwrap();
    let name = pool
        .run_on(0, || thread::current().name().map(String::from))
        .unwrap();
    assert_eq!(name.as_deref(), Some("ab-0"));
    assert!(Pool::builder().workers(1).name("").build().is_ok());
}

#[test]
fn the_watchdog_of_an_idle_pool_stops() {
    for wait in WAITS {
        let pools = [pool(2, wait), pool(2, wait)];
        let sleeps = || creel::time::sleep(Duration::from_millis(5));
        let slept = pools
            .each_ref()
            .map(|pool| pool.spawn(async move { sleeps().await }));
        // We await the task in `block_on` of the other pool, so that this thread runs no work of
        // the task's pool. The pool's own workers then do its last work.
        for (other, slept) in [&pools[1], &pools[0]].into_iter().zip(slept) {
            other.block_on(slept).unwrap();
        }
        assert!(
            becomes_idle(&pools),
            "{wait}: the watchdog still wakes up after 10 s"
        );
    }
}

#[test]
fn a_worker_asleep_in_the_poller_does_not_keep_the_watchdog_awake() {
    let address = "127.0.0.1:0".parse().unwrap();
    for round in 0..20 {
        let wait = WAITS[round % WAITS.len()];
        let pool = pool(4, wait);
        let socket = UdpSocket::bind(address).unwrap();
        pool.spawn(async move { socket.recv(&mut [0; 8]).await })
            .detach();
        pool.scope(|s| (0..4).for_each(|_| s.spawn(|| thread::sleep(Duration::from_millis(1)))));
        pool.for_each(0..4, |_| pool.for_each(0..4, |_| ()));
        assert!(
            becomes_idle(&[pool]),
            "{wait}: the watchdog still wakes up after 10 s"
        );
    }
}

/// Returns whether the workers of all pools stop waking up within ten seconds. A watchdog would
/// wake up every millisecond.
fn becomes_idle<const N: usize>(pools: &[Pool; N]) -> bool {
    let parks = |pool: &Pool| pool.stats().workers.iter().map(|w| w.parks).sum::<u64>();
    let looks = || pools.each_ref().map(parks);
    let mut before = looks();
    (0..200).any(|_| {
        thread::sleep(Duration::from_millis(50));
        let now = looks();
        std::mem::replace(&mut before, now) == now
    })
}

/// The pool that `build` returns is a temporary, which is dropped at the end of the statement. From
/// then on, the view must keep the workers alive.
#[test]
fn a_view_of_an_owner_keeps_the_workers_alive() {
    let views: [fn(&Pool) -> Pool; 4] = [
        |pool| pool.clone(),
        |pool| pool.with_balance(Balance::Shared),
        |pool| pool.with_max_workers(1),
        |pool| pool.with_site(7),
    ];
    for (index, view) in views.into_iter().enumerate() {
        let pool = view(&Pool::builder().workers(2).build().unwrap());
        let answer = pool.run_on(1, || 7);
        assert!(matches!(answer, Ok(7)), "view {index}: {answer:?}");
        let of_handle = view(&pool.handle());
        drop(pool);
        let answer = of_handle.run_on(1, || 7);
        assert!(
            matches!(answer, Err(WorkerError::Ended)),
            "view {index} of a handle: {answer:?}"
        );
    }
}

#[test]
fn the_name_of_a_pool_is_taken_as_long_as_any_clone_lives() {
    let pools = NamedPools::default();
    let acquire = |workers| pools.acquire("a", Pool::builder().workers(workers));
    let first = acquire(1).unwrap();
    let clone = Pool::clone(&first);
    drop(first);
    assert!(acquire(2).is_err(), "a second pool got the same name");
    let again = acquire(1).unwrap();
    drop(clone);
    assert_eq!(again.run_on(0, || 7).unwrap(), 7);
    let handle = again.handle();
    drop(again);
    assert_eq!(acquire(2).unwrap().workers(), 2, "the name is free");
    assert!(handle.run_on(0, || ()).is_err());
    // A pool that was shut down does not keep its name, even if it has clones.
    let second = acquire(3).unwrap();
    let clone = Pool::clone(&second);
    clone.shutdown_background();
    assert_eq!(acquire(1).unwrap().run_on(0, || 7).unwrap(), 7);
    drop(second);
}

//! The pool from outside: seats, urgent jobs, panics, resizing and the end.

use creel::{BuildError, Pool, Wait, net::UdpSocket};
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
fn a_seat_keeps_its_thread_and_seats_differ() {
    for wait in WAITS {
        let pool = pool(3, wait);
        let first: Vec<ThreadId> = pool.broadcast(|_| thread::current().id());
        for round in 0..100 {
            let seat = round % 3;
            assert_eq!(pool.run_on(seat, || thread::current().id()), first[seat]);
        }
        assert!(!first.contains(&thread::current().id()));
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
    }
}

#[test]
fn urgent_jobs_run_in_the_order_they_came_and_borrow() {
    let pool = pool(1, Wait::Park);
    let mut log = Vec::new();
    for i in 0..1000 {
        pool.run_on(0, || log.push(i));
    }
    assert_eq!(log, (0..1000).collect::<Vec<_>>());
    assert_eq!(pool.stats().workers[0].urgent, 1000);
}

#[test]
fn a_panic_reaches_the_caller_after_all_have_ended() {
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
        let other = pool.run_on(1 - index, || 10 * (1 - index));
        let own = pool.run_on(index, || index);
        other + own + pool.broadcast(|i| i).iter().sum::<usize>()
    });
    assert_eq!(sums, [11, 2]);
}

#[test]
#[should_panic(expected = "worker index 2 out of range: the pool has 2 workers")]
fn a_worker_that_is_not_there_is_named() {
    pool(2, Wait::Park).run_on(2, || ());
}

#[test]
fn sizes_out_of_range_are_refused() {
    let refused = Pool::builder().workers(0).build().unwrap_err();
    assert_eq!(refused.to_string(), "a pool has 1 to 16383 workers, not 0");
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
                    pool.run_on(caller % 2, || *total.lock().unwrap() += i);
                }
            });
        }
    });
    assert_eq!(total.into_inner().unwrap(), 8 * 500 * 499 / 2);
}

#[test]
fn a_name_that_no_thread_can_have_loses_its_nuls() {
    let pool = Pool::builder().workers(1).name("a\0b").build().unwrap();
    let name = pool.run_on(0, || thread::current().name().map(String::from));
    assert_eq!(name.as_deref(), Some("ab-0"));
    assert!(Pool::builder().workers(1).name("").build().is_ok());
}

#[test]
fn an_idle_pool_ceases_to_look_after_itself() {
    for wait in WAITS {
        let pools = [pool(2, wait), pool(2, wait)];
        let sleeps = || creel::time::sleep(Duration::from_millis(5));
        let slept = pools
            .each_ref()
            .map(|pool| pool.spawn(async move { sleeps().await }));
        // Awaited elsewhere, so that the last that a pool does is done by its workers.
        for (other, slept) in [&pools[1], &pools[0]].into_iter().zip(slept) {
            other.block_on(slept).unwrap();
        }
        assert!(becomes_idle(&pools), "{wait}: still looking after 10 s");
    }
}

#[test]
fn one_who_sleeps_in_the_poller_is_not_looked_after_for_ever() {
    let address = "127.0.0.1:0".parse().unwrap();
    for round in 0..20 {
        let wait = WAITS[round % WAITS.len()];
        let pool = pool(4, wait);
        let socket = UdpSocket::bind(address).unwrap();
        pool.spawn(async move { socket.recv(&mut [0; 8]).await })
            .detach();
        pool.scope(|s| (0..4).for_each(|_| s.spawn(|| thread::sleep(Duration::from_millis(1)))));
        pool.for_each(0..4, |_| pool.for_each(0..4, |_| ()));
        assert!(becomes_idle(&[pool]), "{wait}: still looking after 10 s");
    }
}

/// Whether the pools' workers cease to wake up, within some seconds. A watch looks every
/// millisecond.
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

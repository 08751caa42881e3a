//! Tests of gangs: all members run a region at the same time, and barriers inside of regions work.

use creel::{BrokenBarrier, GangError, Pool, Wait};
use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

fn pool(workers: usize, wait: Wait) -> Pool {
    Pool::builder().workers(workers).wait(wait).build().unwrap()
}

const WAITS: [Wait; 3] = [
    Wait::Park,
    Wait::Adaptive,
    Wait::Spin(Duration::from_micros(20)),
];

#[test]
fn every_member_runs_each_region_once_on_a_thread_of_its_own() {
    for wait in WAITS {
        for members in 1..=4 {
            let pool = pool(4, wait);
            let mut gang = pool.gang(members).unwrap();
            for _ in 0..200 {
                let threads = Mutex::new(HashSet::new());
                let indices = AtomicUsize::new(0);
                gang.run(|member| {
                    assert_eq!(member.members(), members);
                    indices.fetch_add(1 << (8 * member.index()), Ordering::Relaxed);
                    threads.lock().unwrap().insert(thread::current().id());
                });
                assert_eq!(threads.lock().unwrap().len(), members);
                let each_once = (0..members).fold(0, |sum, index| sum | 1 << (8 * index));
                assert_eq!(indices.into_inner(), each_once);
            }
        }
    }
}

#[test]
fn barriers_separate_the_phases_of_a_region() {
    const PHASES: usize = 100;
    for wait in WAITS {
        let pool = pool(3, wait);
        let mut gang = pool.gang(3).unwrap();
        let arrived: Vec<_> = (0..PHASES).map(|_| AtomicUsize::new(0)).collect();
        gang.run(|member| {
            for phase in &arrived {
                phase.fetch_add(1, Ordering::Relaxed);
                member.barrier();
                assert_eq!(phase.load(Ordering::Relaxed), 3);
            }
        });
    }
}

#[test]
fn a_region_may_borrow_and_its_writes_are_visible_afterwards() {
    let pool = pool(3, Wait::Adaptive);
    let mut gang = pool.gang(3).unwrap();
    let mut sums = [0_u64; 3];
    for round in 1..=1000 {
        let cells: Vec<Mutex<&mut u64>> = sums.iter_mut().map(Mutex::new).collect();
        gang.run(|member| **cells[member.index()].lock().unwrap() += round);
    }
    assert_eq!(sums, [500_500; 3]);
}

#[test]
fn a_panic_releases_the_members_at_a_barrier_and_reaches_the_leader() {
    for wait in WAITS {
        let pool = pool(3, wait);
        let mut gang = pool.gang(3).unwrap();
        for failing in 0..3 {
            let region = || {
                gang.run(|member| {
                    if member.index() == failing {
                        panic!("member {failing}");
                    }
                    member.barrier();
                });
            };
            let payload = catch_unwind(AssertUnwindSafe(region)).unwrap_err();
            let text = payload.downcast::<String>().unwrap();
            assert_eq!(*text, format!("member {failing}"));
            // The barriers of the next region work again.
            gang.run(|member| member.barrier());
        }
    }
}

#[test]
fn broken_barriers_return_an_error() {
    let pool = pool(2, Wait::Adaptive);
    let mut gang = pool.gang(2).unwrap();
    let outcomes = Mutex::new(Vec::new());
    gang.run(|member| {
        if member.index() == 1 {
            return member.break_barriers();
        }
        outcomes.lock().unwrap().push(member.try_barrier());
    });
    assert_eq!(outcomes.into_inner().unwrap(), [Err(BrokenBarrier)]);
}

#[test]
fn the_workers_are_free_after_the_drop_of_a_gang() {
    let pool = pool(3, Wait::Adaptive);
    for _ in 0..20 {
        drop(pool.gang(3).unwrap());
        assert_eq!(pool.broadcast(|worker| worker), [0, 1, 2]);
        assert_eq!(pool.sum(0..1000, |n| n), 499_500);
    }
}

#[test]
fn loops_run_while_the_workers_belong_to_a_gang() {
    let pool = pool(2, Wait::Adaptive);
    let _gang = pool.gang(2).unwrap();
    assert_eq!(pool.sum(0..1000, |n| n), 499_500);
}

#[test]
fn gangs_that_could_block_each_other_are_refused() {
    let pool = pool(2, Wait::Park);
    assert!(matches!(
        pool.gang(3),
        Err(GangError::Members {
            members: 3,
            workers: 2
        })
    ));
    assert!(matches!(pool.gang(0), Err(GangError::Members { .. })));
    let on_worker = pool.run_on(1, || pool.gang(2).err()).unwrap();
    assert!(matches!(on_worker, Some(GangError::OnWorker)));
    let gang = pool.gang(2).unwrap();
    assert!(matches!(pool.gang(2), Err(GangError::Busy)));
    drop(gang);
    assert!(pool.gang(2).is_ok());
}

#[test]
fn a_gang_keeps_its_pool_alive() {
    let pool = pool(2, Wait::Park);
    let mut gang = pool.gang(2).unwrap();
    drop(pool);
    let calls = AtomicUsize::new(0);
    gang.run(|_| {
        calls.fetch_add(1, Ordering::Relaxed);
    });
    assert_eq!(calls.into_inner(), 2);
}

/// Prints the duration of an empty region of a gang and the duration of an empty `broadcast`. Run
/// it alone on a quiet machine: `cargo test --release -p creel --test gang -- --ignored
/// --nocapture`.
#[test]
#[ignore = "it measures, and asserts nothing"]
fn the_duration_of_an_empty_region_is_printed() {
    const ROUNDS: usize = 100;
    let pool = pool(2, Wait::Adaptive);
    let median = |mut each: Box<dyn FnMut() + '_>| {
        let mut times: Vec<_> = (0..21)
            .map(|_| {
                let begin = std::time::Instant::now();
                (0..ROUNDS).for_each(|_| each());
                begin.elapsed() / ROUNDS as u32
            })
            .collect();
        times.sort();
        (times[0], times[10])
    };
    let broadcast = median(Box::new(|| drop(pool.broadcast(|_| ()))));
    let mut gang = pool.gang(2).unwrap();
    let region = median(Box::new(|| gang.run(|_| ())));
    let barriers = median(Box::new(|| {
        gang.run(|member| (0..10).for_each(|_| member.barrier()))
    }));
    println!("broadcast {broadcast:?}, region {region:?}, region with 10 barriers {barriers:?}");
}

#[test]
fn a_gang_may_be_dropped_by_one_of_its_own_workers_but_not_run() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let mut gang = pool.gang(2).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    let run_and_drop = move || {
        let run = std::panic::AssertUnwindSafe(|| gang.run(|_| ()));
        let message = std::panic::catch_unwind(run).unwrap_err();
        drop(gang);
        done.send(message.downcast_ref::<&str>().map(|text| text.to_string()))
            .unwrap();
    };
    // Worker 1 waits for regions of its gang. While it waits, it runs jobs that another worker
    // requests from it and waits for.
    let handle = pool.handle();
    let from_worker = move || handle.run_on(1, run_and_drop).unwrap();
    pool.send_to(0, from_worker).unwrap();
    let message = ended.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(
        message.as_deref(),
        Some("a gang must be run by one of its own workers")
    );
    // After the drop of the gang, the worker runs other work again.
    assert_eq!(pool.run_on(1, || 7).unwrap(), 7);
}

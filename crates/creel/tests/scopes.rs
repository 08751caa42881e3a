//! Tests of scopes with many short jobs, and with jobs that wait for each other.

mod deadline;

use creel::{Pool, Scope};
use deadline::bounded;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Barrier, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
};

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().expect("a pool")
}

#[test]
fn each_job_of_a_large_scope_runs_once() {
    bounded("the scope", || {
        for workers in [1, 2, 5] {
            let pool = pool(workers);
            let runs: Vec<_> = (0..20_000).map(|_| AtomicUsize::new(0)).collect();
            for round in 1..=3 {
                pool.scope(|s| {
                    for runs in &runs {
                        s.spawn(|| _ = runs.fetch_add(1, SeqCst));
                    }
                });
                assert!(runs.iter().all(|runs| runs.load(SeqCst) == round));
            }
        }
    });
}

/// Runs as a job: counts itself, and spawns two more such jobs with a `depth` that is lower by one,
/// until `depth` is 0.
fn grow<'s>(s: &'s Scope<'s, '_>, depth: u32, jobs: &'s AtomicUsize) {
    jobs.fetch_add(1, SeqCst);
    if depth > 0 {
        s.spawn(move || grow(s, depth - 1, jobs));
        s.spawn(move || grow(s, depth - 1, jobs));
    }
}

#[test]
fn jobs_may_spawn_jobs_on_any_thread() {
    bounded("the scope", || {
        let pool = pool(3);
        for _ in 0..20 {
            let jobs = AtomicUsize::new(0);
            pool.scope(|s| grow(s, 10, &jobs));
            assert_eq!(jobs.into_inner(), (1 << 11) - 1);
        }
    });
}

#[test]
fn a_job_that_waits_for_a_later_one_does_not_hold_up_the_jobs_in_between() {
    bounded("the scope", || {
        // One thread blocks in the first job of its batch. Other threads must run the rest of the
        // batch, and the jobs that come later.
        let pool = pool(2);
        for late in [1, 2, 7, 31, 32, 33, 63, 199] {
            let (send, receive) = mpsc::channel();
            let mut receive = Some(receive);
            pool.scope(|s| {
                for job in 0..200 {
                    let send = (job == late).then(|| send.clone());
                    let receive = receive.take();
                    s.spawn(move || {
                        send.iter()
                            .for_each(|send| send.send(()).expect("a receiver"));
                        receive
                            .iter()
                            .for_each(|receive| receive.recv().expect("a sender"));
                    });
                }
            });
        }
    });
}

#[test]
fn jobs_can_wait_for_each_other_if_there_is_a_thread_for_each() {
    bounded("the scope", || {
        for threads in [2, 4, 9] {
            // The caller counts as worker 0.
            let pool = pool(threads);
            for _ in 0..20 {
                let meeting = Barrier::new(threads);
                pool.scope(|s| {
                    (0..threads).for_each(|_| {
                        s.spawn(|| _ = meeting.wait());
                    });
                });
            }
        }
    });
}

#[test]
fn all_jobs_run_although_some_panic_and_the_first_panic_reaches_the_caller() {
    bounded("the scope", || {
        let pool = pool(2);
        for bad in [0, 1, 500, 999] {
            let ran = AtomicUsize::new(0);
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                pool.scope(|s| {
                    for job in 0..1000 {
                        let ran = &ran;
                        s.spawn(move || {
                            ran.fetch_add(1, SeqCst);
                            assert!(job != bad, "job {bad}");
                        });
                    }
                });
            }));
            let message = thrown.expect_err("a panic").downcast::<String>();
            assert!(message.expect("a message").contains(&format!("job {bad}")));
            assert_eq!(ran.into_inner(), 1000);
        }
    });
}

#[test]
fn jobs_run_although_the_closure_of_the_scope_panics() {
    let pool = pool(2);
    let ran = AtomicUsize::new(0);
    let thrown = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|s| {
            (0..100).for_each(|_| s.spawn(|| _ = ran.fetch_add(1, SeqCst)));
            panic!("the scope");
        })
    }));
    assert!(thrown.is_err());
    assert_eq!(ran.into_inner(), 100);
}

#[test]
fn closures_of_all_sizes_are_dropped_once() {
    bounded("the scope", || {
        let pool = pool(2);
        let alive = std::sync::Arc::new(());
        pool.scope(|s| {
            for job in 0..1000_u64 {
                let (one, two) = (alive.clone(), alive.clone());
                let large = [job; 40];
                s.spawn(move || drop(one));
                s.spawn(move || {
                    assert_eq!(large.iter().sum::<u64>(), 40 * job);
                    drop(two);
                });
            }
        });
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
    });
}

#[test]
fn a_job_of_an_inner_scope_may_spawn_into_the_outer_one() {
    bounded("the scope", || {
        let pool = pool(2);
        let runs = AtomicUsize::new(0);
        pool.scope(|outer| {
            for _ in 0..50 {
                outer.spawn(|| {
                    pool.scope(|inner| {
                        for _ in 0..5 {
                            inner.spawn(|| outer.spawn(|| _ = runs.fetch_add(1, SeqCst)));
                        }
                    });
                });
            }
        });
        assert_eq!(runs.into_inner(), 250);
    });
}

#[test]
fn a_worker_runs_inbox_jobs_between_the_jobs_of_a_scope() {
    bounded("the scope", || {
        let pool = pool(2);
        let order = Mutex::new(Vec::new());
        pool.scope(|s| {
            for job in 0..64 {
                let (pool, order) = (&pool, &order);
                s.spawn(move || {
                    // The other worker runs this between two of its jobs, or when it is done.
                    pool.run_on(1, || order.lock().expect("no panic").push(job))
                        .expect("a worker");
                });
            }
        });
        let mut order = order.into_inner().expect("no panic");
        order.sort_unstable();
        assert_eq!(order, (0..64).collect::<Vec<_>>());
    });
}

//! Tests of pools that end while other threads spawn, wake, join and cancel tasks.
//!
//! Accepted tasks are run or cancelled, each future is dropped exactly once, and no thread of the
//! pool is left.

#![cfg(not(miri))]

mod deadline;

use creel::{
    JoinError, Pool, Wait, WorkerError,
    channel::{bounded, oneshot, spsc},
    task::{self, yield_now},
    time,
};
use deadline::{block_on, bounded, rounds};
use std::{
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

fn pool(workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers).wait(Wait::Park);
    builder.build().unwrap()
}

/// Waits until the process has no thread whose name begins with `prefix`. We have to wait, because
/// the OS lists a thread for a moment after it has been joined.
#[cfg(target_os = "linux")]
fn no_thread_is_named(prefix: &str) {
    while threads_named(prefix) > 0 {
        thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
fn threads_named(prefix: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let names = tasks.filter_map(|task| name(task.ok()?));
    names.filter(|name| name.starts_with(prefix)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_spawn_during_the_drop_starts_no_thread_after_it() {
    // Under `--cfg creel_pauses` threads pause at random, and only about twenty rounds fit into a
    // second. Therefore we run fewer rounds.
    let most = if cfg!(creel_pauses) { 200 } else { 2000 };
    bounded("spawns during drops", move || {
        for round in rounds(most) {
            let builder = Pool::builder().workers(1).wait(Wait::Park);
            let pool = builder.name("late-spawn").build().unwrap();
            let alive = Arc::new(());
            // The tasks below are idle, and their cells are in the heap of a local scheduler whose
            // worker has not started.
            let waits = pool.block_on(async {
                let mut waits = Vec::new();
                for _ in 0..1 + round % 8 {
                    let (tx, rx) = oneshot::channel();
                    let guard = Arc::clone(&alive);
                    waits.push(task::spawn(async move {
                        let _guard = guard;
                        tx.send(()).unwrap();
                        pending::<()>().await;
                    }));
                    rx.await.unwrap();
                }
                waits
            });
            let both = std::sync::Barrier::new(2);
            let handle = pool.handle();
            thread::scope(|s| {
                s.spawn(|| {
                    both.wait();
                    handle.spawn(async {}).detach();
                });
                both.wait();
                drop(pool);
            });
            no_thread_is_named("late-spawn");
            drop(waits);
            assert_eq!(Arc::strong_count(&alive), 1);
        }
    });
}

#[test]
fn pools_end_while_other_threads_spawn_wake_and_join_tasks() {
    bounded("pools that end in use", || {
        let alive = Arc::new(());
        for round in rounds(400) {
            let pool = pool(1 + round % 4);
            let others: Vec<_> = (0..3)
                .map(|other| {
                    let (handle, alive) = (pool.handle(), Arc::clone(&alive));
                    thread::spawn(move || {
                        for i in 0..40 {
                            let (tx, rx) = oneshot::channel();
                            let guard = Arc::clone(&alive);
                            let body = async move {
                                let _guard = guard;
                                let received = rx.await.unwrap_or(0);
                                yield_now().await;
                                received
                            };
                            let task = match (i + other) % 3 {
                                0 => handle.spawn_on(0, body),
                                _ => handle.spawn(body),
                            };
                            let _ = tx.send(i);
                            match (i * 7 + other) % 5 {
                                0 => drop(task.abort_on_drop()),
                                1 => task.detach(),
                                2 => std::mem::forget(task),
                                _ => match block_on(task) {
                                    Ok(received) => assert_eq!(received, i),
                                    Err(
                                        JoinError::Spawn(WorkerError::Ended) | JoinError::Cancelled,
                                    ) => {}
                                    Err(error) => panic!("{error}"),
                                },
                            }
                        }
                    })
                })
                .collect();
            (0..round % 50).for_each(|_| thread::yield_now());
            match round % 7 {
                0 => {
                    let handle = pool.handle();
                    handle.spawn(async move { drop(pool) }).detach();
                }
                _ => drop(pool),
            }
            others.into_iter().for_each(|other| other.join().unwrap());
        }
        // A pool that was dropped by its own task ends a moment later.
        while Arc::strong_count(&alive) > 1 {
            thread::yield_now();
        }
    });
}

#[test]
fn a_pool_ends_although_its_tasks_block_on_each_other() {
    for workers in [1, 2, 4] {
        bounded(&format!("{workers} workers"), move || {
            for round in 0..50 {
                let pool = pool(workers);
                let (begun, begins) = mpsc::channel();
                // Each worker blocks until its child task is dropped. A child never ends by itself,
                // so only the end of the pool releases the workers, because it cancels all tasks.
                let waits: Vec<_> = (0..workers)
                    .map(|_| {
                        let begun = begun.clone();
                        pool.spawn(async move {
                            let (done, wait) = mpsc::channel::<()>();
                            let child = async move {
                                pending::<()>().await;
                                drop(done);
                            };
                            task::spawn(child).detach();
                            begun.send(()).unwrap();
                            assert!(wait.recv().is_err());
                        })
                    })
                    .collect();
                (0..workers).for_each(|_| begins.recv().unwrap());
                if round % 2 == 0 {
                    thread::yield_now();
                }
                drop(pool);
                for wait in waits {
                    assert!(matches!(block_on(wait), Ok(()) | Err(JoinError::Cancelled)));
                }
            }
        });
    }
}

#[test]
fn a_pool_dropped_on_its_own_worker_cancels_tasks_queued_there() {
    for workers in [1, 2, 4] {
        bounded(&format!("{workers} workers"), move || {
            for _ in 0..50 {
                let pool = pool(workers);
                let handle = pool.handle();
                let (results, result) = mpsc::channel();
                let drops = async move {
                    let (done, wait) = mpsc::channel::<()>();
                    let child = async move {
                        pending::<()>().await;
                        drop(done);
                    };
                    task::spawn(child).detach();
                    drop(pool);
                    results.send(wait.recv()).unwrap();
                };
                handle.spawn(drops).detach();
                result.recv().unwrap().unwrap_err();
            }
        });
    }
}

#[test]
fn a_cancelled_task_notifies_the_other_end_of_its_channel() {
    bounded("cancelled ends of channels", || {
        let pool = pool(4);
        let alive = Arc::new(());
        for round in rounds(500) {
            let (mut tx, mut rx) = spsc::channel();
            let guard = Arc::clone(&alive);
            let sends =
                pool.spawn(async move { while tx.send(Arc::clone(&guard)).await.is_ok() {} });
            let receives = pool.spawn(async move { while rx.recv().await.is_ok() {} });
            match round % 3 {
                0 => {
                    drop(sends.abort_on_drop());
                    block_on(receives).unwrap();
                }
                1 => {
                    drop(receives.abort_on_drop());
                    block_on(sends).unwrap();
                }
                _ => {
                    sends.abort();
                    receives.abort();
                    let _ = (block_on(sends), pool.block_on(receives));
                }
            }
            let (tx, rx) = bounded::channel(2);
            let guard = Arc::clone(&alive);
            let sends =
                pool.spawn(async move { while tx.send(Arc::clone(&guard)).await.is_ok() {} });
            let receives = pool.spawn(async move {
                let short = Duration::from_micros(20);
                while !time::timeout(short, rx.recv())
                    .await
                    .is_ok_and(|got| got.is_err())
                {}
            });
            match round % 2 {
                0 => {
                    drop(sends.abort_on_drop());
                    block_on(receives).unwrap();
                }
                _ => {
                    drop(receives.abort_on_drop());
                    block_on(sends).unwrap();
                }
            }
        }
        drop(pool);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn many_pools_one_after_the_other_leave_no_thread() {
    bounded("pools made and dropped", || {
        for round in rounds(500) {
            let pool = Pool::builder().workers(1 + round % 3).name("one-of-many");
            let pool = pool.build().unwrap();
            let task = pool.spawn(async move {
                yield_now().await;
                round
            });
            let mut items = [0; 100];
            pool.for_each_indexed(&mut items, |i, item| *item = i);
            assert_eq!(pool.block_on(task).unwrap(), round);
            pool.block_on(time::sleep(Duration::from_micros(1)));
            drop(pool);
            #[cfg(target_os = "linux")]
            no_thread_is_named("one-of-many");
        }
    });
}

#[test]
fn a_handle_of_an_ended_pool_rejects_at_once() {
    bounded("a late handle", || {
        let first = pool(2);
        let handle = first.handle();
        first.broadcast(|_| ());
        drop(first);
        let alive = Arc::new(());
        for _ in rounds(100) {
            let guard = Arc::clone(&alive);
            let refused = block_on(handle.spawn(async move { drop(guard) }));
            assert!(matches!(refused, Err(JoinError::Spawn(WorkerError::Ended))));
            let guard = Arc::clone(&alive);
            let bound = catch_unwind(AssertUnwindSafe(|| {
                block_on(handle.spawn_on(0, async move { drop(guard) }))
            }));
            assert!(matches!(
                bound,
                Ok(Err(JoinError::Spawn(WorkerError::Ended)))
            ));
        }
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

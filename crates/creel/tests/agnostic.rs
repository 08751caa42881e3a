//! Tests that crates without an executor of their own work unchanged on a pool.
//!
//! The tests pass numbers between tasks on several workers, and to the caller of `block_on`. In
//! some of them, a thread outside the pool takes part.

#![cfg(not(any(creel_loom, creel_shuttle)))]

use creel::{Pool, task};
use futures_util::future::{self, AbortHandle, Abortable, Either, FutureExt};
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const TASKS: u64 = 100;

fn on_pools(test: impl Fn(&Pool)) {
    for workers in [1, 2, 8] {
        let pool = Pool::builder().workers(workers).build().unwrap();
        test(&pool);
        let stats = pool.stats().tasks;
        drop(pool);
        assert!(stats.spawned >= stats.finished + stats.cancelled);
    }
}

/// Spawns a task that yields a few times before it returns.
fn numbered(pool: &Pool, number: u64) -> task::JoinHandle<u64> {
    pool.spawn(async move {
        for _ in 0..number % 5 {
            task::yield_now().await;
        }
        number
    })
}

const SUM: u64 = TASKS * (TASKS - 1) / 2;

#[test]
fn combinators_of_futures_util_work() {
    on_pools(|pool| {
        let all = future::join_all((0..TASKS).map(|number| numbered(pool, number)));
        let sum: u64 = pool.block_on(all).into_iter().map(Result::unwrap).sum();
        assert_eq!(sum, SUM);

        let each: FuturesUnordered<_> = (0..TASKS).map(|number| numbered(pool, number)).collect();
        let sum = each.fold(0, |sum, number| future::ready(sum + number.unwrap()));
        assert_eq!(pool.block_on(sum), SUM);

        let few = stream::iter(0..TASKS).map(|number| numbered(pool, number));
        let sum = few.buffer_unordered(7);
        let sum = sum.fold(0, |sum, number| future::ready(sum + number.unwrap()));
        assert_eq!(pool.block_on(sum), SUM);

        let shared = numbered(pool, 4).map(Result::unwrap).shared();
        let twice = [pool.spawn(shared.clone()), pool.spawn(shared)];
        let twice = pool.block_on(future::join_all(twice));
        assert!(twice.into_iter().all(|number| number.unwrap() == 4));

        let first = pool.block_on(future::select(
            numbered(pool, 3),
            creel::time::sleep(Duration::from_secs(600)),
        ));
        assert!(matches!(first, Either::Left((Ok(3), _))));

        let (stop, stopped) = AbortHandle::new_pair();
        let endless = pool.spawn(Abortable::new(future::pending::<()>(), stopped));
        stop.abort();
        assert!(pool.block_on(endless).unwrap().is_err());
    });
}

#[test]
fn async_channel_works_between_tasks_and_a_thread() {
    on_pools(|pool| {
        let (tx, rx) = async_channel::bounded(3);
        for number in 0..TASKS {
            let tx = tx.clone();
            pool.spawn(async move { tx.send(number).await.unwrap() })
                .detach();
        }
        let outside = std::thread::spawn(move || tx.send_blocking(1).unwrap());
        let receivers: Vec<_> = (0..3)
            .map(|_| {
                let rx = rx.clone();
                pool.spawn(async move { rx.fold(0, |sum, n| future::ready(sum + n)).await })
            })
            .collect();
        let sums = pool.block_on(future::join_all(receivers));
        assert_eq!(sums.into_iter().map(Result::unwrap).sum::<u64>(), SUM + 1);
        outside.join().unwrap();
    });
}

#[test]
fn event_listener_wakes_every_task() {
    on_pools(|pool| {
        let gate = Arc::new((AtomicBool::new(false), event_listener::Event::new()));
        let waiting: Vec<_> = (0..TASKS)
            .map(|number| {
                let gate = gate.clone();
                pool.spawn(async move {
                    loop {
                        let opened = gate.1.listen();
                        if gate.0.load(Ordering::SeqCst) {
                            return number;
                        }
                        opened.await;
                    }
                })
            })
            .collect();
        let outside = std::thread::spawn(move || {
            gate.0.store(true, Ordering::SeqCst);
            gate.1.notify(usize::MAX);
        });
        let numbers = pool.block_on(future::join_all(waiting));
        assert_eq!(numbers.into_iter().map(Result::unwrap).sum::<u64>(), SUM);
        outside.join().unwrap();
    });
}

#[test]
fn tokio_sync_works_without_a_tokio_runtime() {
    use tokio::sync::{Barrier, Mutex, Notify, Semaphore, broadcast, mpsc, oneshot, watch};
    on_pools(|pool| {
        let total = Arc::new(Mutex::new(0));
        let (few, barrier) = (Arc::new(Semaphore::new(2)), Arc::new(Barrier::new(4)));
        let (tx, mut rx) = mpsc::channel(2);
        let adding: Vec<_> = (0..TASKS)
            .map(|number| {
                let (total, few, barrier) = (total.clone(), few.clone(), barrier.clone());
                let tx = tx.clone();
                pool.spawn(async move {
                    barrier.wait().await;
                    let _one_of_two = few.acquire().await.unwrap();
                    *total.lock().await += number;
                    tx.send(number).await.unwrap();
                })
            })
            .collect();
        drop(tx);
        let sum = pool.block_on(async move {
            let mut sum = 0;
            while let Some(number) = rx.recv().await {
                sum += number;
            }
            future::join_all(adding).await;
            sum
        });
        assert_eq!(sum, SUM);
        assert_eq!(*pool.block_on(total.lock()), SUM);

        let (tx, rx) = oneshot::channel();
        let (state, mut seen) = watch::channel(0);
        let (news, mut received) = broadcast::channel(4);
        let called = Arc::new(Notify::new());
        let notify = called.clone();
        let task = pool.spawn(async move {
            called.notified().await;
            seen.wait_for(|&value| value == 7).await.unwrap();
            tx.send(received.recv().await.unwrap()).unwrap();
        });
        notify.notify_one();
        state.send(7).unwrap();
        news.send(8).unwrap();
        assert_eq!(pool.block_on(rx), Ok(8));
        pool.block_on(task).unwrap();
    });
}

#[test]
fn unbounded_channels_of_other_crates_work() {
    on_pools(|pool| {
        let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
        let (other_tx, other_rx) = async_channel::unbounded();
        let sending: Vec<_> = (0..TASKS)
            .map(|number| {
                let (tx, other_tx) = (tx.clone(), other_tx.clone());
                pool.spawn(async move {
                    task::yield_now().await;
                    tx.send(number).unwrap();
                    other_tx.send(number).await.unwrap();
                })
            })
            .collect();
        drop((tx, other_tx));
        let receiving = pool.spawn(async move {
            let mut sum = 0;
            while let Some(number) = rx.recv().await {
                sum += number;
            }
            sum
        });
        let other = pool.block_on(other_rx.fold(0, |sum, number| future::ready(sum + number)));
        assert_eq!((pool.block_on(receiving).unwrap(), other), (SUM, SUM));
        pool.block_on(future::join_all(sending));
    });
}

#[test]
fn async_broadcast_delivers_each_message_to_every_receiver() {
    on_pools(|pool| {
        let (tx, rx) = async_broadcast::broadcast(3);
        let receiving: Vec<_> = (0..4)
            .map(|_| {
                pool.spawn(
                    rx.clone()
                        .fold(0, |sum, number: u64| future::ready(sum + number)),
                )
            })
            .collect();
        drop(rx);
        pool.block_on(async move {
            for number in 0..TASKS {
                tx.broadcast(number).await.unwrap();
            }
        });
        for sum in pool.block_on(future::join_all(receiving)) {
            assert_eq!(sum.unwrap(), SUM);
        }
    });
}

#[test]
fn async_lock_works_between_tasks() {
    use async_lock::{Barrier, Mutex, OnceCell, RwLock, Semaphore};
    on_pools(|pool| {
        let shared = Arc::new((
            Mutex::new(0),
            RwLock::new(0),
            Semaphore::new(2),
            Barrier::new(4),
            OnceCell::new(),
        ));
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let shared = Arc::clone(&shared);
                pool.spawn(async move {
                    let (sum, other_sum, few, barrier, once) = &*shared;
                    barrier.wait().await;
                    let _one_of_two = few.acquire().await;
                    *sum.lock().await += number;
                    *other_sum.write().await += number;
                    let first = async { task::yield_now().await };
                    once.get_or_init(|| first).await;
                    *other_sum.read().await
                })
            })
            .collect();
        pool.block_on(future::join_all(tasks));
        assert_eq!(*pool.block_on(shared.0.lock()), SUM);
        assert_eq!(*pool.block_on(shared.1.read()), SUM);
    });
}

//! Tests of tasks on a pool, through the public interface.

use creel::channel::{RecvError, SendError, TrySendError, bounded, oneshot, spsc};
use creel::task::{self, JoinError, yield_now};
use creel::{Pool, TaskStats, Wait, WorkerError};
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// We divide the number of test cases by this number. It is 20 under Miri, because Miri takes
/// minutes for work that otherwise takes milliseconds.
const FEWER: usize = if cfg!(miri) { 20 } else { 1 };

fn pool(workers: usize) -> Pool {
    Pool::builder()
        .workers(workers)
        .wait(Wait::Park)
        .build()
        .unwrap()
}

/// Waits for something that another thread is certain to do, and fails instead of hanging.
fn soon<T>(receiver: &mpsc::Receiver<T>) -> T {
    receiver
        .recv_timeout(Duration::from_secs(60))
        .expect("no message arrived in time")
}

/// A future that is never ready. The count of its `Arc` shows whether the future is alive.
struct Counted(Arc<()>);

impl Future for Counted {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let _ = &self.0;
        Poll::Pending
    }
}

/// A future that sends its waker through a channel, and then waits forever.
struct GiveWaker(mpsc::Sender<Waker>);

impl Future for GiveWaker {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.send(context.waker().clone()).unwrap();
        Poll::Pending
    }
}

/// A future that panics in its poll, in its drop, or in both.
struct Bomb {
    in_poll: bool,
    in_drop: bool,
}

impl Future for Bomb {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        assert!(!self.in_poll, "boom in poll");
        Poll::Ready(())
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.in_drop, "boom in drop");
    }
}

fn panic_text(error: JoinError) -> String {
    match error {
        JoinError::Panicked(panic) => panic.message().unwrap().to_string(),
        other => panic!("not a panic: {other}"),
    }
}

#[test]
fn a_panic_reaches_the_joiner_and_the_pool_keeps_working() {
    for workers in [1, 2] {
        let pool = pool(workers);
        let both = Bomb {
            in_poll: true,
            in_drop: true,
        };
        let error = pool.block_on(pool.spawn(both)).unwrap_err();
        assert_eq!(panic_text(error), "boom in poll");
        let late = Bomb {
            in_poll: false,
            in_drop: true,
        };
        let error = pool.block_on(pool.spawn_on(0, late)).unwrap_err();
        assert_eq!(panic_text(error), "boom in drop");
        assert_eq!(pool.block_on(pool.spawn(async { 5 })).unwrap(), 5);
    }
}

#[test]
fn a_panicking_output_or_payload_does_not_end_a_worker() {
    struct Loud;
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("boom in the output's drop");
        }
    }
    let pool = pool(1);
    pool.spawn(async { Loud }).detach();
    pool.spawn(async { std::panic::panic_any(Loud) }).detach();
    assert_eq!(pool.block_on(pool.spawn(async { 5 })).unwrap(), 5);
}

#[test]
fn a_dropped_handle_detaches_and_a_dropped_guard_cancels() {
    let pool = pool(1);
    let alive = Arc::new(());
    // We keep the task's waker so that the task can continue. A task that nothing can wake is
    // cancelled in any case.
    let (open, gate) = oneshot::channel();
    let guard = alive.clone();
    let handle = pool.spawn(async move {
        let _guard = guard;
        gate.await
    });
    // This task is queued behind the task of `handle`. When it is done, that task has been polled
    // and is idle.
    pool.block_on(pool.spawn(async {})).unwrap();
    drop(handle.abort_on_drop().into_handle());
    pool.block_on(pool.spawn(async {})).unwrap();
    assert_eq!(Arc::strong_count(&alive), 2);
    open.send(()).unwrap();
    pool.block_on(pool.spawn(async {})).unwrap();
    assert_eq!(Arc::strong_count(&alive), 1);

    let (_open, gate) = oneshot::channel::<()>();
    let guard = alive.clone();
    let handle = pool.spawn(async move {
        let _guard = guard;
        gate.await
    });
    pool.block_on(pool.spawn(async {})).unwrap();
    drop(handle.abort_on_drop());
    pool.block_on(pool.spawn(async {})).unwrap();
    assert_eq!(Arc::strong_count(&alive), 1);

    let (done, is_done) = mpsc::channel();
    pool.spawn(async move {
        yield_now().await;
        done.send(()).unwrap();
    })
    .detach();
    soon(&is_done);
}

#[test]
fn cancelling_returns_the_reason_or_the_output() {
    let pool = pool(2);
    let waiting = pool.spawn(pending::<()>());
    waiting.abort();
    assert!(matches!(pool.block_on(waiting), Err(JoinError::Cancelled)));
    let finished = pool.spawn(async { 3 });
    while !finished.is_finished() {
        pool.block_on(yield_now());
    }
    finished.abort();
    assert_eq!(pool.block_on(finished).unwrap(), 3);
}

#[test]
fn a_task_that_nothing_can_wake_is_dropped() {
    let pool = pool(1);
    let alive = Arc::new(());
    pool.spawn(Counted(alive.clone())).detach();
    pool.block_on(pool.spawn(async {})).unwrap();
    pool.block_on(pool.spawn(async {})).unwrap();
    assert_eq!(Arc::strong_count(&alive), 1);
    assert_eq!(pool.stats().tasks.cancelled, 1);
}

#[test]
fn wakers_may_be_used_after_completion_and_after_the_pool() {
    let (give, take) = mpsc::channel();
    let pool = pool(2);
    let handle = pool.spawn(GiveWaker(give.clone()));
    let waker = soon(&take);
    handle.abort();
    assert!(pool.block_on(handle).is_err());
    waker.wake_by_ref();
    let other = pool.spawn(GiveWaker(give));
    let another = soon(&take);
    drop(pool);
    waker.wake();
    let clone = another.clone();
    another.wake();
    drop(other);
    drop(clone);
}

#[test]
fn dropping_a_pool_drops_every_future_and_rejects_new_ones() {
    struct SpawnOnDrop(creel::Pool, mpsc::Sender<bool>);
    impl Drop for SpawnOnDrop {
        fn drop(&mut self) {
            let mut late = self.0.spawn(async {});
            let polled = Pin::new(&mut late).poll(&mut Context::from_waker(Waker::noop()));
            let refused = matches!(
                polled,
                Poll::Ready(Err(JoinError::Spawn(WorkerError::Ended)))
            );
            self.1.send(refused).unwrap();
        }
    }
    for workers in [1, 3] {
        let pool = pool(workers);
        let alive = Arc::new(());
        for i in 0..100 / FEWER {
            pool.spawn(keep_waking(alive.clone())).detach();
            pool.spawn_on(i % workers, keep_waking(alive.clone()))
                .detach();
        }
        let (reports, reported) = mpsc::channel();
        let last = SpawnOnDrop(pool.handle(), reports);
        pool.spawn(async move {
            let _last = last;
            pending::<()>().await;
        })
        .detach();
        let handle = pool.handle();
        drop(pool);
        // The detached task is never woken, so it may have been dropped before the pool was.
        soon(&reported);
        assert_eq!(Arc::strong_count(&alive), 1);
        let mut late = handle.spawn(async {});
        let polled = Pin::new(&mut late).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(
            polled,
            Poll::Ready(Err(JoinError::Spawn(WorkerError::Ended)))
        ));
    }
}

async fn keep_waking(_alive: Arc<()>) {
    loop {
        yield_now().await;
    }
}

#[test]
fn a_pool_may_be_dropped_by_its_own_task() {
    let (done, is_done) = mpsc::channel();
    let pool = Arc::new(Mutex::new(None));
    let own = pool.clone();
    *pool.lock().unwrap() = Some(Pool::builder().workers(2).build().unwrap());
    let guard = pool.lock().unwrap();
    guard
        .as_ref()
        .unwrap()
        .spawn_on(1, async move {
            drop(own.lock().unwrap().take());
            done.send(()).unwrap();
        })
        .detach();
    drop(guard);
    soon(&is_done);
    assert!(pool.lock().unwrap().is_none());
}

#[test]
fn every_spawned_task_ends_once() {
    const MANY: u64 = 500 / FEWER as u64;
    for workers in [1, 2, 8] {
        let pool = pool(workers);
        let (tx, rx) = bounded::channel(4);
        let spawned: Vec<_> = (0..MANY)
            .map(|i| {
                let tx = tx.clone();
                pool.spawn(async move {
                    for _ in 0..i % 7 {
                        yield_now().await;
                    }
                    tx.send(i).await.unwrap();
                })
            })
            .collect();
        drop(tx);
        let sum = pool.block_on(async {
            let mut sum = 0;
            while let Ok(i) = rx.recv().await {
                sum += i;
            }
            for task in spawned {
                task.await.unwrap();
            }
            sum
        });
        assert_eq!(sum, (MANY - 1) * MANY / 2);
        let TaskStats {
            spawned,
            finished,
            cancelled,
            ..
        } = pool.stats().tasks;
        assert_eq!((spawned, finished, cancelled), (MANY, MANY, 0));
    }
}

#[test]
fn bound_tasks_stay_on_their_thread() {
    let pool = pool(3);
    let here = || async {
        let first = std::thread::current().id();
        for _ in 0..100 {
            yield_now().await;
            assert_eq!(std::thread::current().id(), first);
        }
        first
    };
    let threads = pool.broadcast(|_| std::thread::current().id());
    for (worker, thread) in threads.iter().enumerate() {
        assert_eq!(
            pool.block_on(pool.spawn_on(worker, here())).unwrap(),
            *thread
        );
    }
}

#[test]
fn misuse_of_tasks_gets_a_clear_error() {
    let pool = Arc::new(pool(1));
    let inner = pool.clone();
    let error = pool
        .block_on(pool.spawn(async move { inner.block_on(async {}) }))
        .unwrap_err();
    assert!(panic_text(error).starts_with("block_on inside a worker"));
    let nested = std::panic::catch_unwind(|| pool.block_on(async { pool.block_on(async {}) }));
    let payload = nested.unwrap_err();
    let text = payload.downcast_ref::<&str>().copied().map(String::from);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    assert!(text.unwrap().starts_with("block_on inside"));
    assert!(std::panic::catch_unwind(|| task::spawn(async {}).detach()).is_err());
    assert!(std::panic::catch_unwind(|| task::spawn_local(async {}).detach()).is_err());
}

#[test]
fn a_closed_channel_gives_the_message_back() {
    let pool = pool(1);
    let (tx, rx) = oneshot::channel();
    drop(rx);
    assert_eq!(tx.send(1), Err(SendError(1)));
    let (mut tx, rx) = spsc::channel();
    drop(rx);
    assert_eq!(tx.try_send(2), Err(TrySendError::Closed(2)));
    assert_eq!(pool.block_on(tx.send(3)), Err(SendError(3)));
    assert_eq!(tx.send_blocking(4), Err(SendError(4)));
    let (tx, rx) = bounded::channel(1);
    tx.try_send(5).unwrap();
    tx.close();
    assert_eq!(tx.try_send(6), Err(TrySendError::Closed(6)));
    assert_eq!(pool.block_on(tx.send(7)), Err(SendError(7)));
    assert_eq!(tx.send_blocking(8), Err(SendError(8)));
    assert_eq!(pool.block_on(rx.recv()), Ok(5));
    assert_eq!(rx.recv_blocking(), Err(RecvError));
}

#[test]
fn a_task_queued_on_a_blocked_worker_runs_on_another_worker() {
    // The cases cover a task in the run queue and a task in the LIFO slot. Each case ends only if
    // another worker runs the task.
    let pool = pool(2);
    for lifo in [false, true] {
        let (tx, rx) = oneshot::channel();
        let (ran, has_run) = mpsc::channel();
        let waiting = pool.spawn(async move {
            rx.await.unwrap();
            ran.send(()).unwrap();
        });
        // The task must have been polled once and be idle before the blocking task begins.
        while pool.stats().tasks.polls == 0 {
            std::thread::yield_now();
        }
        let blocker = pool.spawn(async move {
            if lifo {
                tx.send(()).unwrap();
            } else {
                task::spawn(async move { tx.send(()).unwrap() }).detach();
            }
            soon(&has_run);
        });
        pool.block_on(async {
            blocker.await.unwrap();
            waiting.await.unwrap();
        });
    }
}

#[test]
fn a_task_that_yields_forever_starves_no_other_task() {
    let pool = pool(1);
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let yields = pool.spawn(async move {
        while !seen.load(Ordering::Relaxed) {
            yield_now().await;
        }
    });
    // Three kinds of work must run: a task from outside, a task that is bound to a worker, and an
    // inbox job.
    pool.block_on(pool.spawn_on(0, async {})).unwrap();
    assert_eq!(pool.run_on(0, || 1).unwrap(), 1);
    let stopper = stop.clone();
    let outside = pool.spawn(async move { stopper.store(true, Ordering::Relaxed) });
    pool.block_on(async {
        outside.await.unwrap();
        yields.await.unwrap();
    });
}

#[test]
fn two_tasks_that_wake_each_other_starve_no_other_task() {
    let pool = pool(1);
    let stop = Arc::new(AtomicBool::new(false));
    let (tx_a, rx_a) = bounded::channel::<()>(1);
    let (tx_b, rx_b) = bounded::channel::<()>(1);
    let (s, t) = (stop.clone(), stop.clone());
    let one = pool.spawn(async move {
        while !s.load(Ordering::Relaxed) && tx_a.send(()).await.is_ok() {
            if rx_b.recv().await.is_err() {
                break;
            }
        }
    });
    let two = pool
        .spawn(async move { while rx_a.recv().await.is_ok() && tx_b.send(()).await.is_ok() {} });
    let stopper = pool.spawn(async move { t.store(true, Ordering::Relaxed) });
    pool.block_on(async {
        stopper.await.unwrap();
        one.await.unwrap();
        two.await.unwrap();
    });
}

#[test]
fn a_resize_loses_no_task() {
    let pool = pool(1);
    let done = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..200 / FEWER)
        .map(|_| {
            let done = done.clone();
            pool.spawn(async move {
                for _ in 0..50 {
                    yield_now().await;
                }
                done.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    let bound = pool.spawn_on(0, async { yield_now().await });
    for workers in [4, 2, 8, 1, 3, 1, 2] {
        pool.resize(workers).unwrap();
        pool.block_on(yield_now());
        pool.spawn_on(workers - 1, async { yield_now().await })
            .detach();
    }
    pool.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
        bound.await.unwrap();
    });
    assert_eq!(done.load(Ordering::Relaxed), 200 / FEWER);
}

#[test]
fn the_drop_of_a_future_may_spawn_a_task() {
    /// A value whose drop spawns a task. The task sends a message when it runs.
    struct Last(mpsc::Sender<()>, Arc<()>);
    impl Drop for Last {
        fn drop(&mut self) {
            let (reports, alive) = (self.0.clone(), self.1.clone());
            task::spawn(async move {
                let _alive = alive;
                reports.send(()).unwrap();
            })
            .detach();
        }
    }
    let pool = pool(2);
    let alive = Arc::new(());
    let (tx, rx) = mpsc::channel();
    let spawns = || {
        let last = Last(tx.clone(), alive.clone());
        async move {
            let _last = last;
            pending::<()>().await;
        }
    };
    // In the first case, `abort` drops the future. The pool continues, so the spawned task runs.
    let task = pool.spawn(spawns());
    task.abort();
    assert!(pool.block_on(task).is_err());
    soon(&rx);
    // In the second case, the end of the pool drops the futures. The pool then rejects the tasks
    // that they spawn.
    pool.spawn(spawns()).detach();
    pool.spawn_on(1, spawns()).detach();
    drop(pool);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn a_worker_with_bound_tasks_is_listed_until_they_end() {
    let pool = pool(3);
    let (tx, rx) = oneshot::channel();
    let bound = pool.spawn_on(2, async { rx.await.unwrap() });
    pool.resize(1).unwrap();
    assert_eq!(pool.stats().retiring, [2]);
    // Other tasks make progress during the wait, and tasks bound to the worker still run there.
    assert_eq!(pool.block_on(pool.spawn(async { 5 })).unwrap(), 5);
    tx.send(7).unwrap();
    assert_eq!(pool.block_on(bound).unwrap(), 7);
    while !pool.stats().retiring.is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn tasks_can_have_large_futures_and_large_outputs() {
    let pool = pool(1);
    let big = [7_u8; 100_000];
    let sum = pool.spawn(async move {
        yield_now().await;
        big.iter().map(|&b| u64::from(b)).sum::<u64>()
    });
    assert_eq!(pool.block_on(sum).unwrap(), 700_000);
    let out = pool.spawn(async { [1_u64; 1000] });
    assert_eq!(pool.block_on(out).unwrap(), [1; 1000]);
}

#[test]
fn loops_and_tasks_run_together() {
    let pool = Arc::new(pool(2));
    let inner = pool.clone();
    let task = pool.spawn(async move {
        let mut items = vec![1_u64; 1000];
        inner.for_each_indexed(&mut items, |i, item| *item += i as u64);
        yield_now().await;
        items.iter().sum::<u64>()
    });
    assert_eq!(pool.block_on(task).unwrap(), 1000 + 999 * 1000 / 2);
}

#[test]
fn timers_fire_for_block_on_and_for_tasks_anywhere() {
    use creel::time::sleep;
    for workers in [1, 2] {
        let pool = pool(workers);
        pool.block_on(async {
            sleep(Duration::from_millis(2)).await;
            let task = task::spawn(async { sleep(Duration::from_millis(2)).await });
            task.await.unwrap();
        });
        pool.block_on(pool.spawn_on(workers - 1, sleep(Duration::from_millis(2))))
            .unwrap();
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    use creel::time::sleep;
    let run = |seed| {
        let pool = Pool::seeded(seed);
        let log = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..6_u64)
            .map(|i| {
                let log = log.clone();
                let work = async move {
                    for step in 0..4 {
                        log.lock().unwrap().push((i, step));
                        if step % 2 == 0 {
                            yield_now().await;
                        } else {
                            sleep(Duration::from_secs(i % 3)).await;
                        }
                    }
                };
                if i % 2 == 0 {
                    pool.spawn(work)
                } else {
                    pool.spawn_on(0, work)
                }
            })
            .collect();
        pool.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert!(!pool.stats().workers[0].started);
        let log = log.lock().unwrap().clone();
        assert_eq!(log.len(), 24);
        log
    };
    assert_eq!(run(1), run(1));
    assert!((2..20).any(|seed| run(seed) != run(1)));
}

#[test]
fn a_century_on_a_seeded_pool_takes_no_time() {
    let pool = Pool::seeded(1);
    let century = Duration::from_secs(3_155_760_000);
    // The clock jumps from timer to timer. A second pending sleep must not stop it before the
    // century is over.
    let never = pool.spawn(creel::time::sleep(Duration::MAX));
    pool.block_on(creel::time::sleep(century));
    assert!(!never.is_finished());
}

#[test]
fn a_receiver_is_cancelled_at_every_await() {
    // For every `k`, runs a sender and a receiver for about `k` turns. Then it cancels the
    // receiver, and the sender must end.
    for k in (0..60).step_by(FEWER) {
        let pool = Pool::seeded(k as u64);
        let (tx, rx) = bounded::channel(1);
        let (mut one, mut other) = creel::channel::spsc::channel();
        let sends = pool.spawn(async move {
            for i in 0..5 {
                if tx.send(i).await.is_err() || one.send(i).await.is_err() {
                    break;
                }
                yield_now().await;
            }
        });
        let receives = pool.spawn(async move {
            while rx.recv().await.is_ok() && other.recv().await.is_ok() {
                yield_now().await;
            }
        });
        pool.block_on(async {
            for _ in 0..k {
                yield_now().await;
            }
            drop(receives.abort_on_drop());
            sends.await.expect("the sender ends without its receiver");
        });
        let stats = pool.stats().tasks;
        drop(pool);
        assert_eq!(stats.spawned, 2);
    }
}

#[test]
fn outputs_and_futures_of_any_size_and_alignment_compile() {
    #[derive(Debug, PartialEq, Clone, Copy)]
    #[repr(align(128))]
    struct Aligned(u8);
    let pool = pool(2);
    let large = pool.spawn(async { [7_u8; 100_000] });
    assert_eq!(pool.block_on(large).unwrap()[99_999], 7);
    let aligned = pool
        .block_on(pool.spawn_on(1, async { Aligned(3) }))
        .unwrap();
    assert_eq!(aligned, Aligned(3));
    assert!((&raw const aligned).is_aligned());
    let both = pool.spawn(async {
        let kept = [1_u8; 40_000];
        yield_now().await;
        [kept; 2]
    });
    assert_eq!(pool.block_on(both).unwrap()[1][39_999], 1);
    // Nobody joins the first task, so its output is dropped. A cancellation drops the second
    // future.
    let alive = Arc::new(());
    let guard = alive.clone();
    drop(pool.spawn(async move { (guard, [0_u8; 50_000]) }));
    let guard = alive.clone();
    let cancelled = pool.spawn(async move {
        pending::<()>().await;
        (guard, [0_u8; 50_000])
    });
    cancelled.abort();
    assert!(matches!(
        pool.block_on(cancelled),
        Err(JoinError::Cancelled)
    ));
    drop(pool);
    assert_eq!(Arc::strong_count(&alive), 1);
}

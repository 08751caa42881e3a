//! Models of tasks that block their threads, of pools that wait for each other, and of the end of a
//! pool at the same time.
//!
//! Idle workers find the work that is stranded on a blocked thread through the watchdog, which
//! wakes up once a millisecond. However, with every second pair of seeds, timeouts never expire, so
//! the watchdog never wakes up. With these seeds, we model only work for which a worker is notified
//! at once.

use super::{check, check_in_time, draw, end_and_count, pool};
use crate::{
    Balance, Pool,
    channel::oneshot,
    sync::{Ordering, spin_loop, thread},
    task::{self, yield_now},
    time::{Clock, sleep},
    worker::parts::TaskPart,
};
use shuttle::sync::{
    Barrier, Condvar, Mutex,
    atomic::AtomicUsize,
    mpsc::{Receiver, channel},
};
use std::{
    future::{Future, pending},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// Spawns `calls` closures that block their threads until all of them are running.
fn meet(pool: &Pool, calls: usize) -> Receiver<()> {
    let all = Arc::new(Barrier::new(calls));
    let (done, wait) = channel();
    for _ in 0..calls {
        let (all, done) = (Arc::clone(&all), done.clone());
        let call = move || {
            all.wait();
            done.send(()).expect("the receiver waits");
        };
        pool.spawn_fn(call).detach();
    }
    wait
}

/// Spawns a task and blocks the thread until the task is done. The task first does the same with a
/// task of its own, up to `depth` levels.
fn block_for_child(depth: usize) {
    let (done, wait) = channel();
    let child = async move {
        if depth > 1 {
            block_for_child(depth - 1);
        }
        done.send(()).expect("the parent waits");
    };
    task::spawn(child).detach();
    wait.recv().expect("the child ends");
}

/// A waker for a thread that waits for a future with a lock and a condition variable.
#[derive(Default)]
struct Bell {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// Blocks the thread until the future is ready. The thread runs nothing else during the wait.
fn block_for<F: Future>(future: F) -> F::Output {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut woken = bell.woken.lock().unwrap();
        while !*woken {
            woken = bell.changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

#[test]
fn blocking_closures_can_wait_for_each_other_if_there_is_a_worker_for_each() {
    check(|| {
        let workers = 2 + draw(3);
        let pool = pool(workers);
        for _ in 0..2 {
            let wait = meet(&pool, workers);
            (0..workers).for_each(|_| wait.recv().expect("all calls arrive"));
        }
        end_and_count(pool);
    });
}

#[test]
fn calls_can_wait_for_each_other_during_a_resize() {
    check(|| {
        let pool = Arc::new(pool(2 + draw(2)));
        let resized = Arc::clone(&pool);
        let other = thread::spawn(move || {
            for _ in 0..3 {
                resized.resize(2 + draw(3)).expect("the size is in range");
            }
        });
        let wait = meet(&pool, 2);
        (0..2).for_each(|_| wait.recv().expect("both calls arrive"));
        other.join().expect("no panic");
        let workers = pool.workers();
        let wait = meet(&pool, workers);
        (0..workers).for_each(|_| wait.recv().expect("all calls arrive"));
        end_and_count(Arc::into_inner(pool).expect("this is the last handle"));
    });
}

#[test]
fn a_task_can_block_on_its_child_task_which_blocks_on_a_child_of_its_own() {
    check_in_time(|| {
        let workers = 2 + draw(2);
        let pool = pool(workers);
        let root = pool.spawn(async move { block_for_child(workers - 1) });
        block_for(root).expect("the task ends");
        end_and_count(pool);
    });
}

#[test]
fn a_block_on_future_can_block_its_thread_until_its_child_tasks_are_done() {
    check_in_time(|| {
        let workers = 1 + draw(2);
        let pool = pool(workers);
        for _ in 0..2 {
            pool.block_on(async { block_for_child(workers) });
        }
        end_and_count(pool);
    });
}

#[test]
fn two_block_on_futures_can_block_on_each_others_tasks() {
    check_in_time(|| {
        let pool = Arc::new(pool(1 + draw(2)));
        let all = Arc::new(Barrier::new(3));
        let (inner, theirs) = (Arc::clone(&pool), Arc::clone(&all));
        let other = thread::spawn(move || {
            inner.block_on(async {
                let met = Arc::clone(&theirs);
                task::spawn(async move { _ = met.wait() }).detach();
                theirs.wait();
            });
        });
        pool.block_on(async { _ = all.wait() });
        other.join().expect("no panic");
        end_and_count(Arc::into_inner(pool).expect("this is the last handle"));
    });
}

#[test]
fn a_block_on_future_that_yields_until_a_task_is_done_sees_it_done() {
    check(|| {
        let pool = pool(1 + draw(2));
        let before = (draw(2) == 0).then(|| pool.spawn(async {}));
        pool.block_on(async {
            let task = before.unwrap_or_else(|| task::spawn(async {}));
            while !task.is_finished() {
                // The spin hint lets PCT run the other threads.
                spin_loop();
                yield_now().await;
            }
        });
        end_and_count(pool);
    });
}

#[test]
fn a_blocked_thread_wakes_for_a_timer_of_its_own() {
    check_in_time(|| {
        let clock = Clock::manual();
        let builder = Pool::builder().workers(2).clock(clock.clone());
        let pool = builder.build().expect("the size is in range");
        let task = pool.spawn(async { block_for(sleep(Duration::from_millis(1))) });
        let driver = thread::spawn(move || {
            (0..3).for_each(|_| clock.advance(Duration::from_millis(1)));
            clock
        });
        let clock = driver.join().expect("no panic");
        while !task.is_finished() {
            clock.advance(Duration::from_millis(1));
            thread::yield_now();
        }
        block_for(task).expect("the task ends");
        end_and_count(pool);
    });
}

#[test]
fn tasks_queued_while_all_workers_are_blocked_run_when_the_pool_grows() {
    check(|| {
        let pool = pool(1);
        let (go_on, gate) = channel::<()>();
        let blocks = pool.spawn(async move { gate.recv().expect("the gate opens") });
        let waits = pool.spawn(async { 5 });
        pool.resize(2).expect("the size is in range");
        assert_eq!(block_for(waits).expect("the task ends"), 5);
        go_on.send(()).expect("the receiver waits");
        block_for(blocks).expect("the task ends");
        end_and_count(pool);
    });
}

#[test]
fn closures_of_nested_joins_can_wait_for_each_other() {
    check(|| {
        let pool = pool(4);
        let all = Barrier::new(4);
        let leaf = || _ = all.wait();
        let split = || {
            pool.join(|| pool.join(leaf, leaf), || pool.join(leaf, leaf));
        };
        match draw(2) {
            0 => split(),
            _ => pool.run_on(draw(4), split).unwrap(),
        }
        drop(pool);
    });
}

#[test]
fn jobs_of_nested_scopes_can_wait_for_each_other() {
    check(|| {
        let pool = pool(3);
        let all = Barrier::new(3);
        pool.scope(|s| {
            s.spawn(|| {
                pool.scope(|inner| {
                    inner.spawn(|| _ = all.wait());
                    all.wait();
                });
            });
            all.wait();
        });
        drop(pool);
    });
}

/// The first job of a scope waits for the last job. A thief may have taken a batch that begins with
/// the first job. Other threads must then still find the jobs behind it.
#[test]
fn the_first_job_of_a_scope_can_wait_for_its_last_job() {
    check(|| {
        let pool = pool(2 + draw(2));
        let jobs = 3 + draw(3);
        let both = Barrier::new(2);
        let spawn = || {
            pool.scope(|s| {
                (0..jobs).for_each(|job| {
                    let meets = job == 0 || job == jobs - 1;
                    let both = &both;
                    s.spawn(move || _ = meets.then(|| both.wait()));
                });
            });
        };
        match draw(2) {
            0 => spawn(),
            _ => pool.run_on(draw(pool.workers()), spawn).unwrap(),
        }
        drop(pool);
    });
}

#[test]
fn items_of_nested_loops_can_wait_for_each_other() {
    check(|| {
        let workers = 2 + draw(2);
        let pool = pool(workers);
        let loops = pool.with_balance([Balance::Fixed, Balance::Shared][draw(2)]);
        let all = Barrier::new(workers);
        loops.for_each(0..2, |unit| {
            if unit == 0 {
                loops.for_each(0..workers, |_| _ = all.wait());
            }
        });
        drop(pool);
    });
}

#[test]
fn items_of_loops_in_scopes_can_wait_for_each_other() {
    check_in_time(|| {
        let pool = pool(4);
        let loops = pool.with_balance([Balance::Fixed, Balance::Shared][draw(2)]);
        let all = Barrier::new(4);
        let units = || loops.for_each(0..2, |_| _ = all.wait());
        pool.scope(|s| (0..2).for_each(|_| s.spawn(units)));
        drop(pool);
    });
}

/// The worker of a share runs a job or a task that ends only after the loop, and the units of the
/// loop wait for each other.
#[test]
fn items_of_a_loop_can_wait_for_each_other_while_a_worker_is_busy() {
    check_in_time(|| {
        let pool = Arc::new(pool(3));
        let loops = pool.with_balance([Balance::Fixed, Balance::Shared][draw(2)]);
        let (done, wait) = channel::<()>();
        let busy = Arc::clone(&pool);
        let other = thread::spawn(move || {
            let waits = move || _ = wait.recv();
            match draw(2) {
                0 => busy.run_on(1, waits).unwrap(),
                _ => busy.spawn_fn(waits).detach(),
            }
        });
        let all = Barrier::new(2);
        let units = || loops.for_each(0..2, |_| _ = all.wait());
        match draw(2) {
            0 => units(),
            _ => pool.scope(|s| s.spawn(units)),
        }
        drop(done);
        other.join().expect("no panic");
        drop(loops);
        end_and_count(Arc::into_inner(pool).expect("this is the last handle"));
    });
}

#[test]
fn two_pools_can_wait_for_each_other() {
    check(|| {
        // One of A's workers stays free for the work that B's worker waits for.
        let (a, b) = (Arc::new(pool(2)), Arc::new(pool(1)));
        let (theirs, ours) = (Arc::clone(&a), Arc::clone(&b));
        let other = thread::spawn(move || {
            ours.run_on(0, || {
                theirs.scope(|s| s.spawn(|| ours.run_on(0, || ()).unwrap()))
            })
            .unwrap();
            let task = theirs.spawn(async { 3 });
            assert_eq!(
                ours.run_on(0, || theirs.block_on(task))
                    .unwrap()
                    .expect("the task ends"),
                3
            );
        });
        a.run_on(0, || b.run_on(0, || a.run_on(0, || ()).unwrap()).unwrap())
            .unwrap();
        let inner = Arc::clone(&b);
        let task = a.spawn(async move {
            let task = inner.spawn(async { 5 });
            inner.block_on(task).expect("the task ends")
        });
        assert_eq!(block_for(task).expect("the task ends"), 5);
        a.run_on(0, || b.join(|| a.run_on(0, || ()).unwrap(), || ()))
            .unwrap();
        other.join().expect("no panic");
        end_and_count(Arc::into_inner(a).expect("this is the last handle"));
        end_and_count(Arc::into_inner(b).expect("this is the last handle"));
    });
}

#[test]
fn loop_units_call_back_to_the_worker_that_waits_for_them() {
    check(|| {
        let (a, b) = (pool(2), pool(1));
        b.run_on(0, || a.for_each(0..2, |_| b.run_on(0, || ()).unwrap()))
            .unwrap();
        drop(a);
        drop(b);
    });
}

#[test]
fn a_pool_can_be_dropped_on_a_worker_that_it_waits_for() {
    check(|| {
        let (a, b) = (pool(1), Arc::new(pool(1)));
        let inner = Arc::clone(&b);
        a.spawn(async move { inner.run_on(0, || ()).unwrap() })
            .detach();
        b.run_on(0, || drop(a)).unwrap();
        let b = Arc::into_inner(b).expect("the task has ended");
        end_and_count(b);
    });
}

#[test]
fn a_pool_ends_while_its_tasks_block_on_each_other() {
    check_in_time(|| {
        let pool = pool(1 + draw(2));
        for _ in 0..pool.workers() {
            let parent = async {
                let (done, wait) = channel::<()>();
                let child = async move {
                    pending::<()>().await;
                    drop(done);
                };
                task::spawn(child).detach();
                assert!(wait.recv().is_err(), "the child was cancelled");
            };
            pool.spawn(parent).detach();
        }
        end_and_count(pool);
    });
}

/// A spawn runs at the same time as the drop of the pool. Idle tasks are in the heap of a
/// `block_on` driver's local scheduler, and the pool may have no thread yet.
#[test]
fn no_thread_is_started_after_the_pool_was_dropped() {
    check(|| {
        let pool = pool(1);
        let (shared, handle) = (Arc::clone(&pool.shared), pool.handle());
        let alive = Arc::new(());
        let guard = Arc::clone(&alive);
        let waits = pool.block_on(async move {
            let mut waits = Vec::new();
            for _ in 0..2 {
                let guard = Arc::clone(&guard);
                let (tx, rx) = oneshot::channel();
                waits.push(task::spawn(async move {
                    let _guard = guard;
                    tx.send(()).expect("the receiver waits");
                    pending::<()>().await;
                }));
                rx.await.expect("the task was polled");
            }
            waits
        });
        let other = thread::spawn(move || handle.spawn(async {}).detach());
        drop(pool);
        let runs = || shared.slots.made().any(|slot| slot.thread.is_running());
        let before = runs();
        other.join().expect("no panic");
        assert!(
            !before && !runs(),
            "a thread lives after the pool was dropped"
        );
        drop(waits);
        let stats = shared.tasks.stats();
        assert_eq!(stats.spawned, stats.finished + stats.cancelled, "{stats:?}");
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn threads_can_spawn_on_a_pool_without_threads_during_its_drop() {
    check(|| {
        let pool = pool(2);
        let shared = Arc::clone(&pool.shared);
        let ended = Arc::new(AtomicUsize::new(0));
        let others: Vec<_> = (0..2)
            .map(|other| {
                let (handle, ended) = (pool.handle(), Arc::clone(&ended));
                thread::spawn(move || {
                    let task = async move { 1 };
                    let task = match other {
                        0 => handle.spawn(task),
                        _ => handle.spawn_on(draw(2), task),
                    };
                    let _ = block_for(task);
                    ended.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        drop(pool);
        for other in others {
            other.join().expect("no panic");
        }
        assert_eq!(ended.load(Ordering::Relaxed), 2);
        assert!(shared.slots.made().all(|slot| !slot.thread.is_running()));
        let stats = shared.tasks.stats();
        assert_eq!(stats.spawned, stats.finished + stats.cancelled, "{stats:?}");
    });
}

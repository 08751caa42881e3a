//! Models of tasks, channels, timers, `block_on`, and the end of the pool during all of these.

use super::{check, draw, end_and_count, pool, throw};
use crate::{
    JoinError, Pool, WorkerError,
    channel::{bounded, oneshot, spsc},
    sync::{AtomicUsize, Mutex, Ordering, lock, spin_loop, thread},
    task::{self, yield_now},
    time::{Clock, sleep},
    worker::parts::TaskPart,
};
use std::{
    future::{Future, pending, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Polls a future once with a waker that does nothing.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Panics when it is dropped.
struct ThrowOnDrop;

impl Drop for ThrowOnDrop {
    fn drop(&mut self) {
        throw();
    }
}

#[test]
fn tasks_spawned_from_everywhere_are_joined() {
    check(|| {
        let pool = Arc::new(pool(1 + draw(3)));
        let outside = Arc::clone(&pool);
        let other = thread::spawn(move || {
            let handle = outside.handle();
            let task = handle.spawn(async {
                let child = task::spawn(async { 1 });
                yield_now().await;
                child.await.expect("the child ends") + 1
            });
            assert_eq!(outside.block_on(task).expect("the task ends"), 2);
        });
        let tasks: Vec<_> = (0..3).map(|i| pool.spawn(async move { i })).collect();
        let bound = pool.spawn_on(draw(pool.workers()), async { yield_now().await });
        let sum = pool.block_on(async {
            let mut sum = 0;
            for task in tasks {
                sum += task.await.expect("the task ends");
            }
            bound.await.expect("the task ends");
            sum
        });
        assert_eq!(sum, 3);
        other.join().expect("no panic");
        end_and_count(Arc::into_inner(pool).expect("this is the last handle"));
    });
}

#[test]
fn a_task_ends_although_the_waiting_thread_does_not_help() {
    check(|| {
        let pool = pool(1 + draw(3));
        let (tx, rx) = oneshot::channel();
        let task = pool.spawn(async move {
            yield_now().await;
            tx.send(5).expect("the receiver waits");
        });
        assert_eq!(rx.recv_blocking(), Ok(5));
        assert!(pool.block_on(task).is_ok());
        end_and_count(pool);
    });
}

#[test]
fn aborts_and_dropped_guards_drop_each_future_once() {
    check(|| {
        let pool = pool(1 + draw(3));
        let alive = Arc::new(());
        let guard = Arc::clone(&alive);
        let first = pool.spawn(async move {
            let _guard = guard;
            yield_now().await;
            yield_now().await;
        });
        let guard = Arc::clone(&alive);
        let second = pool.spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        let guard = Arc::clone(&alive);
        let third = pool.spawn_on(0, async move {
            let _guard = guard;
            yield_now().await;
        });
        first.abort();
        drop(third.abort_on_drop());
        let ended = pool.block_on(async {
            second.abort();
            let _ = second.await;
            first.await
        });
        assert!(matches!(ended, Ok(()) | Err(JoinError::Cancelled)));
        end_and_count(pool);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn panics_in_poll_and_in_drop_end_only_their_task() {
    check(|| {
        let pool = pool(1 + draw(2));
        let in_poll = pool.spawn(async {
            yield_now().await;
            throw();
        });
        let in_drop = pool.spawn(async {
            let _late = ThrowOnDrop;
            pending::<()>().await;
        });
        let in_output = pool.spawn(async { ThrowOnDrop });
        drop(in_output);
        in_drop.abort();
        pool.block_on(async {
            assert!(matches!(in_poll.await, Err(JoinError::Panicked(_))));
            assert!(in_drop.await.is_err());
        });
        end_and_count(pool);
    });
}

#[test]
fn a_pool_ends_while_tasks_are_running() {
    check(|| {
        let pool = pool(1 + draw(3));
        let alive = Arc::new(());
        for bound in [false, true, false] {
            let guard = Arc::clone(&alive);
            let task = async move {
                let _guard = guard;
                loop {
                    // The spin hint lets PCT run the other threads.
                    spin_loop();
                    yield_now().await;
                }
            };
            match bound {
                true => pool.spawn_on(draw(pool.workers()), task).detach(),
                false => pool.spawn(task).detach(),
            }
        }
        let guard = Arc::clone(&alive);
        pool.spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        })
        .detach();
        end_and_count(pool);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn a_pool_ends_while_other_threads_spawn_and_wake() {
    check(|| {
        let pool = pool(1 + draw(2));
        let (shared, handle) = (Arc::clone(&pool.shared), pool.handle());
        let alive = Arc::new(());
        let kept = Arc::new(Mutex::new(None::<Waker>));
        let (guard, give) = (Arc::clone(&alive), Arc::clone(&kept));
        let waits = pool.spawn(async move {
            let _guard = guard;
            poll_fn(|context| {
                *lock(&give) = Some(context.waker().clone());
                Poll::<()>::Pending
            })
            .await;
        });
        let guard = Arc::clone(&alive);
        let other = thread::spawn(move || {
            let late = handle.spawn(async move {
                let _guard = guard;
                yield_now().await;
            });
            let waker = lock(&kept).take();
            waker.iter().for_each(Waker::wake_by_ref);
            match draw(2) {
                0 => late.detach(),
                _ => drop(late),
            }
            drop(waker);
        });
        drop(pool);
        other.join().expect("no panic");
        drop(waits);
        let stats = shared.tasks.stats();
        assert_eq!(stats.spawned, stats.finished + stats.cancelled, "{stats:?}");
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn a_pool_is_ended_by_its_own_task() {
    check(|| {
        let (tx, rx) = oneshot::channel();
        let place = Arc::new(Mutex::new(Some(pool(2))));
        let own = Arc::clone(&place);
        let guard = lock(&place);
        let pool = guard.as_ref().expect("the pool was just created");
        let handle = pool.handle();
        pool.spawn_on(1, async move {
            let pool = lock(&own).take();
            drop(pool);
            tx.send(()).expect("the receiver waits");
        })
        .detach();
        drop(guard);
        assert_eq!(rx.recv_blocking(), Ok(()));
        let mut late = handle.spawn(async {});
        assert!(matches!(
            poll_once(&mut late),
            Poll::Ready(Err(JoinError::Spawn(WorkerError::Ended)))
        ));
    });
}

#[test]
fn a_resize_while_tasks_run_loses_no_task() {
    check(|| {
        let pool = Arc::new(pool(1 + draw(3)));
        let resized = Arc::clone(&pool);
        let other = thread::spawn(move || {
            for _ in 0..3 {
                resized.resize(1 + draw(4)).expect("the size is in range");
            }
        });
        let tasks: Vec<_> = (0..4)
            .map(|i| {
                let task = async move {
                    yield_now().await;
                    yield_now().await;
                };
                match i {
                    0 => pool.spawn_on(0, task),
                    _ => pool.spawn(task),
                }
            })
            .collect();
        // This thread does not help, so the workers must run all tasks.
        for task in tasks {
            let (tx, rx) = oneshot::channel();
            pool.spawn(async move {
                let _ = tx.send(task.await.is_ok());
            })
            .detach();
            assert_eq!(rx.recv_blocking(), Ok(true));
        }
        other.join().expect("no panic");
        end_and_count(Arc::into_inner(pool).expect("this is the last handle"));
    });
}

#[test]
fn a_pool_ends_during_a_resize() {
    check(|| {
        let pool = pool(1 + draw(3));
        let alive = Arc::new(());
        for i in 0..3 {
            let guard = Arc::clone(&alive);
            let task = async move {
                let _guard = guard;
                yield_now().await;
            };
            match i {
                0 => pool.spawn(task).detach(),
                _ => pool.spawn_on(draw(pool.workers()), task).detach(),
            }
            pool.resize(1 + draw(4)).expect("the size is in range");
        }
        end_and_count(pool);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn tasks_that_a_drop_spawns_end_with_the_pool() {
    /// Spawns a task when it is dropped.
    struct Last(Pool, Arc<()>);
    impl Drop for Last {
        fn drop(&mut self) {
            let guard = Arc::clone(&self.1);
            let child = async move {
                let _guard = guard;
                yield_now().await;
            };
            self.0.spawn(child).detach();
        }
    }
    check(|| {
        let pool = pool(1 + draw(2));
        let alive = Arc::new(());
        let tasks: Vec<_> = (0..2)
            .map(|i| {
                let last = Last(pool.handle(), Arc::clone(&alive));
                let task = async move {
                    let _last = last;
                    pending::<()>().await;
                };
                match i {
                    0 => pool.spawn(task),
                    _ => pool.spawn_on(0, task),
                }
            })
            .collect();
        match draw(2) {
            0 => drop(tasks),
            _ => tasks
                .into_iter()
                .for_each(|task| drop(task.abort_on_drop())),
        }
        end_and_count(pool);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn channels_deliver_between_tasks_and_threads() {
    check(|| {
        let pool = pool(1 + draw(3));
        let (tx, rx) = bounded::channel(1);
        let (mut one, mut other) = spsc::channel();
        let (done, is_done) = oneshot::channel();
        let second = tx.clone();
        pool.spawn(async move {
            for i in 0..2 {
                tx.send(i).await.expect("the receiver is alive");
            }
        })
        .detach();
        pool.spawn(async move {
            while let Ok(i) = rx.recv().await {
                one.send(i).await.expect("the receiver is alive");
            }
        })
        .detach();
        pool.spawn(async move {
            let mut sum = 0;
            while let Ok(i) = other.recv().await {
                sum += i;
            }
            let _ = done.send(sum);
        })
        .detach();
        second.send_blocking(10).expect("the receiver is alive");
        drop(second);
        assert_eq!(is_done.recv_blocking(), Ok(11));
        end_and_count(pool);
    });
}

#[test]
fn wakes_by_foreign_threads_are_not_lost() {
    check(|| {
        let pool = pool(1 + draw(2));
        let place = Arc::new(Mutex::new(None::<Waker>));
        let count = Arc::new(AtomicUsize::new(0));
        let (give, counted) = (Arc::clone(&place), Arc::clone(&count));
        let task = pool.spawn(poll_fn(move |context| {
            if counted.load(Ordering::Relaxed) == 2 {
                return Poll::Ready(7);
            }
            *lock(&give) = Some(context.waker().clone());
            // The count may have changed before the waker was stored.
            match counted.load(Ordering::Relaxed) {
                2 => Poll::Ready(7),
                _ => Poll::Pending,
            }
        }));
        let wake = |place: &Mutex<Option<Waker>>, count: &AtomicUsize| {
            count.fetch_add(1, Ordering::Relaxed);
            let waker = lock(place).clone();
            waker.iter().for_each(Waker::wake_by_ref);
        };
        let (theirs, counted) = (Arc::clone(&place), Arc::clone(&count));
        let other = thread::spawn(move || wake(&theirs, &counted));
        wake(&place, &count);
        assert_eq!(pool.block_on(task).expect("the task ends"), 7);
        other.join().expect("no panic");
        end_and_count(pool);
        // The task and the pool have ended by now.
        let waker = lock(&place).take();
        waker.iter().for_each(Waker::wake_by_ref);
    });
}

#[test]
fn two_callers_of_block_on_make_progress() {
    check(|| {
        let pool = Arc::new(pool(1 + draw(2)));
        let (tx, rx) = bounded::channel(1);
        let theirs = Arc::clone(&pool);
        let other = thread::spawn(move || {
            theirs.block_on(async {
                for i in 0..2 {
                    task::spawn(async move { yield_now().await })
                        .await
                        .expect("the task ends");
                    tx.send(i).await.expect("the receiver is alive");
                }
            });
        });
        let sum = pool.block_on(async {
            let task = task::spawn(async { 5 });
            let mut sum = task.await.expect("the task ends");
            while let Ok(i) = rx.recv().await {
                sum += i;
            }
            sum
        });
        assert_eq!(sum, 6);
        other.join().expect("no panic");
        end_and_count(Arc::into_inner(pool).expect("this is the last handle"));
    });
}

#[test]
fn loops_and_tasks_run_at_the_same_time() {
    check(|| {
        let pool = Arc::new(pool(2));
        let inner = Arc::clone(&pool);
        let task = pool.spawn(async move {
            let mut items = [1; 5];
            inner.for_each_indexed(&mut items, |index, item| *item += index);
            drop(inner);
            yield_now().await;
            items.iter().sum::<usize>()
        });
        let local = pool
            .run_on(1, || {
                let value = std::rc::Rc::new(3);
                task::spawn_local(async move {
                    yield_now().await;
                    *value
                })
            })
            .unwrap();
        let mut items = [0; 4];
        pool.for_each_indexed(&mut items, |index, item| *item = index);
        let sums = pool.block_on(async { (task.await, local.await) });
        assert_eq!(
            (sums.0.expect("it ends"), sums.1.expect("it ends")),
            (15, 3)
        );
        let pool = Arc::into_inner(pool).expect("the task has let go of it");
        end_and_count(pool);
    });
}

#[test]
fn timers_fire_when_a_manual_clock_advances() {
    check(|| {
        let clock = Clock::manual();
        let builder = Pool::builder().workers(1 + draw(2)).clock(clock.clone());
        let pool = builder.build().expect("the size is in range");
        let armed = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (1..3_u64)
            .map(|i| {
                let armed = Arc::clone(&armed);
                pool.spawn(async move {
                    let mut sleep = sleep(Duration::from_millis(i));
                    poll_fn(|context| {
                        let polled = Pin::new(&mut sleep).poll(context);
                        armed.fetch_add(1, Ordering::SeqCst);
                        polled
                    })
                    .await;
                })
            })
            .collect();
        while armed.load(Ordering::SeqCst) < 2 {
            thread::yield_now();
        }
        let driver = thread::spawn(move || {
            (0..3).for_each(|_| clock.advance(Duration::from_millis(1)));
        });
        pool.block_on(async {
            for task in tasks {
                task.await.expect("the task ends");
            }
        });
        driver.join().expect("no panic");
        end_and_count(pool);
    });
}

#[test]
fn a_task_ends_if_its_timer_is_due_during_a_wake_and_an_abort() {
    check(|| {
        let clock = Clock::manual();
        let builder = Pool::builder().workers(1).clock(clock.clone());
        let pool = builder.build().expect("the size is in range");
        let alive = Arc::new(());
        let (guard, place) = (Arc::clone(&alive), Arc::new(Mutex::new(None::<Waker>)));
        let give = Arc::clone(&place);
        let task = pool.spawn(async move {
            let _guard = guard;
            let mut sleep = sleep(Duration::from_millis(1));
            poll_fn(|context| {
                let polled = Pin::new(&mut sleep).poll(context);
                *lock(&give) = Some(context.waker().clone());
                polled
            })
            .await;
        });
        while lock(&place).is_none() {
            thread::yield_now();
        }
        // We advance the clock by more than the sleep, because timers fire at ticks.
        let driver = thread::spawn(move || clock.advance(Duration::from_millis(2)));
        let waker = lock(&place).take();
        waker.into_iter().for_each(Waker::wake);
        if draw(2) == 1 {
            task.abort();
        }
        let ended = pool.block_on(task);
        assert!(matches!(ended, Ok(()) | Err(JoinError::Cancelled)));
        driver.join().expect("no panic");
        drop(lock(&place).take());
        end_and_count(pool);
        assert_eq!(Arc::strong_count(&alive), 1);
    });
}

#[test]
fn a_panic_in_the_future_of_block_on_reaches_its_caller() {
    check(|| {
        let pool = pool(1 + draw(2));
        let task = pool.spawn(async { yield_now().await });
        let thrown = catch_unwind(AssertUnwindSafe(|| {
            pool.block_on(async {
                yield_now().await;
                throw();
            });
        }));
        assert!(thrown.is_err());
        assert!(pool.block_on(task).is_ok());
        end_and_count(pool);
    });
}

//! Tests with user code that misbehaves, at every place where the pool calls it.
//!
//! The tests cover panics, leaks, re-entry, and more workers than there are CPUs. In every case the
//! pool keeps working, and everything that was borrowed or owned is dropped exactly once.

use creel::channel::{bounded, oneshot, spsc};
use creel::task::{self, JoinError, yield_now};
use creel::time::{self, Clock};
use creel::{Balance, JoinHandle, Outbox, Pool, Scratch, Wait, net};
use creel_topology::{CpuSet, affinity};
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const BALANCES: [Balance; 3] = [Balance::Fixed, Balance::Sticky, Balance::Shared];
const ITEMS: usize = 12;

fn pool(workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers).wait(Wait::Park);
    builder.build().unwrap()
}

/// A value that panics when it is dropped, unless its thread is already panicking.
struct LoudDrop;

impl Drop for LoudDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("boom in drop");
        }
    }
}

/// A value that always panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("boom in each drop");
    }
}

fn throw<R>() -> R {
    panic_any(Bomb)
}

/// Checks that `f` panics with a `Bomb` as its payload.
fn throws_a_bomb<R>(f: impl FnOnce() -> R) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else {
        panic!("the call did not panic");
    };
    let bomb = payload
        .downcast::<Bomb>()
        .expect("the payload is that of the first panic");
    std::mem::forget(*bomb);
}

/// Checks that the pool still does each kind of work on each of its workers.
fn assert_works(pool: &Pool) {
    assert_eq!(pool.broadcast(|i| i).len(), pool.workers());
    assert_eq!(pool.map(&[1; 100], |x| x + 1), [2; 100]);
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
    let bound = pool.spawn_on(pool.workers() - 1, async {
        time::sleep(Duration::from_micros(1)).await;
        3
    });
    assert_eq!(pool.block_on(bound).unwrap(), 3);
    assert_eq!(
        pool.block_on(async { task::spawn(async { 4 }).await.unwrap() }),
        4
    );
}

fn throws(f: impl FnOnce()) {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("the call panics");
    // Dropping the payload may panic as well, so we catch that too.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
}

#[test]
fn a_panic_at_any_item_of_any_loop_method_leaks_nothing() {
    for (workers, balance) in [1, 2, 4].into_iter().flat_map(|n| BALANCES.map(|b| (n, b))) {
        let pool = pool(workers);
        let loops = pool.with_balance(balance);
        let alive = Arc::new(());
        for bad in 0..ITEMS {
            let mut items: Vec<_> = (0..ITEMS).map(|_| Arc::clone(&alive)).collect();
            let mut others = items.clone();
            let mut own = Scratch::new(workers, |_| Arc::clone(&alive));
            let tick = |index: usize| assert!(index != bad, "at {index}");
            throws(|| loops.for_each_indexed(&mut items, |i, _| tick(i)));
            throws(|| loops.for_each_indexed(&items, |i, _| tick(i)));
            throws(|| loops.for_each(0..ITEMS, tick));
            throws(|| loops.for_each_chunk_indexed(&mut items, 1, |i, _| tick(i)));
            throws(|| loops.for_each_indexed((&mut items, &mut others), |i, (_, _)| tick(i)));
            throws(|| loops.for_each_indexed((&mut items, &mut own), |i, (_, _)| tick(i)));
            let made = |i: usize, x: &Arc<()>| {
                tick(i);
                Arc::clone(x)
            };
            throws(|| drop(loops.map_indexed(&items, made)));
            throws(|| drop(loops.map_reduce_indexed(&items, made, |a, _| a)));
            throws(|| {
                drop(loops.fold_indexed(&items, Vec::new, |v, i, x| v.push(made(i, x)), join))
            });
            throws(|| loops.scope(|s| (0..ITEMS).for_each(|i| s.spawn(move || tick(i)))));
            throws(|| {
                loops.scope(|s| {
                    (0..ITEMS).for_each(|i| s.spawn_on(i % workers, move || tick(i)).unwrap());
                });
            });
            throws(|| {
                pool.session(|s| {
                    s.for_each(&mut items, |_| ());
                    s.for_each_indexed(&mut others, |i, _| tick(i));
                    s.for_each(&mut items, |_| panic!("a phase after the panic"));
                });
            });
            drop((items, others, own));
            assert_eq!(Arc::strong_count(&alive), 1, "{balance}, at {bad}");
        }
        assert_works(&pool);
    }
}

fn join(mut a: Vec<Arc<()>>, b: Vec<Arc<()>>) -> Vec<Arc<()>> {
    a.extend(b);
    a
}

#[test]
fn a_panic_while_parts_are_created_or_combined_reaches_the_caller() {
    let pool = pool(3);
    let items: Vec<_> = (0..5000).collect();
    let begun = AtomicUsize::new(0);
    throws(|| {
        let begin = || assert!(begun.fetch_add(1, Ordering::Relaxed) < 3, "the fourth part");
        pool.fold(&items, begin, |(), _| (), |(), ()| ());
    });
    let put = AtomicUsize::new(0);
    for bad in [0, 1, 3] {
        put.store(0, Ordering::Relaxed);
        throws(|| {
            let combine = |a: Box<i32>, _| {
                assert!(put.fetch_add(1, Ordering::Relaxed) != bad, "at {bad}");
                a
            };
            pool.map_reduce(&items, |x| Box::new(*x), combine);
        });
    }
    throws(|| _ = pool.join(|| panic!("the first"), || ()));
    throws(|| _ = pool.join(|| (), || panic!("the second")));
    throws(|| _ = pool.join(|| panic!("the first"), || panic!("the second")));
    for worker in 0..3 {
        throws(|| {
            pool.run_on(worker, || panic!("on worker {worker}"))
                .unwrap()
        });
        throws(|| drop(pool.broadcast(|i| assert!(i != worker, "on worker {i}"))));
    }
    assert_works(&pool);
}

#[test]
fn a_panic_at_any_message_of_an_outbox_leaks_no_message() {
    // 2,100 receivers are several ranges on three workers, and 600 receivers are one range.
    for (workers, len) in [(1, 2100), (3, 2100), (3, 600)] {
        let pool = pool(workers);
        let alive = Arc::new(());
        let mut outbox = Outbox::new();
        let mut receivers = vec![Vec::new(); len];
        for bad in [0, 255, 256, 599] {
            let mut senders = vec![(); 600];
            let mut send = |bad: usize, outbox: &mut Outbox<_>| {
                let sent = catch_unwind(AssertUnwindSafe(|| {
                    pool.for_each_indexed(
                        (&mut senders, outbox.for_receivers(len)),
                        |i, ((), post)| {
                            assert!(i != bad, "sender {i}");
                            post.send(i * 3 % len, (i, Arc::clone(&alive)));
                        },
                    );
                }));
                assert_eq!(sent.is_err(), bad < 600);
            };
            send(bad, &mut outbox);
            send(usize::MAX, &mut outbox);
            throws(|| {
                pool.deliver(&mut outbox, &mut receivers, |got, (i, message)| {
                    assert!(i != bad, "message {i}");
                    got.push(message);
                });
            });
        }
        // Messages that a panic left undelivered are dropped by the next use of the outbox.
        let _ = outbox.for_receivers(1);
        receivers.clear();
        assert_eq!(Arc::strong_count(&alive), 1);
        assert_works(&pool);
    }
}

#[test]
fn payloads_that_panic_when_they_are_dropped_do_not_end_a_worker() {
    let pool = pool(2);
    throws(|| pool.scope(|s| (0..6).for_each(|_| s.spawn(|| panic_any(LoudDrop)))));
    throws(|| pool.for_each(0..100, |_| panic_any(LoudDrop)));
    let tasks: Vec<_> = (0..4)
        .map(|_| pool.spawn(async { panic_any(LoudDrop) }))
        .collect();
    drop(tasks);
    pool.spawn(async {
        let _late = LoudDrop;
        pending::<()>().await;
    })
    .abort();
    assert_works(&pool);
}

/// A waker that panics when it is woken.
struct BadWaker;

impl Wake for BadWaker {
    fn wake(self: Arc<Self>) {
        panic!("boom in wake");
    }
}

#[test]
fn wakers_that_panic_do_not_end_a_worker() {
    let clock = Clock::manual();
    let builder = Pool::builder().workers(1).clock(clock.clone());
    let pool = builder.wait(Wait::Park).build().unwrap();
    let bad = Waker::from(Arc::new(BadWaker));
    // The second of three timers has the bad waker. The worker must fire the other two as well.
    let (wakes, woken) = mpsc::channel();
    let mut sleeps: Vec<_> = (0..3)
        .map(|_| {
            Box::pin(
                pool.run_on(0, || time::sleep(Duration::from_millis(5)))
                    .unwrap(),
            )
        })
        .collect();
    for (i, sleep) in sleeps.iter_mut().enumerate() {
        let good = Waker::from(Arc::new(NotifyWaker(Mutex::new(wakes.clone()))));
        let waker = if i == 1 { &bad } else { &good };
        let polled = pool
            .run_on(0, || sleep.as_mut().poll(&mut Context::from_waker(waker)))
            .unwrap();
        assert!(polled.is_pending());
    }
    clock.advance(Duration::from_millis(10));
    (0..2).for_each(|_| {
        woken
            .recv_timeout(Duration::from_secs(60))
            .expect("both timers fire")
    });
    // Next, the bad waker waits for the end of a task.
    let (tx, rx) = oneshot::channel::<()>();
    let mut joined = pool.spawn(async { rx.await.is_ok() });
    assert!(
        Pin::new(&mut joined)
            .poll(&mut Context::from_waker(&bad))
            .is_pending()
    );
    tx.send(()).unwrap();
    assert!(pool.block_on(joined).unwrap());
    // Finally, the bad waker waits in the receiver of a channel. The task that sends runs it, and
    // fails with its panic.
    let (tx, mut rx) = oneshot::channel();
    assert!(
        Pin::new(&mut rx)
            .poll(&mut Context::from_waker(&bad))
            .is_pending()
    );
    let sends = pool.spawn(async move { tx.send(7) });
    assert!(matches!(pool.block_on(sends), Err(JoinError::Panicked(_))));
    assert_eq!(rx.try_recv(), Ok(7));
    let bound = pool.spawn_on(0, async { 5 });
    assert_eq!(pool.block_on(bound).unwrap(), 5);
}

#[test]
fn closing_a_bounded_channel_wakes_receivers_behind_a_waker_that_panics() {
    let bad = Waker::from(Arc::new(BadWaker));
    let (wakes, woken) = mpsc::channel();
    let good = Waker::from(Arc::new(NotifyWaker(Mutex::new(wakes))));
    let (tx, rx) = bounded::channel::<u8>(1);
    let mut receives = [rx.recv(), rx.recv(), rx.recv()];
    for (receive, waker) in receives.iter_mut().zip([&good, &bad, &good]) {
        let polled = Pin::new(receive).poll(&mut Context::from_waker(waker));
        assert!(polled.is_pending());
    }
    throws(|| drop(tx));
    assert_eq!(
        woken.try_iter().count(),
        2,
        "both wakers next to the bad one are woken"
    );
}

struct NotifyWaker(Mutex<mpsc::Sender<()>>);

impl Wake for NotifyWaker {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) {
    let _ = future.poll(&mut Context::from_waker(Waker::noop()));
}

#[test]
fn leaked_handles_and_futures_do_not_break_the_pool() {
    let pool = pool(2);
    let alive = Arc::new(());
    let guard = Arc::clone(&alive);
    std::mem::forget(pool.spawn(async move {
        yield_now().await;
        drop(guard);
    }));
    let guard = Arc::clone(&alive);
    let mut joins = pool.spawn(async move {
        let _guard = guard;
        pending::<()>().await;
    });
    poll_once(Pin::new(&mut joins));
    std::mem::forget(joins);
    pool.run_on(1, || {
        let mut sleep = Box::pin(time::sleep(Duration::from_secs(3600)));
        poll_once(sleep.as_mut());
        std::mem::forget(sleep);
        let mut every = Box::pin(time::interval(Duration::from_secs(3600)));
        poll_once(Box::pin(every.tick()).as_mut());
        std::mem::forget(every);
    })
    .unwrap();
    let (tx, mut one) = oneshot::channel();
    poll_once(Pin::new(&mut one));
    std::mem::forget(one);
    tx.send(1).unwrap();
    let (mut tx, mut rx) = spsc::channel();
    let mut receives = Box::pin(rx.recv());
    poll_once(receives.as_mut());
    std::mem::forget(receives);
    tx.try_send(1).unwrap();
    assert_eq!(rx.try_recv(), Ok(1));
    let (tx, rx) = bounded::channel(1);
    let mut receives = Box::pin(rx.recv());
    poll_once(receives.as_mut());
    std::mem::forget(receives);
    tx.try_send(1).unwrap();
    let mut sends = Box::pin(tx.send(2));
    poll_once(sends.as_mut());
    std::mem::forget(sends);
    assert_eq!(pool.block_on(rx.recv()), Ok(1));
    pool.block_on(async {
        let socket = net::UdpSocket::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let mut buffer = [0; 8];
        let mut receives = Box::pin(socket.recv_from(&mut buffer));
        std::future::poll_fn(|context| {
            assert!(receives.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        std::mem::forget(receives);
        std::mem::forget(socket);
    });
    assert_works(&pool);
    drop(pool);
    assert_eq!(
        Arc::strong_count(&alive),
        1,
        "the pool's end drops the futures"
    );
}

#[test]
fn every_operation_of_a_pool_works_inside_every_other_operation() {
    for workers in [1, 2, 4] {
        let pool = Arc::new(pool(workers));
        let inner = Arc::clone(&pool);
        let other = self::pool(1);
        let count = AtomicUsize::new(0);
        let one = || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        pool.session(|s| {
            s.for_each(0..4, |_| {
                pool.session(|s| s.for_each(0..2, |_| one()));
                pool.scope(|s| (0..2).for_each(|_| s.spawn(one)));
                pool.run_on(workers - 1, || pool.for_each(0..2, |_| one()))
                    .unwrap();
                other.block_on(async { one() });
                let made = pool.map(&[0; 3], |_| pool.join(one, one));
                assert_eq!(made.len(), 3);
            });
        });
        assert_eq!(count.load(Ordering::Relaxed), 4 * (2 + 2 + 2 + 1 + 6));
        pool.resize(workers + 1).unwrap();
        pool.for_each(0..8, |i| pool.resize(1 + i % 3).unwrap());
        pool.block_on(async {
            // This pool lives and ends inside a task, and a loop runs inside that task.
            let own = Pool::builder().workers(2).build().unwrap();
            let sum = own.spawn(async { 5 }).await.unwrap() + own.map(&[1, 2], |x| *x)[1];
            throws(|| inner.block_on(async {}));
            let ended = inner.spawn(async move { drop(own) });
            ended.await.unwrap();
            assert_eq!(sum, 7);
            let again = Arc::clone(&inner);
            let blocks = inner.spawn(async move { throws(|| again.block_on(async {})) });
            blocks.await.unwrap();
        });
        assert_works(&pool);
    }
}

#[test]
fn pools_end_inside_their_own_work() {
    // A pool ends in a job of a scope, in the body of a loop, and in the drop of a future. In the
    // first two cases it ends on a thread that is not its own, and in the last one on its own
    // worker.
    struct EndsAPool(Option<Pool>);
    impl Drop for EndsAPool {
        fn drop(&mut self) {
            drop(self.0.take());
        }
    }
    let outer = pool(2);
    outer.scope(|s| s.spawn(|| drop(pool(2))));
    outer.for_each(0..4, |_| {
        let inner = pool(2);
        assert_eq!(inner.run_on(1, || 1).unwrap(), 1);
    });
    let inner = pool(2);
    let (tx, ran) = mpsc::channel();
    let handle = inner.handle();
    let ends = EndsAPool(Some(inner));
    handle
        .spawn(async move {
            let _ends = ends;
            yield_now().await;
            tx.send(()).unwrap();
        })
        .detach();
    ran.recv_timeout(Duration::from_secs(60))
        .expect("the task runs");
    assert_works(&outer);
}

fn crowd(pool: &Pool) {
    let (tx, rx) = bounded::channel(4);
    for i in 0..300_u64 {
        let tx = tx.clone();
        let task = async move {
            yield_now().await;
            tx.send(i).await.unwrap();
        };
        match i % 3 {
            0 => pool.spawn_on(i as usize % pool.workers(), task).detach(),
            _ => pool.spawn(task).detach(),
        }
    }
    drop(tx);
    let sum = pool.block_on(async {
        let mut sum = 0;
        while let Ok(i) = rx.recv().await {
            sum += i;
        }
        sum
    });
    assert_eq!(sum, 299 * 300 / 2);
    let mut items = vec![0_usize; 5000];
    pool.for_each_indexed(&mut items, |i, x| *x = i);
    assert_eq!(
        pool.fold(&items, || 0, |sum, x| *sum += x, |a, b| a + b),
        4999 * 2500
    );
    assert_eq!(pool.broadcast(|i| i).len(), pool.workers());
}

#[test]
fn sixty_four_workers_return_right_results_on_all_cpus_and_on_one() {
    let all = || {
        for wait in [
            Wait::Park,
            Wait::Adaptive,
            Wait::Spin(Duration::from_micros(20)),
        ] {
            for balance in BALANCES {
                let builder = Pool::builder().workers(64).wait(wait).balance(balance);
                let pool = builder.build().unwrap();
                (0..3).for_each(|_| crowd(&pool));
            }
        }
    };
    all();
    let pinned = move || {
        let Some(first) = affinity::current().ok().and_then(|mask| mask.first()) else {
            return eprintln!("skipped: the OS does not report its CPUs");
        };
        affinity::set(&CpuSet::range(first..=first)).unwrap();
        all();
    };
    std::thread::spawn(pinned).join().unwrap();
}

#[test]
fn several_panicking_payloads_end_neither_a_worker_nor_the_process() {
    let pool = pool(3);
    throws_a_bomb(|| pool.broadcast(|_| throw::<()>()));
    throws_a_bomb(|| pool.broadcast(|i| if i == 1 { throw() } else { Bomb }));
    throws_a_bomb(|| pool.run_on(1, throw::<()>).unwrap());
    throws_a_bomb(|| {
        pool.scope(|s| {
            (0..4).for_each(|_| s.spawn(throw::<()>));
            throw::<()>()
        })
    });
    throws_a_bomb(|| {
        pool.scope(|s| {
            s.spawn(throw::<()>);
            Bomb
        })
    });
    throws_a_bomb(|| pool.join(throw::<()>, || Bomb));
    throws_a_bomb(|| pool.join(throw::<()>, throw::<()>));
    for balance in BALANCES {
        let loops = pool.with_balance(balance);
        throws_a_bomb(|| loops.for_each(0..1000, |_| throw::<()>()));
        throws_a_bomb(|| {
            loops.map_indexed(&[0; 1000], |i, _| if i > 900 { throw() } else { Bomb })
        });
    }
    let tasks: Vec<_> = (0..9).map(|_| pool.spawn(async { throw() })).collect();
    let kept = tasks.into_iter().skip(4).collect::<Vec<JoinHandle<()>>>();
    while kept.iter().any(|task| !task.is_finished()) {
        std::thread::yield_now();
    }
    drop(kept);
    assert_works(&pool);
}

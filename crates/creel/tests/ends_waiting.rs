//! Tests of pools that are dropped while other threads wait in `block_on`, or that shut down
//! without waiting.

#![cfg(not(miri))]

mod deadline;

use creel::{
    BuildError, Pool, Wait, WorkerError,
    channel::{bounded, oneshot},
    net::{TcpListener, TcpStream, UdpSocket},
    time::{interval, sleep, timeout},
};
use deadline::bounded;
use std::{
    future::{pending, poll_fn},
    net,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

fn pool(workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers).wait(Wait::Park);
    builder.build().unwrap()
}

/// Waits until the pool rejects calls because another thread is dropping it.
fn wait_until_closing(handle: &Pool) {
    while handle.resize(handle.workers()).is_ok() {
        thread::yield_now();
    }
}

/// Runs `peer` on a thread of its own once the pool is being dropped.
fn while_closing(handle: &Pool, peer: impl FnOnce() + Send + 'static) {
    let handle = handle.clone();
    thread::spawn(move || {
        wait_until_closing(&handle);
        peer();
    });
}

type Waits = Pin<Box<dyn Future<Output = ()>>>;

fn sleeps(_: &Pool) -> Waits {
    Box::pin(sleep(Duration::from_millis(20)))
}

fn ticks(_: &Pool) -> Waits {
    Box::pin(async {
        let mut ticks = interval(Duration::from_millis(5));
        for _ in 0..4 {
            ticks.tick().await;
        }
    })
}

fn times_out(_: &Pool) -> Waits {
    Box::pin(async {
        let late = timeout(Duration::from_millis(20), pending::<()>()).await;
        assert!(late.is_err());
    })
}

fn receives_a_datagram(handle: &Pool) -> Waits {
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = socket.local_addr().unwrap();
    while_closing(handle, move || {
        let peer = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.send_to(b"hello", to).unwrap();
    });
    Box::pin(async move {
        let (len, _) = socket.recv_from(&mut [0; 16]).await.unwrap();
        assert_eq!(len, 5);
    })
}

fn reads_a_stream(handle: &Pool) -> Waits {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    while_closing(handle, move || {
        std::io::Write::write_all(&mut server, b"hello").unwrap();
    });
    let client = TcpStream::from_std(client).unwrap();
    Box::pin(async move {
        let mut bytes = [0; 5];
        client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"hello");
    })
}

fn accepts(handle: &Pool) -> Waits {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = listener.local_addr().unwrap();
    while_closing(handle, move || drop(net::TcpStream::connect(to).unwrap()));
    Box::pin(async move {
        listener.accept().await.unwrap();
    })
}

fn connects(_: &Pool) -> Waits {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    Box::pin(async move {
        TcpStream::connect(to).await.unwrap();
        drop(listener);
    })
}

fn receives_from_outside(handle: &Pool) -> Waits {
    let (sender, receiver) = bounded::channel(1);
    while_closing(handle, move || sender.send_blocking(7).unwrap());
    Box::pin(async move { assert_eq!(receiver.recv().await, Ok(7)) })
}

fn receives_once(handle: &Pool) -> Waits {
    let (sender, receiver) = oneshot::channel();
    while_closing(handle, move || sender.send(7).unwrap());
    Box::pin(async move { assert_eq!(receiver.await, Ok(7)) })
}

fn joins_a_task(handle: &Pool) -> Waits {
    let task = handle.spawn(pending::<()>());
    Box::pin(async move {
        task.await.unwrap_err();
    })
}

/// A function that creates a future that has to wait, for example for a timer or a datagram.
type Make = fn(&Pool) -> Waits;

const WAITS: [(&str, Make); 10] = [
    ("sleep", sleeps),
    ("interval", ticks),
    ("timeout", times_out),
    ("recv_from", receives_a_datagram),
    ("read", reads_a_stream),
    ("accept", accepts),
    ("connect", connects),
    ("bounded", receives_from_outside),
    ("oneshot", receives_once),
    ("join", joins_a_task),
];

/// Drops a pool while a thread waits in its `block_on`.
///
/// If `begun` is true, the future is polled before the pool is dropped. Otherwise it is first
/// polled while the pool is being dropped.
fn drop_while_waiting(workers: usize, begun: bool, waits: Make) {
    let pool = pool(workers);
    let handle = pool.handle();
    let (sender, polled) = mpsc::channel();
    let thread = thread::spawn(move || {
        handle.block_on(async {
            if !begun {
                sender.send(()).unwrap();
                wait_until_closing(&handle);
            }
            let mut future = waits(&handle);
            poll_fn(|context| {
                let poll = future.as_mut().poll(context);
                let _ = sender.send(());
                poll
            })
            .await;
        });
    });
    polled.recv().unwrap();
    drop(pool);
    thread.join().unwrap();
}

#[test]
fn a_drop_waits_for_a_block_on_that_began_before_it() {
    for (name, waits) in WAITS {
        for workers in [1, 2] {
            bounded(name, move || drop_while_waiting(workers, true, waits));
        }
    }
}

#[test]
fn a_drop_waits_for_a_block_on_whose_future_first_waits_during_the_drop() {
    for (name, waits) in WAITS {
        for workers in [1, 2] {
            bounded(name, move || drop_while_waiting(workers, false, waits));
        }
    }
}

#[test]
fn a_drop_serves_a_block_on_while_a_worker_is_blocked() {
    for (name, waits) in WAITS {
        bounded(name, move || {
            let pool = pool(1);
            let handle = pool.handle();
            let (release, blocked) = mpsc::channel::<()>();
            let (begun, begins) = mpsc::channel();
            pool.spawn(async move {
                begun.send(()).unwrap();
                let _ = blocked.recv();
            })
            .detach();
            begins.recv().unwrap();
            let (sender, inside) = mpsc::channel();
            let thread = thread::spawn(move || {
                handle.block_on(async {
                    sender.send(()).unwrap();
                    wait_until_closing(&handle);
                    waits(&handle).await;
                });
                drop(release);
            });
            inside.recv().unwrap();
            drop(pool);
            thread.join().unwrap();
        });
    }
}

#[test]
fn a_drop_on_the_pools_own_worker_leaves_no_waiter_stuck() {
    for (name, waits) in WAITS {
        bounded(name, move || {
            let pool = pool(2);
            let handle = pool.handle();
            let (sender, polled) = mpsc::channel();
            let own = handle.clone();
            let thread = thread::spawn(move || {
                own.block_on(async {
                    let mut future = waits(&own);
                    poll_fn(|context| {
                        let poll = future.as_mut().poll(context);
                        let _ = sender.send(());
                        poll
                    })
                    .await;
                });
            });
            polled.recv().unwrap();
            handle.spawn(async move { drop(pool) }).detach();
            thread.join().unwrap();
        });
    }
}

#[test]
fn a_block_on_after_the_end_of_its_pool_panics_and_says_so() {
    let pool = Pool::builder().workers(1).name("gone").build().unwrap();
    let handle = pool.handle();
    drop(pool);
    for (_, waits) in WAITS {
        let waits = AssertUnwindSafe(|| handle.block_on(async { waits(&handle).await }));
        assert_ended(&message(waits));
    }
    assert!(matches!(handle.run_on(0, || ()), Err(WorkerError::Ended)));
    assert_ended(&message(AssertUnwindSafe(|| {
        handle.broadcast(|_| ());
    })));
    assert!(matches!(handle.resize(2), Err(BuildError::Ended)));
    assert_eq!(handle.workers(), 1);
}

fn message(f: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let payload = catch_unwind(f).unwrap_err();
    payload.downcast_ref::<String>().unwrap().clone()
}

#[track_caller]
fn assert_ended(message: &str) {
    let says = message.contains("has ended") || message.contains("has been dropped");
    assert!(says && message.contains("gone"), "{message}");
}

/// Returns a pool of one worker that is blocked until the sender is dropped, and a guard that its
/// task owns.
fn blocked_pool() -> (Pool, mpsc::Sender<()>, Arc<()>) {
    let pool = pool(1);
    let (release, blocked) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let guard = Arc::new(());
    let own = Arc::clone(&guard);
    pool.spawn(async move {
        begun.send(()).unwrap();
        let _ = blocked.recv();
        drop(own);
    })
    .detach();
    begins.recv().unwrap();
    (pool, release, guard)
}

fn wait_until_alone(guard: &Arc<()>) {
    while Arc::strong_count(guard) > 1 {
        thread::yield_now();
    }
}

#[test]
fn shutdown_timeout_gives_up_on_a_blocked_worker() {
    bounded("shutdown_timeout", || {
        let (pool, release, guard) = blocked_pool();
        let begin = Instant::now();
        let time = Duration::from_millis(30);
        pool.shutdown_timeout(time);
        assert!(begin.elapsed() >= time);
        assert_eq!(Arc::strong_count(&guard), 2);
        drop(release);
        wait_until_alone(&guard);
    });
}

#[test]
fn shutdown_timeout_returns_early_if_the_pool_has_ended() {
    bounded("shutdown_timeout", || {
        for time in [Duration::from_secs(3600), Duration::MAX] {
            let (pool, release, guard) = blocked_pool();
            drop(release);
            pool.shutdown_timeout(time);
            assert_eq!(Arc::strong_count(&guard), 1);
        }
    });
}

#[test]
fn shutdown_background_does_not_wait() {
    bounded("shutdown_background", || {
        let (pool, release, guard) = blocked_pool();
        pool.shutdown_background();
        assert_eq!(Arc::strong_count(&guard), 2);
        drop(release);
        wait_until_alone(&guard);
    });
}

#[test]
fn a_worker_shuts_its_own_pool_down() {
    for time in [None, Some(Duration::from_secs(3600))] {
        bounded("shutdown on a worker", move || {
            let pool = pool(2);
            let handle = pool.handle();
            let guard = Arc::new(());
            let own = Arc::clone(&guard);
            handle
                .spawn(async move {
                    pending::<()>().await;
                    drop(own);
                })
                .detach();
            let (done, is_done) = mpsc::channel();
            handle
                .spawn(async move {
                    match time {
                        Some(time) => pool.shutdown_timeout(time),
                        None => pool.shutdown_background(),
                    }
                    done.send(()).unwrap();
                })
                .detach();
            is_done.recv().unwrap();
            wait_until_alone(&guard);
        });
    }
}

#[test]
fn shutdown_timeout_gives_up_on_a_block_on_that_is_never_ready() {
    bounded("shutdown_timeout", || {
        let pool = pool(1);
        let handle = pool.handle();
        let (sender, receiver) = oneshot::channel::<()>();
        let (begun, begins) = mpsc::channel();
        let thread = thread::spawn(move || {
            handle.block_on(async {
                begun.send(()).unwrap();
                let _ = receiver.await;
                sleep(Duration::from_millis(5)).await;
            });
        });
        begins.recv().unwrap();
        pool.shutdown_timeout(Duration::from_millis(10));
        assert!(!thread.is_finished());
        drop(sender);
        thread.join().unwrap();
    });
}

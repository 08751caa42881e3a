//! Tests that a task that never has to wait still yields after a bounded number of operations.
//!
//! Each test counts operations and not time. The pool has one worker, and another task reads the
//! count when the worker polls it.

use creel::channel::{bounded, oneshot, spsc};
use creel::net::{Outgoing, Received, TcpListener, TcpStream, UdpSocket};
use creel::task::{CancellationToken, JoinSet, budgeted, unconstrained};
use creel::time::{self, Clock};
use creel::{Pool, task};
use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::future::{pending, poll_fn, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

/// The number of operations that the looping task tries.
const TRIES: usize = 100_000;
/// The maximum number of operations before the other task is polled.
///
/// This is the budget of one poll. The setup may already have used a part of it, so the other task
/// may be polled after fewer operations.
const BOUND: usize = 128;

/// Returns how many operations the loop has done when the other task is first polled.
///
/// `$operation` is one operation, and `$setup` is a statement that runs before the loop.
macro_rules! operations_before_another {
    ($setup:stmt; $operation:expr) => {
        async move {
            $setup
            let count = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&count);
            let other = task::spawn(async move { counted.load(SeqCst) });
            while count.load(SeqCst) < TRIES && !other.is_finished() {
                $operation;
                count.fetch_add(1, SeqCst);
            }
            unconstrained(other).await.unwrap()
        }
    };
}

fn pool() -> Pool {
    Pool::builder().workers(1).build().unwrap()
}

/// Defines a test in which the looping task is a task of the pool.
macro_rules! gives_way {
    ($name:ident: $setup:stmt; $operation:expr) => {
        #[test]
        fn $name() {
            let pool = pool();
            let before = pool.block_on(pool.spawn(operations_before_another!($setup; $operation)));
            assert!(before.as_ref().is_ok_and(|before| *before <= BOUND), "{before:?}");
        }
    };
}

/// The loop is the future of a `block_on`, and the other task runs on the same thread. The caller
/// leases the worker, because the worker has not started yet.
#[test]
fn a_loop_in_the_future_of_block_on_yields() {
    let (tx, rx) = bounded::channel(1);
    let before = pool().block_on(operations_before_another!((); {
        tx.send(1).await.unwrap();
        rx.recv().await.unwrap();
    }));
    assert!(before <= BOUND, "{before}");
}

gives_way!(a_bounded_channel: let (tx, rx) = bounded::channel(1); {
    tx.send(1).await.unwrap();
    rx.recv().await.unwrap();
});

gives_way!(an_spsc_channel: let (mut tx, mut rx) = spsc::channel(); {
    tx.send(1).await.unwrap();
    rx.recv().await.unwrap();
});

gives_way!(a_ready_oneshot: (); {
    let (tx, rx) = oneshot::channel();
    tx.send(1).unwrap();
    rx.await.unwrap();
});

gives_way!(a_closed_channel: let (_, rx) = bounded::channel::<u32>(1); {
    rx.recv().await.unwrap_err();
});

gives_way!(a_sleep_of_zero: (); time::sleep(Duration::ZERO).await);

gives_way!(a_timeout_of_a_ready_future: let (tx, rx) = bounded::channel(1); {
    tx.try_send(1).unwrap();
    time::timeout(Duration::from_secs(3600), rx.recv()).await.unwrap().unwrap();
});

gives_way!(an_expired_timeout: (); {
    time::timeout(Duration::ZERO, pending::<()>()).await.unwrap_err();
});

gives_way!(a_cancelled_token: let token = { let token = CancellationToken::new(); token.cancel(); token }; {
    token.cancelled().await;
    assert!(token.run_until(pending::<()>()).await.is_none());
});

gives_way!(a_select: let (tx, rx) = bounded::channel(1); {
    tx.try_send(1).unwrap();
    let either = select(Box::pin(rx.recv()), Box::pin(pending::<()>())).await;
    assert!(matches!(either, Either::Left((Ok(1), _))));
});

gives_way!(a_mutex_of_another_crate: let mutex = tokio::sync::Mutex::new(0); {
    *budgeted(mutex.lock()).await += 1;
});

gives_way!(a_computation_with_await_points: (); budgeted(ready(())).await);

gives_way!(a_udp_socket: let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap(); {
    socket.try_send_to(&[1], socket.local_addr().unwrap()).unwrap();
    socket.recv_from(&mut [0; 8]).await.unwrap();
});

gives_way!(a_udp_socket_in_batches: let (socket, mut outgoing, mut received) = (
    UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap(),
    Outgoing::new(),
    Received::new(1, 8),
); {
    outgoing.push(&[1], socket.local_addr().unwrap());
    socket.send_batch(&mut outgoing).await;
    socket.recv_batch(&mut received).await.unwrap();
});

gives_way!(a_stream: let (client, server) = {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}; {
    client.write_all(&[1]).await.unwrap();
    server.readable().await.unwrap();
    server.read_exact(&mut [0]).await.unwrap();
});

/// The loop awaits the handles of tasks that have ended, first directly and then from a set.
#[test]
fn a_loop_over_handles_yields() {
    let pool = pool();
    let spawned = || (0..1_000).map(|_| pool.spawn(async {})).collect::<Vec<_>>();
    let (mut handles, mut set) = (spawned(), JoinSet::new());
    spawned().into_iter().for_each(|handle| set.add(handle));
    pool.block_on(async {
        while !handles.iter().all(|handle| handle.is_finished()) {
            task::yield_now().await;
        }
    });
    let before = operations_before_another!((); handles.pop().unwrap().await.unwrap());
    assert!(pool.block_on(pool.spawn(before)).unwrap() <= BOUND);
    let before = operations_before_another!((); set.join_next().await.unwrap().unwrap());
    assert!(pool.block_on(pool.spawn(before)).unwrap() <= BOUND);
}

/// An interval that has missed many ticks returns them in succession, but not in one poll.
#[test]
fn missed_ticks_are_not_all_returned_in_one_poll() {
    let clock = Clock::manual();
    let pool = Pool::builder().workers(1).clock(clock.clone());
    let pool = pool.build().unwrap();
    let task = pool.spawn(async move {
        let mut ticks = time::interval(Duration::from_secs(1));
        clock.advance(Duration::from_secs(2 * TRIES as u64));
        ticks.tick().await;
        operations_before_another!((); ticks.tick().await).await
    });
    let before = pool.block_on(task).unwrap();
    assert!(before <= BOUND, "{before}");
}

/// A future that polls many futures within one poll of its task continues where it stopped.
#[test]
fn many_futures_in_one_task_continue_where_they_stopped() {
    const FUTURES: usize = 10_000;
    let pool = pool();
    let sum = pool.block_on(async {
        let (tx, rx) = bounded::channel(FUTURES);
        (0..FUTURES).for_each(|n| tx.try_send(n).unwrap());
        let all: FuturesUnordered<_> = (0..FUTURES).map(|_| rx.recv()).collect();
        all.fold(0, async |sum, n| sum + n.unwrap()).await
    });
    assert_eq!(sum, FUTURES * (FUTURES - 1) / 2);
}

/// A timeout fires although its future uses up every budget.
#[test]
fn a_timeout_ends_an_endless_loop() {
    let pool = pool();
    let late = time::timeout(Duration::from_millis(5), async {
        loop {
            budgeted(ready(())).await;
        }
    });
    let late: Result<(), _> = pool.block_on(late);
    late.unwrap_err();
}

/// A task that blocks its thread with a channel or another crate's executor makes progress.
#[test]
fn a_blocking_wait_without_budget_left_makes_progress() {
    let pool = pool();
    let task = pool.spawn(poll_fn(|cx| {
        let (tx, rx) = bounded::channel(1_000);
        (0..1_000).for_each(|n| tx.try_send(n).unwrap());
        let mut recv = std::pin::pin!(async { while rx.recv().await.is_ok() {} });
        assert!(recv.as_mut().poll(cx).is_pending());
        let left = rx.try_recv().unwrap();
        assert_eq!(left, 128);
        let (mut tx, mut rx) = spsc::channel();
        tx.send_blocking(7).unwrap();
        assert_eq!(rx.recv_blocking(), Ok(7));
        tx.try_send(8).unwrap();
        let mut recv = std::pin::pin!(rx.recv());
        loop {
            if let Poll::Ready(received) = recv.as_mut().poll(cx) {
                return Poll::Ready(received);
            }
        }
    }));
    assert_eq!(pool.block_on(task).unwrap(), Ok(8));
}

/// A `block_on` of another pool inside a task has a budget of its own in each poll.
#[test]
fn a_block_on_inside_a_task_has_its_own_budget() {
    let pools = [(); 2].map(|()| Pool::builder().workers(1).build().unwrap());
    let inner = pools[1].handle();
    let task = pools[0].spawn(async move {
        let (tx, rx) = bounded::channel(1);
        for n in 0..1_000 {
            tx.send(n).await.unwrap();
            assert_eq!(inner.block_on(async { rx.recv().await }), Ok(n));
        }
    });
    pools[0].block_on(task).unwrap();
}

//! Tests of the limits of the types: capacities, misuse, the budget of a task, and cancellation.

use creel::net::UdpSocket;
use creel::task::{self, unconstrained};
use creel::{Pool, channel::TrySendError};
use creel_media::SendQueue;
use creel_media::leaky::{self, Leak};
use std::future::Future;
use std::panic::{Location, catch_unwind, set_hook, take_hook};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;

fn pool() -> Pool {
    Pool::builder().workers(1).build().unwrap()
}

#[test]
fn a_panic_names_a_capacity_out_of_range_and_its_limit() {
    for capacity in [0, (1 << 30) + 1, usize::MAX] {
        let made = catch_unwind(|| drop(leaky::channel::<u8>(capacity, Leak::Old)));
        let payload = made.unwrap_err();
        let message = payload.downcast_ref::<String>().unwrap();
        let names = [capacity.to_string(), "2^30".into()];
        assert!(names.iter().all(|name| message.contains(name)), "{message}");
    }
}

#[test]
fn misuse_is_reported_at_the_caller() {
    let (files, own) = (Arc::new(Mutex::new(Vec::new())), thread::current().id());
    let (seen, before) = (Arc::clone(&files), take_hook());
    set_hook(Box::new(move |info| {
        // We record only the panics of this thread, because other tests of this program may panic
        // at the same time.
        if thread::current().id() == own {
            let file = info.location().map(Location::file).unwrap_or_default();
            seen.lock().unwrap().push(file.to_string());
        }
    }));
    let capacity = catch_unwind(|| drop(leaky::channel::<u8>(0, Leak::Old)));
    let message = catch_unwind(|| {
        let (mut tx, _rx) = leaky::channel::<u8>(1, Leak::Old);
        let _ = tx.poll_send(&mut Context::from_waker(Waker::noop()), &mut None);
    });
    set_hook(before);
    assert!(capacity.is_err() && message.is_err());
    assert_eq!(*files.lock().unwrap(), [file!(), file!()]);
}

/// Returns how many operations a loop has done when another task of its worker is first polled.
macro_rules! operations_before_another {
    ($setup:stmt; $operation:expr) => {{
        let pool = pool();
        let task = pool.spawn(async {
            $setup
            let count = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&count);
            let other = task::spawn(async move { counted.load(SeqCst) });
            while count.load(SeqCst) < 100_000 && !other.is_finished() {
                $operation;
                count.fetch_add(1, SeqCst);
            }
            unconstrained(other).await.unwrap()
        });
        pool.block_on(task).unwrap()
    }};
}

#[test]
fn a_loop_over_a_channel_that_is_always_ready_yields() {
    let received = operations_before_another!(let (mut tx, mut rx) = leaky::channel(1, Leak::No); {
        tx.try_send(1).unwrap();
        rx.recv().await.unwrap();
    });
    assert!(received <= 128, "{received}");
    let sent = operations_before_another!(let (mut tx, _rx) = leaky::channel(1, Leak::Old); {
        tx.send(1).await.unwrap();
    });
    assert!(sent <= 128, "{sent}");
}

#[test]
fn a_blocking_call_in_a_task_that_has_used_up_its_budget_returns() {
    let pool = pool();
    let task = pool.spawn(async {
        let (mut tx, mut rx) = leaky::channel(1, Leak::No);
        for n in 0..1_000 {
            tx.send_blocking(n).unwrap();
            assert_eq!(rx.recv_blocking(), Ok(n));
        }
        assert_eq!(tx.try_send(0), Ok(()));
        assert_eq!(tx.try_send(1), Err(TrySendError::Full(1)));
    });
    pool.block_on(task).unwrap();
}

#[test]
fn a_queue_whose_sender_was_cancelled_keeps_written_data() {
    pool().block_on(async {
        let any = "127.0.0.1:0".parse().unwrap();
        let (from, to) = (UdpSocket::bind(any).unwrap(), UdpSocket::bind(any).unwrap());
        let queue = SendQueue::new(Arc::new(from), 10);
        let poll = pin!(queue.run()).poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll.is_pending());
        queue.push(b"hello", [to.local_addr().unwrap()]);
        queue.close();
        queue.run().await;
        assert_eq!(to.recv(&mut [0; 16]).await.unwrap(), 5);
    });
}

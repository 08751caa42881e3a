//! Tests with wakers of another executor that panic, or call back into the object that keeps them,
//! when they are cloned, woken or dropped.
//!
//! Each object of this crate that keeps a waker is tested with each of these wakers. The tests of
//! `creel` do the same for its objects.

#[path = "../../creel/tests/deadline/mod.rs"]
mod deadline;
#[path = "../../creel/tests/hostile/mod.rs"]
mod hostile;

use creel::net::UdpSocket;
use creel_media::SendQueue;
use creel_media::control::{Changes, Control, Flow, Trigger, Work};
use creel_media::leaky::{self, Leak};
use deadline::bounded;
use hostile::{Case, Hostile, Step, by, meets_all, with};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

#[test]
fn a_leaky_receiver_survives_hostile_wakers() {
    meets_all(|_| {
        let (tx, mut rx) = leaky::channel(2, Leak::Old);
        let send = with(&Arc::new(Mutex::new(tx)), |tx| _ = tx.try_send(7));
        Case {
            wait: Box::new(move |cx| rx.poll_recv(cx).map(|it| assert_eq!(it, Ok(7)))),
            event: Arc::clone(&send),
            touch: send,
        }
    });
}

#[test]
fn a_leaky_sender_survives_hostile_wakers() {
    meets_all(|_| {
        let (mut tx, rx) = leaky::channel(1, Leak::No);
        tx.try_send(1).unwrap();
        let receive = with(&Arc::new(Mutex::new(rx)), |rx| _ = rx.try_recv());
        let mut message = Some(2);
        Case {
            wait: Box::new(move |cx| tx.poll_send(cx, &mut message).map(Result::unwrap)),
            event: Arc::clone(&receive),
            touch: receive,
        }
    });
}

#[test]
fn a_send_queue_survives_hostile_wakers() {
    meets_all(|_| {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = socket.as_std().local_addr().unwrap();
        let queue = Arc::new(SendQueue::new(Arc::new(socket), 100));
        let (closes, pushes) = (Arc::clone(&queue), Arc::clone(&queue));
        Case {
            wait: by(move || {
                let queue = Arc::clone(&queue);
                async move { queue.run().await }
            }),
            event: Arc::new(move || closes.close()),
            touch: Arc::new(move || pushes.push(b"a buffer", [to])),
        }
    });
}

#[test]
fn a_send_queue_may_be_used_by_the_iterator_of_receivers() {
    let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = socket.as_std().local_addr().unwrap();
    let queue = Arc::new(SendQueue::new(Arc::new(socket), 1));
    let written = Arc::clone(&queue);
    bounded("pushing while pushing", move || {
        let receivers = [to].into_iter();
        written.push(
            b"a buffer",
            receivers.inspect(|&to| written.push(b"another", [to])),
        );
    });
    // The queue has room for the datagram that the inner call writes.
    assert_eq!(queue.dropped(), 1);
}

/// Work whose steps are always pending.
struct Nothing;

impl Work for Nothing {
    fn poll_step(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Flow>> {
        Poll::Pending
    }
}

#[test]
fn a_controlled_task_survives_hostile_wakers() {
    meets_all(|_| {
        let control = Arc::new(Control::started(Changes::default()));
        let mut running = control.run(Nothing);
        let again = Arc::clone(&control);
        Case {
            wait: Box::new(move |cx| Pin::new(&mut running).poll(cx).map(drop)),
            event: Arc::new(move || _ = control.trigger(Trigger::Stop)),
            touch: Arc::new(move || _ = again.trigger(Trigger::Stop)),
        }
    });
}

#[test]
fn a_panic_in_the_clone_of_a_receivers_waker_loses_no_message() {
    let bad = Hostile::panics(Step::Clone);
    let waker = bad.waker();
    let mut cx = Context::from_waker(&waker);
    let (mut tx, mut rx) = leaky::channel(2, Leak::Old);
    tx.try_send(7).unwrap();
    // This poll takes the message and registers the waker in one step.
    let polled = catch_unwind(AssertUnwindSafe(|| {
        rx.poll_recv_or_wait(&mut cx).is_ready()
    }));
    assert!(polled.is_err());
    assert_eq!(rx.try_recv(), Ok(7));
}

/// A message whose drop panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a hostile message");
    }
}

#[test]
fn messages_that_panic_when_dropped_do_not_prevent_wake_ups() {
    let good = Hostile::tame();
    let waker = good.waker();
    let mut cx = Context::from_waker(&waker);
    let full = || {
        let (mut tx, rx) = leaky::channel(1, Leak::No);
        assert!(tx.try_send(Some(Bomb)).is_ok());
        (tx, rx)
    };
    let (mut tx, mut rx) = full();
    assert!(tx.poll_send(&mut cx, &mut Some(None)).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| rx.flush())).is_err());
    assert_eq!(good.wakes.load(Ordering::SeqCst), 1, "flush");

    let (mut tx, rx) = full();
    assert!(tx.poll_send(&mut cx, &mut Some(None)).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(rx))).is_err());
    assert_eq!(good.wakes.load(Ordering::SeqCst), 2, "drop");

    let (mut tx, mut rx) = leaky::channel(1, Leak::Old);
    assert!(rx.poll_recv(&mut cx).is_pending());
    assert!(tx.try_send(Some(Bomb)).is_ok());
    assert_eq!(good.wakes.load(Ordering::SeqCst), 3);
    assert!(rx.try_recv().map(std::mem::forget).is_ok());
}

/// A value that counts how often it was dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_panicking_waker_of_a_sender_loses_no_message() {
    let (bad, drops) = (Hostile::panics(Step::Wake), Arc::new(AtomicUsize::new(0)));
    let waker = bad.waker();
    let mut cx = Context::from_waker(&waker);
    let message = || Counted(Arc::clone(&drops));
    let (mut tx, mut rx) = leaky::channel(1, Leak::No);
    assert!(tx.try_send(message()).is_ok());
    let mut second = Some(message());
    assert!(tx.poll_send(&mut cx, &mut second).is_pending());
    assert!(rx.try_recv().is_ok());
    drop((tx, rx, second));
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

//! Models of the channels for loom. Each of them is a small program, of which loom runs every
//! interleaving up to a bound. Loom checks every access to a message, and that no wake-up is lost.

use super::{RecvError, TryRecvError, bounded, oneshot, spsc};
use loom::future::block_on;
use loom::thread;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Polls a future once with a waker that does nothing, like a wait that is cancelled.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn check(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(f);
}

#[test]
fn oneshot_delivers_and_wakes() {
    check(|| {
        let (tx, mut rx) = oneshot::channel();
        let sender = thread::spawn(move || tx.send(Box::new(7)).unwrap());
        // The receiver waits a first time and cancels this wait, so that its waker is replaced
        // while the sender runs.
        let got = match poll_once(&mut rx) {
            Poll::Ready(got) => got,
            Poll::Pending => block_on(&mut rx),
        };
        assert_eq!(got, Ok(Box::new(7)));
        sender.join().unwrap();
    });
}

#[test]
fn oneshot_sender_and_receiver_are_dropped_in_any_order() {
    check(|| {
        let (tx, mut rx) = oneshot::channel();
        let message = Arc::new(());
        let sent = message.clone();
        let sender = thread::spawn(move || drop(tx.send(sent)));
        let _ = poll_once(&mut rx);
        drop(rx);
        sender.join().unwrap();
        assert_eq!(Arc::strong_count(&message), 1);
    });
    check(|| {
        let (tx, rx) = oneshot::channel::<u8>();
        let sender = thread::spawn(move || drop(tx));
        assert_eq!(block_on(rx), Err(RecvError));
        sender.join().unwrap();
    });
}

#[test]
fn spsc_delivers_two_messages() {
    check(|| {
        let (mut tx, mut rx) = spsc::channel();
        let sender = thread::spawn(move || {
            block_on(tx.send(Box::new(1))).unwrap();
            block_on(tx.send(Box::new(2))).unwrap();
        });
        let _ = poll_once(&mut rx.recv()).map(|first| assert_eq!(first, Ok(Box::new(1))));
        let last = loop {
            match block_on(rx.recv()) {
                Ok(message) if *message == 1 => {}
                other => break other,
            }
        };
        assert_eq!(last, Ok(Box::new(2)));
        assert_eq!(block_on(rx.recv()), Err(RecvError));
        sender.join().unwrap();
    });
}

#[test]
fn spsc_receiver_is_dropped_during_a_send() {
    check(|| {
        let (mut tx, mut rx) = spsc::channel();
        let message = Arc::new(());
        let sent = message.clone();
        let sender = thread::spawn(move || {
            let _ = tx.try_send(sent.clone());
            let _ = block_on(tx.send(sent));
        });
        let _ = poll_once(&mut rx.recv());
        drop(rx);
        sender.join().unwrap();
        assert_eq!(Arc::strong_count(&message), 1);
    });
}

#[test]
fn bounded_with_capacity_one_wakes_both_sides() {
    check(|| {
        let (tx, rx) = bounded::channel(1);
        let sender = thread::spawn(move || {
            block_on(tx.send(1)).unwrap();
            block_on(tx.send(2)).unwrap();
        });
        assert_eq!(block_on(rx.recv()), Ok(1));
        assert_eq!(block_on(rx.recv()), Ok(2));
        assert_eq!(block_on(rx.recv()), Err(RecvError));
        sender.join().unwrap();
    });
}

#[test]
fn bounded_with_two_senders_wakes_the_receiver_for_each_message() {
    check(|| {
        let (tx, rx) = bounded::channel(2);
        let other = tx.clone();
        let one = thread::spawn(move || tx.try_send(1).unwrap());
        let two = thread::spawn(move || other.try_send(2).unwrap());
        let sum = block_on(rx.recv()).unwrap() + block_on(rx.recv()).unwrap();
        assert_eq!(sum, 3);
        one.join().unwrap();
        two.join().unwrap();
        assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    });
}

#[test]
fn a_cancelled_bounded_receiver_passes_its_wake_up_to_the_next_receiver() {
    check(|| {
        let (tx, rx) = bounded::channel(2);
        let mut cancelled = Box::pin(rx.recv());
        let taken = poll_once(&mut cancelled);
        let waiting = rx.clone();
        let receiver = thread::spawn(move || block_on(waiting.recv()));
        let sender = thread::spawn(move || tx.try_send(5).unwrap());
        drop(cancelled);
        assert_eq!(taken, Poll::Pending);
        assert_eq!(receiver.join().unwrap(), Ok(5));
        sender.join().unwrap();
    });
}

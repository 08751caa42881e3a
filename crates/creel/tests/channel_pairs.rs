//! Tests of channels between plain threads, and channels whose futures the test polls itself.

use creel::channel::{RecvError, SendError, TryRecvError, TrySendError, bounded, oneshot, spsc};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The number of messages. It is small under Miri, because Miri takes minutes for work that
/// otherwise takes milliseconds.
const MANY: u64 = if cfg!(miri) { 20 } else { 10_000 };

/// A waker that counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rung(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell::default());
    (bell.clone(), Waker::from(bell))
}

#[test]
fn oneshot_wakes_the_last_waker_that_polled() {
    let (tx, mut rx) = oneshot::channel();
    let (first, first_waker) = bell();
    let (second, second_waker) = bell();
    let mut rx = pin!(&mut rx);
    assert!(
        rx.as_mut()
            .poll(&mut Context::from_waker(&first_waker))
            .is_pending()
    );
    assert!(
        rx.as_mut()
            .poll(&mut Context::from_waker(&second_waker))
            .is_pending()
    );
    tx.send("hi").unwrap();
    assert_eq!((first.rung(), second.rung()), (0, 1));
    let polled = rx.poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Ok("hi")));
    // The channel must not keep a waker.
    drop((first_waker, second_waker));
    assert_eq!(
        (Arc::strong_count(&first), Arc::strong_count(&second)),
        (1, 1)
    );
}

#[test]
fn oneshot_reports_to_each_side_that_the_other_is_gone() {
    let (tx, mut rx) = oneshot::channel::<u8>();
    drop(tx);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
    let (tx, rx) = oneshot::channel();
    assert!(!tx.is_closed());
    drop(rx);
    assert!(tx.is_closed());
    assert_eq!(tx.send(5), Err(SendError(5)));
}

#[test]
fn a_message_that_is_never_received_is_dropped_once() {
    let message = Arc::new(());
    let (tx, rx) = oneshot::channel();
    tx.send(message.clone()).unwrap();
    drop(rx);
    let (mut tx, rx) = spsc::channel();
    tx.try_send(message.clone()).unwrap();
    drop(rx);
    assert!(matches!(
        tx.try_send(message.clone()),
        Err(TrySendError::Closed(_))
    ));
    let (tx, rx) = bounded::channel(3);
    tx.try_send(message.clone()).unwrap();
    tx.try_send(message.clone()).unwrap();
    drop(rx);
    assert!(matches!(
        tx.try_send(message.clone()),
        Err(TrySendError::Closed(_))
    ));
    assert_eq!(Arc::strong_count(&message), 1);
}

#[test]
fn spsc_delivers_between_threads_in_order() {
    let (mut tx, mut rx) = spsc::channel();
    let sender = std::thread::spawn(move || {
        for i in 0..MANY {
            tx.send_blocking(i).unwrap();
        }
    });
    for i in 0..MANY {
        assert_eq!(rx.recv_blocking(), Ok(i));
    }
    sender.join().unwrap();
    assert_eq!(rx.recv_blocking(), Err(RecvError));
}

#[test]
fn spsc_receive_is_cancel_safe() {
    let (mut tx, mut rx) = spsc::channel();
    let (rung, waker) = bell();
    assert!(
        pin!(rx.recv())
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    tx.try_send(1).unwrap();
    assert_eq!(rung.rung(), 1);
    assert_eq!(rx.try_recv(), Ok(1));
    drop(tx);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn bounded_channel_holds_exactly_its_capacity() {
    for capacity in [1, 2, 3, 5, 8] {
        let (tx, rx) = bounded::channel(capacity);
        for lap in 0..4 {
            for i in 0..capacity {
                tx.try_send(lap * capacity + i).unwrap();
            }
            assert_eq!(tx.try_send(0), Err(TrySendError::Full(0)));
            for i in 0..capacity {
                assert_eq!(rx.try_recv(), Ok(lap * capacity + i));
            }
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        }
    }
}

#[test]
fn a_cancelled_receive_passes_its_wake_up_on() {
    let (tx, rx) = bounded::channel(4);
    let (first, first_waker) = bell();
    let (second, second_waker) = bell();
    let mut one = Box::pin(rx.recv());
    let mut two = Box::pin(rx.recv());
    assert!(
        one.as_mut()
            .poll(&mut Context::from_waker(&first_waker))
            .is_pending()
    );
    assert!(
        two.as_mut()
            .poll(&mut Context::from_waker(&second_waker))
            .is_pending()
    );
    tx.try_send(9).unwrap();
    assert_eq!((first.rung(), second.rung()), (1, 0));
    drop(one);
    assert_eq!(second.rung(), 1);
    let polled = two.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Ok(9)));
}

#[test]
fn a_full_bounded_channel_wakes_its_sender_on_receive_and_on_close() {
    let (tx, rx) = bounded::channel(1);
    let (rung, waker) = bell();
    tx.try_send(1).unwrap();
    let mut send = Box::pin(tx.send(2));
    assert!(
        send.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert_eq!(rx.try_recv(), Ok(1));
    assert_eq!(rung.rung(), 1);
    assert!(
        send.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
    );
    let mut send = Box::pin(tx.send(3));
    assert!(
        send.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    rx.close();
    assert_eq!(rung.rung(), 2);
    let polled = send.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(polled, Poll::Ready(Err(SendError(3))));
    assert_eq!(rx.try_recv(), Ok(2));
    assert_eq!(rx.try_recv(), Err(TryRecvError::Closed));
}

#[test]
fn bounded_channel_delivers_each_message_once_between_many_threads() {
    const EACH: u64 = 2 * MANY;
    for capacity in [1, 7, 64] {
        let (tx, rx) = bounded::channel(capacity);
        let senders: Vec<_> = (0..3)
            .map(|s| {
                let tx = tx.clone();
                std::thread::spawn(move || {
                    for i in 0..EACH {
                        tx.send_blocking(s * EACH + i).unwrap();
                    }
                })
            })
            .collect();
        drop(tx);
        let receivers: Vec<_> = (0..3)
            .map(|_| {
                let rx = rx.clone();
                std::thread::spawn(move || {
                    let mut got = Vec::new();
                    while let Ok(message) = rx.recv_blocking() {
                        got.push(message);
                    }
                    got
                })
            })
            .collect();
        drop(rx);
        for sender in senders {
            sender.join().unwrap();
        }
        let mut all: Vec<u64> = receivers
            .into_iter()
            .flat_map(|r| r.join().unwrap())
            .collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..3 * EACH));
    }
}

#[test]
#[cfg_attr(miri, ignore = "the interpreter takes minutes for its panics")]
fn a_bounded_channel_drops_all_its_messages_even_if_their_drops_panic() {
    struct Throws(Arc<AtomicUsize>);
    impl Drop for Throws {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("dropped");
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = bounded::channel(4);
    for _ in 0..4 {
        assert!(sender.try_send(Throws(Arc::clone(&dropped))).is_ok());
    }
    let last = std::panic::AssertUnwindSafe(|| drop(receiver));
    assert!(std::panic::catch_unwind(last).is_err());
    assert_eq!(dropped.load(Ordering::Relaxed), 4);
    drop(sender);
}

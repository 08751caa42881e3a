//! Tests of the leaky channel: which messages it keeps and drops, and which tasks it wakes.

use creel::channel::{RecvError, SendError, TryRecvError, TrySendError};
use creel_media::leaky::{self, Leak, Receiver, Sender};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn filled(leak: Leak) -> (Sender<u32>, Receiver<u32>) {
    let (mut sender, receiver) = leaky::channel(2, leak);
    for n in 1..=2 {
        assert_eq!(poll(sender.send(n)), Poll::Ready(Ok(())));
    }
    (sender, receiver)
}

fn drained(receiver: &mut Receiver<u32>) -> Vec<u32> {
    std::iter::from_fn(|| receiver.try_recv().ok()).collect()
}

#[test]
fn a_full_channel_blocks_or_leaks() {
    for (leak, sent, left, leaked) in [
        (Leak::No, Poll::Pending, [1, 2], 0),
        (Leak::New, Poll::Ready(Ok(())), [1, 2], 1),
        (Leak::Old, Poll::Ready(Ok(())), [2, 3], 1),
    ] {
        let (mut sender, mut receiver) = filled(leak);
        assert_eq!(poll(sender.send(3)), sent, "{leak}");
        assert_eq!(drained(&mut receiver), left, "{leak}");
        assert_eq!(receiver.leaked(), leaked, "{leak}");
    }
    let (mut sender, _receiver) = filled(Leak::No);
    assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
}

#[test]
fn the_end_of_one_side_is_seen_by_the_other() {
    let (sender, mut receiver) = filled(Leak::No);
    drop(sender);
    assert_eq!(drained(&mut receiver), [1, 2]);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    assert_eq!(poll(receiver.recv()), Poll::Ready(Err(RecvError)));
    let (mut sender, receiver) = filled(Leak::Old);
    drop(receiver);
    assert_eq!(poll(sender.send(3)), Poll::Ready(Err(SendError(3))));
    assert_eq!(sender.try_send(4), Err(TrySendError::Closed(4)));
}

#[test]
fn a_receiver_that_took_the_last_message_is_woken_for_the_next() {
    let (mut sender, mut receiver) = filled(Leak::No);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut receive = || receiver.poll_recv_or_wait(&mut Context::from_waker(&waker));
    assert_eq!(receive(), Poll::Ready(Ok((1, true))));
    assert_eq!(receive(), Poll::Ready(Ok((2, false))));
    assert_eq!(poll(sender.send(3)), Poll::Ready(Ok(())));
    assert_eq!(woken.get(), 1);
    drop(sender);
    assert_eq!(receive(), Poll::Ready(Ok((3, true))));
    assert_eq!(receive(), Poll::Ready(Err(RecvError)));
}

#[test]
fn a_flush_empties_the_channel_and_wakes_a_waiting_sender() {
    let (mut sender, mut receiver) = filled(Leak::No);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut message = Some(3);
    let sent = sender.poll_send(&mut Context::from_waker(&waker), &mut message);
    assert_eq!((sent, message), (Poll::Pending, Some(3)));
    receiver.flush();
    assert_eq!(woken.get(), 1);
    assert!(drained(&mut receiver).is_empty());
    assert_eq!(poll(sender.send(9)), Poll::Ready(Ok(())));
    assert_eq!(drained(&mut receiver), [9]);
}

/// A message that uses the channel while it is dropped.
struct Nosy(Arc<Mutex<Option<Receiver<Nosy>>>>);

impl Drop for Nosy {
    fn drop(&mut self) {
        // The test holds this lock only around calls that drop no message. `try_lock` keeps the
        // test from hanging on it.
        if let Ok(receiver) = self.0.try_lock()
            && let Some(receiver) = &*receiver
        {
            assert!(receiver.leaked() > 0);
        }
    }
}

#[test]
fn messages_that_leak_are_dropped_outside_the_lock() {
    for leak in [Leak::Old, Leak::New] {
        let place = Arc::new(Mutex::new(None));
        let (mut sender, receiver) = leaky::channel(1, leak);
        *place.lock().unwrap() = Some(receiver);
        for _ in 0..3 {
            assert!(sender.try_send(Nosy(Arc::clone(&place))).is_ok());
            assert!(matches!(
                poll(sender.send(Nosy(Arc::clone(&place)))),
                Poll::Ready(Ok(()))
            ));
        }
        let receiver = place.lock().unwrap().take();
        assert_eq!(receiver.unwrap().leaked(), 5);
    }
}

/// The number of messages. Under Miri it is small, because Miri is much slower.
const MANY: u64 = if cfg!(miri) { 100 } else { 10_000 };

#[test]
fn a_channel_without_a_leak_loses_nothing_and_a_leaky_channel_keeps_the_order() {
    let (mut sender, mut receiver) = leaky::channel(3, Leak::No);
    let sending = std::thread::spawn(move || {
        for n in 0..MANY {
            sender.send_blocking(n).unwrap();
        }
    });
    for n in 0..MANY {
        assert_eq!(receiver.recv_blocking(), Ok(n));
    }
    sending.join().unwrap();
    let (mut sender, mut receiver) = leaky::channel(3, Leak::Old);
    let sending = std::thread::spawn(move || {
        for n in 0..MANY {
            sender.send_blocking(n).unwrap();
        }
    });
    let (mut got, mut next) = (0, 0);
    while let Ok(n) = receiver.recv_blocking() {
        assert!(n >= next);
        (got, next) = (got + 1, n + 1);
    }
    sending.join().unwrap();
    assert_eq!((next, got + receiver.leaked()), (MANY, MANY));
}

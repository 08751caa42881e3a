//! A bounded queue between two tasks that may leak instead of holding its producer back.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a full queue does with one more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leak {
    /// The producer waits: back-pressure.
    #[default]
    No,
    /// The new one is dropped.
    New,
    /// The oldest one is dropped: what arrives is late by the queue's length at most.
    Old,
}

impl FromStr for Leak {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "no" => Ok(Leak::No),
            "new" => Ok(Leak::New),
            "old" => Ok(Leak::Old),
            _ => Err(format!("`{text}` is not one of no, new, old")),
        }
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Leak::No => "no",
            Leak::New => "new",
            Leak::Old => "old",
        })
    }
}

/// The other side is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

#[derive(Debug)]
struct Inner<T> {
    /// The oldest item. It has a place of its own, so that a queue which is always emptied before
    /// the next item comes touches no other memory.
    first: Option<T>,
    /// The others; empty while there is no first.
    more: VecDeque<T>,
    /// Of both together.
    capacity: usize,
    leak: Leak,
    leaked: u64,
    closed: bool,
    producer: Option<Waker>,
    consumer: Option<Waker>,
}

/// The side that pushes.
#[derive(Debug)]
pub struct Producer<T>(Arc<Mutex<Inner<T>>>);

/// The side that pops.
#[derive(Debug)]
pub struct Consumer<T>(Arc<Mutex<Inner<T>>>);

/// A queue of at most `capacity` items, whose memory is made here.
///
/// # Panics
///
/// If `capacity` is zero.
pub fn queue<T>(capacity: usize, leak: Leak) -> (Producer<T>, Consumer<T>) {
    assert!(capacity > 0, "a queue holds at least one item");
    let inner = Arc::new(Mutex::new(Inner {
        first: None,
        more: VecDeque::with_capacity(capacity - 1),
        capacity,
        leak,
        leaked: 0,
        closed: false,
        producer: None,
        consumer: None,
    }));
    (Producer(Arc::clone(&inner)), Consumer(inner))
}

fn lock<T>(inner: &Mutex<Inner<T>>) -> MutexGuard<'_, Inner<T>> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl<T> Inner<T> {
    fn pop(&mut self) -> Option<T> {
        let first = self.first.take()?;
        if !self.more.is_empty() {
            self.first = self.more.pop_front();
        }
        Some(first)
    }

    fn is_full(&self) -> bool {
        self.first.is_some() && self.more.len() + 1 == self.capacity
    }

    /// Takes `item` unless the producer has to wait.
    #[inline]
    fn push(&mut self, item: &mut Option<T>, cx: &mut Context<'_>) -> Poll<Result<(), Closed>> {
        if self.closed {
            return Poll::Ready(Err(Closed));
        }
        if self.is_full() {
            match self.leak {
                Leak::No => {
                    self.producer = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Leak::New => {
                    self.leaked += 1;
                    *item = None;
                    return Poll::Ready(Ok(()));
                }
                Leak::Old => {
                    self.leaked += 1;
                    // Dropped.
                    self.pop();
                }
            }
        }
        if self.first.is_none() {
            self.first = item.take();
        } else {
            self.more.extend(item.take());
        }
        Poll::Ready(Ok(()))
    }
}

impl<T> Producer<T> {
    /// Appends an item; waits while the queue is full and does not leak. Cancelled, the item is
    /// dropped.
    ///
    /// # Errors
    ///
    /// If the consumer is gone.
    pub async fn push(&mut self, item: T) -> Result<(), Closed> {
        let mut item = Some(item);
        poll_fn(|cx| self.poll_push(cx, &mut item)).await
    }

    /// Takes the item and appends it; leaves it there while the queue is full and does not leak,
    /// and `cx` is woken when there is a place.
    ///
    /// # Errors
    ///
    /// If the consumer is gone.
    pub fn poll_push(
        &mut self,
        cx: &mut Context<'_>,
        item: &mut Option<T>,
    ) -> Poll<Result<(), Closed>> {
        let mut inner = lock(&self.0);
        let pushed = inner.push(item, cx);
        let consumer = inner.consumer.take_if(|_| pushed.is_ready());
        drop(inner);
        wake(consumer);
        pushed
    }

    /// Appends an item, or leaks one, without waiting; a full queue that does not leak drops the
    /// new one.
    ///
    /// # Errors
    ///
    /// If the consumer is gone.
    pub fn try_push(&mut self, item: T) -> Result<(), Closed> {
        let mut item = Some(item);
        let mut inner = lock(&self.0);
        let pushed = inner.push(&mut item, &mut Context::from_waker(Waker::noop()));
        let consumer = inner.consumer.take();
        drop(inner);
        wake(consumer);
        match pushed {
            Poll::Ready(pushed) => pushed,
            Poll::Pending => Ok(()),
        }
    }
}

impl<T> Consumer<T> {
    /// How many items have leaked.
    pub fn leaked(&self) -> u64 {
        lock(&self.0).leaked
    }

    /// Takes the oldest item; none when the queue is empty and the producer gone. Cancel-safe.
    pub async fn pop(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_pop(cx)).await
    }

    /// The oldest item, once there is one; none when the queue is empty and the producer gone.
    pub fn poll_pop(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.poll_pop_or_wait(cx)
            .map(|popped| popped.map(|(item, _)| item))
    }

    /// The same, and whether to ask again now: if not, the queue is empty and `cx` is woken when
    /// there is an item, as if that had been asked already. It saves taking the lock once more.
    pub fn poll_pop_or_wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<(T, bool)>> {
        let mut inner = lock(&self.0);
        let item = inner.pop();
        let again = inner.first.is_some() || inner.closed;
        if !again {
            inner.consumer = Some(cx.waker().clone());
        }
        let Some(item) = item else {
            return if again {
                Poll::Ready(None)
            } else {
                Poll::Pending
            };
        };
        let producer = inner.producer.take();
        drop(inner);
        wake(producer);
        Poll::Ready(Some((item, again)))
    }

    /// Drops all items.
    pub fn flush(&mut self) {
        let mut inner = lock(&self.0);
        let items = (inner.first.take(), std::mem::take(&mut inner.more));
        let producer = inner.producer.take();
        drop(inner);
        drop(items);
        wake(producer);
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        let mut inner = lock(&self.0);
        inner.closed = true;
        let consumer = inner.consumer.take();
        drop(inner);
        wake(consumer);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        let mut inner = lock(&self.0);
        inner.closed = true;
        let producer = inner.producer.take();
        let items = (inner.first.take(), std::mem::take(&mut inner.more));
        drop(inner);
        drop(items);
        wake(producer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
        pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn filled(leak: Leak) -> (Producer<u32>, Consumer<u32>) {
        let (mut producer, consumer) = queue(2, leak);
        for n in 1..=2 {
            assert_eq!(poll(producer.push(n)), Poll::Ready(Ok(())));
        }
        (producer, consumer)
    }

    fn drained(consumer: &mut Consumer<u32>) -> Vec<u32> {
        std::iter::from_fn(|| match poll(consumer.pop()) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        })
        .collect()
    }

    #[test]
    fn a_full_queue_holds_back_or_leaks() {
        for (leak, pushed, left, leaked) in [
            (Leak::No, Poll::Pending, [1, 2], 0),
            (Leak::New, Poll::Ready(Ok(())), [1, 2], 1),
            (Leak::Old, Poll::Ready(Ok(())), [2, 3], 1),
        ] {
            let (mut producer, mut consumer) = filled(leak);
            assert_eq!(poll(producer.push(3)), pushed, "{leak}");
            assert_eq!(drained(&mut consumer), left, "{leak}");
            assert_eq!(consumer.leaked(), leaked, "{leak}");
        }
    }

    #[test]
    fn the_end_of_one_side_is_seen_by_the_other() {
        let (producer, mut consumer) = filled(Leak::No);
        drop(producer);
        assert_eq!(drained(&mut consumer), [1, 2]);
        assert_eq!(poll(consumer.pop()), Poll::Ready(None));
        let (mut producer, consumer) = filled(Leak::Old);
        drop(consumer);
        assert_eq!(poll(producer.push(3)), Poll::Ready(Err(Closed)));
    }

    #[test]
    fn who_has_popped_the_last_item_is_woken_for_the_next() {
        let (mut producer, mut consumer) = filled(Leak::No);
        let woken = Arc::new(AtomicBool::new(false));
        let waker = Waker::from(Arc::new(Flag(Arc::clone(&woken))));
        let mut pop = || consumer.poll_pop_or_wait(&mut Context::from_waker(&waker));
        assert_eq!(pop(), Poll::Ready(Some((1, true))));
        assert_eq!(pop(), Poll::Ready(Some((2, false))));
        assert_eq!(poll(producer.push(3)), Poll::Ready(Ok(())));
        assert!(woken.load(Ordering::SeqCst));
        drop(producer);
        assert_eq!(pop(), Poll::Ready(Some((3, true))));
        assert_eq!(pop(), Poll::Ready(None));
    }

    struct Flag(Arc<AtomicBool>);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_flush_empties_it() {
        let (mut producer, mut consumer) = filled(Leak::No);
        consumer.flush();
        assert!(drained(&mut consumer).is_empty());
        assert_eq!(poll(producer.push(9)), Poll::Ready(Ok(())));
        assert_eq!(drained(&mut consumer), [9]);
    }
}

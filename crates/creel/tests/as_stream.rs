//! Tests of channels, listeners, intervals and sets of tasks as `Stream` and `Sink`.

use creel::channel::{SendError, bounded, spsc};
use creel::net::{TcpListener, TcpStream};
use creel::{Pool, task};
use futures_util::{FutureExt, Sink, SinkExt, Stream, StreamExt, stream};
use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

fn pool() -> Pool {
    Pool::builder().workers(2).build().unwrap()
}

/// Counts the wake-ups of one task.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Counter {
    fn waker(self: &Arc<Self>) -> Waker {
        Arc::clone(self).into()
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn next<S: Stream + Unpin>(stream: &mut S, waker: &Waker) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(waker))
}

fn ready<T, S: Sink<T> + Unpin>(sink: &mut S, waker: &Waker) -> Poll<Result<(), S::Error>> {
    Pin::new(sink).poll_ready(&mut Context::from_waker(waker))
}

#[test]
fn every_message_of_many_sinks_reaches_one_of_many_streams() {
    const EACH: u32 = 2000;
    for capacity in [1, 3, 100] {
        let pool = pool();
        let (tx, rx) = bounded::channel(capacity);
        let sends: Vec<_> = (0..4)
            .map(|sender| {
                let sink = tx.clone().into_sink();
                let messages = stream::iter(0..EACH).map(move |n| Ok(sender * EACH + n));
                pool.spawn(messages.forward(sink))
            })
            .collect();
        drop(tx);
        let receives: Vec<_> = (0..3)
            .map(|_| pool.spawn(rx.clone().into_stream().collect::<Vec<_>>()))
            .collect();
        drop(rx);
        let mut all = HashSet::new();
        pool.block_on(async {
            for send in sends {
                send.await.unwrap().unwrap();
            }
            for receive in receives {
                for message in receive.await.unwrap() {
                    assert!(all.insert(message), "message {message} arrived twice");
                }
            }
        });
        assert_eq!(all.len(), 4 * EACH as usize);
    }
}

#[test]
fn a_dropped_stream_passes_its_wake_up_on() {
    let (tx, rx) = bounded::channel(1);
    let counters = [(); 2].map(|()| Arc::new(Counter::default()));
    let mut streams = [rx.clone().into_stream(), rx.into_stream()];
    for (stream, counter) in streams.iter_mut().zip(&counters) {
        assert!(next(stream, &counter.waker()).is_pending());
    }
    tx.try_send(7).unwrap();
    assert_eq!([counters[0].count(), counters[1].count()], [1, 0]);
    let [first, mut second] = streams;
    drop(first);
    assert_eq!(counters[1].count(), 1);
    assert_eq!(
        next(&mut second, &counters[1].waker()),
        Poll::Ready(Some(7))
    );
    drop(tx);
    assert_eq!(next(&mut second, &counters[1].waker()), Poll::Ready(None));
}

#[test]
fn a_dropped_sink_passes_its_wake_up_on_and_drops_its_message() {
    let (tx, rx) = bounded::channel(1);
    tx.try_send(0).unwrap();
    let counters = [(); 2].map(|()| Arc::new(Counter::default()));
    let mut sinks = [tx.clone().into_sink(), tx.into_sink()];
    for (n, (sink, counter)) in sinks.iter_mut().zip(&counters).enumerate() {
        assert!(ready(sink, &counter.waker()).is_ready());
        // There is no room, so the sink holds the message.
        Pin::new(&mut *sink).start_send(n + 1).unwrap();
        assert!(ready(sink, &counter.waker()).is_pending());
    }
    assert_eq!(rx.try_recv(), Ok(0));
    assert_eq!([counters[0].count(), counters[1].count()], [1, 0]);
    let [first, mut second] = sinks;
    drop(first);
    assert_eq!(counters[1].count(), 1);
    assert!(ready(&mut second, &counters[1].waker()).is_ready());
    assert_eq!(rx.try_recv(), Ok(2));
}

#[test]
fn a_closed_sink_flushes_and_then_returns_messages() {
    let pool = pool();
    let (tx, rx) = bounded::channel(1);
    let mut sink = tx.into_sink();
    pool.block_on(async {
        sink.feed(1).await.unwrap();
        sink.feed(2).await.unwrap();
        assert!(sink.close().now_or_never().is_none(), "a message waits");
        assert_eq!(rx.recv().await, Ok(1));
        sink.close().await.unwrap();
        assert_eq!(rx.recv().await, Ok(2));
        assert!(rx.recv().await.is_err());
        assert_eq!(sink.send(3).await, Err(SendError(3)));
    });
}

#[test]
fn a_sink_returns_its_message_when_the_receivers_are_gone() {
    let pool = pool();
    let (tx, rx) = bounded::channel(1);
    let mut sink = tx.into_sink();
    pool.block_on(async {
        sink.feed(1).await.unwrap();
        sink.feed(2).await.unwrap();
        drop(rx);
        assert_eq!(sink.flush().await, Err(SendError(2)));
        assert_eq!(sink.send(3).await, Err(SendError(3)));
    });
    let (mut tx, rx) = spsc::channel();
    drop(rx);
    assert_eq!(pool.block_on(SinkExt::send(&mut tx, 1)), Err(SendError(1)));
}

#[test]
fn an_spsc_sink_waits_for_room_and_keeps_the_order() {
    let (mut tx, mut rx) = spsc::channel();
    let counter = Arc::new(Counter::default());
    assert!(ready(&mut tx, &counter.waker()).is_ready());
    Pin::new(&mut tx).start_send(1).unwrap();
    assert!(ready(&mut tx, &counter.waker()).is_pending());
    assert_eq!(rx.try_recv(), Ok(1));
    assert_eq!(counter.count(), 1);
    assert!(ready(&mut tx, &counter.waker()).is_ready());
    let pool = pool();
    let sends = pool.spawn(stream::iter(0..10_000).map(Ok).forward(tx));
    let all: Vec<_> = pool.block_on(rx.collect());
    assert_eq!(all, Vec::from_iter(0..10_000));
    pool.block_on(sends).unwrap().unwrap();
}

#[test]
fn listeners_intervals_and_sets_of_tasks_are_streams() {
    let pool = pool();
    pool.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let server = task::spawn(listener.take(10).map(Result::unwrap).count());
        let mut clients = task::JoinSet::new();
        for _ in 0..10 {
            clients.spawn(async move { TcpStream::connect(address).await });
        }
        assert_eq!(
            clients.map(|client| client.unwrap().unwrap()).count().await,
            10
        );
        assert_eq!(server.await.unwrap(), 10);
        let period = Duration::from_millis(1);
        let ticks: Vec<_> = creel::time::interval(period).take(3).collect().await;
        assert!(ticks.windows(2).all(|pair| pair[1] - pair[0] == period));
    });
}

//! Random interleavings of operations that are cancelled at random places.
//!
//! Tasks use one kind of operation together, and drop the future of each call after a random number
//! of polls. Afterwards, nothing may be lost, doubled or stuck: each message, byte, connection and
//! output arrives exactly once. `cancel_safety.rs` checks the documented effect of each operation
//! on its own.
//!
//! Operations that need only the scheduler run on seeded pools, so that a seed repeats its run. The
//! others run on two workers.
//!
//! `CREEL_CANCELLATIONS` sets the number of interleavings. A failure prints the seed of its run.

#![cfg(all(unix, not(miri)))]

mod deadline;

use creel::channel::{bounded, oneshot, spsc};
use creel::net::{AsyncFd, Direction, TcpListener, TcpStream, UdpSocket, UnixStream};
use creel::process::Command;
use creel::task::{CancellationToken, JoinSet, spawn, yield_now};
use creel::{Pool, time};
use deadline::bounded;
use futures_util::stream::{FuturesUnordered, Stream};
use std::fmt::Debug;
use std::future::{Future, pending, poll_fn};
use std::io::{self, IoSlice, Read, Write};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

/// The number of interleavings in an ordinary run.
const INTERLEAVINGS: u64 = 4_000;
/// The number of messages of each sender.
const MESSAGES: usize = 4;

/// A generator of random numbers (splitmix64). Each task has its own.
#[derive(Clone)]
struct Random(u64);

impl Random {
    /// Returns a number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    fn fork(&mut self) -> Self {
        Random(self.below(u64::MAX))
    }

    async fn pause(&mut self) {
        for _ in 0..self.below(4) {
            yield_now().await;
        }
    }

    /// Awaits a future for a random number of turns. Returns `None` if the future was not ready by
    /// then, and drops it. Sometimes it awaits the future to its end, because the clock of a seeded
    /// pool moves only if no task is ready.
    ///
    /// Half of the time, the future is polled only after it was woken. Otherwise it is also polled
    /// in between, because a task is free to do so.
    async fn cancel<F: Future>(&mut self, future: F) -> Option<F::Output> {
        if self.below(6) == 0 {
            return Some(future.await);
        }
        let (turns, is_strict) = (self.below(5), self.below(2) == 0);
        let mut stop = pin!(async {
            for _ in 0..turns {
                yield_now().await;
            }
        });
        if is_strict {
            // The set polls a future only if it was woken.
            let mut set = pin!(FuturesUnordered::from_iter([future]));
            poll_fn(|cx| match set.as_mut().poll_next(cx) {
                Poll::Ready(output) => Poll::Ready(output),
                Poll::Pending => stop.as_mut().poll(cx).map(|()| None),
            })
            .await
        } else {
            let mut future = pin!(future);
            poll_fn(|cx| match future.as_mut().poll(cx) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending => stop.as_mut().poll(cx).map(|()| None),
            })
            .await
        }
    }
}

/// Calls an operation again until it was not cancelled.
macro_rules! until_done {
    ($random:expr, $operation:expr) => {
        loop {
            if let Some(output) = $random.cancel($operation).await {
                break output;
            }
        }
    };
}

fn assert_each_once<T: Ord + Debug>(mut seen: Vec<T>, all: impl IntoIterator<Item = T>) {
    seen.sort();
    assert_eq!(seen, Vec::from_iter(all));
}

async fn bounded_channels(mut random: Random) -> io::Result<()> {
    let (tx, rx) = bounded::channel(1 + random.below(3) as usize);
    let senders = 1 + random.below(3) as usize;
    for sender in 0..senders {
        let (tx, mut random) = (tx.clone(), random.fork());
        spawn(async move {
            for message in 0..MESSAGES {
                // A cancelled `send` has not sent its message.
                until_done!(random, tx.send((sender, message))).unwrap();
                random.pause().await;
            }
        })
        .detach();
    }
    drop(tx);
    let mut receivers = JoinSet::new();
    for _ in 0..1 + random.below(2) {
        let (rx, mut random) = (rx.clone(), random.fork());
        receivers.spawn(async move {
            let mut seen = Vec::new();
            while let Ok(message) = until_done!(random, rx.recv()) {
                seen.push(message);
                random.pause().await;
            }
            seen
        });
    }
    let mut seen = Vec::new();
    while let Some(more) = until_done!(random, receivers.join_next()) {
        seen.extend(more.unwrap());
    }
    let all = (0..senders).flat_map(|sender| (0..MESSAGES).map(move |n| (sender, n)));
    assert_each_once(seen, all);
    Ok(())
}

async fn other_channels(mut random: Random) -> io::Result<()> {
    let (mut tx, mut rx) = spsc::channel();
    let (last, mut is_last) = oneshot::channel();
    let mut of_sender = random.fork();
    spawn(async move {
        for message in 0..MESSAGES {
            until_done!(of_sender, tx.send(message)).unwrap();
            of_sender.pause().await;
        }
        last.send(MESSAGES).unwrap();
    })
    .detach();
    let mut seen = Vec::new();
    while let Ok(message) = until_done!(random, rx.recv()) {
        seen.push(message);
        random.pause().await;
    }
    seen.push(until_done!(random, &mut is_last).unwrap());
    assert_eq!(seen, Vec::from_iter(0..=MESSAGES));
    Ok(())
}

async fn joins_and_aborts(mut random: Random) -> io::Result<()> {
    // The tasks wait for a token. Some are aborted before it is cancelled, at any of their awaits.
    let token = CancellationToken::new();
    let (alive, dropped) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    let mut aborted = 0;
    for number in 0..6_usize {
        let (child, mut of_task) = (token.child(), random.fork());
        let (alive, dropped) = (Arc::clone(&alive), Arc::clone(&dropped));
        let handle = spawn(async move {
            let _alive = alive;
            of_task.pause().await;
            until_done!(of_task, child.cancelled());
            assert!(child.run_until(pending::<()>()).await.is_none());
            let done = spawn(async move { dropped.fetch_add(1, Ordering::SeqCst) });
            done.await.unwrap();
            number
        });
        if random.below(3) == 0 {
            aborted += 1;
            handle.abort();
        }
        tasks.add(handle);
        random.pause().await;
    }
    token.cancel();
    let (mut seen, mut cancelled) = (Vec::new(), 0);
    while let Some(joined) = until_done!(random, tasks.join_next()) {
        match joined {
            Ok(number) => seen.push(number),
            Err(error) => {
                assert!(error.is_cancelled());
                cancelled += 1;
            }
        }
    }
    assert_eq!((seen.len(), cancelled), (6 - aborted, aborted));
    assert_eq!(dropped.load(Ordering::SeqCst), seen.len());
    assert_eq!(Arc::strong_count(&alive), 1);
    let mut handle = spawn(async { 7 });
    assert_eq!(until_done!(random, &mut handle).unwrap(), 7);
    Ok(())
}

async fn timers(mut random: Random) -> io::Result<()> {
    let ms = Duration::from_millis;
    let mut ticks = time::interval(ms(10));
    let mut last = until_done!(random, ticks.tick());
    for _ in 0..MESSAGES {
        // A sleep that is dropped early must not fire, and must not take another timer with it.
        let sleep = time::sleep(ms(random.below(30)));
        let _ = random.cancel(sleep).await;
        let limit = ms(1 + random.below(5));
        assert!(until_done!(random, time::timeout(limit, pending::<()>())).is_err());
        let next = until_done!(random, ticks.tick());
        assert!(next > last && (next - last).as_nanos() % ms(10).as_nanos() == 0);
        last = next;
    }
    Ok(())
}

/// Sends a pattern of bytes through a pair of sockets, and checks it on the other side.
async fn streams(mut random: Random) -> io::Result<()> {
    const BYTES: usize = 300_000;
    let byte = |position: usize| (position % 251) as u8;
    let all: Vec<u8> = (0..BYTES).map(byte).collect();
    let (a, b) = UnixStream::pair()?;
    let mut of_reader = random.fork();
    let reads = spawn(async move {
        let (mut read, mut bytes) = (0, vec![0; 100_000]);
        loop {
            let _ = of_reader.cancel(b.readable()).await;
            let more = until_done!(of_reader, b.read(&mut bytes))?;
            if more == 0 {
                return io::Result::Ok(read);
            }
            let is_next = |(n, value): (usize, &u8)| *value == byte(read + n);
            assert!(bytes[..more].iter().enumerate().all(is_next));
            read += more;
        }
    });
    let mut written = 0;
    while written < BYTES {
        let _ = random.cancel(a.writable()).await;
        let left = &all[written..];
        written += if random.below(2) == 0 {
            until_done!(random, a.write(left))?
        } else {
            let (one, two) = left.split_at(left.len() / 2);
            let pieces = [IoSlice::new(one), IoSlice::new(two)];
            until_done!(random, a.write_vectored(&pieces))?
        };
    }
    drop(a);
    assert_eq!(reads.await.unwrap()?, BYTES);
    Ok(())
}

/// Does the same through descriptors that are not sockets of the runtime.
async fn descriptors(mut random: Random) -> io::Result<()> {
    let (one, other) = std::os::unix::net::UnixStream::pair()?;
    one.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    let (one, other) = (AsyncFd::new(one), AsyncFd::new(other));
    let mut of_reader = random.fork();
    let reads = spawn(async move {
        let mut seen = Vec::new();
        loop {
            let mut byte = [0];
            let _ = of_reader.cancel(other.readable()).await;
            let read = until_done!(
                of_reader,
                other.async_io(Direction::Read, |mut it| it.read(&mut byte))
            );
            match read? {
                0 => return io::Result::Ok(seen),
                _ => seen.push(byte[0]),
            }
        }
    });
    for message in 0..MESSAGES as u8 {
        let written = until_done!(
            random,
            one.async_io(Direction::Write, |mut it| it.write(&[message]))
        );
        assert_eq!(written?, 1);
        random.pause().await;
    }
    drop(one);
    assert_eq!(reads.await.unwrap()?, Vec::from_iter(0..MESSAGES as u8));
    Ok(())
}

async fn datagrams(mut random: Random) -> io::Result<()> {
    let any = || "127.0.0.1:0".parse().unwrap();
    let (from, to) = (UdpSocket::bind(any())?, UdpSocket::bind(any())?);
    let address = to.local_addr()?;
    let mut of_sender = random.fork();
    spawn(async move {
        for message in 0..MESSAGES as u8 {
            until_done!(of_sender, from.send_to(&[message], address)).unwrap();
            of_sender.pause().await;
        }
    })
    .detach();
    let mut seen = Vec::new();
    for _ in 0..MESSAGES {
        let mut byte = [0];
        let (length, _) = until_done!(random, to.recv_from(&mut byte))?;
        assert_eq!(length, 1);
        seen.push(byte[0]);
    }
    assert_each_once(seen, 0..MESSAGES as u8);
    Ok(())
}

async fn connections(mut random: Random) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    let address = listener.local_addr()?;
    for number in 0..MESSAGES as u8 {
        let mut random = random.fork();
        spawn(async move {
            // A cancelled `connect` may leave a connection, which is closed.
            let stream = match random.below(2) {
                0 => until_done!(random, TcpStream::connect(address)),
                _ => until_done!(random, TcpStream::connect_to(address)),
            };
            stream.unwrap().write_all(&[number]).await.unwrap();
        })
        .detach();
    }
    let mut seen = Vec::new();
    while seen.len() < MESSAGES {
        let (stream, _) = until_done!(random, listener.accept())?;
        let mut byte = [0];
        // The end of the stream or an error means that the `connect` was cancelled.
        if let Ok(1) = stream.read(&mut byte).await {
            seen.push(byte[0]);
        }
    }
    assert_each_once(seen, 0..MESSAGES as u8);
    Ok(())
}

async fn threads_and_children(mut random: Random) -> io::Result<()> {
    let runs = Arc::new(AtomicUsize::new(0));
    let call = || {
        let runs = Arc::clone(&runs);
        creel::blocking(move || runs.fetch_add(1, Ordering::SeqCst))
    };
    let _ = random.cancel(call()).await;
    // Calling it again until it is ready would start a closure for each attempt. Therefore we keep
    // the future.
    let mut last = call();
    until_done!(random, &mut last);
    assert!((1..=2).contains(&runs.load(Ordering::SeqCst)));
    let address = until_done!(random, Box::pin(creel::net::lookup_host("127.0.0.1:80")));
    assert_eq!(address?, ["127.0.0.1:80".parse().unwrap()]);
    let mut child = Command::new("true").spawn()?;
    assert!(until_done!(random, child.wait()).unwrap().success());
    Ok(())
}

type Scenario = fn(Random) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

#[test]
fn nothing_is_lost_when_operations_are_cancelled_at_random() {
    let number = std::env::var("CREEL_CANCELLATIONS");
    let number = number.map_or(INTERLEAVINGS, |number| number.parse().unwrap());
    let without_io: [Scenario; 4] = [
        |random| Box::pin(bounded_channels(random)),
        |random| Box::pin(other_channels(random)),
        |random| Box::pin(joins_and_aborts(random)),
        |random| Box::pin(timers(random)),
    ];
    let with_io: [Scenario; 4] = [
        |random| Box::pin(streams(random)),
        |random| Box::pin(descriptors(random)),
        |random| Box::pin(datagrams(random)),
        |random| Box::pin(connections(random)),
    ];
    let pool = Pool::builder().workers(2).build().unwrap();
    for seed in 0..number {
        // Most are short. Connections use up ports, and children take milliseconds.
        let scenario: Scenario = match seed % 100 {
            0 => |random| Box::pin(threads_and_children(random)),
            n @ 1..=12 => with_io[n as usize % with_io.len()],
            n => without_io[n as usize % without_io.len()],
        };
        let pool = match seed % 100 {
            0..=12 => pool.clone(),
            _ => Pool::seeded(seed),
        };
        println!("seed {seed}");
        let run = move || {
            pool.block_on(pool.spawn(scenario(Random(seed))))
                .unwrap()
                .unwrap()
        };
        bounded("an interleaving", run);
    }
}

//! Prints the cost of tokio's context: per poll, per future, and per event.
//!
//!     cargo bench -p creel-tokio
//!
//! Each number is the median of several rounds. The measurements take turns within a round, so that
//! a change of the machine's speed concerns all of them.

use std::future::Future;
use std::hint::black_box;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use creel::Pool;
use creel::task::JoinHandle;
use creel_tokio::{Tokio, with_tokio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ROUNDS: usize = 11;
const POLLS: u32 = 1_000_000;
const FUTURES: u32 = 100_000;
const TRIPS: u32 = 5_000;
const WARM_UP_TRIPS: u32 = 200;

/// Returns pending in each poll and does nothing else, so that only the cost of the context
/// remains.
async fn nothing() {
    std::future::poll_fn(|_| black_box(Poll::<()>::Pending)).await;
}

/// Returns the mean time of one poll of a future that is always pending.
fn poll_time(future: impl Future<Output = ()>) -> Duration {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    let begun = Instant::now();
    for _ in 0..POLLS {
        assert!(black_box(future.as_mut()).poll(&mut cx).is_pending());
    }
    begun.elapsed() / POLLS
}

/// Returns the mean time to create, poll and drop a future. `make` does all three.
fn future_time(make: impl Fn() -> Duration) -> Duration {
    let begun = Instant::now();
    for _ in 0..FUTURES {
        black_box(make());
    }
    begun.elapsed() / FUTURES
}

fn once(future: impl Future<Output = ()>) -> Duration {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(black_box(future.as_mut()).poll(&mut cx).is_ready());
    Duration::ZERO
}

/// Measures round trips of 64 bytes between two connected sockets. The sockets of the two libraries
/// have the same methods and no trait in common, so this is a macro.
macro_rules! round_trips {
    ($stream:ident, $other:ident) => {{
        let echo = async move {
            let mut bytes = [0; 64];
            while $other.read_exact(&mut bytes).await.is_ok() {
                $other.write_all(&bytes).await?;
            }
            io::Result::Ok(())
        };
        let trips = async move {
            let mut bytes = [0; 64];
            let mut begun = Instant::now();
            for n in 0..WARM_UP_TRIPS + TRIPS {
                if n == WARM_UP_TRIPS {
                    begun = Instant::now();
                }
                $stream.write_all(&bytes).await?;
                $stream.read_exact(&mut bytes).await?;
            }
            io::Result::Ok(begun.elapsed() / TRIPS)
        };
        let (time, _) = tokio::join!(trips, echo);
        time
    }};
}

/// Returns the mean time of a round trip of 64 bytes between two sockets of tokio.
async fn trips_of_tokio() -> io::Result<Duration> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let to = listener.local_addr()?;
    let (stream, accepted) = tokio::join!(tokio::net::TcpStream::connect(to), listener.accept());
    let (mut stream, mut other) = (stream?, accepted?.0);
    stream.set_nodelay(true)?;
    other.set_nodelay(true)?;
    round_trips!(stream, other)
}

/// Returns the mean time of a round trip of 64 bytes between two sockets of Creel.
async fn trips_of_creel() -> io::Result<Duration> {
    let listener = creel::net::TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    let to = listener.local_addr()?;
    let (stream, accepted) = tokio::join!(creel::net::TcpStream::connect(to), listener.accept());
    let (stream, other) = (stream?, accepted?.0);
    round_trips!(stream, other)
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let pool = Pool::builder().workers(1).build().unwrap();
    let joined = |task: JoinHandle<io::Result<Duration>>| pool.block_on(task).unwrap().unwrap();
    Tokio::global();
    let cases: [(&str, &dyn Fn() -> Duration); 7] = [
        ("poll", &|| poll_time(nothing())),
        ("poll, with_tokio", &|| poll_time(with_tokio(nothing()))),
        ("future", &|| future_time(|| once(async {}))),
        ("future, with_tokio", &|| {
            future_time(|| once(with_tokio(async {})))
        }),
        ("round trip, tokio current-thread", &|| {
            runtime.block_on(trips_of_tokio()).unwrap()
        }),
        ("round trip, creel", &|| {
            joined(pool.spawn_on(0, trips_of_creel()))
        }),
        ("round trip, creel, with_tokio", &|| {
            joined(pool.spawn_on(0, with_tokio(trips_of_tokio())))
        }),
    ];
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, case), times) in cases.iter().zip(&mut times) {
            times.push(case());
        }
    }
    for ((name, _), times) in cases.iter().zip(&mut times) {
        times.sort();
        println!(
            "{name:<35} {:?} ({:?} to {:?})",
            times[ROUNDS / 2],
            times[0],
            times[ROUNDS - 1]
        );
    }
    println!(
        "size of a future: {} bytes more",
        size_of_val(&with_tokio(nothing())) - size_of_val(&nothing())
    );
}

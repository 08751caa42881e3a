//! Runs many short-lived pools with every kind of work at once. A watchdog ends a test that hangs.
//!
//! This takes minutes and not seconds, so you run it with `--ignored`. The test prints its seed.
//! `CREEL_SOAK_SEED` sets the seed, and `CREEL_SOAK_ROUNDS` the number of rounds.

use creel::channel::{bounded, oneshot, spsc};
use creel::task::{self, yield_now};
use creel::{Pool, Wait};
use creel_topology::{CpuSet, affinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A small random number generator (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Starts a thread that ends the process if no round completes for 30 s.
fn watchdog(rounds: &Arc<AtomicU64>) {
    let rounds = rounds.clone();
    std::thread::spawn(move || {
        let mut before = u64::MAX;
        loop {
            let now = rounds.load(Ordering::Relaxed);
            if now == before {
                eprintln!("no progress in 30 s after round {now}");
                std::process::abort();
            }
            before = now;
            std::thread::sleep(Duration::from_secs(30));
        }
    });
}

async fn chain(length: u64) -> u64 {
    let (mut left, last) = oneshot::channel();
    for _ in 0..length {
        let (next, right) = oneshot::channel();
        task::spawn(async move {
            let received: u64 = right.await.unwrap();
            left.send(received + 1).unwrap();
        })
        .detach();
        left = next;
    }
    left.send(0).unwrap();
    last.await.unwrap()
}

async fn crowd(tasks: u64) -> u64 {
    let (tx, rx) = bounded::channel(3);
    for i in 0..tasks {
        let tx = tx.clone();
        task::spawn(async move {
            if i % 3 == 0 {
                yield_now().await;
            }
            tx.send(i).await.unwrap();
        })
        .detach();
    }
    drop(tx);
    let mut got = 0;
    while rx.recv().await.is_ok() {
        got += 1;
    }
    got
}

async fn ping_pong(times: u64) {
    let (mut tx, mut there) = spsc::channel();
    let (mut back, mut rx) = spsc::channel();
    let other = task::spawn(async move {
        while let Ok(n) = there.recv().await {
            back.send(n).await.unwrap();
        }
    });
    for n in 0..times {
        tx.send(n).await.unwrap();
        assert_eq!(rx.recv().await, Ok(n));
    }
    drop(tx);
    other.await.unwrap();
}

fn round(draw: &mut Draw) {
    let workers = [1, 2, 3, 16][draw.below(4) as usize];
    let wait = [Wait::Park, Wait::Adaptive][draw.below(2) as usize];
    let pool = Pool::builder().workers(workers).wait(wait).build().unwrap();
    let length = draw.below(500);
    let chained = pool.spawn(chain(length));
    let crowded = pool.spawn(crowd(length));
    let pinged = pool.spawn_on(
        draw.below(workers as u64) as usize,
        ping_pong(draw.below(200)),
    );
    let doomed = pool.spawn(async {
        loop {
            yield_now().await;
        }
    });
    if draw.below(2) == 0 {
        pool.resize(1 + draw.below(4) as usize).unwrap();
    }
    // A plain thread outside the pool sends to a task.
    let (tx, rx) = bounded::channel(1);
    let outside = std::thread::spawn(move || (0..50).for_each(|i| tx.send_blocking(i).unwrap()));
    let counted = pool.spawn(async move {
        let mut count = 0;
        while rx.recv().await.is_ok() {
            count += 1;
        }
        count
    });
    if draw.below(4) == 0 {
        // The pool shuts down while this work is still running.
        drop((chained, crowded, pinged, counted));
        drop(pool);
        let _ = outside.join();
        return;
    }
    pool.block_on(async {
        assert_eq!(chained.await.unwrap(), length);
        assert_eq!(crowded.await.unwrap(), length);
        pinged.await.unwrap();
        assert_eq!(counted.await.unwrap(), 50);
    });
    outside.join().unwrap();
    doomed.abort();
    assert!(pool.block_on(doomed).is_err());
    let stats = pool.stats().tasks;
    assert_eq!(stats.spawned, stats.finished + stats.cancelled, "{stats:?}");
}

fn soak(name: &str) {
    let seed = number("CREEL_SOAK_SEED", u64::from(std::process::id()));
    eprintln!("{name}: seed {seed}");
    let rounds = Arc::new(AtomicU64::new(0));
    watchdog(&rounds);
    let mut draw = Draw(seed);
    for _ in 0..number("CREEL_SOAK_ROUNDS", 2000) {
        round(&mut draw);
        rounds.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "it takes minutes"]
fn random_rounds_complete_on_every_cpu() {
    soak("every CPU");
}

#[test]
#[ignore = "it takes minutes"]
fn random_rounds_complete_on_one_cpu() {
    std::thread::spawn(|| {
        let first = affinity::current().unwrap().first().unwrap();
        affinity::set(&CpuSet::range(first..=first)).unwrap();
        soak("one CPU");
    })
    .join()
    .unwrap();
}

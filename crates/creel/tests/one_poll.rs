//! Tests that at most one thread polls a task at a time.
//!
//! This must hold even if the worker that holds the task is blocked, and several idle workers come
//! for the work that is stranded on it.
//!
//! Under `--cfg creel_pauses` the test runs for longer, and its threads pause between their steps.

#![cfg(not(miri))]

mod deadline;

use creel::{Pool, Wait, channel::spsc, task};
use deadline::bounded;
use std::{
    io::Write,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

const RUNS_FOR: Duration = match cfg!(creel_pauses) {
    true => Duration::from_secs(40),
    false => Duration::from_millis(800),
};
/// A duration longer than the watchdog needs to detect a blocked worker.
const BLOCKED_US: u64 = 1_500;
const BLOCKED_US_MAX: u64 = 8_192;
const PAIRS: u64 = 3;

/// A future that ends the process if two threads poll it at the same time.
struct Alone<F> {
    future: Pin<Box<F>>,
    polled: AtomicBool,
}

impl<F: Future> Alone<F> {
    fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            polled: AtomicBool::new(false),
        }
    }
}

impl<F: Future> Future for Alone<F> {
    type Output = F::Output;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, polled } = self.get_mut();
        if polled.swap(true, Ordering::SeqCst) {
            // We do not panic here, because the other thread would continue with a future that has
            // been dropped.
            let _ = writeln!(std::io::stderr(), "two threads poll one task");
            std::process::abort();
        }
        let output = future.as_mut().poll(context);
        polled.store(false, Ordering::SeqCst);
        output
    }
}

/// Blocks the thread, so that other workers take over the tasks that are stranded on it.
fn block_for(micros: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(micros) {
        thread::sleep(Duration::from_micros(200));
    }
}

/// In each pair, the sender wakes the receiver into its worker's LIFO slot and then blocks that
/// worker. There are more workers than tasks, so some workers are always idle.
#[test]
fn a_task_stranded_on_a_blocked_worker_is_polled_by_one_thread_at_a_time() {
    let seed = match std::env::var("CREEL_ONE_POLL_SEED") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => u64::from(std::process::id()),
    };
    println!("CREEL_ONE_POLL_SEED={seed}");
    bounded("pairs that block their workers", move || {
        let pool = Pool::builder().workers(8).wait(Wait::Park).build().unwrap();
        let end = Instant::now() + RUNS_FOR;
        let mut tasks = Vec::new();
        for pair in 0..PAIRS {
            let (mut sender, mut receiver) = spsc::channel::<u32>();
            let receives = async move {
                while let Ok(number) = receiver.recv().await {
                    if number % 2 == 0 {
                        block_for(BLOCKED_US);
                    }
                }
            };
            let sends = async move {
                let mut random = seed ^ (pair + 1);
                for number in 0.. {
                    if Instant::now() >= end || sender.send(number).await.is_err() {
                        break;
                    }
                    random = random
                        .wrapping_mul(0x5851_f42d_4c95_7f2d)
                        .wrapping_add(0x1405_7b7e_f767_814f);
                    block_for((random >> 33) % BLOCKED_US_MAX);
                    task::yield_now().await;
                }
            };
            tasks.push(pool.spawn(Alone::new(receives)));
            tasks.push(pool.spawn(Alone::new(sends)));
        }
        for task in tasks {
            pool.block_on(task).unwrap();
        }
    });
}

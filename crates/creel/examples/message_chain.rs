//! Passes a message along a chain of tasks. Each task waits for a number from its right neighbour,
//! adds one, and sends it to its left neighbour.
//!
//!     cargo run --release -p creel --example message_chain -- [LENGTH] [PASSES] [WORKERS]
//!
//! Each pass creates a new chain of LENGTH tasks. Only one task of a chain can run at a time, so
//! more workers cannot make the program faster. They must not make it slower either.

use creel::Pool;
use creel::channel::oneshot::{self, Receiver, Sender};
use std::time::{Duration, Instant};

async fn pass_on(right: Receiver<u64>, left: Sender<u64>) {
    let received = right.await.expect("the right neighbour sends a number");
    left.send(received + 1)
        .expect("the left neighbour waits for the number");
}

/// Creates a chain of `length` tasks, sends 0 to its right end, and returns the number that arrives
/// at its left end.
async fn run_chain(length: u64) -> u64 {
    let (mut left, leftmost) = oneshot::channel();
    for _ in 0..length {
        let (next, right) = oneshot::channel();
        creel::task::spawn(pass_on(right, left)).detach();
        left = next;
    }
    left.send(0)
        .expect("the rightmost task waits for the number");
    leftmost.await.expect("no task of the chain has panicked")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (length, passes, workers) = (number(100_001)?, number(20)?, number(1)?);

    let pool = Pool::builder().workers(workers as usize).build()?;
    let mut times: Vec<Duration> = (0..passes.max(1))
        .map(|_| {
            let begin = Instant::now();
            let last = pool.block_on(run_chain(length));
            assert_eq!(last, length, "every task has added one");
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    println!(
        "{length} tasks, {workers} workers: {:.2} ms per pass (median of {}, {:.2} to {:.2})",
        ms(&times[times.len() / 2]),
        times.len(),
        ms(&times[0]),
        ms(&times[times.len() - 1]),
    );
    Ok(())
}

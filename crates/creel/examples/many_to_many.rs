//! Runs many tasks on a few workers (M:N), and changes the number of workers while the tasks run.
//!
//! ```text
//! cargo run --release -p creel --example many_to_many -- [TASKS]
//! ```

use creel::Pool;
use creel::task::yield_now;
use std::hint::black_box;

/// Computes for a while, and yields after each of 50 pieces, so that the other tasks run as well.
async fn work(task: u64) -> u64 {
    let mut value = task;
    for _ in 0..50 {
        for _ in 0..10_000 {
            value = black_box(
                value
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1),
            );
        }
        yield_now().await;
    }
    value
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tasks = std::env::args()
        .nth(1)
        .map_or(Ok(200), |text| text.parse())?;
    let pool = Pool::builder().workers(1).build()?;
    let running: Vec<_> = (0..tasks).map(|task| pool.spawn(work(task))).collect();
    for workers in [2, 4, 1, 2] {
        pool.resize(workers)?;
        println!("{workers} workers: {:?}", pool.stats().tasks);
    }
    let mut sum = 0_u64;
    for task in running {
        sum = sum.wrapping_add(pool.block_on(task)?);
    }
    println!("all done: {:?}, sum {sum:x}", pool.stats().tasks);
    Ok(())
}

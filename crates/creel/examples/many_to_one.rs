//! Runs many tasks on one thread (M:1). The tasks take turns at each `await`, so they need no lock
//! for the counter that they share.
//!
//! ```text
//! cargo run --release -p creel --example many_to_one -- [TASKS]
//! ```

use creel::Pool;
use creel::task::{spawn_local, yield_now};
use std::cell::Cell;
use std::rc::Rc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tasks = std::env::args()
        .nth(1)
        .map_or(Ok(1000), |text| text.parse())?;
    let pool = Pool::builder().workers(1).build()?;
    // We can use `Rc` and `Cell`, because the tasks never leave their thread.
    let counted = pool
        .run_on(0, || {
            let counter = Rc::new(Cell::new(0_u64));
            let count = |counter: Rc<Cell<u64>>| async move {
                for _ in 0..10 {
                    counter.set(counter.get() + 1);
                    yield_now().await;
                }
            };
            spawn_local(async move {
                let all: Vec<_> = (0..tasks)
                    .map(|_| spawn_local(count(Rc::clone(&counter))))
                    .collect();
                for task in all {
                    task.await.expect("no task panics");
                }
                counter.get()
            })
        })
        .unwrap();
    println!(
        "{tasks} tasks on one thread counted to {}",
        pool.block_on(counted)?
    );
    Ok(())
}

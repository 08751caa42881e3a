//! Models of the whole pool for shuttle.
//!
//! They use real workers, loops, tasks, timers and channels. A seeded scheduler orders every step
//! on shared memory.
//!
//! This command runs each model on [`SEEDS`] seeds:
//!
//! ```text
//! cargo test --manifest-path crates/models/Cargo.toml --features shuttle --lib models
//! ```
//!
//! You can set `CREEL_MODEL_SEEDS` for more or fewer. One seed is [`RUNS`] runs. Even seeds use a
//! scheduler that chooses at random, and odd seeds use PCT (Burckhardt et al., "A randomized
//! scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010). In every second pair of
//! seeds, timeouts never expire. A lost wake-up is then a deadlock, which shuttle reports, because
//! no timeout repairs it a millisecond later.
//!
//! A failure prints its seed. To repeat the same steps, set `CREEL_MODEL_SEED` to that seed and add
//! the model's name to the `models` filter.
//!
//! We leave out weak memory, because shuttle is sequentially consistent and loom's models cover
//! that part. We also leave out sockets and placement.

mod blocked;
mod loops;
mod tasks;

use crate::{Balance, Pool, Wait, sync::model_clock, worker::parts::TaskPart};
use shuttle::{
    Config, FailurePersistence, MaxSteps, Runner,
    rand::{RngCore, thread_rng},
    scheduler::{PctScheduler, RandomScheduler},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};

/// The number of seeds that each model runs on.
const SEEDS: u64 = 250;
/// The number of runs per seed.
const RUNS: usize = 4;
/// The bug depth of PCT, which is one more than the number of times that it lowers the priority of
/// the running thread.
const DEPTH: usize = 4;

/// Runs the model on all seeds.
fn check(model: fn()) {
    check_where(|_| true, model);
}

/// Runs the model on the seeds in which time passes.
fn check_in_time(model: fn()) {
    check_where(time_passes, model);
}

/// Returns whether timeouts expire with this seed.
fn time_passes(seed: u64) -> bool {
    seed % 4 < 2
}

fn check_where(fits: fn(u64) -> bool, model: fn()) {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().expect("a number"))
    };
    let seeds = match number("CREEL_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CREEL_MODEL_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds.filter(|seed| fits(*seed)) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| run(model, seed))) {
            eprintln!("the model fails; CREEL_MODEL_SEED={seed} runs this case alone");
            resume_unwind(payload);
        }
    }
}

fn run(model: fn(), seed: u64) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(200_000);
    config.silence_warnings = true;
    let body = move || {
        model_clock::begin(time_passes(seed));
        model();
    };
    if seed.is_multiple_of(2) {
        Runner::new(RandomScheduler::new_from_seed(seed, RUNS), config).run(body);
    } else {
        Runner::new(PctScheduler::new_from_seed(seed, DEPTH, RUNS), config).run(body);
    }
}

/// Returns a number below `bound`, drawn from the schedule.
fn draw(bound: usize) -> usize {
    (thread_rng().next_u64() % bound as u64) as usize
}

/// Returns a pool of `workers` with a random way to wait and a random balance.
///
/// It is throttled only if timeouts expire, because a quantum ends with a timeout.
fn pool(workers: usize) -> Pool {
    let waits = [
        Wait::Park,
        Wait::Adaptive,
        Wait::Spin(Duration::from_micros(5)),
        Wait::Throttle(Duration::from_millis(1)),
    ];
    let ways = if model_clock::passes() { 4 } else { 3 };
    let balances = [Balance::Fixed, Balance::Sticky, Balance::Shared];
    let builder = Pool::builder().workers(workers).wait(waits[draw(ways)]);
    let built = builder.balance(balances[draw(3)]).build();
    built.expect("the numbers are in range")
}

/// Panics without printing a message.
fn throw() {
    resume_unwind(Box::new("thrown"));
}

/// Drops the pool and checks that every spawned task has ended.
fn end_and_count(pool: Pool) {
    let shared = Arc::clone(&pool.shared);
    drop(pool);
    let stats = shared.tasks.stats();
    assert_eq!(stats.spawned, stats.finished + stats.cancelled, "{stats:?}");
}

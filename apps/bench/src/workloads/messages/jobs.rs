//! The work that the tasks do in each case of the workload `messages`.

use std::time::{Duration, Instant};

use super::cost;
use super::endpoints::{MessageReceiver, MessageSender};
use super::runtime::Runtime;
use crate::harness::Plan;

/// The work that a case measures. Every runtime does it with its own tasks and channels.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// Spawns a chain with this number of tasks and passes a message through it. The result is the
    /// time of a pass, including the spawns.
    Chain(u64),
    /// Spawns a chain of this number of tasks and passes a message through it many times. The
    /// result is the time of a hop from one task to the next, with a small share of the spawns.
    Hop(u64),
    /// Spawns a task and awaits it. The result is the time of both.
    SpawnJoin,
    /// Sends a message between two tasks over two channels. The result is the time of a round trip.
    PingPong,
    /// Lets two tasks yield to each other. The result is the time of a yield.
    Yield,
    /// Lets one task spawn this number of tasks, each of which computes for this time. The result
    /// is the time per task.
    FanOut(u64, Duration),
    /// Puts eight tasks into the queue of a worker, and blocks the worker for 100 ms. The result is
    /// the longest wait of a task, which is short if other workers take the tasks over.
    Blocked,
}

/// The number of operations per call, for operations that are too short to measure alone.
const BATCH: u64 = 1000;

impl Job {
    /// Starts a new runtime and takes a sample on it. For a chain, the sample includes the costs of
    /// a pass.
    pub fn sample<R: Runtime>(self, plan: &Plan, workers: usize) -> anyhow::Result<Vec<f64>> {
        let runtime = R::start(workers)?;
        let value = match self {
            Job::Chain(length) => {
                let pass = || assert_eq!(runtime.run(chain::<R>(length)), length);
                return Ok(cost::sampled(plan, length, pass));
            }
            Job::Hop(length) => {
                let laps = 10_000 / length;
                let call = || assert_eq!(runtime.run(relay::<R>(length, laps)), length * laps);
                plan.time(call) / (length * laps) as f64
            }
            Job::SpawnJoin => plan.time(|| runtime.run(spawn_join::<R>())) / BATCH as f64,
            Job::PingPong => plan.time(|| runtime.run(ping_pong::<R>())) / BATCH as f64,
            Job::Yield => plan.time(|| runtime.run(yield_repeatedly::<R>())) / (2 * BATCH) as f64,
            Job::FanOut(tasks, work) => {
                plan.time(|| runtime.run(fan_out::<R>(tasks, work))) / tasks as f64
            }
            Job::Blocked => {
                let waited = runtime.run(blocked::<R>());
                waited.as_secs_f64() * 1e3
            }
        };
        Ok(vec![value])
    }
}

/// Spawns a chain of tasks. Each task waits for a number from its right neighbour, adds one, and
/// passes the number to the left.
async fn chain<R: Runtime>(length: u64) -> u64 {
    let (mut left, last) = R::oneshot_channel();
    for _ in 0..length {
        let (next, right) = R::oneshot_channel();
        R::spawn_detached(async move { left(right.await + 1) });
        left = next;
    }
    left(0);
    last.await
}

/// Sends a number through a chain of waiting tasks several times.
async fn relay<R: Runtime>(length: u64, laps: u64) -> u64 {
    let (mut left, mut last) = R::channel_of_one();
    for _ in 0..length {
        let (next, mut right) = R::channel_of_one();
        R::spawn_detached(async move {
            while let Some(number) = right.receive_message().await {
                left.send_message(number + 1).await;
            }
        });
        left = next;
    }
    let mut number = 0;
    for _ in 0..laps {
        left.send_message(number).await;
        number = last
            .receive_message()
            .await
            .expect("all tasks of the chain are alive");
    }
    number
}

async fn spawn_join<R: Runtime>() {
    for number in 0..BATCH {
        assert_eq!(R::spawn(async move { number }).await, number);
    }
}

async fn ping_pong<R: Runtime>() {
    let (mut there, mut receive_there) = R::channel_of_one();
    let (mut back, mut receive_back) = R::channel_of_one();
    let other = R::spawn(async move {
        while let Some(number) = receive_there.receive_message().await {
            back.send_message(number).await;
        }
    });
    for number in 0..BATCH {
        there.send_message(number).await;
        assert_eq!(receive_back.receive_message().await, Some(number));
    }
    drop(there);
    other.await;
}

async fn yield_repeatedly<R: Runtime>() {
    let yield_now = || async {
        for _ in 0..BATCH {
            R::yield_now().await;
        }
    };
    let (one, two) = (R::spawn(yield_now()), R::spawn(yield_now()));
    one.await;
    two.await;
}

async fn fan_out<R: Runtime>(tasks: u64, work: Duration) {
    let made: Vec<_> = (0..tasks)
        .map(|_| R::spawn(async move { busy_work(work) }))
        .collect();
    for task in made {
        task.await;
    }
}

/// Blocks a worker, and returns the longest wait of the tasks in its queue.
async fn blocked<R: Runtime>() -> Duration {
    let blocker = R::spawn(async {
        let begin = Instant::now();
        let behind: Vec<_> = (0..8)
            .map(|_| R::spawn(async move { begin.elapsed() }))
            .collect();
        std::thread::sleep(Duration::from_millis(100));
        behind
    });
    let mut longest = Duration::ZERO;
    for task in blocker.await {
        longest = longest.max(task.await);
    }
    longest
}

/// Spins for `work`, which stands for a task that computes.
pub fn busy_work(work: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < work {
        std::hint::spin_loop();
    }
}

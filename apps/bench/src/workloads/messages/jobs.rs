//! What the tasks do in each case; every function gives ns a unit of its case.

use std::time::{Duration, Instant};

use super::cost;
use super::endpoints::{MessageReceiver, MessageSender};
use super::runtime::Runtime;
use crate::harness::Plan;

/// What a case measures.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// A chain of so many tasks, made anew for each pass; a pass.
    Chain(u64),
    /// A standing chain of so many tasks; a hop.
    Hop(u64),
    /// Making a task and awaiting it.
    SpawnJoin,
    /// Two tasks and two links; there and back.
    PingPong,
    /// A task that gives way beside another one that does.
    Yield,
    /// So many tasks of so much work each, made by one; a task.
    FanOut(u64, Duration),
    /// The longest wait of eight tasks behind one that blocks its worker for 100 ms.
    Blocked,
}

/// Operations a call, where one alone is too short to be measured.
const BATCH: u64 = 1000;

impl Job {
    /// A sample on a runtime made for it; of a chain with what a pass costs.
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

/// Each task waits for a number, adds one and passes it on.
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

/// A chain that stands while a number goes through it several times.
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
        number = last.receive_message().await.expect("the chain is whole");
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

/// One task blocks a worker; what lies behind it in the queue waits until another worker comes.
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

/// Keeps the CPU busy for so long by the clock.
pub fn busy_work(work: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < work {
        std::hint::spin_loop();
    }
}

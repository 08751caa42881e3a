//! Small programs that `creel-here` measures on the machine it runs on, and that `creel-scale
//! --here` simulates. Both programs compile this file, and each has a module `clock` of its own.

use crate::clock::{now_ns, rest, work};
use creel::{Pool, Wait};
use std::time::Duration;

/// One operation of the runtime.
pub struct Case {
    pub name: &'static str,
    pub what: &'static str,
    /// Returns the median time in microseconds, on a pool with this number of workers.
    pub measure: fn(usize) -> f64,
}

pub const CASES: [Case; 9] = [
    Case {
        name: "dispatch-spun",
        what: "a loop with one item of 5 us per spinning worker, without the item",
        measure: |workers| {
            let (pool, mut items) = (pool(workers, SPIN), vec![0u8; workers]);
            let call = || pool.for_each(&mut items, |_| work(5_000));
            // A pool whose threads are still starting may run these loops on the caller for a while.
            median(2_000, || (), call) - median(200, || (), || work(5_000))
        },
    },
    Case {
        name: "dispatch-parked",
        what: "a loop with one item of 100 us per sleeping worker, without the item",
        measure: |workers| {
            let (pool, mut items) = (pool(workers, Wait::Park), vec![0u8; workers]);
            let call = || pool.for_each(&mut items, |_| work(100_000));
            median(100, || rest(REST), call) - median(20, || (), || work(100_000))
        },
    },
    Case {
        name: "hot",
        what: "a loop of 100,000 items of 10 ns per worker",
        measure: |workers| {
            let (pool, mut items) = (pool(workers, SPIN), vec![0u8; 100_000 * workers]);
            let each = |chunk: &mut [u8]| work(chunk.len() as u64 * 10);
            median(40, || (), || pool.for_each_chunk(&mut items, 1_000, each))
        },
    },
    Case {
        name: "join-tree",
        what: "a tree of 4,096 leaves of 500 ns by join",
        measure: |workers| {
            let pool = pool(workers, SPIN);
            median(20, || (), || branch(&pool, 12))
        },
    },
    Case {
        name: "spawn-join",
        what: "a task that spawns an empty task and awaits it",
        measure: |workers| {
            let pool = pool(workers, Wait::Adaptive);
            let all = median(20, || (), || pool.block_on(spawn_join(&pool)));
            all / BATCH as f64
        },
    },
    Case {
        name: "hop",
        what: "a message from one task of a chain of 100 tasks to the next",
        measure: |workers| {
            let pool = pool(workers, Wait::Adaptive);
            let laps = || pool.block_on(relay(&pool, 100, 10));
            median(20, || (), laps) / 1_000.0
        },
    },
    Case {
        name: "channel",
        what: "a message through a channel of 1,024 places",
        measure: |workers| {
            let pool = pool(workers, Wait::Adaptive);
            let messages = || pool.block_on(stream(&pool, 10_000));
            median(20, || (), messages) / 10_000.0
        },
    },
    Case {
        name: "chain",
        what: "a task of a chain of 10,000 tasks, each of which spawns the next one",
        measure: |workers| {
            let pool = pool(workers, SPIN);
            median(20, || (), || chain(&pool, 10_000)) / 10_000.0
        },
    },
    Case {
        name: "wake-to-run",
        what: "from the spawn of a task until it runs, while all workers sleep",
        measure: |workers| {
            let pool = pool(workers, Wait::Park);
            let mut times: Vec<u64> = (0..100)
                .map(|_| {
                    rest(REST);
                    let (sender, receiver) = creel::channel::oneshot::channel();
                    let begin = now_ns();
                    let task = async move { sender.send(now_ns()).unwrap() };
                    pool.spawn(task).detach();
                    receiver.recv_blocking().expect("the task runs") - begin
                })
                .collect();
            middle(&mut times)
        },
    },
];

pub const SPIN: Wait = Wait::Spin(Duration::from_millis(2));
/// The pause before each operation that needs sleeping workers. Together with the delay of the
/// timer, it is shorter than the time after which a PU enters a deep state.
const REST: Duration = Duration::from_micros(50);
/// The number of operations that are measured together, because one of them is too short.
const BATCH: u64 = 1_000;

pub fn pool(workers: usize, wait: Wait) -> Pool {
    let pool = Pool::builder().workers(workers).wait(wait);
    pool.build().expect("the pool is valid")
}

/// Calls `prepare` and `f` `times` times, and then returns the median time of `f` in microseconds.
/// Before that, it calls both a few times without measuring.
fn median(times: usize, mut prepare: impl FnMut(), mut f: impl FnMut()) -> f64 {
    let mut time = |_| {
        prepare();
        let begin = now_ns();
        f();
        now_ns() - begin
    };
    for n in 0..10 {
        time(n);
    }
    let mut all: Vec<u64> = (0..times).map(time).collect();
    middle(&mut all)
}

fn middle(times: &mut [u64]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e3
}

/// Computes for 500 ns in each leaf of a binary tree of joins.
pub fn branch(pool: &Pool, depth: u32) {
    if depth == 0 {
        work(500);
    } else {
        pool.join(|| branch(pool, depth - 1), || branch(pool, depth - 1));
    }
}

async fn spawn_join(pool: &Pool) {
    let handle = pool.handle();
    let all = pool.spawn(async move {
        for number in 0..BATCH {
            let task = handle.spawn(async move { number });
            assert_eq!(task.await.expect("it does not panic"), number);
        }
    });
    all.await.expect("it does not panic");
}

async fn relay(pool: &Pool, length: u64, laps: u64) {
    let handle = pool.handle();
    let all = pool.spawn(async move {
        let (mut left, last) = creel::channel::bounded::channel(1);
        for _ in 0..length {
            let (next, right) = creel::channel::bounded::channel(1);
            let task = async move {
                while let Ok(number) = right.recv().await {
                    left.send(number + 1).await.expect("the receiver is alive");
                }
            };
            handle.spawn(task).detach();
            left = next;
        }
        let mut number: u64 = 0;
        for _ in 0..laps {
            left.send(number).await.expect("the tasks are alive");
            number = last.recv().await.expect("the tasks are alive");
        }
        assert_eq!(number, length * laps);
    });
    all.await.expect("it does not panic");
}

async fn stream(pool: &Pool, messages: u64) {
    let (sender, receiver) = creel::channel::bounded::channel(1_024);
    let task = async move {
        for number in 0..messages {
            sender.send(number).await.expect("the receiver is alive");
        }
    };
    pool.spawn(task).detach();
    let receive = async move {
        let mut got: u64 = 0;
        while receiver.recv().await.is_ok() {
            got += 1;
        }
        got
    };
    let got = pool.spawn(receive).await.expect("it does not panic");
    assert_eq!(got, messages);
}

/// Runs a chain of tasks. Each of them spawns the next one.
pub fn chain(pool: &Pool, length: u32) {
    let (sender, receiver) = creel::channel::oneshot::channel();
    link(pool.handle(), length, sender);
    receiver.recv_blocking().expect("the chain ends");
}

/// Spawns a task of a chain. The task spawns the next one, with `left` reduced by one. The task
/// with `left` 0 is the last one, and reports the end to `done`.
fn link(pool: Pool, left: u32, done: creel::channel::oneshot::Sender<()>) {
    let next = pool.clone();
    let task = pool.spawn(async move {
        match left {
            0 => drop(done.send(())),
            left => link(next, left - 1, done),
        }
    });
    task.detach();
}

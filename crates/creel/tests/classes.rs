//! Tests `spawn_near`, which asks for the worker where a task starts, and `task::background`, whose
//! tasks let all other tasks run first.

use creel::task::{self, yield_now};
use creel::{Pool, Wait};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn pool(workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers).wait(Wait::Park);
    builder.name("near").build().unwrap()
}

/// Waits for something that another thread is certain to do, and fails instead of hanging.
fn soon<T>(receiver: &mpsc::Receiver<T>) -> T {
    receiver
        .recv_timeout(Duration::from_secs(60))
        .expect("no message arrived in time")
}

#[test]
#[cfg_attr(miri, ignore = "thousands of tasks")]
fn a_task_near_an_idle_worker_starts_there() {
    let pool = pool(3);
    pool.broadcast(|_| ());
    // Without the hint, a third of the tasks would start on this worker by chance. On a busy
    // machine the number is only a little higher with the hint, because a worker that is already
    // awake takes the task first. Therefore we count by how many tasks the number exceeds that
    // third. By chance alone, this excess reaches 60 within 2,000 tasks only about once in two
    // hundred runs.
    let mut lead = 0.0;
    for round in 0..2_000 {
        let worker = round % 3;
        let there = ran_near(&pool, worker) == format!("near-{worker}");
        lead += f64::from(u8::from(there)) - 1.0 / 3.0;
        if lead > 60.0 {
            return;
        }
    }
    panic!("too few tasks ran near their worker: a lead of {lead}");
}

/// Returns the name of the thread that ran a task of `spawn_near`.
fn ran_near(pool: &Pool, worker: usize) -> String {
    let ran = pool.spawn_near(worker, async {
        std::thread::current().name().map(String::from)
    });
    // We do not call `block_on` yet, because its caller would run tasks as well.
    while !ran.is_finished() {
        std::thread::yield_now();
    }
    pool.block_on(ran).unwrap().unwrap()
}

#[test]
fn a_task_near_a_busy_worker_runs_on_another_worker() {
    let pool = pool(2);
    let (sender, receiver) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    std::thread::scope(|scope| {
        let busy = move || {
            begun.send(()).unwrap();
            held.recv().ok()
        };
        scope.spawn(|| pool.run_on(1, busy).unwrap());
        soon(&begins);
        pool.spawn_near(1, async move { sender.send(()).unwrap() })
            .detach();
        soon(&receiver);
        drop(release);
    });
}

/// Returns the order in which ordinary tasks and background tasks end on one worker.
fn ends(background: usize, ordinary: usize) -> Vec<bool> {
    let (sender, receiver) = mpsc::channel();
    let pool = pool(1);
    let spawner = pool.spawn(async move {
        for _ in 0..background {
            let sender = sender.clone();
            task::spawn(task::background(async move { sender.send(false).unwrap() })).detach();
        }
        for _ in 0..ordinary {
            let sender = sender.clone();
            let work = async move {
                for _ in 0..3 {
                    yield_now().await;
                }
                sender.send(true).unwrap();
            };
            task::spawn(work).detach();
        }
    });
    let all = (0..background + ordinary)
        .map(|_| soon(&receiver))
        .collect();
    pool.block_on(spawner).unwrap();
    all
}

#[test]
fn background_tasks_end_after_all_other_tasks() {
    for (background, ordinary) in [(1, 1), (1, 50), (50, 1), (20, 20)] {
        let ends = ends(background, ordinary);
        let first = ends.iter().position(|ordinary| !ordinary).unwrap();
        assert_eq!(first, ordinary, "of {background} and {ordinary}: {ends:?}");
    }
    assert_eq!(ends(40, 0).len(), 40);
}

#[test]
fn background_tasks_continue_next_to_an_endless_task() {
    let pool = pool(1);
    let done = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&done);
    let busy = pool.spawn(async move {
        let work = async move { done.store(true, Ordering::SeqCst) };
        let work = task::spawn(task::background(work));
        let mut rounds = 0;
        while !seen.load(Ordering::SeqCst) {
            yield_now().await;
            rounds += 1;
        }
        work.await.unwrap();
        rounds
    });
    let rounds = pool.block_on(busy).unwrap();
    assert!((100..2000).contains(&rounds), "{rounds} rounds");
}

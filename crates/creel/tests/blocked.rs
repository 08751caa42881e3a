//! Tests of work that blocks its thread, on as many threads as there are workers.
//!
//! Idle workers must run everything else that is ready, wherever it is queued. No test here would
//! end if any of that work were left behind.

#![cfg(not(miri))]

mod deadline;

use creel::{Balance, Placement, Pool, Wait, net::UdpSocket, task, time};
use deadline::{block_on, bounded};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Barrier, mpsc},
    thread,
    time::Duration,
};

const WAITS: [Wait; 4] = [
    Wait::Park,
    Wait::Adaptive,
    Wait::Spin(Duration::from_micros(20)),
    Wait::Throttle(Duration::from_millis(1)),
];
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn pool(workers: usize, wait: Wait) -> Arc<Pool> {
    let builder = Pool::builder().workers(workers).wait(wait);
    Arc::new(builder.placement(Placement::Unpinned).build().unwrap())
}

/// Runs `calls` calls, each of which blocks its thread until all of them are running.
fn meet(pool: &Pool, calls: usize) {
    let all = Arc::new(Barrier::new(calls));
    let (done, wait) = mpsc::channel();
    for _ in 0..calls {
        let (all, done) = (Arc::clone(&all), done.clone());
        let call = move || {
            all.wait();
            done.send(()).unwrap();
        };
        pool.spawn_fn(call).detach();
    }
    (0..calls).for_each(|_| wait.recv().unwrap());
}

/// Spawns a task and blocks the thread until the task is done. Before a task ends, it spawns a task
/// of its own and blocks in the same way, up to `depth` levels.
fn block_for_child(depth: usize) {
    let (done, wait) = mpsc::channel();
    let child = async move {
        if depth > 1 {
            block_for_child(depth - 1);
        }
        done.send(()).unwrap();
    };
    task::spawn(child).detach();
    wait.recv().unwrap();
}

/// Returns the index of the calling worker in its pool, which is part of the thread's name.
fn own_index() -> usize {
    let thread = thread::current();
    let name = thread.name().expect("workers have names");
    name.rsplit('-').next().unwrap().parse().unwrap()
}

/// Gives the workers time to fall asleep. The checks after this call must hold whether or not the
/// workers sleep.
fn settle() {
    thread::sleep(Duration::from_millis(3));
}

#[test]
fn calls_wait_for_each_other_if_there_is_a_worker_for_each() {
    for workers in [1, 2, 3, 4, 8] {
        for wait in WAITS {
            bounded(&format!("{workers} workers, {wait}"), move || {
                let pool = pool(workers, wait);
                (0..200).for_each(|_| meet(&pool, workers));
            });
        }
    }
}

#[test]
fn calls_wait_for_each_other_after_each_way_to_resize() {
    for by in [&[4][..], &[2], &[1], &[8], &[1, 8, 2]] {
        bounded(&format!("by way of {by:?} workers"), move || {
            let pool = pool(4, Wait::Park);
            for round in 0..100 {
                by.iter().for_each(|workers| pool.resize(*workers).unwrap());
                pool.resize(4).unwrap();
                if round % 4 == 0 {
                    settle();
                }
                meet(&pool, 4);
            }
        });
    }
}

#[test]
fn calls_wait_for_each_other_after_concurrent_resizes() {
    bounded("concurrent resizes", || {
        let pool = pool(4, Wait::Park);
        for _ in 0..100 {
            thread::scope(|s| {
                for workers in [1, 4] {
                    let pool = &pool;
                    s.spawn(move || (0..20).for_each(|_| pool.resize(workers).unwrap()));
                }
            });
            meet(&pool, pool.workers());
        }
    });
}

#[test]
fn nested_tasks_may_block_on_their_children() {
    for workers in [2, 3, 4, 8] {
        for wait in WAITS {
            bounded(&format!("{workers} workers, {wait}"), move || {
                let pool = pool(workers, wait);
                for _ in 0..20 {
                    let root = pool.spawn(async move { block_for_child(workers - 1) });
                    block_on(root).unwrap();
                }
            });
        }
    }
}

#[test]
fn every_task_behind_a_blocked_worker_runs() {
    for (workers, tasks) in [(2, 100), (2, 10_000), (4, 10_000)] {
        bounded(&format!("{workers} workers, {tasks} tasks"), move || {
            let pool = pool(workers, Wait::Park);
            for _ in 0..5 {
                // The task ends only when the other workers have run all of its children.
                let parent = pool.spawn(async move {
                    let (done, wait) = mpsc::channel();
                    for _ in 0..tasks {
                        let done = done.clone();
                        task::spawn(async move { done.send(()).unwrap() }).detach();
                    }
                    (0..tasks).for_each(|_| wait.recv().unwrap());
                });
                block_on(parent).unwrap();
            }
        });
    }
}

#[test]
fn a_pool_that_has_grown_finds_work_stranded_on_blocked_workers() {
    bounded("a child behind a blocked parent", || {
        for _ in 0..20 {
            let pool = pool(2, Wait::Park);
            let (go_on, gate) = mpsc::channel::<()>();
            // This task spawns a child and then blocks its worker, whose queue has work by then.
            // The watchdog therefore checks this worker.
            let first = pool.spawn(async move {
                task::spawn(async {}).detach();
                gate.recv().unwrap();
            });
            settle();
            pool.resize(4).unwrap();
            let second = pool.spawn(async { block_for_child(2) });
            block_on(second).unwrap();
            go_on.send(()).unwrap();
            block_on(first).unwrap();
        }
    });
}

#[test]
fn tasks_queued_while_all_workers_are_blocked_run_when_the_pool_grows() {
    for workers in [1, 2] {
        bounded(&format!("{workers} workers and one more"), move || {
            for _ in 0..20 {
                let pool = pool(workers, Wait::Park);
                let gates: Vec<_> = (0..workers)
                    .map(|_| {
                        let (go_on, gate) = mpsc::channel::<()>();
                        pool.spawn(async move { gate.recv().unwrap() }).detach();
                        go_on
                    })
                    .collect();
                let waits = pool.spawn(async { 5 });
                settle();
                pool.resize(workers + 1).unwrap();
                assert_eq!(block_on(waits).unwrap(), 5);
                gates.iter().for_each(|go_on| go_on.send(()).unwrap());
            }
        });
    }
}

#[test]
fn a_block_on_future_that_yields_until_a_task_is_done_sees_it_done() {
    for workers in [1, 2, 4] {
        for wait in WAITS {
            bounded(&format!("{workers} workers, {wait}"), move || {
                let pool = pool(workers, wait);
                for own in [true, false, true] {
                    let before = (!own).then(|| pool.spawn(async {}));
                    pool.block_on(async {
                        let task = before.unwrap_or_else(|| task::spawn(async {}));
                        while !task.is_finished() {
                            task::yield_now().await;
                        }
                    });
                }
            });
        }
    }
}

#[test]
fn a_task_that_yields_until_another_task_is_done_sees_it_done() {
    for workers in [1, 2, 4] {
        bounded(&format!("{workers} workers"), move || {
            let pool = pool(workers, Wait::Park);
            let waits = pool.spawn(async {
                let child = task::spawn(async {});
                let local = task::spawn_local(async {});
                while !child.is_finished() || !local.is_finished() {
                    task::yield_now().await;
                }
            });
            let late = pool.spawn(async {});
            block_on(waits).unwrap();
            block_on(late).unwrap();
        });
    }
}

#[test]
fn a_block_on_future_blocks_its_thread_until_its_children_are_done() {
    for workers in [1, 2, 4] {
        for wait in WAITS {
            bounded(&format!("{workers} workers, {wait}"), move || {
                let pool = pool(workers, wait);
                for fresh in [true, false, false] {
                    if !fresh {
                        pool.block_on(async { task::spawn(async {}).await.unwrap() });
                    }
                    pool.block_on(async { block_for_child(workers) });
                }
            });
        }
    }
}

#[test]
fn block_on_futures_and_tasks_block_on_each_other() {
    for workers in [1, 2, 4] {
        bounded(&format!("{workers} workers, three roots"), move || {
            let pool = pool(workers, Wait::Park);
            for _ in 0..20 {
                // The three callers of `block_on` are not workers, so their futures and all tasks
                // can block at the same time.
                let all = Barrier::new(3 + workers);
                let all = Arc::new(all);
                thread::scope(|s| {
                    for root in 0..3 {
                        let (pool, all) = (&pool, Arc::clone(&all));
                        s.spawn(move || {
                            let inner = Arc::clone(&all);
                            pool.block_on(async move {
                                for _ in (root..workers).step_by(3) {
                                    let all = Arc::clone(&inner);
                                    task::spawn(async move { _ = all.wait() }).detach();
                                }
                                inner.wait();
                            });
                        });
                    }
                });
            }
        });
    }
}

/// The ways in which we block a worker's thread.
const WAYS: [&str; 3] = ["run_on", "spawn_on", "spawn"];

/// Blocks the thread of this worker until `release` receives a message or its sender is dropped.
/// `spawn` blocks any worker.
fn block_by(way: &str, pool: &Arc<Pool>, worker: usize, release: mpsc::Receiver<()>) {
    let (begun, begins) = mpsc::channel();
    let blocks = move || {
        begun.send(()).unwrap();
        let _ = release.recv();
    };
    match way {
        "run_on" => {
            let pool = Arc::clone(pool);
            thread::spawn(move || pool.run_on(worker, blocks).unwrap());
        }
        "spawn_on" => pool.spawn_on(worker, async move { blocks() }).detach(),
        _ => pool.spawn_fn(blocks).detach(),
    }
    begins.recv().unwrap();
}

/// Checks that a wait ends although the worker that polled the task is blocked.
///
/// The timer or the poller belongs to that worker, and the worker stays blocked until the wait has
/// ended.
fn ends_behind_a_blocked_worker<W, F>(waits: W)
where
    W: Fn() -> (F, Option<SocketAddr>) + Copy + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    for way in WAYS {
        for wait in WAITS {
            bounded(&format!("{way}, {wait}"), move || {
                for _ in 0..5 {
                    let pool = pool(2, wait);
                    pool.broadcast(|_| ());
                    let (future, to) = waits();
                    let (polls, polled_by) = mpsc::channel();
                    let (release, released) = mpsc::channel::<()>();
                    let task = pool.spawn(async move {
                        polls.send(own_index()).unwrap();
                        future.await;
                        drop(release);
                    });
                    let worker = polled_by.recv().unwrap();
                    settle();
                    block_by(way, &pool, worker, released);
                    if let Some(to) = to {
                        let sender = std::net::UdpSocket::bind(LOOPBACK).unwrap();
                        sender.send_to(b"packet", to).unwrap();
                    }
                    block_on(task).unwrap();
                }
            });
        }
    }
}

fn receives() -> (impl Future<Output = ()> + Send, Option<SocketAddr>) {
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    let to = socket.local_addr().unwrap();
    let receive = async move {
        assert_eq!(socket.recv(&mut [0; 8]).await.unwrap(), 6);
    };
    (receive, Some(to))
}

#[test]
fn a_packet_arrives_although_the_worker_that_polled_for_it_blocks() {
    ends_behind_a_blocked_worker(receives);
}

#[test]
fn a_timer_fires_although_the_worker_that_armed_it_blocks() {
    ends_behind_a_blocked_worker(|| (time::sleep(Duration::from_millis(5)), None));
}

#[test]
fn a_block_on_future_gets_timers_and_packets_while_worker_0_is_blocked() {
    for workers in [2, 3] {
        bounded(&format!("{workers} workers"), move || {
            for _ in 0..10 {
                let pool = pool(workers, Wait::Park);
                let (release, gate) = mpsc::channel();
                block_by("run_on", &pool, 0, gate);
                let (receive, to) = receives();
                let sender = std::net::UdpSocket::bind(LOOPBACK).unwrap();
                let sends = thread::spawn(move || {
                    settle();
                    sender.send_to(b"packet", to.unwrap()).unwrap();
                });
                pool.block_on(async {
                    time::sleep(Duration::from_millis(2)).await;
                    receive.await;
                });
                sends.join().unwrap();
                drop(release);
            }
        });
    }
}

#[test]
fn a_sleep_under_a_foreign_executor_ends_on_another_worker() {
    bounded("a task that blocks its thread for a timer", || {
        let pool = pool(2, Wait::Park);
        for _ in 0..20 {
            let task = pool.spawn(async { block_on(time::sleep(Duration::from_millis(1))) });
            block_on(task).unwrap();
        }
    });
}

#[test]
fn a_socket_is_served_after_the_pool_has_shrunk() {
    for first in [0, 1, 2] {
        bounded(&format!("worker {first} had its thread first"), move || {
            for workers in [1, 2, 3] {
                let pool = pool(3, Wait::Park);
                pool.run_on(first, || ()).unwrap();
                pool.resize(workers).unwrap();
                settle();
                let (receive, to) = receives();
                let sends = thread::spawn(move || {
                    settle();
                    let sender = std::net::UdpSocket::bind(LOOPBACK).unwrap();
                    sender.send_to(b"packet", to.unwrap()).unwrap();
                });
                pool.block_on(receive);
                sends.join().unwrap();
            }
        });
    }
}

#[test]
fn closures_of_nested_joins_can_wait_for_each_other_if_there_is_a_worker_for_each() {
    fn split(pool: &Pool, leaves: usize, all: &Barrier) {
        match leaves {
            1 => _ = all.wait(),
            _ => {
                let half = leaves / 2;
                let right = || split(pool, leaves - half, all);
                pool.join(|| split(pool, half, all), right);
            }
        }
    }
    for workers in [2, 4, 7, 8] {
        for wait in WAITS {
            bounded(&format!("{workers} workers, {wait}"), move || {
                let pool = pool(workers, wait);
                for round in 0..50 {
                    let all = Barrier::new(workers);
                    match round % 2 {
                        // The thread that calls the join counts as one of the workers.
                        0 => split(&pool, workers, &all),
                        _ => pool.run_on(0, || split(&pool, workers, &all)).unwrap(),
                    }
                }
            });
        }
    }
}

#[test]
fn jobs_of_a_scope_can_wait_for_each_other_if_there_is_a_worker_for_each() {
    for workers in [2, 4, 8] {
        for wait in WAITS {
            bounded(&format!("{workers} workers, {wait}"), move || {
                let pool = pool(workers, wait);
                for round in 0..50 {
                    // The job with the inner scope needs a worker of its own: if another worker takes
                    // the inner job, the first one waits, and runs no jobs of the outer scope.
                    let all = Barrier::new(workers - 1);
                    let meet = || {
                        pool.scope(|s| {
                            (2..workers).for_each(|_| s.spawn(|| _ = all.wait()));
                            s.spawn(|| pool.scope(|inner| inner.spawn(|| _ = all.wait())));
                        });
                    };
                    match round % 2 {
                        0 => meet(),
                        _ => pool.run_on(workers - 1, meet).unwrap(),
                    }
                }
            });
        }
    }
}

/// A job or a task occupies the worker of one share while a loop is called, and ends only after the
/// loop. Another worker must run that share, because its unit waits for the other unit. Set
/// `CREEL_MEET_ROUNDS` for more rounds.
#[test]
fn items_of_loops_can_wait_for_each_other_while_a_worker_is_busy() {
    let rounds = std::env::var("CREEL_MEET_ROUNDS").map_or(200, |n| n.parse().unwrap());
    for balance in [Balance::Fixed, Balance::Shared] {
        for kind in ["scope", "inbox job", "task"] {
            // Each thousand rounds has its own time limit.
            for first in (0..rounds).step_by(1000) {
                bounded(&format!("{kind}, {balance}, from {first}"), move || {
                    let pool = pool(4, Wait::Park);
                    let round = || meet_in_loops(&pool, &pool.with_balance(balance), kind);
                    (first..rounds.min(first + 1000)).for_each(|_| round());
                });
            }
        }
    }
}

fn meet_in_loops(pool: &Pool, loops: &Pool, kind: &str) {
    if kind == "scope" {
        let all = Barrier::new(4);
        let units = || loops.for_each(0..2, |_| _ = all.wait());
        return pool.scope(|s| (0..2).for_each(|_| s.spawn(units)));
    }
    let all = Barrier::new(2);
    let (done, wait) = mpsc::channel::<()>();
    let waits = move || _ = wait.recv();
    thread::scope(|s| {
        if kind == "task" {
            pool.spawn_fn(waits).detach();
        } else {
            s.spawn(|| pool.run_on(1, waits).unwrap());
        }
        loops.for_each(0..2, |_| _ = all.wait());
        drop(done);
    });
}

#[test]
fn nested_loops_with_one_worker_per_item_can_meet_at_a_barrier() {
    for (outer, inner) in [(2, 2), (2, 4), (4, 2), (1, 3)] {
        for balance in [Balance::Fixed, Balance::Shared] {
            bounded(&format!("{outer} times {inner}, {balance}"), move || {
                let pool = pool(outer * inner, Wait::Park);
                let loops = pool.with_balance(balance);
                for round in 0..50 {
                    let all = Barrier::new(outer * inner);
                    let units = || loops.for_each(0..inner, |_| _ = all.wait());
                    match round % 3 {
                        0 => loops.for_each(0..outer, |_| units()),
                        1 => pool.scope(|s| (0..outer).for_each(|_| s.spawn(units))),
                        _ => pool
                            .run_on(0, || loops.for_each(0..outer, |_| units()))
                            .unwrap(),
                    }
                }
            });
        }
    }
}

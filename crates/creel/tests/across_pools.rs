//! Tests of two or more pools whose workers wait for each other.
//!
//! We call each method of a pool on a worker of another pool. The call must make progress, or the
//! pool must reject it at once.

#![cfg(not(miri))]

mod deadline;

use creel::{Balance, Pool, Wait, channel::oneshot, net::UdpSocket, task, time};
use deadline::{block_on, bounded};
use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const BALANCES: [Balance; 3] = [Balance::Fixed, Balance::Sticky, Balance::Shared];

fn pool(workers: usize, name: &str) -> Arc<Pool> {
    let builder = Pool::builder().workers(workers).wait(Wait::Park).name(name);
    Arc::new(builder.build().unwrap())
}

/// Checks that the pool still does each kind of work.
fn assert_works(pool: &Pool) {
    assert_eq!(block_on(pool.spawn(async { 1 })).unwrap(), 1);
    assert_eq!(
        pool.block_on(async { task::spawn(async { 2 }).await })
            .unwrap(),
        2
    );
    assert_eq!(pool.broadcast(|worker| worker).len(), pool.workers());
    assert_eq!(pool.map(&[1; 50], |x| x + 1), [2; 50]);
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
    pool.block_on(time::sleep(Duration::from_micros(1)));
}

/// Runs `f` on a worker of this pool, once for each way to bring work there, for example a task or
/// an inbox job.
fn on_a_worker(pool: &Arc<Pool>, f: impl Fn() + Send + Sync + 'static) {
    let f = Arc::new(f);
    pool.run_on(0, || f()).unwrap();
    pool.broadcast(|_| f());
    pool.scope(|s| s.spawn_on(0, || f()).unwrap());
    pool.scope(|s| s.spawn(|| f()));
    pool.for_each(0..pool.workers(), |_| f());
    let inner = Arc::clone(&f);
    block_on(pool.spawn(async move { inner() })).unwrap();
    let inner = Arc::clone(&f);
    block_on(pool.spawn_on(0, async move { inner() })).unwrap();
    let inner = Arc::clone(&f);
    pool.block_on(async move { inner() });
    assert_works(pool);
}

#[test]
fn each_method_of_one_pool_works_on_the_workers_of_another() {
    for (ours, theirs) in [(1, 1), (1, 2), (2, 1), (3, 3)] {
        bounded(&format!("{ours} and {theirs} workers"), move || {
            let (a, b) = (pool(ours, "a"), pool(theirs, "b"));
            let inner = Arc::clone(&b);
            on_a_worker(&a, move || assert_works(&inner));
            assert_works(&b);
        });
    }
}

#[test]
fn two_pools_that_wait_for_each_other_make_progress() {
    for (ours, theirs) in [(1, 1), (2, 1), (2, 3)] {
        bounded(&format!("{ours} and {theirs} workers"), move || {
            let (a, b) = (pool(ours, "a"), pool(theirs, "b"));
            thread::scope(|s| {
                for (own, other) in [(&a, &b), (&b, &a)] {
                    s.spawn(move || {
                        for _ in 0..50 {
                            own.run_on(0, || {
                                other.run_on(0, || own.run_on(0, || ()).unwrap()).unwrap()
                            })
                            .unwrap();
                            own.run_on(0, || other.scope(|s| s.spawn_on(0, || ()).unwrap()))
                                .unwrap();
                            own.broadcast(|_| other.broadcast(|_| ()));
                        }
                    });
                }
            });
            assert_works(&a);
            assert_works(&b);
        });
    }
}

#[test]
fn a_worker_that_waits_for_another_pool_runs_calls_from_there() {
    for balance in BALANCES {
        bounded(&format!("loops, {balance}"), move || {
            let (a, b) = (pool(2, "a"), pool(1, "b"));
            let loops = a.with_balance(balance);
            for _ in 0..20 {
                // B's only worker waits for A's loop, and the units of that loop call back to the
                // same worker.
                b.run_on(0, || loops.for_each(0..2, |_| b.run_on(0, || ()).unwrap()))
                    .unwrap();
                b.run_on(0, || {
                    loops.for_each(0..2, |_| {
                        loops.for_each(0..4, |_| b.run_on(0, || ()).unwrap());
                    });
                })
                .unwrap();
            }
        });
    }
    bounded("the other verbs", || {
        let (a, b) = (pool(2, "a"), pool(1, "b"));
        let back = || b.run_on(0, || ()).unwrap();
        for _ in 0..20 {
            b.run_on(0, || a.scope(|s| s.spawn_on(1, back).unwrap()))
                .unwrap();
            b.run_on(0, || a.scope(|s| s.spawn(back))).unwrap();
            b.run_on(0, || a.join(back, back)).unwrap();
            b.run_on(0, || a.run_on(0, back).unwrap()).unwrap();
            b.run_on(0, || a.broadcast(|_| back())).unwrap();
            let (pool_a, pool_b) = (Arc::clone(&a), Arc::clone(&b));
            b.run_on(0, move || {
                let inner = Arc::clone(&pool_b);
                let task = pool_a.spawn(async move { inner.run_on(0, || ()).unwrap() });
                pool_a.block_on(task).unwrap();
            })
            .unwrap();
        }
    });
}

#[test]
fn a_worker_in_another_pools_block_on_wakes_its_own_tasks() {
    bounded("a wake across", || {
        let (a, b) = (pool(1, "a"), pool(1, "b"));
        for _ in 0..20 {
            let (tx, rx) = oneshot::channel();
            let waits = b.spawn(async move { rx.await.unwrap() });
            while b.stats().tasks.polls == 0 {
                thread::yield_now();
            }
            b.run_on(0, || a.block_on(async { tx.send(7).unwrap() }))
                .unwrap();
            assert_eq!(block_on(waits).unwrap(), 7);
            assert_works(&a);
        }
        assert_works(&b);
    });
}

#[test]
fn tasks_may_block_on_another_pool_that_has_a_free_worker() {
    for workers in [2, 3] {
        bounded(&format!("{workers} workers each"), move || {
            let pools = [pool(workers, "a"), pool(workers, "b"), pool(workers, "c")];
            for _ in 0..20 {
                let tasks: Vec<_> = (0..3 * (workers - 1))
                    .map(|at| {
                        let [own, next, last] =
                            [0, 1, 2].map(|step| Arc::clone(&pools[(at + step) % 3]));
                        let blocks = async move {
                            // This task waits for a task of the next pool, which a free worker of
                            // that pool can run.
                            let inner = next.spawn(async move { last.workers() });
                            next.block_on(inner).unwrap()
                        };
                        own.spawn(blocks)
                    })
                    .collect();
                for task in tasks {
                    assert_eq!(block_on(task).unwrap(), workers);
                }
            }
        });
    }
}

#[test]
fn timers_and_packets_reach_a_worker_in_another_pools_block_on() {
    for (ours, theirs) in [(1, 1), (2, 2)] {
        bounded(&format!("{ours} and {theirs} workers"), move || {
            let (a, b) = (pool(ours, "a"), pool(theirs, "b"));
            for round in 0..10 {
                let socket = UdpSocket::bind(LOOPBACK).unwrap();
                let to = socket.local_addr().unwrap();
                let sender = std::net::UdpSocket::bind(LOOPBACK).unwrap();
                let inner = Arc::clone(&a);
                let waits = move || {
                    inner.block_on(async {
                        let short = Duration::from_millis(1);
                        let given_up = time::timeout(short, socket.recv(&mut [0; 8])).await;
                        assert!(given_up.is_err());
                        sender.send_to(b"x", to).unwrap();
                        assert_eq!(socket.recv(&mut [0; 8]).await.unwrap(), 1);
                    });
                };
                match round % 2 {
                    0 => b.run_on(0, waits).unwrap(),
                    _ => block_on(b.spawn(async move { waits() })).unwrap(),
                }
            }
        });
    }
}

/// Every worker of every pool waits in the next pool's `block_on`.
#[test]
fn pools_that_wait_for_each_other_in_a_ring_all_make_progress() {
    type Waits = fn(&Pool) -> std::pin::Pin<Box<dyn Future<Output = ()> + '_>>;
    let kinds: [(&str, Waits); 4] = [
        ("tasks", |pool| {
            Box::pin(async move {
                let child = pool.spawn(async {
                    task::yield_now().await;
                    task::spawn(async { 7 }).await.unwrap()
                });
                assert_eq!(child.await.unwrap(), 7);
            })
        }),
        ("timers", |_| {
            Box::pin(time::sleep(Duration::from_millis(3)))
        }),
        ("timers of tasks", |pool| {
            let task = pool.spawn(time::sleep(Duration::from_millis(3)));
            Box::pin(async move { task.await.unwrap() })
        }),
        ("packets", |_| {
            Box::pin(async {
                let socket = UdpSocket::bind(LOOPBACK).unwrap();
                let to = socket.local_addr().unwrap();
                let sender = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(3));
                    let sender = std::net::UdpSocket::bind(LOOPBACK).unwrap();
                    sender.send_to(b"x", to).unwrap();
                });
                assert_eq!(socket.recv(&mut [0; 8]).await.unwrap(), 1);
                sender.join().unwrap();
            })
        }),
    ];
    for (kind, waits) in kinds {
        for (count, workers) in [(2, 1), (3, 1), (5, 1), (3, 2)] {
            bounded(&format!("{kind}: {count} pools of {workers}"), move || {
                let pools: Vec<_> = (0..count).map(|_| pool(workers, "ring")).collect();
                for _ in 0..3 {
                    let all = Arc::new(std::sync::Barrier::new(count * workers));
                    let tasks = (0..count * workers).map(|at| {
                        let next = Arc::clone(&pools[(at + 1) % count]);
                        let all = Arc::clone(&all);
                        pools[at % count].spawn(async move {
                            all.wait();
                            next.block_on(waits(&next));
                        })
                    });
                    let tasks: Vec<_> = tasks.collect();
                    for task in tasks {
                        block_on(task).unwrap();
                    }
                }
            });
        }
    }
}

#[test]
fn a_pool_can_be_dropped_on_a_worker_of_another_pool() {
    bounded("drops across", || {
        for round in 0..20 {
            let (a, b) = (pool(1, "a"), pool(1, "b"));
            let a = Arc::into_inner(a).unwrap();
            let (begun, begins) = mpsc::channel();
            let inner = Arc::clone(&b);
            // A's worker waits for B's worker, which waits for A to shut down.
            let call = async move {
                begun.send(()).unwrap();
                inner.run_on(0, || ()).unwrap();
            };
            a.spawn(call).detach();
            if round % 2 == 0 {
                begins.recv().unwrap();
            }
            b.run_on(0, move || drop(a)).unwrap();
            assert_works(&b);
        }
    });
}

#[test]
fn a_child_belongs_to_the_pool_of_the_innermost_block_on() {
    bounded("children", || {
        let (a, b) = (pool(1, "a"), pool(1, "b"));
        let spawned = || (a.stats().tasks.spawned, b.stats().tasks.spawned);
        let child = |pool: &Pool| pool.block_on(async { task::spawn(async {}).await.unwrap() });
        b.run_on(0, || child(&a)).unwrap();
        assert_eq!(spawned(), (1, 0), "in an inbox job");
        let inner = Arc::clone(&a);
        block_on(b.spawn(async move { child(&inner) })).unwrap();
        assert_eq!(spawned(), (2, 1), "in a task");
        b.block_on(async { child(&a) });
        assert_eq!(spawned(), (3, 1), "in another block_on");
        b.block_on(async {
            child(&a);
            task::spawn(async {}).await.unwrap();
        });
        assert_eq!(spawned(), (4, 2), "after it");
    });
}

/// Returns whether `block_on` of this pool panics on this thread.
fn refuses(pool: &Pool) -> bool {
    catch_unwind(AssertUnwindSafe(|| pool.block_on(async {}))).is_err()
}

#[test]
fn block_on_of_the_workers_own_pool_is_rejected_at_once() {
    for workers in [1, 2] {
        bounded(&format!("{workers} workers"), move || {
            let (a, b) = (pool(workers, "a"), pool(1, "b"));
            let refused = [true].repeat(workers);
            assert!(a.run_on(workers - 1, || refuses(&a)).unwrap());
            assert_eq!(a.broadcast(|_| refuses(&a)), refused);
            for bound in [true, false] {
                let own = Arc::clone(&a);
                let refuses = async move { refuses(&own) };
                let task = match bound {
                    true => a.spawn_on(0, refuses),
                    false => a.spawn(refuses),
                };
                assert!(block_on(task).unwrap());
            }
            assert!(a.block_on(async { refuses(&a) }));
            assert!(a.run_on(0, || b.block_on(async { refuses(&a) })).unwrap());
            // This thread is in A's `block_on`, and inside that in B's `block_on`. In the first
            // case below, the thread can lease a worker of A. In the second case, all workers of A
            // are blocked.
            for lent in [true, false] {
                let (release, gate) = mpsc::channel::<()>();
                if !lent {
                    block_all(&a, gate);
                }
                a.block_on(async { b.block_on(async { assert!(refuses(&a), "lent: {lent}") }) });
                drop(release);
            }
            assert_works(&a);
        });
    }
}

/// Blocks all workers until the sender is dropped.
fn block_all(pool: &Arc<Pool>, gate: mpsc::Receiver<()>) {
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let (begun, begins) = mpsc::channel();
    for worker in 0..pool.workers() {
        let (gate, begun) = (Arc::clone(&gate), begun.clone());
        let blocks = async move {
            begun.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        };
        pool.spawn_on(worker, blocks).detach();
    }
    (0..pool.workers()).for_each(|_| begins.recv().unwrap());
}

/// A task of each pool polls a task of the other pool.
#[test]
fn handles_are_awaited_from_pool_to_pool() {
    fn there_and_back(
        pools: [Arc<Pool>; 2],
        depth: usize,
    ) -> Box<dyn Future<Output = usize> + Send + Unpin> {
        let [own, other] = pools;
        Box::new(Box::pin(async move {
            if depth == 0 {
                return 0;
            }
            let next = there_and_back([Arc::clone(&other), own], depth - 1);
            other.spawn(next).await.unwrap() + 1
        }))
    }
    bounded("a chain through two pools", || {
        let pools = [pool(1, "a"), pool(2, "b")];
        for depth in 0..50 {
            let first = there_and_back(pools.clone(), depth);
            assert_eq!(pools[depth % 2].block_on(first), depth);
        }
    });
}

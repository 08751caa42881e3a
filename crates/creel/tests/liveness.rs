//! A random test of the liveness guarantee. *Ready work never waits while a worker of its pool is
//! idle, and accepted work is run or cancelled.*
//!
//! A round is a pool of two to eight workers and a second pool next to it. They run a random graph
//! of work whose pieces block their threads for each other. A piece must take one of the graph's
//! permits before it blocks. There is one permit fewer than the smallest number of workers, so one
//! worker is idle whenever something is ready. Therefore a round that does not end violates the
//! guarantee. A piece that blocks its thread with a system call waits only for work that any worker
//! may run.
//!
//! The test takes seconds by default. `CREEL_LIVENESS_ROUNDS` sets the number of rounds, and
//! `CREEL_LIVENESS_SEED` the seed of the first round. A failure prints the seed of its round.

#![cfg(not(miri))]

mod deadline;

use creel::{
    Balance, JoinHandle, Placement, Pool, Wait,
    channel::{bounded, oneshot, spsc},
    net::UdpSocket,
    task, time,
};
use deadline::LIMIT;
use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const WAITS: [Wait; 4] = [
    Wait::Park,
    Wait::Adaptive,
    Wait::Spin(Duration::from_micros(20)),
    Wait::Throttle(Duration::from_micros(500)),
];
const BALANCES: [Balance; 3] = [Balance::Fixed, Balance::Sticky, Balance::Shared];

/// A small random number generator (SplitMix64).
#[derive(Clone)]
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns a separate generator for a part of the graph.
    fn part(&mut self) -> Self {
        Self(self.next())
    }
}

/// The state that the pieces of one pool's graph share.
struct World {
    handle: Pool,
    /// The number of permits that are left. Each piece that blocks its thread needs one.
    permits: AtomicUsize,
    /// The smallest number of workers that the pool ever has.
    least: usize,
    /// Whether the pool ends in the middle of the round, which cancels tasks.
    ends: bool,
    /// Each piece holds a clone from its beginning to its end. The reference count therefore shows
    /// how many pieces have begun and not ended.
    alive: Arc<()>,
}

/// A permit, which is the right to block a number of threads. Dropping it returns the permit.
struct Permit<'a>(&'a World, usize);

impl World {
    fn may_block(&self, threads: usize) -> Option<Permit<'_>> {
        let taken = |free: usize| free.checked_sub(threads);
        let order = Ordering::SeqCst;
        self.permits.fetch_update(order, order, taken).ok()?;
        Some(Permit(self, threads))
    }

    /// Spawns a task of this graph's pool, with a random one of the pool's methods for that.
    fn spawn<F>(self: &Arc<Self>, draw: &mut Draw, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match draw.below(2) {
            0 => self.handle.spawn(future),
            _ => task::spawn(future),
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.permits.fetch_add(self.1, Ordering::SeqCst);
    }
}

/// Blocks the thread until a task of this graph is done or has been cancelled.
fn block_for_child(world: &Arc<World>, draw: &mut Draw, depth: usize) {
    let Some(_permit) = world.may_block(1) else {
        return;
    };
    let (done, wait) = mpsc::channel::<()>();
    let child = piece(Arc::clone(world), draw.part(), depth);
    let child = async move {
        child.await;
        drop(done);
    };
    let task = world.handle.spawn(child);
    let _ = wait.recv();
    task.detach();
}

/// Runs tasks that block their threads until all of them have arrived.
async fn meet(world: &Arc<World>, draw: &mut Draw) {
    let tasks = 2 + draw.below(world.least);
    if world.ends {
        // A task that is cancelled does not arrive.
        return;
    }
    // The last task does not block.
    let Some(permit) = world.may_block(tasks - 1) else {
        return;
    };
    let all = Arc::new(Barrier::new(tasks));
    let meeting: Vec<_> = (0..tasks)
        .map(|_| {
            let all = Arc::clone(&all);
            world.spawn(draw, async move { _ = all.wait() })
        })
        .collect();
    for task in meeting {
        task.await.unwrap();
    }
    drop(permit);
}

async fn packet(draw: &mut Draw) {
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    let to = socket.local_addr().unwrap();
    if draw.below(2) == 0 {
        let short = Duration::from_micros(draw.below(300) as u64);
        let given_up = time::timeout(short, socket.recv(&mut [0; 8])).await;
        assert!(given_up.is_err());
    }
    let sends = async move {
        let socket = UdpSocket::bind(LOOPBACK).unwrap();
        socket.send_to(b"packet", to).await.unwrap();
    };
    match draw.below(2) {
        0 => sends.await,
        _ => task::spawn(sends).detach(),
    }
    assert_eq!(socket.recv(&mut [0; 8]).await.unwrap(), 6);
}

async fn channels(world: &Arc<World>, draw: &mut Draw) {
    let (tx, rx) = bounded::channel(1 + draw.below(3));
    let (mut back, mut replies) = spsc::channel();
    let sends = world.spawn(draw, async move {
        for i in 0..20 {
            tx.send(i).await.unwrap();
        }
    });
    let adds = world.spawn(draw, async move {
        while let Ok(i) = rx.recv().await {
            back.send(i).await.unwrap();
        }
    });
    let mut sum = 0;
    while let Ok(i) = replies.recv().await {
        sum += i;
    }
    assert_eq!(sum, 190);
    sends.await.unwrap();
    adds.await.unwrap();
}

/// A piece of the graph that ends when everything that it spawned has ended. Any worker may run it.
fn piece(
    world: Arc<World>,
    mut draw: Draw,
    depth: usize,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let _alive = Arc::clone(&world.alive);
        let draw = &mut draw;
        match draw.below(if depth == 0 { 3 } else { 9 }) {
            0 => {
                for _ in 0..draw.below(4) {
                    task::yield_now().await;
                }
            }
            1 => time::sleep(Duration::from_micros(draw.below(500) as u64)).await,
            2 => packet(draw).await,
            3 => channels(&world, draw).await,
            4 => meet(&world, draw).await,
            5 => {
                let Some(permit) = world.may_block(1) else {
                    return;
                };
                let (tx, rx) = oneshot::channel::<()>();
                let child = piece(Arc::clone(&world), draw.part(), depth - 1);
                let task = world.spawn(draw, async move {
                    child.await;
                    drop(tx);
                });
                let waits = world.handle.spawn_fn(move || _ = rx.recv_blocking());
                waits.await.unwrap();
                drop(permit);
                task.await.unwrap();
            }
            6 => block_for_child(&world, draw, depth - 1),
            _ => {
                let children: Vec<_> = (0..1 + draw.below(3))
                    .map(|_| {
                        let child = piece(Arc::clone(&world), draw.part(), depth - 1);
                        world.spawn(draw, child)
                    })
                    .collect();
                for child in children {
                    child.await.unwrap();
                }
            }
        }
    })
}

/// Runs units of a loop that wait for each other. A sticky balance is left out, because its caller
/// may run all units alone.
fn meet_in_a_loop(pool: &Pool, world: &Arc<World>, draw: &mut Draw) {
    // A pool that ends starts no thread for these units.
    if world.ends {
        return;
    }
    let units = 2 + draw.below(world.least - 1);
    let Some(_permit) = world.may_block(units - 1) else {
        return;
    };
    let all = Barrier::new(units);
    let loops = pool.with_balance([Balance::Fixed, Balance::Shared][draw.below(2)]);
    loops.for_each(0..units, |_| _ = all.wait());
}

/// Runs work of this pool that is not a task. Any thread may call this function.
fn share(pool: &Pool, world: &Arc<World>, draw: &mut Draw) {
    // The calling thread may have to wait for the threads that help with this work, so it needs a
    // permit.
    let Some(_permit) = world.may_block(1) else {
        return;
    };
    let parts: Vec<_> = (0..1 + draw.below(2 * world.least))
        .map(|_| draw.part())
        .collect();
    let run = |part: &Draw| {
        let mut draw = part.clone();
        match draw.below(4) {
            0 => block_for_child(world, &mut draw, 1),
            1 => assert_eq!(pool.join(|| 1, || 2), (1, 2)),
            2 => meet_in_a_loop(pool, world, &mut draw),
            _ => pool.for_each(0..7, |_| ()),
        }
    };
    match draw.below(3) {
        0 => pool.scope(|s| parts.iter().for_each(|part| s.spawn(|| run(part)))),
        1 => {
            let (left, right) = parts.split_at(parts.len() / 2);
            let all = |parts: &[Draw]| parts.iter().for_each(&run);
            pool.join(|| all(left), || all(right));
        }
        _ => {
            let loops = pool.with_balance(BALANCES[draw.below(3)]);
            loops.for_each(&parts, run);
        }
    }
}

/// Runs work that belongs to one worker or to the calling thread, which is outside the pool.
fn from_outside(pool: &Arc<Pool>, world: &Arc<World>, second: &Arc<Pool>, draw: &mut Draw) {
    let worker = draw.below(world.least);
    match draw.below(9) {
        0 => pool.run_on(worker, || ()).unwrap(),
        1 => assert!(pool.broadcast(|_| ()).len() >= world.least),
        2 => {
            let bound = pool.spawn_on(worker, piece(Arc::clone(world), draw.part(), 2));
            pool.block_on(bound).unwrap();
        }
        3 => pool.block_on(async { block_for_child(world, draw, 2) }),
        4 => {
            // The thread of this task waits for another worker, which waits for a third one.
            let (inner, own) = (Arc::clone(pool), Arc::clone(world));
            let task = pool.spawn(async move {
                if let Some(_permit) = own.may_block(2) {
                    inner
                        .run_on(worker, || inner.run_on(0, || ()).unwrap())
                        .unwrap();
                }
            });
            deadline::block_on(task).unwrap();
        }
        5 => {
            let (inner, own, mut part) = (Arc::clone(pool), Arc::clone(world), draw.part());
            let task = pool.spawn(async move { share(&inner, &own, &mut part) });
            deadline::block_on(task).unwrap();
        }
        6 => {
            // The thread of this task waits in the other pool, and calls its own pool from there.
            let (inner, own, other) = (Arc::clone(pool), Arc::clone(world), Arc::clone(second));
            let task = pool.spawn(async move {
                if let Some(_permit) = own.may_block(1) {
                    let back = Arc::clone(&inner);
                    let task = other.spawn(async move { back.spawn(async {}).await });
                    other.block_on(task).unwrap().unwrap();
                    other
                        .run_on(0, || inner.run_on(worker, || ()).unwrap())
                        .unwrap();
                    other.scope(|s| s.spawn(|| inner.for_each(0..4, |_| ())));
                }
            });
            deadline::block_on(task).unwrap();
        }
        7 => share(pool, world, draw),
        _ => {
            let root = piece(Arc::clone(world), draw.part(), 4);
            pool.block_on(root);
        }
    }
}

fn pool(draw: &mut Draw, workers: usize) -> Pool {
    let builder = Pool::builder().workers(workers).wait(WAITS[draw.below(4)]);
    builder.placement(Placement::Unpinned).build().unwrap()
}

fn world(pool: &Pool, least: usize, ends: bool) -> Arc<World> {
    Arc::new(World {
        handle: pool.handle(),
        permits: AtomicUsize::new(least - 1),
        least,
        ends,
        alive: Arc::new(()),
    })
}

/// Checks that all work runs to its end.
fn runs_to_the_end(seed: u64, pool: Arc<Pool>, least: usize) {
    let mut draw = Draw(seed);
    let second = Arc::new(self::pool(&mut draw, 1));
    let world = world(&pool, least, false);
    thread::scope(|s| {
        for _ in 0..1 + draw.below(3) {
            let mut draw = draw.part();
            let (pool, world, second) = (&pool, &world, &second);
            s.spawn(move || {
                let steps = 1 + draw.below(12);
                (0..steps).for_each(|_| from_outside(pool, world, second, &mut draw));
            });
        }
        if draw.below(2) == 0 {
            for _ in 0..draw.below(20) {
                pool.resize(least + draw.below(9 - least)).unwrap();
                thread::sleep(Duration::from_micros(draw.below(500) as u64));
            }
        }
    });
    let all_ended = || {
        let stats = pool.stats().tasks;
        stats.spawned == stats.finished + stats.cancelled
    };
    // Some tasks are detached, so nothing joins them.
    while !all_ended() {
        thread::yield_now();
    }
    assert_eq!(world.permits.load(Ordering::SeqCst), least - 1);
}

/// Ends the pool in the middle of the round. Each piece has then ended, or its future was dropped.
fn ends(seed: u64, pool: Pool, least: usize) {
    let mut draw = Draw(seed);
    let world = world(&pool, least, true);
    let alive = Arc::clone(&world.alive);
    let spawns = {
        let (world, mut draw) = (Arc::clone(&world), draw.part());
        thread::spawn(move || {
            for _ in 0..draw.below(40) {
                let piece = piece(Arc::clone(&world), draw.part(), 3);
                world.handle.spawn(piece).detach();
            }
        })
    };
    for _ in 0..draw.below(30) {
        let piece = piece(Arc::clone(&world), draw.part(), 4);
        match draw.below(4) {
            0 => pool.spawn_on(draw.below(least), piece).detach(),
            _ => pool.spawn(piece).detach(),
        }
        if draw.below(8) == 0 {
            pool.resize(least + draw.below(9 - least)).unwrap();
        }
    }
    thread::sleep(Duration::from_micros(draw.below(1000) as u64));
    drop(pool);
    spawns.join().unwrap();
    drop(world);
    assert_eq!(Arc::strong_count(&alive), 1, "pieces are left");
}

fn number(variable: &str, default: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Runs one round. If it hangs, the message contains the seed and the pool's statistics.
fn round(seed: u64) {
    let mut draw = Draw(seed);
    let workers = 2 + draw.below(7);
    let least = 2 + draw.below(workers - 1);
    let pool = pool(&mut draw, workers);
    let ends_early = draw.below(4) == 0;
    let part = draw.next();
    let (done, wait) = mpsc::channel();
    let state: Box<dyn Fn() -> String> = if ends_early {
        let state = format!("{pool:?}, ended early");
        thread::spawn(move || {
            ends(part, pool, least);
            done.send(()).unwrap();
        });
        Box::new(move || state.clone())
    } else {
        let pool = Arc::new(pool);
        let inner = Arc::clone(&pool);
        thread::spawn(move || {
            runs_to_the_end(part, inner, least);
            done.send(()).unwrap();
        });
        Box::new(move || format!("{pool:?}, {:#?}", pool.stats()))
    };
    match wait.recv_timeout(LIMIT) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => {
            panic!("seed {seed}: not done after {LIMIT:?}: {}", state())
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("seed {seed}: the round panicked"),
    }
}

#[test]
fn ready_work_never_waits_while_a_worker_is_idle() {
    let first = number("CREEL_LIVENESS_SEED", u64::from(std::process::id()) << 20);
    let rounds = number("CREEL_LIVENESS_ROUNDS", 100);
    eprintln!("seeds from {first} on");
    (first..first + rounds).for_each(round);
}

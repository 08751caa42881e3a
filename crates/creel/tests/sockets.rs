//! Tests of sockets and the pools that wait for them.
//!
//! A socket outlives its pool, moves from one pool to the next, and two pools can wait for the same
//! socket.

#![cfg(not(miri))]

use creel::{Pool, net::UdpSocket, time};
use std::{
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Waker},
    time::Duration,
};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const SHORT: Duration = Duration::from_millis(1);

fn pool(workers: usize) -> Pool {
    Pool::builder().workers(workers).build().unwrap()
}

/// Returns a socket, its address, and a socket of `std` to send to it.
fn socket() -> (Arc<UdpSocket>, SocketAddr, std::net::UdpSocket) {
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    let to = socket.local_addr().unwrap();
    (
        Arc::new(socket),
        to,
        std::net::UdpSocket::bind(LOOPBACK).unwrap(),
    )
}

/// Runs `f` on a thread of its own.
///
/// # Panics
///
/// Panics if `f` takes longer than a minute.
fn bounded(f: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        f();
        done.send(()).unwrap();
    });
    wait.recv_timeout(Duration::from_secs(60))
        .expect("the test ends in time");
}

#[test]
fn a_socket_moves_from_pool_to_pool() {
    bounded(|| {
        let (socket, to, sender) = socket();
        for workers in [1, 2, 1, 3] {
            let pool = pool(workers);
            let read = Arc::clone(&socket);
            let (gave_up, wait) = mpsc::channel();
            let task = pool.spawn(async move {
                let given_up = time::timeout(SHORT, read.recv(&mut [0; 8])).await;
                gave_up.send(given_up.is_err()).unwrap();
                read.recv(&mut [0; 8]).await.unwrap()
            });
            assert!(wait.recv().unwrap());
            sender.send_to(b"one", to).unwrap();
            assert_eq!(pool.block_on(task).unwrap(), 3);
        }
    });
}

#[test]
fn a_socket_wakes_one_pool_after_another_pool_that_waited_for_it_has_ended() {
    bounded(|| {
        let (socket, to, sender) = socket();
        let pools = [pool(1), pool(2)];
        let (got, count) = mpsc::channel();
        let waits: Vec<_> = pools
            .iter()
            .map(|pool| {
                let (socket, got) = (Arc::clone(&socket), got.clone());
                pool.spawn(async move {
                    loop {
                        socket.recv(&mut [0; 8]).await.unwrap();
                        got.send(()).unwrap();
                    }
                })
            })
            .collect();
        let [first, second] = pools;
        for _ in 0..20 {
            sender.send_to(b"one", to).unwrap();
            count.recv().unwrap();
        }
        drop(first);
        for _ in 0..20 {
            sender.send_to(b"one", to).unwrap();
            count.recv().unwrap();
        }
        drop((second, waits));
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_handle_of_an_ended_pool_does_not_keep_its_poller_open() {
    let pollers = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let name = |fd: Result<std::fs::DirEntry, _>| std::fs::read_link(fd.ok()?.path()).ok();
        let is_poller = |name: &std::path::PathBuf| name.to_string_lossy().contains("eventpoll");
        open.filter_map(name).filter(is_poller).count()
    };
    let handles: Vec<_> = (0..100)
        .map(|_| {
            let pool = pool(1);
            let (socket, ..) = socket();
            pool.block_on(async {
                let given_up = time::timeout(SHORT, socket.recv(&mut [0; 8])).await;
                assert!(given_up.is_err());
            });
            pool.handle()
        })
        .collect();
    // There may be a few pollers, because other tests of this file have pools at the same time.
    let pollers = pollers();
    assert!(pollers < 20, "{pollers} pollers are open");
    drop(handles);
}

#[test]
fn a_wait_on_a_thread_without_a_pool_panics() {
    let (socket, ..) = socket();
    let wait = || {
        let mut bytes = [0; 8];
        let receive = pin!(socket.recv(&mut bytes));
        let _ = receive.poll(&mut Context::from_waker(Waker::noop()));
    };
    let thrown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(wait));
    assert!(thrown.is_err());
}

/// Lets two tasks on different workers wake each other, in `rounds` rounds.
fn ping_pong(pool: &Pool, rounds: u32) {
    let (mut ping, mut pinged) = creel::channel::spsc::channel();
    let (mut pong, mut ponged) = creel::channel::spsc::channel();
    let echo = pool.spawn_on(1, async move {
        while let Ok(round) = pinged.recv().await {
            pong.send(round).await.unwrap();
        }
    });
    let asks = pool.spawn_on(0, async move {
        for round in 0..rounds {
            ping.send(round).await.unwrap();
            assert_eq!(ponged.recv().await, Ok(round));
        }
    });
    pool.block_on(async {
        asks.await.unwrap();
        echo.await.unwrap();
    });
}

#[test]
fn workers_of_a_pool_with_sockets_do_not_learn_to_spin_for_tasks() {
    bounded(|| {
        let pool = pool(2);
        let (socket, _, _) = socket();
        let waits = pool.spawn(async move { socket.recv(&mut [0; 8]).await });
        let spins = || -> u64 { pool.stats().workers.iter().map(|worker| worker.spins).sum() };
        // At first a worker spins, for half as long after each spin that finds nothing. A worker
        // that loses its CPU in a spin spins again after 100 ms, so we wait for longer than that.
        let (mut last, mut same) = (0, 0);
        while same < 200 {
            ping_pong(&pool, 1);
            pool.block_on(time::sleep(SHORT));
            same = if spins() == last { same + 1 } else { 0 };
            last = spins();
        }
        let before = spins();
        ping_pong(&pool, 10_000);
        let more = spins() - before;
        assert!(more < 100, "the workers spun {more} times");
        waits.abort();
    });
}

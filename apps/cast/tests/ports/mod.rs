//! Free ports for the programs under test, and the state of these ports.
#![allow(dead_code, reason = "each test program uses some of it")]

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// The first port. It is below the range from which the OS assigns ports, so no other program takes
/// a port between the check that it is free and its use.
const FIRST: u16 = 10_000;
/// The number of ports per block. This process holds the last port of each block that it uses, so
/// that other test processes take other blocks.
const BLOCK: u16 = 128;
const BLOCKS: u16 = 177;

/// Returns the first of `count` free ports in a row, which is an even port. No other test process
/// uses these ports while this process lives.
pub fn free_ports(count: u16) -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    assert!(count < BLOCK, "{count} ports in a row");
    let begin = (std::process::id() * 7 % u32::from(BLOCKS)) as u16;
    for _ in 0..BLOCKS {
        let number = (begin + NEXT.fetch_add(1, Ordering::Relaxed) % BLOCKS) % BLOCKS;
        let base = FIRST + number * BLOCK;
        let open = |port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok();
        let Some(taken) = open(base + BLOCK - 1) else {
            continue;
        };
        let all: Option<Vec<_>> = (base..base + count).map(open).collect();
        if all.is_some() {
            std::mem::forget(taken);
            return (Ipv4Addr::LOCALHOST, base).into();
        }
    }
    panic!("no {count} free ports in a row");
}

/// Waits until the program has read everything that has arrived at its port by UDP or TCP. Where
/// the system does not report this, it does not wait.
///
/// Source: proc(5), the second number of the fifth column of /proc/net/udp and /proc/net/tcp.
pub fn wait_until_read(on: SocketAddr) {
    let begin = Instant::now();
    let port = format!(":{:04X}", on.port());
    let is_read = |file: &&str| {
        let sockets = std::fs::read_to_string(file).unwrap_or_default();
        sockets.lines().all(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let is_of_port = fields.get(1).is_some_and(|own| own.ends_with(&port));
            !is_of_port
                || fields
                    .get(4)
                    .is_some_and(|queues| queues.ends_with(":00000000"))
        })
    };
    while !["/proc/net/udp", "/proc/net/tcp"].iter().all(is_read) {
        let waited = begin.elapsed();
        assert!(
            waited < Duration::from_secs(60),
            "nobody reads what arrives at {on}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

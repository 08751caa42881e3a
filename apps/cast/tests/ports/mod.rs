//! Free ports for the programs under test.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

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

//! Ports for the programs under test.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports that no system gives out by itself: between a test that has looked for a free port and its
/// program that opens it, nobody else comes by it.
const FIRST: u16 = 10_000;
/// In a row; the last is open for as long as this process lives: another takes other ports.
const BLOCK: u16 = 128;
const BLOCKS: u16 = 177;

/// So many ports in a row, from an even one on, that nobody else has while this process lives.
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

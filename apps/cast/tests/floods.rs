//! A flood of packets that a relay cannot forward. The test has a program of its own, because a
//! flood on loopback costs other tests packets.

mod packets;
mod ports;
#[path = "../../../crates/creel/tests/retry/mod.rs"]
mod retry;

use creel_cast::relay::{self, Relay};
use packets::counting;
use ports::free_ports;
use retry::retry;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
/// The number of clients. It is large enough that the relay never finishes the work of a packet
/// before the next one arrives.
const CROWD: usize = 40;

fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn next(of: SocketAddr) -> SocketAddr {
    SocketAddr::new(of.ip(), of.port() + 1)
}

/// Sends about 60,000 packets per second until `over` is set.
fn flood(to: SocketAddr, over: &AtomicBool) {
    let (sender, packet) = (socket(), counting(96, 0, 80, 1).bytes());
    while !over.load(Ordering::Relaxed) {
        for _ in 0..32 {
            // The system refuses packets while the port is closed, before and after the relay runs.
            let _ = sender.send_to(&packet, to);
        }
        std::thread::sleep(MS / 2);
    }
}

/// Sends `count` packets to `to`, and checks that each arrives at `listener`. We repeat packets,
/// because the flood may cost some of them.
fn passed_on(to: SocketAddr, listener: &UdpSocket, count: u32) {
    let (sender, begin) = (socket(), Instant::now());
    listener.set_read_timeout(Some(200 * MS)).unwrap();
    let mut bytes = [0; 2_048];
    for n in 0..count {
        let packet = counting(96, n, 80, 1).bytes();
        loop {
            assert!(
                begin.elapsed() < 60_000 * MS,
                "packet {n} was not forwarded"
            );
            sender.send_to(&packet, to).unwrap();
            let came = retry(|| listener.recv(&mut bytes));
            if came.is_ok_and(|len| bytes[..len] == packet) {
                break;
            }
        }
    }
}

#[test]
fn a_flooded_port_delays_neither_other_ports_nor_the_end() {
    let (on, client) = (free_ports(2), free_ports(2));
    // We hold these ports, so that no other program gets the packets.
    let crowd: Vec<_> = (0..CROWD)
        .map(|_| free_ports(2))
        .map(|of| (of, UdpSocket::bind(of), UdpSocket::bind(next(of))))
        .collect();
    let listener = UdpSocket::bind(next(client)).unwrap();
    let to = crowd.iter().map(|(of, ..)| *of);
    let plan = relay::Plan {
        ports: 2,
        to: to.chain([client]).collect(),
        wait: MS,
        ..relay::Plan::new(on)
    };
    let relay = Relay::open(&plan).unwrap();
    let (relay_over, flood_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let reports = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| flood(on, &flood_over));
        }
        let relaying = scope.spawn(|| relay.run(&|| relay_over.load(Ordering::Relaxed)).1);
        let passing = scope.spawn(|| passed_on(next(on), &listener, 50));
        let passed = passing.join();
        relay_over.store(true, Ordering::Relaxed);
        // The relay must end while the flood goes on. If it does not, we end the flood, and the
        // test fails.
        let begin = Instant::now();
        while !relaying.is_finished() && begin.elapsed() < 60_000 * MS {
            std::thread::sleep(MS);
        }
        let is_over = relaying.is_finished();
        flood_over.store(true, Ordering::Relaxed);
        passed.unwrap();
        assert!(is_over, "the relay did not end before the flood");
        relaying.join().unwrap()
    });
    assert!(reports[1].packets >= 50);
}

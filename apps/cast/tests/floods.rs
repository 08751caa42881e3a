//! More than can be passed on. In a program of its own: a flood on loopback costs others packets.

mod packets;
mod ports;

use creel_cast::relay::{self, Relay};
use packets::counting;
use ports::free_ports;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
/// Clients, so that each packet is enough work to be never done with them.
const CROWD: usize = 40;

fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

fn next(of: SocketAddr) -> SocketAddr {
    SocketAddr::new(of.ip(), of.port() + 1)
}

/// Some 60,000 packets a second until it is over.
fn flood(to: SocketAddr, over: &AtomicBool) {
    let (sender, packet) = (socket(), counting(96, 0, 80, 1).bytes());
    while !over.load(Ordering::Relaxed) {
        for _ in 0..32 {
            // Refused while the port is not open: not yet, or not any more.
            let _ = sender.send_to(&packet, to);
        }
        std::thread::sleep(MS / 2);
    }
}

/// What comes to `listener` when packets are sent to `to`, of which the flood may cost some.
fn passed_on(to: SocketAddr, listener: &UdpSocket, count: u32) {
    let (sender, begin) = (socket(), Instant::now());
    listener.set_read_timeout(Some(200 * MS)).unwrap();
    let mut bytes = [0; 2_048];
    for n in 0..count {
        let packet = counting(96, n, 80, 1).bytes();
        loop {
            assert!(begin.elapsed() < 60_000 * MS, "packet {n} is not passed on");
            sender.send_to(&packet, to).unwrap();
            let came = listener.recv(&mut bytes);
            if came.is_ok_and(|len| bytes[..len] == packet) {
                break;
            }
        }
    }
}

#[test]
fn a_flooded_port_delays_neither_other_ports_nor_the_end() {
    let (on, client) = (free_ports(2), free_ports(2));
    // Held, so that nobody else gets what is sent there.
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
        // It ends while the flood goes on; if it does not, the flood's end lets it.
        let begin = Instant::now();
        while !relaying.is_finished() && begin.elapsed() < 60_000 * MS {
            std::thread::sleep(MS);
        }
        let is_over = relaying.is_finished();
        flood_over.store(true, Ordering::Relaxed);
        passed.unwrap();
        assert!(is_over, "the relay goes on for as long as the flood");
        relaying.join().unwrap()
    });
    assert!(reports[1].packets >= 50);
}

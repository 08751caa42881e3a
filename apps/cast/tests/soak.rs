//! Runs after runs at a high rate: what an hour would leak, minutes show. Run it with
//! `--ignored`; `CREEL_SOAK_ROUNDS` sets the length.

use creel_cast::measure::resident_bytes;
use creel_cast::receive::{self, Receiver};
use creel_cast::send;
use creel_cast::standalone;
use creel_cast::stream::Way;
use creel_cast::{Formats, Rtcp};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
/// Rounds after which memory has reached what it stays at.
const WARM: u64 = 300;
/// What it may grow by after that.
const GROWTH_BYTES: u64 = 4 << 20;

fn standalone(way: Way) {
    let plan = standalone::Plan {
        streams: 300,
        groups: 2,
        wait: MS,
        period: MS,
        buffers: 20,
        way,
        samples: 80,
        ramp_up: 5 * MS,
    };
    let measured = standalone::run(&plan, &|| false).unwrap();
    assert_eq!(measured.streams.len(), 300);
}

fn over_loopback() {
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to: SocketAddr = port.local_addr().unwrap();
    drop(port);
    let sessions = receive::Plan::sessions(to, 1, &Formats::default(), Rtcp::Off).unwrap();
    let receive = receive::Plan {
        streams: Some(50),
        wait: MS,
        idle: 100 * MS,
        at_most: Some(10_000 * MS),
        ..receive::Plan::new(sessions)
    };
    let send = send::Plan {
        shared_port: true,
        wait: MS,
        buffers: 10,
        ramp_up: Duration::ZERO,
        ..send::Plan::new(to, 50)
    };
    // Another process may have got the port meanwhile.
    let Ok(receiver) = Receiver::open(&receive) else {
        return;
    };
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&|| false));
        send::run(&send, &|| false).unwrap();
        assert_eq!(receiving.join().unwrap().lost, 0);
    });
}

/// How many descriptors are open; none where the system does not tell.
fn descriptors() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

#[test]
#[ignore = "takes minutes"]
fn nothing_leaks() {
    let rounds = std::env::var("CREEL_SOAK_ROUNDS").map_or(2_000, |text| text.parse().unwrap());
    let mut warm = None;
    for round in 0..rounds.max(2 * WARM) {
        standalone(Way::ALL[round as usize % Way::ALL.len()].1);
        if round % 10 == 0 {
            over_loopback();
        }
        if round == WARM {
            warm = Some((resident_bytes(), descriptors()));
        }
    }
    let (memory, open) = warm.unwrap();
    assert_eq!(descriptors(), open);
    if let Some((before, after)) = memory.zip(resident_bytes()) {
        eprintln!(
            "{} KiB after round {WARM}, {} at the end",
            before / 1024,
            after / 1024
        );
        assert!(after < before + GROWTH_BYTES, "it has grown");
    }
}

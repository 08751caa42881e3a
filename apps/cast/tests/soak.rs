//! Many runs in sequence, and one long run, at a high rate. Leaks that would take an hour show
//! within minutes. Run these tests with `--ignored`. `CREEL_SOAK_ROUNDS` and `CREEL_SOAK_PACKETS`
//! set the lengths.

mod ports;

use creel_cast::measure::resident_bytes;
use creel_cast::receive::{self, Receiver};
use creel_cast::send;
use creel_cast::standalone;
use creel_cast::stream::SinkMode;
use creel_cast::{Formats, Rtcp, relay};
use ports::free_ports;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
/// The number of rounds after which memory should be stable.
const WARM: u64 = 300;
/// The number of bytes by which memory may grow after these rounds.
const GROWTH_BYTES: u64 = 4 << 20;

fn standalone(mode: SinkMode) {
    let plan = standalone::Plan {
        streams: 300,
        contexts: 2,
        wait: MS,
        observe: creel::Observe::Off,
        period: MS,
        buffers: 20,
        mode,
        samples: 80,
        ramp_up: 5 * MS,
    };
    let measured = standalone::run(&plan, &|| false).unwrap();
    assert_eq!(measured.streams.len(), 300);
}

fn over_loopback(to: SocketAddr) {
    let sessions = receive::Plan::sessions(to, 1, &Formats::default(), Rtcp::Off).unwrap();
    let receive = receive::Plan {
        streams: Some(50),
        wait: MS,
        buffers: Some(10),
        idle: 5_000 * MS,
        time_limit: Some(60_000 * MS),
        ..receive::Plan::new(sessions)
    };
    let send = send::Plan {
        shared_port: true,
        wait: MS,
        buffers: 10,
        ramp_up: Duration::ZERO,
        ..send::Plan::new(to, 50)
    };
    // Another process may have taken the port in the meantime.
    let Ok(receiver) = Receiver::open(&receive) else {
        return;
    };
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&|| false));
        send::run(&send, &|| false).unwrap();
        let received = receiving.join().unwrap();
        assert!(received.lost <= received.overflowed.unwrap_or(0));
    });
}

/// Returns the number of open descriptors, or `None` if the system does not report it.
fn descriptors() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count())
}

#[test]
#[ignore = "takes several minutes"]
fn memory_and_descriptors_do_not_leak() {
    let rounds = std::env::var("CREEL_SOAK_ROUNDS").map_or(2_000, |text| text.parse().unwrap());
    let mut warm = None;
    let to = free_ports(1);
    for round in 0..rounds.max(2 * WARM) {
        standalone(SinkMode::ALL[round as usize % SinkMode::ALL.len()].1);
        if round % 10 == 0 {
            over_loopback(to);
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
        assert!(after < before + GROWTH_BYTES, "memory has grown");
    }
}

/// The number of streams of the long run. Each sends a packet per millisecond. 50 streams with 20
/// ms per packet have `HOUR_S_PACKETS` packets in an hour.
const STREAMS: u64 = 100;
const HOUR_S_PACKETS: u64 = 50 * 50 * 3_600;

/// Sends through a relay to a receiver, with reports, all within this process.
#[test]
#[ignore = "takes several minutes"]
fn an_hour_of_packets_leaves_no_memory_behind() {
    let packets =
        std::env::var("CREEL_SOAK_PACKETS").map_or(HOUR_S_PACKETS, |text| text.parse().unwrap());
    let (through, to) = (free_ports(1), free_ports(1));
    let sessions = receive::Plan::sessions(to, 1, &Formats::default(), Rtcp::Mux).unwrap();
    let receive = receive::Plan {
        streams: Some(STREAMS as usize),
        idle: 3_000 * MS,
        ..receive::Plan::new(sessions)
    };
    let relay = relay::Plan {
        to: vec![to],
        ..relay::Plan::new(through)
    };
    let mut send = send::Plan {
        shared_port: true,
        buffers: packets / STREAMS,
        ramp_up: Duration::ZERO,
        ..send::Plan::new(through, STREAMS as usize)
    };
    for session in &mut send.sessions {
        session.packet_time = MS;
        session.rtcp = Rtcp::Mux;
    }
    let (receiver, relay) = (
        Receiver::open(&receive).unwrap(),
        relay::Relay::open(&relay).unwrap(),
    );
    let (begin, warm) = (Instant::now(), MS * (send.buffers / 5) as u32);
    let used = || (resident_bytes(), descriptors());
    // The usage after a fifth of the run, and at the last check.
    let samples = RefCell::new((None, None));
    let over = AtomicBool::new(false);
    let (measured, relayed, sent) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| send::run(&send, &|| false).unwrap());
        let relaying = scope.spawn(|| relay.run(&|| over.load(Ordering::Relaxed)));
        let measured = receiver.run(&|| {
            let mut samples = samples.borrow_mut();
            if begin.elapsed() > warm && !sending.is_finished() {
                samples.0 = samples.0.or_else(|| Some(used()));
                samples.1 = Some(used());
            }
            false
        });
        over.store(true, Ordering::Relaxed);
        (measured, relaying.join().unwrap(), sending.join().unwrap())
    });
    let (Some(first), Some(last)) = samples.into_inner() else {
        panic!("the run ended before the first check");
    };
    let rate = measured.buffers as f64 / measured.used.time.as_secs_f64().max(0.001);
    eprintln!(
        "{} packets sent, {} left out, {} lost: {} before the relay, {} in it, {} after it; \
         {rate:.0}/s; {first:?}, then {last:?}",
        sent.buffers,
        sent.skipped,
        measured.lost,
        relayed.0.overflowed.unwrap_or(0),
        relayed.1[0].clients[0].dropped,
        measured.overflowed.unwrap_or(0)
    );
    assert_eq!(measured.sources.len() as u64, STREAMS);
    assert_eq!((measured.duplicates, measured.reordered), (0, 0));
    assert_eq!(first.1, last.1, "the number of descriptors has changed");
    if let (Some(before), Some(after)) = (first.0, last.0) {
        assert!(after < before + GROWTH_BYTES, "memory has grown");
    }
}

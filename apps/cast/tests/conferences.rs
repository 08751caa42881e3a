//! Tests of rooms: each participant (leg) receives the sum of all others, without its own sound.

mod ports;
mod running;

use creel_cast::rooms::{self, Plan};
use ports::free_ports;
use running::run_rooms_while;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// The µ-law codes of three constants. Each leg sends one of them, so that sums can be
/// distinguished.
const VOICES: [u8; 3] = [0xf0, 0xd0, 0xb0];

/// Decodes a µ-law byte. Source: ITU-T G.711.
fn sample(byte: u8) -> i32 {
    let byte = !byte;
    let magnitude = ((i32::from(byte & 0x0f) << 3) + 0x84) << ((byte & 0x70) >> 4);
    if byte & 0x80 != 0 {
        0x84 - magnitude
    } else {
        magnitude - 0x84
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn packet(n: u32, voice: u8, ssrc: u32) -> Vec<u8> {
    let mut bytes = vec![0x80, 0];
    bytes.extend((n as u16).to_be_bytes());
    bytes.extend((n * 160).to_be_bytes());
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend([voice; 160]);
    bytes
}

#[test]
fn each_leg_receives_the_others_but_not_itself() {
    let on = free_ports(2);
    let plan = Plan {
        wait: MS,
        ..Plan::new(on, 2)
    };
    let other_room = SocketAddr::new(on.ip(), on.port() + 1);
    let legs: Vec<UdpSocket> = VOICES.iter().map(|_| socket()).collect();
    let alone = socket();
    let sum: i32 = VOICES.iter().map(|&voice| sample(voice)).sum();
    let others = VOICES.map(|voice| sum - sample(voice));
    // The tolerance is one step of µ-law at that level.
    let is_sum = |received: i32, others: i32| (received - others).abs() <= others.abs() / 16;
    let mut last = [0; 3];
    let reports = run_rooms_while(&plan, || {
        let begin = Instant::now();
        // The number of rounds since all legs are in the room. We go on until each leg has received
        // the sum of the others in the same round.
        let mut together = 0;
        for n in 0.. {
            std::thread::sleep((begin + 20 * MS * n).saturating_duration_since(Instant::now()));
            assert!(
                begin.elapsed() < 60_000 * MS,
                "the legs received {last:?} instead of {others:?}"
            );
            together += u32::from(!last.contains(&0));
            if together > 60 && (0..3).all(|leg| is_sum(last[leg], others[leg])) {
                break;
            }
            for (index, leg) in legs.iter().enumerate() {
                // The system refuses packets until the rooms are open.
                let _ = leg.send_to(&packet(n, VOICES[index], index as u32), on);
                let mut bytes = [0; 2_048];
                while let Ok(len) = leg.recv(&mut bytes) {
                    assert_eq!((len, bytes[1] & 0x7f), (172, 0));
                    last[index] = sample(bytes[100]);
                }
            }
            let _ = alone.send_to(&packet(n, VOICES[0], 9), other_room);
            let mut bytes = [0; 2_048];
            while let Ok(len) = alone.recv(&mut bytes) {
                let heard = bytes[12..len].iter().map(|&byte| sample(byte));
                assert!(heard.into_iter().all(|it| it == 0), "it must be silence");
            }
        }
    });
    assert_eq!(reports.len(), 4);
    assert!(reports.iter().all(|leg| leg.packets > 40), "{reports:?}");
}

/// Two legs of a room. One of them stays and checks whether the other is there.
struct Pair {
    on: SocketAddr,
    stays: UdpSocket,
    other: UdpSocket,
    n: u32,
}

impl Pair {
    /// Sends until the number of packets with a voice that the staying leg receives satisfies
    /// `is_so`. Returns false if that takes too long.
    fn until(&mut self, does_other_talk: bool, is_so: impl Fn(usize) -> bool) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < 60_000 * MS {
            let mut bytes = [0; 2_048];
            while self.stays.recv(&mut bytes).is_ok() {}
            for _ in 0..5 {
                // The system refuses packets until the room is open.
                let _ = self.stays.send_to(&packet(self.n, VOICES[0], 1), self.on);
                if does_other_talk {
                    let _ = self.other.send_to(&packet(self.n, VOICES[1], 2), self.on);
                }
                self.n += 1;
                std::thread::sleep(20 * MS);
            }
            let mut received = 0;
            while self.stays.recv(&mut bytes).is_ok() {
                // A leg that is alone receives silence.
                received += usize::from(sample(bytes[100]) != 0);
            }
            if is_so(received) {
                return true;
            }
        }
        false
    }
}

#[test]
fn a_leg_leaves_after_a_bye_or_after_a_silence() {
    // With a BYE, the leg leaves long before the silence would remove it.
    for (silence, sends_bye) in [(200 * MS, false), (600_000 * MS, true)] {
        let on = free_ports(1);
        let plan = Plan {
            wait: MS,
            silence,
            ..Plan::new(on, 1)
        };
        let (stays, other, n) = (socket(), socket(), 0);
        let mut pair = Pair {
            on,
            stays,
            other,
            n,
        };
        run_rooms_while(&plan, || {
            let is_there = pair.until(true, |received| received > 0);
            if sends_bye {
                let bye = [0x81, 203, 0, 1, 0, 0, 0, 2];
                pair.other.send_to(&bye, on).unwrap();
            }
            let is_gone = pair.until(false, |received| received == 0);
            assert!(is_there && is_gone, "{silence:?}: {is_there}, {is_gone}");
        });
    }
}

#[test]
fn rooms_without_participants_use_hardly_any_cpu_time() {
    let plan = Plan {
        time_limit: Some(1_000 * MS),
        ..Plan::new(free_ports(100), 100)
    };
    let (measured, legs) = rooms::run(&plan, &|| false).unwrap();
    assert!(legs.is_empty());
    // The CPU time of the context does not depend on what else the machine does. The tasks of a
    // hundred rooms that woke up once per packet time would need more.
    let share = measured.used.contexts.as_secs_f64() / measured.used.time.as_secs_f64();
    assert!(share < 0.01, "{:.2} % of a CPU", 100.0 * share);
}

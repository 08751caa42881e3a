//! Rooms: everybody hears all others, and nobody themselves.

mod ports;

use creel_cast::rooms::{self, LegReport, Plan};
use ports::free_ports;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// µ-law of a constant: what each leg says, so that sums can be told apart.
const VOICES: [u8; 3] = [0xf0, 0xd0, 0xb0];

/// What µ-law bytes mean. Source: ITU-T G.711.
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

/// Runs rooms while `talk` goes on.
fn conferring(plan: &Plan, talk: impl FnOnce()) -> Vec<LegReport> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            rooms::run(plan, &|| over.load(Ordering::Relaxed))
                .unwrap()
                .1
        });
        // They end if it fails, too.
        let talked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(talk));
        over.store(true, Ordering::Relaxed);
        let reports = running.join().unwrap();
        talked.unwrap();
        reports
    })
}

#[test]
fn each_leg_hears_the_others_but_not_itself() {
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
    // To a step of the law at that level.
    let is_sum = |received: i32, others: i32| (received - others).abs() <= others.abs() / 16;
    let mut last = [0; 3];
    let reports = conferring(&plan, || {
        let begin = Instant::now();
        // Since all are in the room; and after that until all have heard the others at the same time.
        let mut together = 0;
        for n in 0.. {
            std::thread::sleep((begin + 20 * MS * n).saturating_duration_since(Instant::now()));
            assert!(
                begin.elapsed() < 60_000 * MS,
                "they heard {last:?} of {others:?}"
            );
            together += u32::from(!last.contains(&0));
            if together > 60 && (0..3).all(|leg| is_sum(last[leg], others[leg])) {
                break;
            }
            for (index, leg) in legs.iter().enumerate() {
                // Refused until the rooms are open.
                let _ = leg.send_to(&packet(n, VOICES[index], index as u32), on);
                let mut bytes = [0; 2_048];
                while let Ok(len) = leg.recv(&mut bytes) {
                    assert_eq!((len, bytes[1] & 0x7f), (172, 0));
                    last[index] = sample(bytes[100]);
                }
            }
            let _ = alone.send_to(&packet(n, VOICES[0], 9), other_room);
            assert!(
                alone.recv(&mut [0; 2_048]).is_err(),
                "who is alone hears nobody"
            );
        }
    });
    assert_eq!(reports.len(), 4);
    assert!(reports.iter().all(|leg| leg.packets > 40), "{reports:?}");
}

/// Two in a room, of whom one goes on talking and hears whether the other is there.
struct Pair {
    on: SocketAddr,
    stays: UdpSocket,
    other: UdpSocket,
    n: u32,
}

impl Pair {
    /// Whether what one of them hears comes to be so, within some tenths of a second.
    fn until(&mut self, does_other_talk: bool, is_so: impl Fn(usize) -> bool) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < 60_000 * MS {
            let mut bytes = [0; 2_048];
            while self.stays.recv(&mut bytes).is_ok() {}
            for _ in 0..5 {
                // Refused until the room is open.
                let _ = self.stays.send_to(&packet(self.n, VOICES[0], 1), self.on);
                if does_other_talk {
                    let _ = self.other.send_to(&packet(self.n, VOICES[1], 2), self.on);
                }
                self.n += 1;
                std::thread::sleep(20 * MS);
            }
            let received = std::iter::from_fn(|| self.stays.recv(&mut bytes).ok());
            if is_so(received.count()) {
                return true;
            }
        }
        false
    }
}

#[test]
fn a_leg_leaves_by_bye_or_by_silence() {
    // Who says good-bye has left long before the silence would tell.
    for (silence, says_good_bye) in [(200 * MS, false), (600_000 * MS, true)] {
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
        conferring(&plan, || {
            let is_there = pair.until(true, |received| received > 0);
            if says_good_bye {
                let bye = [0x81, 203, 0, 1, 0, 0, 0, 2];
                pair.other.send_to(&bye, on).unwrap();
            }
            let is_gone = pair.until(false, |received| received == 0);
            assert!(is_there && is_gone, "{silence:?}: {is_there}, {is_gone}");
        });
    }
}

#[test]
fn empty_rooms_sleep() {
    let plan = Plan {
        time_limit: Some(1_000 * MS),
        ..Plan::new(free_ports(100), 100)
    };
    // A thread that woke every 5 ms for a hundred rooms would be seen here each time; a noisy machine
    // is not.
    let sleeps = |_| {
        let (measured, legs) = rooms::run(&plan, &|| false).unwrap();
        assert!(legs.is_empty());
        let share = measured.parked_share();
        eprintln!("parked {:.3} %", 100.0 * share);
        share > 0.9
    };
    assert!((0..10).any(sleeps));
}

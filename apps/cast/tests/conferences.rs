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
        talk();
        over.store(true, Ordering::Relaxed);
        running.join().unwrap()
    })
}

#[test]
fn everybody_hears_the_others_and_not_themselves() {
    let on = free_ports(2);
    let plan = Plan {
        wait: MS,
        ..Plan::new(on, 2)
    };
    let other_room = SocketAddr::new(on.ip(), on.port() + 1);
    let legs: Vec<UdpSocket> = VOICES.iter().map(|_| socket()).collect();
    let alone = socket();
    let mut last = [0; 3];
    let reports = conferring(&plan, || {
        let begin = Instant::now();
        for n in 0..60_u32 {
            std::thread::sleep((begin + 20 * MS * n).saturating_duration_since(Instant::now()));
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
    let sum: i32 = VOICES.iter().map(|&voice| sample(voice)).sum();
    for (index, &voice) in VOICES.iter().enumerate() {
        let others = sum - sample(voice);
        // A step of the law at that level.
        assert!(
            (last[index] - others).abs() <= others.abs() / 16,
            "leg {index} heard {} of {others}",
            last[index]
        );
    }
    assert_eq!(reports.len(), 4);
    assert!(reports.iter().all(|leg| leg.packets > 40), "{reports:?}");
}

#[test]
fn who_says_good_bye_or_nothing_has_left() {
    let on = free_ports(1);
    let plan = Plan {
        wait: MS,
        silence: 200 * MS,
        ..Plan::new(on, 1)
    };
    let (stays, silent, leaves) = (socket(), socket(), socket());
    let hears = || {
        let (mut bytes, mut count) = ([0; 2_048], 0);
        while stays.recv(&mut bytes).is_ok() {
            count += 1;
        }
        count
    };
    conferring(&plan, || {
        let begin = Instant::now();
        let mut n = 0;
        let mut talk = |until: Duration, others: &[&UdpSocket]| {
            while begin.elapsed() < until {
                let _ = stays.send_to(&packet(n, VOICES[0], 1), on);
                for other in others {
                    let _ = other.send_to(&packet(n, VOICES[1], 2), on);
                }
                n += 1;
                std::thread::sleep(20 * MS);
            }
        };
        talk(400 * MS, &[&silent]);
        assert!(hears() > 0);
        talk(1_000 * MS, &[]);
        hears();
        talk(1_200 * MS, &[]);
        assert_eq!(hears(), 0, "the silent one is still there");
        talk(1_500 * MS, &[&leaves]);
        assert!(hears() > 0);
        // A good-bye.
        leaves.send_to(&[0x81, 203, 0, 1, 0, 0, 0, 2], on).unwrap();
        talk(1_560 * MS, &[]);
        hears();
        talk(1_700 * MS, &[]);
        assert_eq!(hears(), 0, "the one who left is still there");
    });
}

#[test]
fn rooms_with_nobody_in_them_sleep() {
    let plan = Plan {
        at_most: Some(1_000 * MS),
        ..Plan::new(free_ports(100), 100)
    };
    let (measured, legs) = rooms::run(&plan, &|| false).unwrap();
    assert!(legs.is_empty());
    let share = measured.parked_share();
    eprintln!("parked {:.3} %", 100.0 * share);
    // A thread that woke every 5 ms for a hundred rooms would be seen here; a noisy machine is not.
    assert!(share > 0.9, "parked for {share} of the time only");
}

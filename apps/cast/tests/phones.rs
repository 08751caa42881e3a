//! Rooms with telephones that change their codec, press keys, fall silent, hang up, or misbehave.

mod ports;
mod running;

use creel_cast::rooms::Plan;
use creel_cast::{Formats, Rtcp};
use ports::free_ports;
use running::run_rooms_while;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
const PCMU: u8 = 0;
const PCMA: u8 = 8;
const NOISE: u8 = 13;
const KEYS: u8 = 101;

/// A telephone with an even port, whose next port is free as well.
struct Phone {
    socket: UdpSocket,
    rtcp: UdpSocket,
    room: SocketAddr,
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    /// The payload type and the payload of each RTP packet that the telephone has received.
    /// `reports` has the RTCP packets.
    heard: Vec<(u8, Vec<u8>)>,
    reports: Vec<Vec<u8>>,
    /// The timestamp and the SSRC of the last packet that it has received.
    last: (u32, u32),
}

impl Phone {
    fn new(room: SocketAddr, ssrc: u32) -> Self {
        let address = free_ports(2);
        let open = |port| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        Phone {
            socket: open(address.port()),
            rtcp: open(address.port() + 1),
            room,
            ssrc,
            sequence: 100,
            timestamp: 0,
            heard: Vec::new(),
            reports: Vec::new(),
            last: (0, 0),
        }
    }

    /// Sends a packet that lasts 20 ms.
    fn send(&mut self, payload_type: u8, payload: &[u8]) {
        let mut bytes = vec![0x80, payload_type];
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.timestamp.to_be_bytes());
        bytes.extend(self.ssrc.to_be_bytes());
        bytes.extend(payload);
        // The system refuses packets until the room is open.
        let _ = self.socket.send_to(&bytes, self.room);
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(160);
        self.hear();
    }

    fn hear(&mut self) {
        let mut bytes = [0; 2_048];
        while let Ok(len) = self.socket.recv(&mut bytes) {
            match bytes[1] {
                200..=207 => self.reports.push(bytes[..len].to_vec()),
                _ => {
                    let word = |at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
                    self.last = (word(4), word(8));
                    self.heard.push((bytes[1] & 0x7f, bytes[12..len].to_vec()));
                }
            }
        }
        while let Ok(len) = self.rtcp.recv(&mut bytes) {
            self.reports.push(bytes[..len].to_vec());
        }
    }

    /// Returns whether one of the last packets that the telephone received is louder than silence.
    fn hears_a_voice(&self) -> bool {
        let last = self.heard.len().saturating_sub(5);
        self.heard[last..].iter().any(|(payload_type, payload)| {
            let silence: &[u8] = if *payload_type == PCMU {
                &[0xff, 0x7f]
            } else {
                &[0xd5, 0x55]
            };
            payload.iter().any(|byte| !silence.contains(byte))
        })
    }

    fn bye(&self) -> Vec<u8> {
        // An empty receiver report comes before the BYE.
        let ssrc = self.ssrc.to_be_bytes();
        [&[0x80, 201, 0, 1], &ssrc[..], &[0x81, 203, 0, 1], &ssrc].concat()
    }
}

/// The payload of the voice packets that our telephones send. All of its bytes are equal, and they
/// differ from silence in A-law and in µ-law. Therefore the tests can use it with both codecs.
const VOICE: [u8; 160] = [0x9a; 160];

fn plan(on: SocketAddr) -> Plan {
    Plan {
        wait: MS,
        formats: Formats::new(vec![(KEYS, "telephone-event/8000".parse().unwrap())]),
        ..Plan::new(on, 1)
    }
}

/// Calls `each` every 20 ms until it returns true.
fn until(what: &str, mut each: impl FnMut() -> bool) {
    let begin = Instant::now();
    for n in 0.. {
        if each() {
            return;
        }
        assert!(begin.elapsed() < 60_000 * MS, "{what} takes too long");
        std::thread::sleep((begin + 20 * MS * n).saturating_duration_since(Instant::now()));
    }
}

/// Lets both telephones talk until both hear one another.
fn connect(a: &mut Phone, b: &mut Phone) {
    until("the connection", || {
        a.send(PCMU, &VOICE);
        b.send(PCMU, &VOICE);
        a.hears_a_voice() && b.hears_a_voice()
    });
}

#[test]
fn a_codec_may_change_during_the_call() {
    let plan = plan(free_ports(1));
    let reports = run_rooms_while(&plan, || {
        let (mut a, mut b) = (Phone::new(plan.on, 1), Phone::new(plan.on, 2));
        connect(&mut a, &mut b);
        b.heard.clear();
        until("the new codec", || {
            a.send(PCMA, &VOICE);
            b.send(PCMU, &VOICE);
            // We answer in the codec that the telephone uses now.
            let answered = a.heard.iter().filter(|(of, _)| *of == PCMA).count() > 20;
            answered && a.hears_a_voice() && b.hears_a_voice() && b.heard.len() > 20
        });
    });
    assert_eq!(reports.len(), 2, "{reports:?}");
}

#[test]
fn a_telephone_that_is_alone_receives_silence() {
    let plan = plan(free_ports(1));
    run_rooms_while(&plan, || {
        let mut a = Phone::new(plan.on, 1);
        until("the silence", || {
            a.send(PCMA, &VOICE);
            a.heard.len() > 20
        });
        assert!(!a.hears_a_voice());
        assert!(
            a.heard
                .iter()
                .all(|(of, payload)| *of == PCMA && payload.len() == 160)
        );
    });
}

#[test]
fn keys_and_comfort_noise_may_come_before_the_voice() {
    let plan = plan(free_ports(1));
    let reports = run_rooms_while(&plan, || {
        let mut a = Phone::new(plan.on, 1);
        let mut n = 0;
        until("the key", || {
            let key = [7, if n < 3 { 0x0a } else { 0x8a }, 0, 40 * n];
            n = (n + 1).min(4);
            // All packets of a key have the same timestamp.
            a.timestamp = 0;
            a.send(KEYS, &key);
            a.heard.len() > 10
        });
        a.heard.clear();
        until("the noise", || {
            a.send(NOISE, &[60]);
            a.heard.len() > 10
        });
    });
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(reports[0].keys, "7");
}

#[test]
fn comfort_noise_keeps_the_leg_and_is_heard() {
    let plan = Plan {
        silence: 400 * MS,
        ..plan(free_ports(1))
    };
    let reports = run_rooms_while(&plan, || {
        let (mut a, mut b) = (Phone::new(plan.on, 1), Phone::new(plan.on, 2));
        connect(&mut a, &mut b);
        let mut n = 0;
        until("the silence", || {
            // A telephone sends its noise rarely.
            if n % 10 == 0 {
                a.send(NOISE, &[30]);
            }
            n += 1;
            b.send(PCMU, &VOICE);
            n > 50
        });
        assert!(b.hears_a_voice(), "the noise is heard");
    });
    assert_eq!(reports.len(), 2, "{reports:?}");
}

#[test]
fn another_address_or_ssrc_cannot_end_a_call() {
    let plan = plan(free_ports(1));
    let reports = run_rooms_while(&plan, || {
        let (mut a, mut b) = (Phone::new(plan.on, 1), Phone::new(plan.on, 2));
        connect(&mut a, &mut b);
        let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut n = 0;
        until("the call", || {
            // The stranger sends a BYE with the SSRC of a leg. The address of the leg sends a BYE
            // of another SSRC, and a packet of a third SSRC.
            stranger.send_to(&a.bye(), plan.on).unwrap();
            let other = Phone {
                ssrc: 99,
                ..Phone::new(plan.on, 99)
            };
            a.socket.send_to(&other.bye(), plan.on).unwrap();
            let mut stray = vec![0x80, 0];
            stray.extend((n as u16 * 700).to_be_bytes());
            stray.extend([0, 0, 0, 0, 0, 0, 0, 77, 0xff, 0xff]);
            a.socket.send_to(&stray, plan.on).unwrap();
            a.send(PCMU, &VOICE);
            b.send(PCMU, &VOICE);
            n += 1;
            n > 30
        });
        assert!(a.hears_a_voice() && b.hears_a_voice());
    });
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(reports.iter().all(|leg| leg.packets > 30), "{reports:?}");
}

#[test]
fn a_new_stream_of_the_same_telephone_continues_its_leg() {
    let plan = plan(free_ports(1));
    let reports = run_rooms_while(&plan, || {
        let (mut a, mut b) = (Phone::new(plan.on, 1), Phone::new(plan.on, 2));
        connect(&mut a, &mut b);
        (a.ssrc, a.sequence, a.timestamp) = (3, 5_000, 77);
        a.heard.clear();
        b.heard.clear();
        let mut n = 0;
        until("the new stream", || {
            a.send(PCMU, &VOICE);
            b.send(PCMU, &VOICE);
            n += 1;
            n > 30 && b.hears_a_voice() && a.hears_a_voice()
        });
    });
    assert_eq!(reports.len(), 2, "{reports:?}");
}

#[test]
fn a_telephone_that_returns_receives_timestamps_that_go_on() {
    let plan = Plan {
        silence: 200 * MS,
        ..plan(free_ports(1))
    };
    run_rooms_while(&plan, || {
        let (mut a, mut b) = (Phone::new(plan.on, 1), Phone::new(plan.on, 2));
        connect(&mut a, &mut b);
        a.hear();
        let ((before, ssrc), begin) = (a.last, Instant::now());
        // The second telephone hears silence once the first one has left.
        until("the leaving", || {
            b.send(PCMU, &VOICE);
            !b.hears_a_voice()
        });
        a.hear();
        until("the return", || {
            a.send(PCMU, &VOICE);
            b.send(PCMU, &VOICE);
            a.last.1 != ssrc
        });
        // Packets are sent in time, except that a busy machine sends some late.
        let passed = begin.elapsed().as_millis() as u32 * 8;
        let went_on = a.last.0.wrapping_sub(before);
        assert!(
            (1..=passed + 8_000).contains(&went_on),
            "{went_on} ticks instead of {passed}"
        );
    });
}

#[test]
fn reports_are_exchanged_and_a_bye_on_the_next_port_ends_the_call() {
    for rtcp in [Rtcp::Own, Rtcp::Mux] {
        let plan = Plan {
            rtcp,
            silence: 600_000 * MS,
            ..plan(free_ports(2))
        };
        run_rooms_while(&plan, || {
            let (mut a, mut b) = (Phone::new(plan.on, 1), Phone::new(plan.on, 2));
            connect(&mut a, &mut b);
            until("the first report", || {
                a.send(PCMU, &VOICE);
                b.send(PCMU, &VOICE);
                !a.reports.is_empty()
            });
            // The room sends a sender report with a block about the telephone's own stream.
            assert_eq!(a.reports[0][..2], [0x81, 200]);
            assert_eq!(a.reports[0][28..32], [0, 0, 0, 1]);
            let (socket, port) = match rtcp {
                Rtcp::Own => (&a.rtcp, plan.on.port() + 1),
                _ => (&a.socket, plan.on.port()),
            };
            socket.send_to(&a.bye(), (plan.on.ip(), port)).unwrap();
            until("the goodbye", || {
                b.send(PCMU, &VOICE);
                !b.hears_a_voice()
            });
        });
    }
}

#[test]
fn a_telephone_that_dies_leaves_and_the_others_go_on() {
    let plan = Plan {
        silence: 300 * MS,
        ..plan(free_ports(1))
    };
    let reports = run_rooms_while(&plan, || {
        let mut phones: Vec<Phone> = (1..=5).map(|ssrc| Phone::new(plan.on, ssrc)).collect();
        until("the conference", || {
            phones.iter_mut().for_each(|phone| phone.send(PCMU, &VOICE));
            phones.iter().all(Phone::hears_a_voice)
        });
        let dead = phones.pop().unwrap();
        let before = Instant::now();
        until("the silence", || {
            phones.iter_mut().for_each(|phone| phone.send(PCMU, &VOICE));
            before.elapsed() > 600 * MS
        });
        assert!(phones.iter().all(Phone::hears_a_voice));
        drop(dead);
    });
    assert_eq!(reports.len(), 5, "{reports:?}");
}

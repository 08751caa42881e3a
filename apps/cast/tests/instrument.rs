//! The figures of a live receiver. They must not depend on when the program wakes up.
#![cfg(target_os = "linux")]

mod folder;
mod ports;

use creel_cast::receive::{self, Plan, Receiver};
use creel_cast::send::{self, Content};
use creel_cast::{Formats, Measured, Rtcp, RtpSession, Senders, Sound};
use folder::Folder;
use ports::free_ports;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn plan(on: SocketAddr, format: &str) -> Plan {
    let formats = Formats::new(vec![(97, format.parse().unwrap())]);
    let sessions = Plan::sessions(on, 1, &formats, Rtcp::Off).unwrap();
    Plan {
        streams: Some(1),
        idle: 3_000 * MS,
        time_limit: Some(60_000 * MS),
        ..Plan::new(sessions)
    }
}

fn packet(n: u32, frames: u32) -> Vec<u8> {
    let mut bytes = vec![0x80, 97];
    bytes.extend((n as u16).to_be_bytes());
    bytes.extend((n * frames).to_be_bytes());
    bytes.extend([0, 0, 0, 7]);
    bytes.resize(12 + 2 * frames as usize, 1);
    bytes
}

/// Receives while `send` runs.
fn receive_while(plan: &Plan, send: impl FnOnce()) -> Measured {
    let receiver = Receiver::open(plan).unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| receiver.run(&|| false));
        send();
        running.join().unwrap()
    })
}

#[test]
fn jitter_and_capture_times_do_not_depend_on_the_wait_of_the_context() {
    let folder = Folder::new("wait");
    let path = folder.0.join("a.pcap");
    let on = free_ports(1);
    let plan = Plan {
        wait: 40 * MS,
        capture: Some(path.clone()),
        ..plan(on, "L16/48000")
    };
    let mut times = Vec::new();
    let measured = receive_while(&plan, || {
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let begin = Instant::now();
        for n in 0..1_000 {
            std::thread::sleep((begin + MS * n).saturating_duration_since(Instant::now()));
            times.push(begin.elapsed().as_secs_f64() * 1e3);
            sender.send_to(&packet(n, 48), on).unwrap();
        }
    });
    let again = receive::analyse(&plan, &path).unwrap();
    let (live, read) = (&measured.sources[0], &again.sources[0]);
    eprintln!(
        "{:?} and {:?}, deltas {:?}",
        live.jitter, read.jitter, live.delta
    );
    assert_eq!((live.packets, read.packets), (1_000, 1_000));
    // The kernel's clock is the same in both cases, except that NTP may set it.
    let (live_jitter, read_jitter) = (live.jitter.unwrap(), read.jitter.unwrap());
    assert!((live_jitter.mean - read_jitter.mean).abs() < 0.01);
    assert!((live.delta.unwrap().max - read.delta.unwrap().max).abs() < 0.5);
    assert_eq!(live.late, read.late);
    // If the times were those at which the program woke up, the jitter would be about 2 ms, because
    // 39 of 40 packets would seem to arrive at once.
    let at_once = live.delta.unwrap();
    assert!(at_once.min > 0.0);
    let sent = deviation(&times);
    let arrived = live.interval_sd_ms;
    assert!(
        (arrived - sent).abs() < 1.0,
        "{arrived} instead of {sent} ms"
    );
}

/// Returns the standard deviation of the intervals between these times.
fn deviation(times: &[f64]) -> f64 {
    let intervals: Vec<f64> = times.windows(2).map(|it| it[1] - it[0]).collect();
    let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
    let squares = intervals.iter().map(|it| (it - mean).powi(2));
    (squares.sum::<f64>() / intervals.len() as f64).sqrt()
}

#[test]
fn a_burst_within_one_wait_does_not_overflow_the_socket() {
    let on = free_ports(1);
    let plan = Plan {
        wait: 100 * MS,
        ..plan(on, "L16/48000")
    };
    // The default buffer of the system has room for these packets.
    let measured = receive_while(&plan, || {
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for n in 0..150 {
            sender.send_to(&packet(n, 6), on).unwrap();
        }
    });
    assert_eq!((measured.overflowed, measured.lost), (Some(0), 0));
    assert_eq!(measured.sources[0].packets, 150);
}

#[test]
fn drops_of_this_machine_are_counted_per_port() {
    let on = free_ports(1);
    let plan = Plan {
        wait: 200 * MS,
        ..plan(on, "L16/48000")
    };
    let measured = receive_while(&plan, || {
        let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let begin = Instant::now();
        let mut n = 0;
        // The sender fills any buffer that the system grants, while the program waits.
        while n < 40_000 && begin.elapsed() < 10_000 * MS {
            sender.send_to(&packet(n, 600), on).unwrap();
            n += 1;
        }
        std::thread::sleep(300 * MS);
        for _ in 0..20 {
            sender.send_to(&packet(n, 600), on).unwrap();
            n += 1;
        }
    });
    let source = &measured.sources[0];
    assert!(measured.overflowed > Some(0));
    assert_eq!(source.overflowed, measured.overflowed);
}

#[test]
fn packets_of_excluded_senders_are_ignored_and_all_others_are_received() {
    let filters = [
        (
            Senders::Except(vec![Ipv4Addr::new(127, 0, 0, 9).into()]),
            [true, false, true],
        ),
        (
            Senders::Only(vec![
                Ipv4Addr::new(127, 0, 0, 9).into(),
                Ipv4Addr::new(127, 0, 0, 1).into(),
            ]),
            [true, true, false],
        ),
    ];
    for (sources, expected) in filters {
        let on = free_ports(1);
        let mut plan = Plan {
            streams: None,
            ..plan(on, "L16/48000")
        };
        plan.sessions[0].sources = sources;
        let measured = receive_while(&plan, || {
            for (number, last) in [1, 9, 5].into_iter().enumerate() {
                let sender = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 0)).unwrap();
                for n in 0..10 {
                    let mut bytes = packet(n, 6);
                    bytes[11] = number as u8;
                    sender.send_to(&bytes, on).unwrap();
                }
            }
        });
        let heard = [0, 1, 2].map(|ssrc| measured.sources.iter().any(|it| it.ssrc == ssrc));
        assert_eq!(heard, expected);
    }
}

#[test]
fn the_first_packet_of_a_second_sender_has_its_own_address() {
    let on = free_ports(1);
    let plan = plan(on, "L16/48000");
    let measured = receive_while(&plan, || {
        for number in 0..3_u8 {
            let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            for n in 0..10 {
                let mut bytes = packet(n, 6);
                bytes[11] = number;
                sender.send_to(&bytes, on).unwrap();
                std::thread::sleep(3 * MS);
            }
        }
    });
    let packets: Vec<u64> = measured.sources.iter().map(|it| it.packets).collect();
    assert_eq!(packets, [10, 10, 10]);
}

/// Sends `buffers` packets of µ-law to this address.
fn voice(to: SocketAddr, rtcp: Rtcp, buffers: u64) -> send::Plan {
    let mut session = RtpSession::new(to, 0, "PCMU".parse().unwrap());
    session.packet_time = 20 * MS;
    session.rtcp = rtcp;
    send::Plan {
        sessions: vec![session],
        buffers,
        ramp_up: Duration::ZERO,
        ..send::Plan::new(to, 1)
    }
}

#[test]
fn a_closed_port_is_reported_to_the_sender() {
    let (closed, open) = (
        free_ports(1),
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(),
    );
    let open = (open.local_addr().unwrap(), open);
    let plan = send::Plan {
        to: vec![closed, open.0],
        ..voice(closed, Rtcp::Off, 50)
    };
    let measured = send::run(&plan, &|| false).unwrap();
    let about = |address: SocketAddr| {
        let text = format!("nothing listens on {address}:");
        measured.warnings.iter().any(|it| it.starts_with(&text))
    };
    assert!(about(closed) && !about(open.0), "{:?}", measured.warnings);
    // No packet to the open port is lost because of the answers of the closed one.
    assert_eq!(measured.lost, 0, "{:?}", measured.warnings);
    open.1.set_nonblocking(true).unwrap();
    let mut bytes = [0; 2_048];
    let arrived = std::iter::from_fn(|| open.1.recv(&mut bytes).ok()).count() as u64;
    assert_eq!(arrived + measured.skipped, 50);
}

#[test]
fn extended_reports_have_the_quality_and_measure_the_round_trip() {
    let on = free_ports(1);
    let formats = Formats::new(vec![(0, "PCMU".parse().unwrap())]);
    let sessions = Plan::sessions(on, 1, &formats, Rtcp::Mux).unwrap();
    let plan = Plan {
        sessions,
        extended_reports: true,
        ..plan(on, "L16/48000")
    };
    let mut sent = Measured::default();
    let received = receive_while(&plan, || {
        // The reports are up to 7.5 s apart, so there are at least two within 16 s.
        sent = send::run(&voice(on, Rtcp::Mux, 800), &|| false).unwrap();
    });
    let report = &sent.sent[0].receivers[0];
    // A busy machine sends packets too late, and the quality is worse then.
    let discarded = report.discarded.unwrap_or(1.0);
    let least = if discarded > 0.0 { (1, 1.0) } else { (86, 4.0) };
    assert!(
        report.rating.is_some_and(|rating| rating >= least.0),
        "{report:?}"
    );
    assert!(report.mos.is_some_and(|mos| mos >= least.1), "{report:?}");
    let trip = received.sources[0].round_trip_ms;
    assert!(
        trip.is_some_and(|ms| (0.0..1_000.0).contains(&ms)),
        "{trip:?}"
    );
}

#[test]
fn all_24_bits_of_a_file_arrive_in_the_recording() {
    let folder = Folder::new("wide");
    let on = free_ports(1);
    let sound = Sound {
        rate: 48_000,
        channels: 1,
        samples: (0..480).map(|n| n * 50 - 10_000).collect(),
        low: (0..480).map(|n| (n * 7) as u8).collect(),
    };
    let mut session = RtpSession::new(on, 97, "L24/48000".parse().unwrap());
    session.packet_time = 5 * MS;
    let sending = send::Plan {
        sessions: vec![session],
        content: Content::Sound(Arc::new(sound.clone())),
        buffers: 40,
        ramp_up: Duration::ZERO,
        ..send::Plan::new(on, 1)
    };
    let plan = Plan {
        wav: Some(folder.0.clone()),
        ..plan(on, "L24/48000")
    };
    let measured = receive_while(&plan, || {
        send::run(&sending, &|| false).unwrap();
    });
    assert_eq!(measured.warnings, Vec::<String>::new());
    let heard = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
    assert!(heard.samples.len() >= 480 && heard.low.len() == heard.samples.len());
    for (n, (sample, low)) in heard.samples.iter().zip(&heard.low).enumerate() {
        let is_lost = (*sample, *low) == (0, 0);
        assert!(is_lost || (*sample, *low) == (sound.samples[n % 480], sound.low[n % 480]));
    }
}

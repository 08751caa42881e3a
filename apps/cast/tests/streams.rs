//! Tests of complete runs, without a network and over loopback.

mod folder;
mod ports;

use creel_cast::receive::{self, Receiver};
use creel_cast::send;
use creel_cast::standalone;
use creel_cast::stream::SinkMode;
use creel_cast::{Error, Formats, Measured, Rtcp, Shape, Sound, Tone};
use folder::Folder;
use ports::free_ports;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

const RATE: u32 = 44_100;
const BUFFER_SAMPLES: usize = 441;

const MS: Duration = Duration::from_millis(1);

fn standalone_plan(mode: SinkMode) -> standalone::Plan {
    standalone::Plan {
        streams: 50,
        contexts: 2,
        wait: MS,
        observe: creel::Observe::Off,
        period: 5 * MS,
        buffers: 20,
        mode,
        samples: 80,
        ramp_up: 50 * MS,
    }
}

#[test]
fn every_sink_mode_measures_every_stream() {
    for (name, mode) in SinkMode::ALL {
        let plan = standalone_plan(mode);
        // A program that the OS suspends for too long skips buffers, so we try several times.
        let begin = Instant::now();
        loop {
            let measured = standalone::run(&plan, &|| false).unwrap();
            assert_eq!(measured.streams.len(), 50, "{name}");
            let counts = measured.streams.iter().map(|s| s.buffers);
            let (least, most) = (counts.clone().min(), counts.max());
            assert_eq!(most, Some(20), "{name}");
            let recorded = measured.histograms.latency.len();
            assert_eq!(recorded, measured.buffers, "{name}");
            if least == Some(20) {
                assert_eq!(measured.buffers, 50 * 20, "{name}");
                break;
            }
            assert!(begin.elapsed() < 60_000 * MS, "{name}: {least:?}");
        }
    }
}

#[test]
fn a_run_can_be_interrupted() {
    let plan = standalone::Plan {
        buffers: 100_000,
        ..standalone_plan(SinkMode::Slot)
    };
    let given_up = standalone::run(&plan, &|| true);
    assert!(matches!(given_up, Err(Error::Interrupted)));
}

fn send_plan(to: SocketAddr, streams: usize, shared_port: bool) -> send::Plan {
    send::Plan {
        shared_port,
        wait: MS,
        buffers: 30,
        ramp_up: 100 * MS,
        ..send::Plan::new(to, streams)
    }
}

/// Returns a plan that ends when all packets have arrived, including those of the ramp-up in
/// [`send_plan`]. It also ends when no more packets arrive, because a sender that the OS suspends
/// skips packets.
fn receive_plan(on: SocketAddr, streams: usize, shared_port: bool) -> receive::Plan {
    let ports = if shared_port { 1 } else { streams };
    let sessions = receive::Plan::sessions(on, ports, &Formats::default(), Rtcp::Off).unwrap();
    receive::Plan {
        streams: Some(streams),
        wait: MS,
        buffers: Some(30 + 10),
        idle: 5_000 * MS,
        time_limit: Some(60_000 * MS),
        ..receive::Plan::new(sessions)
    }
}

/// Returns the number of packets that were lost, other than those that this machine dropped.
fn lost(received: &Measured) -> u64 {
    received
        .lost
        .saturating_sub(received.overflowed.unwrap_or(0))
}

/// Returns whether every packet arrived that was neither skipped by the sender nor dropped by this
/// machine.
fn is_all_heard(sent: &Measured, received: &Measured) -> bool {
    let missing = sent.skipped + received.overflowed.unwrap_or(0);
    let heard = received.streams.iter().map(|s| s.buffers);
    heard.min().is_some_and(|heard| heard + missing >= 30)
}

/// Opens the ports, and then receives while the sender runs.
fn sent_and_received(send: &send::Plan, receive: &receive::Plan) -> (Measured, Measured) {
    let receiver = Receiver::open(receive).unwrap();
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&|| false));
        let sent = send::run(send, &|| false).unwrap();
        (sent, receiving.join().unwrap())
    })
}

#[test]
fn received_audio_equals_sent_audio() {
    let base = free_ports(3);
    let folder = Folder::new("heard");
    let receive = receive::Plan {
        wav: Some(folder.0.clone()),
        ..receive_plan(base, 3, false)
    };
    let (sent, received) = sent_and_received(&send_plan(base, 3, false), &receive);
    assert_eq!(sent.lost, 0);
    assert_eq!((lost(&received), received.reordered), (0, 0));
    if sent.skipped + received.overflowed.unwrap_or(0) > 0 {
        return eprintln!("this machine was too slow: its sound has gaps");
    }
    assert_eq!(received.warnings, Vec::<String>::new());
    for stream in 0..3 {
        let path = folder.0.join(format!("stream-{stream}.wav"));
        let heard = Sound::read(&path).unwrap();
        assert_eq!(heard.rate, RATE);
        assert!(heard.samples.len() >= 30 * BUFFER_SAMPLES);
        let mut expected = vec![0; heard.samples.len()];
        Tone::new(Shape::Sine, 440.0 + f64::from(stream), RATE).fill(&mut expected);
        // These are the same samples in chunks of another length, so they may be rounded
        // differently.
        let close = |(a, b): (&i16, &i16)| (i32::from(*a) - i32::from(*b)).abs() <= 1;
        let all_close = heard.samples.iter().zip(&expected).all(close);
        assert!(all_close, "stream {stream} carries another tone");
    }
}

#[test]
fn sent_keys_are_received_and_the_audio_continues() {
    let base = free_ports(2);
    let formats = Formats::new(vec![(101, "telephone-event/8000".parse().unwrap())]);
    let mut send = send_plan(base, 2, false);
    for session in &mut send.sessions {
        session.formats = Formats::new(vec![
            (0, "PCMU".parse().unwrap()),
            (101, "telephone-event/8000".parse().unwrap()),
        ]);
        session.packet_time = 20 * MS;
    }
    send.keys = Some((101, "1#D".into()));
    send.buffers = 100;
    let receive = receive::Plan {
        sessions: receive::Plan::sessions(base, 2, &formats, Rtcp::Off).unwrap(),
        buffers: Some(100 + 5),
        ..receive_plan(base, 2, false)
    };
    let (_, received) = sent_and_received(&send, &receive);
    if received.overflowed == Some(0) {
        assert_eq!(received.warnings, Vec::<String>::new());
    }
    assert_eq!(lost(&received), 0);
    for source in &received.sources {
        assert_eq!(source.keys, "1#D");
        assert_eq!(source.payload_types, [101, 0]);
        assert_eq!(source.format.unwrap().to_string(), "PCMU/8000");
    }
}

#[test]
fn streams_on_one_port_are_demultiplexed() {
    let base = free_ports(1);
    let plans = (send_plan(base, 20, true), receive_plan(base, 20, true));
    let (sent, received) = sent_and_received(&plans.0, &plans.1);
    assert_eq!(lost(&received), 0);
    assert_eq!(received.streams.len(), 20);
    // The count includes the packets of the ramp-up.
    let packets: u64 = sent.sent.iter().map(|sent| sent.packets).sum();
    assert_eq!(packets + sent.skipped, 20 * (30 + 10));
    assert!((20 * 30 - sent.skipped..=20 * 30).contains(&sent.buffers));
    assert!(is_all_heard(&sent, &received));
}

#[test]
fn a_port_in_use_is_a_warning_and_the_others_work() {
    let base = free_ports(3);
    let taken = SocketAddr::new(base.ip(), base.port() + 1);
    let _taken = UdpSocket::bind(taken).unwrap();
    let receive = receive::Plan {
        // Two of the three streams arrive. The run may end before the last two packets of each.
        buffers: Some(26),
        ..receive_plan(base, 3, false)
    };
    let (sent, received) = sent_and_received(&send_plan(base, 3, false), &receive);
    assert_eq!(received.streams.len(), 2);
    assert!(is_all_heard(&sent, &received));
    let warning = &received.warnings[0];
    assert!(warning.starts_with("cannot open 1 of 3 ports"), "{warning}");
    assert!(warning.contains(&taken.to_string()), "{warning}");
}

#[test]
fn having_no_port_is_an_error_that_names_the_address() {
    let base = free_ports(1);
    let _taken = UdpSocket::bind(base).unwrap();
    let error = receive::run(&receive_plan(base, 1, false), &|| false).unwrap_err();
    assert!(error.to_string().contains(&base.to_string()), "{error}");
}

#[test]
fn a_missing_client_does_not_disturb_the_others() {
    let base = free_ports(4);
    let closed = SocketAddr::new(base.ip(), base.port() + 2);
    let send = send::Plan {
        to: vec![closed, base],
        ..send_plan(base, 2, false)
    };
    let (sent, received) = sent_and_received(&send, &receive_plan(base, 2, false));
    assert_eq!(lost(&received), 0);
    assert!(is_all_heard(&sent, &received));
}

#[test]
fn a_warning_says_why_the_system_rejected_packets() {
    // The system rejects broadcasts from a socket that has not requested them.
    let to = SocketAddr::from(([255, 255, 255, 255], 9));
    let plan = send::Plan {
        ramp_up: Duration::ZERO,
        buffers: 3,
        ..send_plan(to, 1, false)
    };
    let measured = send::run(&plan, &|| false).unwrap();
    assert_eq!(measured.lost, 3);
    let why = std::io::Error::from_raw_os_error(13).to_string();
    assert!(
        measured.warnings[0].ends_with(&why),
        "{:?}",
        measured.warnings
    );
}

#[test]
fn too_few_ports_are_rejected() {
    let base = SocketAddr::from((Ipv4Addr::LOCALHOST, 65_000));
    let error = send::run(&send_plan(base, 1_000, false), &|| false).unwrap_err();
    assert!(error.to_string().contains("--shared-port"), "{error}");
}

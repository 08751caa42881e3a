//! The figures of streams while they are received, and keys in redundant packets.

mod folder;
mod packets;
mod ports;

use creel_cast::receive::{Live, Plan, Receiver};
use folder::Folder;
use packets::{Packet, analysed, session};
use ports::free_ports;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn voice(n: u32) -> Packet {
    Packet {
        payload_type: 0,
        sequence: n as u16,
        timestamp: n * 160,
        ssrc: 7,
        payload: vec![0xff; 160],
    }
}

#[test]
fn live_figures_include_the_last_packets_of_a_stream_that_has_stopped() {
    let port = free_ports(1).port();
    let live = Live::default();
    let plan = Plan {
        live: Some(live.clone()),
        idle: Duration::from_secs(60),
        ..Plan::new(vec![session(port, &[])])
    };
    let receiver = Receiver::open(&plan).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for n in (0..100).filter(|n| *n != 50) {
        socket
            .send_to(&voice(n).bytes(), ("127.0.0.1", port))
            .unwrap();
    }
    let (begin, was_complete) = (Instant::now(), AtomicBool::new(false));
    let measured = receiver.run(&|| {
        let streams = live.streams();
        let first = streams.first().map(|live| &live.report);
        let is_complete = first.is_some_and(|report| report.packets == 99 && report.lost == 1);
        was_complete.fetch_or(is_complete, Ordering::Relaxed);
        is_complete || begin.elapsed() > Duration::from_secs(50)
    });
    assert!(was_complete.into_inner());
    assert_eq!(measured.sources[0].packets, 99);
}

#[test]
fn keys_in_redundant_packets_are_read_although_their_own_packets_are_lost() {
    let folder = Folder::new("red");
    let mut packets: Vec<_> = (0..20).map(voice).collect();
    // The packet of key 3 repeats those of the keys 1 and 2, which are lost.
    let end = |key: u8| [key, 0x8a, 3, 0x20];
    let heads = [
        0xe5_u32 << 24 | 4_800 << 10 | 4,
        0xe5 << 24 | 2_400 << 10 | 4,
    ];
    let heads: Vec<u8> = heads.iter().flat_map(|it| it.to_be_bytes()).collect();
    packets.push(Packet {
        payload_type: 121,
        sequence: 22,
        timestamp: 8_000,
        payload: [&heads[..], &[101], &end(1), &end(2), &end(3)].concat(),
        ..voice(0)
    });
    // These redundant packets contain sound. We read only their newest block.
    for n in 23..30_u32 {
        let head = (0x80_u32 << 24 | 160 << 10 | 160).to_be_bytes();
        packets.push(Packet {
            payload_type: 121,
            payload: [&head[..], &[0], &[0xff; 160], &[0xff; 160]].concat(),
            ..voice(n)
        });
    }
    let timed: Vec<_> = packets
        .into_iter()
        .map(|it| (Duration::from_millis(20) * u32::from(it.sequence), it))
        .collect();
    let formats = [(101, "telephone-event/8000"), (121, "red/8000")];
    let measured = analysed(&folder.0, &formats, &timed);
    let source = &measured.sources[0];
    assert_eq!((&source.keys[..], source.lost), ("123", 2));
    assert_eq!(source.format.unwrap().to_string(), "PCMU/8000");
    assert_eq!((source.codec_changes, source.unrecorded), (0, 0));
}

//! Packets that pass through the relay, or through a network that loses, delays and duplicates
//! them.

mod folder;
mod packets;
mod ports;
#[path = "../../../crates/creel/tests/retry/mod.rs"]
mod retry;

use creel_cast::receive::{self, Receiver};
use creel_cast::relay::{self, Relay};
use creel_cast::{Formats, Rtcp, Sound};
use folder::Folder;
use packets::{Packet, counted, counting};
use ports::{free_ports, wait_until_read};
use retry::retry;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(60_000 * MS)).unwrap();
    socket
}

fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().unwrap()
}

fn recv(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = [0; 65_536];
    let len = retry(|| socket.recv(&mut bytes)).expect("the relay must forward the packet");
    bytes[..len].to_vec()
}

/// Runs a relay while `talk` runs, and returns its reports.
fn relaying(plan: &relay::Plan, talk: impl FnOnce()) -> Vec<relay::PortReport> {
    let relay = Relay::open(plan).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| relay.run(&|| over.load(Ordering::Relaxed)).1);
        // The relay ends even if the test panics.
        let talked = catch_unwind(AssertUnwindSafe(talk));
        over.store(true, Ordering::Relaxed);
        let reports = running.join().unwrap();
        talked.unwrap();
        reports
    })
}

#[test]
fn payloads_are_relayed_byte_for_byte_to_all_clients() {
    let on = free_ports(2);
    let (sender, clients) = (socket(), [socket(), socket(), socket()]);
    let plan = relay::Plan {
        to: clients.iter().map(address).collect(),
        wait: MS,
        ..relay::Plan::new(on)
    };
    let reports = relaying(&plan, || {
        for n in 0..200 {
            // The packets have various lengths. Some are not RTP, but the relay must forward them
            // all the same.
            let mut packet = counting(96, n, 1 + n * 7 % 600, 1).bytes();
            if n % 10 == 0 {
                packet = vec![n as u8; 5];
            }
            sender.send_to(&packet, on).unwrap();
            for client in &clients {
                assert!(recv(client) == packet, "packet {n}");
            }
        }
        // Now many packets arrive in a burst.
        let lot: Vec<Vec<u8>> = (0..150).map(|n| counting(96, n, 80, 1).bytes()).collect();
        lot.iter().for_each(|packet| {
            sender.send_to(packet, on).unwrap();
        });
        for client in &clients {
            assert!(lot.iter().all(|packet| recv(client) == *packet));
        }
    });
    assert_eq!(reports[0].packets, 350);
    assert!(
        reports[0]
            .clients
            .iter()
            .all(|client| (client.sent, client.dropped) == (350, 0))
    );
}

#[test]
fn reports_are_relayed_in_both_directions() {
    for rewrite in [false, true] {
        let on = free_ports(1);
        let (sender, client, other) = (socket(), socket(), socket());
        let plan = relay::Plan {
            to: vec![address(&client), address(&other)],
            wait: MS,
            rewrite,
            ..relay::Plan::new(on)
        };
        relaying(&plan, || {
            let packet = counting(96, 0, 80, 1);
            sender.send_to(&packet.bytes(), on).unwrap();
            let got = recv(&client);
            assert_eq!(got[12..], packet.bytes()[12..]);
            let ssrc: [u8; 4] = got[8..12].try_into().unwrap();
            assert_eq!(ssrc == packet.ssrc.to_be_bytes(), !rewrite);
            // The next packet continues the sequence.
            sender.send_to(&counting(96, 1, 80, 1).bytes(), on).unwrap();
            let next = recv(&client);
            let number = |bytes: &[u8]| u16::from_be_bytes([bytes[2], bytes[3]]);
            let time = |bytes: &[u8]| u32::from_be_bytes(bytes[4..8].try_into().unwrap());
            assert_eq!(number(&next).wrapping_sub(number(&got)), 1);
            assert_eq!(time(&next).wrapping_sub(time(&got)), 80);
            assert_eq!(next[8..12], ssrc);
            // The sender sends a report with the time of the first packet.
            let mut report = vec![0x80, 200, 0, 6];
            report.extend(packet.ssrc.to_be_bytes());
            report.extend([0; 8]);
            report.extend(packet.timestamp.to_be_bytes());
            report.extend([0, 0, 0, 1, 0, 0, 0, 160]);
            sender.send_to(&report, on).unwrap();
            let report = recv(&client);
            assert_eq!((report[1], &report[4..8]), (200, &ssrc[..]));
            assert_eq!(
                u32::from_be_bytes(report[16..20].try_into().unwrap()),
                time(&got)
            );
            // The client sends a reception report about the stream.
            let mut reply = vec![0x81, 201, 0, 7, 0, 0, 0, 9];
            reply.extend(ssrc);
            reply.extend([12, 0, 0, 34]);
            reply.extend([0; 16]);
            client.send_to(&reply, on).unwrap();
            let report = recv(&sender);
            assert_eq!(
                (report[1], &report[8..12]),
                (201, &packet.ssrc.to_be_bytes()[..])
            );
            assert_eq!(report[12..16], [12, 0, 0, 34]);
            // The other client has received the packets and the sender report, and nothing more.
            sender.send_to(&counting(96, 2, 80, 1).bytes(), on).unwrap();
            let types: Vec<u8> = (0..4).map(|_| recv(&other)[1]).collect();
            assert_eq!(types, [96, 96, 200, 96]);
        });
    }
}

#[test]
fn a_datagram_of_another_protocol_is_not_a_source() {
    let on = free_ports(1);
    let (sender, client, other) = (socket(), socket(), socket());
    let plan = relay::Plan {
        to: vec![address(&client)],
        wait: MS,
        rtcp: Rtcp::Mux,
        ..relay::Plan::new(on)
    };
    relaying(&plan, || {
        let packet = counting(96, 0, 80, 1);
        sender.send_to(&packet.bytes(), on).unwrap();
        recv(&client);
        // A STUN request, which has the SSRC where an RTP packet would have it.
        let mut request = vec![0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42];
        request.extend(packet.ssrc.to_be_bytes());
        request.extend([7; 8]);
        other.send_to(&request, on).unwrap();
        assert_eq!(recv(&client), request);
        // The report of the client goes to the source.
        let mut reply = vec![0x81, 201, 0, 7, 0, 0, 0, 9];
        reply.extend(packet.ssrc.to_be_bytes());
        reply.extend([0; 20]);
        client.send_to(&reply, on).unwrap();
        sender.set_read_timeout(Some(5_000 * MS)).unwrap();
        assert_eq!(recv(&sender), reply);
    });
}

/// The impairments that the network of the test has caused.
#[derive(Debug, Default)]
struct Done {
    lost: BTreeSet<u32>,
    duplicates: u64,
    reordered: u64,
}

#[test]
fn a_receiver_counts_the_losses_delays_and_copies_of_a_bad_network() {
    const COUNT: u32 = 1_500;
    const FRAMES: u32 = 48;
    let (on, folder) = (free_ports(1), Folder::new("impaired"));
    let seed = std::env::var("CREEL_SEED").map_or_else(
        |_| u64::from(std::process::id()),
        |text| text.parse().unwrap(),
    );
    eprintln!("CREEL_SEED={seed}");
    let mut state = seed;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let sessions = receive::Plan::sessions(
        on,
        1,
        &Formats::new(vec![(97, "L16/48000".parse().unwrap())]),
        Rtcp::Off,
    );
    let plan = receive::Plan {
        streams: Some(1),
        wait: MS,
        idle: 5_000 * MS,
        time_limit: Some(60_000 * MS),
        wav: Some(folder.0.clone()),
        ..receive::Plan::new(sessions.unwrap())
    };
    // One packet in 20 is lost, one in 10 arrives up to 15 packets later, and one in 50 arrives
    // twice. We compute the order of arrival first, and derive the expected counts from it.
    let mut done = Done::default();
    let mut order: Vec<(u32, u32)> = Vec::new();
    for n in 0..COUNT {
        let is_inner = (2..COUNT - 20).contains(&n);
        if is_inner && random(20) == 0 {
            done.lost.insert(n);
            continue;
        }
        let late = if is_inner && random(10) == 0 {
            1 + random(15) as u32
        } else {
            0
        };
        order.push((n + late, n));
        if is_inner && random(50) == 0 {
            order.push((n + late + random(5) as u32, n));
            done.duplicates += 1;
        }
    }
    order.sort_by_key(|&(delay, n)| (delay, n));
    let (mut newest, mut seen) = (0, BTreeSet::new());
    for &(_, n) in &order {
        done.reordered += u64::from(n < newest && !seen.contains(&n));
        seen.insert(n);
        newest = newest.max(n);
    }
    let plan = receive::Plan {
        buffers: Some(order.len() as u64),
        ..plan
    };
    let receiver = Receiver::open(&plan).unwrap();
    let measured = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&|| false));
        let (sender, begin) = (socket(), Instant::now());
        for (count, &(delay, n)) in order.iter().enumerate() {
            std::thread::sleep((begin + MS * delay).saturating_duration_since(Instant::now()));
            // If the OS suspends the receiver for a long time, its socket would overflow.
            if count % 32 == 0 {
                wait_until_read(on);
            }
            let packet = Packet {
                ssrc: 5,
                ..counting(97, n, FRAMES, 1)
            };
            sender.send_to(&packet.bytes(), on).unwrap();
        }
        receiving.join().unwrap()
    });
    assert_eq!(measured.overflowed, Some(0));
    let source = &measured.sources[0];
    let report = (
        source.lost,
        source.duplicates,
        source.reordered,
        source.restarts,
        source.strays,
    );
    assert_eq!(
        report,
        (
            done.lost.len() as u64,
            done.duplicates,
            done.reordered,
            0,
            0
        )
    );
    let came = u64::from(COUNT) - source.lost;
    assert_eq!(
        (source.packets, source.expected),
        (came + done.duplicates, u64::from(COUNT))
    );
    // Each sample that arrived must be in its place, and all others must be silent.
    let mut expected = counted((COUNT * FRAMES) as usize);
    for n in done.lost {
        expected[(n * FRAMES) as usize..][..FRAMES as usize].fill(0);
    }
    assert_eq!(measured.warnings, Vec::<String>::new());
    assert_eq!(source.timestamp_jumps, 0);
    assert!(Sound::read(&folder.0.join("stream-0.wav")).unwrap().samples == expected);
}

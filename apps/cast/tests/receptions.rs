//! Behaviour of real senders and networks, as captures in which each packet has a time of its own.

mod folder;
mod packets;

use creel_cast::Sound;
use folder::Folder;
use packets::{Packet, analysed, capture, counted, counting, session};
use std::time::Duration;

fn at(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Returns evenly spaced packets of 10 ms, mono at 44,100 Hz.
fn even(count: u32) -> Vec<(Duration, Packet)> {
    (0..count)
        .map(|n| (at(u64::from(n) * 10_000), counting(11, n, 441, 1)))
        .collect()
}

#[test]
fn recordings_have_the_rate_and_channels_of_their_payload_type() {
    let folder = Folder::new("formats");
    let packets: Vec<_> = (0..100)
        .map(|n| (at(u64::from(n) * 5_000), counting(97, n, 240, 2)))
        .collect();
    let measured = analysed(&folder.0, &[(97, "L16/48000/2")], &packets);
    let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
    assert_eq!((recorded.rate, recorded.channels), (48_000, 2));
    assert!(recorded.samples == counted(100 * 480));
    assert_eq!((measured.late, measured.lost), (0, 0));
    assert!(measured.sources[0].jitter_ms.unwrap() < 0.03);
    // µ-law has the static type 0 and one byte per sample.
    let silent = |n: u32| Packet {
        payload: vec![0x80; 160],
        ..counting(0, n, 160, 1)
    };
    let packets: Vec<_> = (0..50)
        .map(|n| (at(u64::from(n) * 20_000), silent(n)))
        .collect();
    analysed(&folder.0, &[], &packets);
    let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
    assert_eq!(
        (recorded.rate, recorded.samples),
        (8_000, vec![32_124; 8_000])
    );
}

#[test]
fn an_unknown_payload_type_is_warned_about_by_number() {
    let folder = Folder::new("unknown");
    let packets: Vec<_> = (0..10)
        .map(|n| (at(u64::from(n) * 10_000), counting(99, n, 441, 1)))
        .collect();
    let measured = analysed(&folder.0, &[], &packets);
    assert_eq!(
        (measured.sources[0].packets, measured.sources[0].jitter_ms),
        (10, None)
    );
    assert!(
        measured.warnings[0].contains("payload type 99"),
        "{:?}",
        measured.warnings
    );
}

#[test]
fn punctual_packets_of_any_length_are_not_late() {
    let folder = Folder::new("times");
    for millis in [1, 5, 26, 60] {
        let frames = 48 * millis;
        let packet = |n: u32| {
            (
                at(u64::from(n * millis) * 1_000),
                counting(97, n, frames, 1),
            )
        };
        let packets: Vec<_> = (0..400).map(packet).collect();
        let measured = analysed(&folder.0, &[(97, "L16/48000")], &packets);
        assert_eq!((measured.late, measured.lost), (0, 0), "{millis} ms");
    }
}

#[test]
fn the_jitter_matches_the_delays_of_the_packets() {
    let folder = Folder::new("jitter");
    let seed = std::env::var("CREEL_SEED").map_or_else(
        |_| u64::from(std::process::id()),
        |text| text.parse().unwrap(),
    );
    eprintln!("CREEL_SEED={seed}");
    let mut state = seed;
    let mut delay = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 60_000
    };
    let mut packets: Vec<_> = (0..2_000)
        .map(|n| (at(u64::from(n) * 10_000 + delay()), counting(11, n, 441, 1)))
        .collect();
    packets.sort_by_key(|(at, _)| *at);
    // This is the formula of RFC 3550, section 6.4.1, in milliseconds.
    let transit = |(at, packet): &(Duration, Packet)| {
        let frame = packet.timestamp.wrapping_sub(0xffff_0000);
        at.as_secs_f64() * 1e3 - f64::from(frame) / 44.1
    };
    let (mut jitter, mut most) = (0.0, 0.0_f64);
    for pair in packets.windows(2) {
        jitter += ((transit(&pair[1]) - transit(&pair[0])).abs() - jitter) / 16.0;
        most = most.max(jitter);
    }
    let order = packets.windows(2);
    let ahead = |packet: &Packet| packet.sequence.wrapping_sub(65_000);
    let (mut newest, mut behind) = (ahead(&packets[0].1), 0);
    for pair in order {
        behind += u64::from(ahead(&pair[1].1) < newest);
        newest = newest.max(ahead(&pair[1].1));
    }
    let measured = analysed(&folder.0, &[], &packets);
    let source = &measured.sources[0];
    assert_eq!((source.lost, source.duplicates), (0, 0));
    assert_eq!(source.reordered, behind);
    // One tick of the clock is 0.023 ms.
    let (measured, measured_max) = (source.jitter_ms.unwrap(), source.jitter.unwrap().max);
    assert!(
        (measured - jitter).abs() < 0.05,
        "{measured} ms, not {jitter}"
    );
    assert!(
        (measured_max - most).abs() < 0.05,
        "{measured_max} ms, not {most}"
    );
    // All delayed samples must be in their places.
    let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
    assert!(recorded.samples == counted(2_000 * 441));
}

#[test]
fn a_sender_with_a_slow_clock_does_not_become_late() {
    let folder = Folder::new("slow");
    let packets: Vec<_> = (0..12_000)
        .map(|n| (at(u64::from(n) * 10_005), counting(11, n, 441, 1)))
        .collect();
    let measured = analysed(&folder.0, &[], &packets);
    assert_eq!((measured.late, measured.lost), (0, 0));
    let drift = measured.sources[0].drift_ppm.unwrap();
    assert!((drift + 500.0).abs() < 30.0, "{drift} ppm");
}

#[test]
fn a_packet_that_is_75_numbers_late_counts_once() {
    let folder = Folder::new("late");
    let mut packets = even(400);
    let (_, late) = packets.remove(100);
    packets.insert(175, (at(1_755_000), late));
    let measured = analysed(&folder.0, &[], &packets);
    let source = &measured.sources[0];
    assert_eq!(
        (source.lost, source.reordered, source.restarts, source.late),
        (0, 1, 0, 1)
    );
    let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
    assert!(recorded.samples == counted(400 * 441));
}

#[test]
fn losses_become_silence_and_duplicates_are_written_once() {
    let folder = Folder::new("gaps");
    let mut packets = even(300);
    for n in [50, 51, 200] {
        packets.retain(|(_, packet)| packet.sequence != counting(11, n, 1, 1).sequence);
    }
    let again = packets[120].clone();
    packets.insert(123, again.clone());
    packets.insert(121, again);
    packets.swap(0, 1);
    let measured = analysed(&folder.0, &[], &packets);
    let source = &measured.sources[0];
    assert_eq!(
        (source.lost, source.duplicates, source.reordered),
        (3, 2, 1)
    );
    assert_eq!((source.packets, source.expected), (299, 300));
    let mut expected = counted(300 * 441);
    for n in [50, 51, 200] {
        expected[n * 441..][..441].fill(0);
    }
    assert!(Sound::read(&folder.0.join("stream-0.wav")).unwrap().samples == expected);
}

#[test]
fn a_restarted_sender_continues_its_recording_at_its_arrival_time() {
    let folder = Folder::new("restart");
    let mut packets = even(100);
    // The source restarts a second later, with other numbers and the same SSRC.
    packets.extend((0..100).map(|n| {
        let packet = Packet {
            sequence: 20_000 + n as u16,
            timestamp: 77 + n * 441,
            ..counting(11, n, 441, 1)
        };
        (at(2_000_000 + u64::from(n) * 10_000), packet)
    }));
    let measured = analysed(&folder.0, &[], &packets);
    let source = &measured.sources[0];
    assert_eq!(
        (source.restarts, source.lost, source.late, source.strays),
        (1, 0, 0, 0)
    );
    assert_eq!(source.packets, 200);
    let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap().samples;
    assert!(recorded[..100 * 441] == counted(100 * 441));
    assert!(
        recorded[100 * 441..2 * 44_100]
            .iter()
            .all(|&sample| sample == 0)
    );
    assert!(recorded[2 * 44_100..] == counted(100 * 441));
}

#[test]
fn rtcp_and_unrecognized_datagrams_do_not_count_as_packets() {
    let folder = Folder::new("rtcp");
    // A sender report of 9 packets and 8 octets, without report blocks.
    let mut report = vec![0x80, 200, 0, 6];
    report.extend(0xabad_cafe_u32.to_be_bytes());
    report.extend([0; 12]);
    report.extend([0, 0, 0, 9, 0, 0, 0, 8]);
    let mut datagrams = Vec::new();
    for (time, packet) in even(200) {
        datagrams.push((time, 5_004, packet.bytes()));
        datagrams.push((time, 5_004, report.clone()));
        datagrams.push((time, 5_005, report.clone()));
        datagrams.push((time, 5_004, b"no RTP".to_vec()));
    }
    // The source of this packet sends no other packet.
    let alone = Packet {
        ssrc: 1,
        ..counting(11, 7, 441, 1)
    };
    datagrams.push((at(3_000_000), 5_004, alone.bytes()));
    let path = folder.0.join("capture.pcap");
    capture(&path, &datagrams);
    let plan = creel_cast::receive::Plan::new(vec![session(5_004, &[])]);
    let measured = creel_cast::receive::analyse(&plan, &path).unwrap();
    assert_eq!((measured.sources.len(), measured.lost), (1, 0));
    assert_eq!(measured.sources[0].sender_packets, Some(9));
    let unrecognized = measured.unrecognized;
    assert_eq!(
        (
            unrecognized.malformed,
            unrecognized.unvalidated,
            unrecognized.rtcp
        ),
        (200, 1, 400)
    );
    assert!(
        measured
            .notes
            .iter()
            .any(|note| note.contains("200 datagrams were neither"))
    );
}

#[test]
fn many_sources_share_a_port_with_any_ssrc() {
    let folder = Folder::new("names");
    let packets: Vec<_> = (0..10_u32)
        .flat_map(|n| {
            (0..600_u32).map(move |source| {
                let ssrc = source.wrapping_mul(0x9e37_79b9);
                let packet = Packet {
                    ssrc,
                    ..counting(11, n, 44, 1)
                };
                (at(u64::from(n) * 10_000), packet)
            })
        })
        .collect();
    let measured = analysed(&folder.0, &[], &packets);
    assert_eq!((measured.sources.len(), measured.lost), (600, 0));
    assert!(measured.sources.iter().all(|source| source.packets == 10));
}

#[test]
fn telephone_keys_are_received_and_not_recorded() {
    let folder = Folder::new("keys");
    let mut packets = even(60);
    for n in 20..35_u32 {
        let packet = &mut packets[n as usize].1;
        packet.payload_type = 101;
        packet.timestamp = counting(11, if n < 28 { 20 } else { 28 }, 441, 1).timestamp;
        packet.payload = vec![if n < 28 { 7 } else { 11 }, 0x8a, 0, 160];
    }
    let measured = analysed(&folder.0, &[(101, "telephone-event/8000")], &packets);
    let source = &measured.sources[0];
    assert_eq!(
        (source.keys.as_str(), source.lost, source.late),
        ("7#", 0, 0)
    );
    let mut expected = counted(60 * 441);
    expected[20 * 441..35 * 441].fill(0);
    assert!(Sound::read(&folder.0.join("stream-0.wav")).unwrap().samples == expected);
}

#[test]
fn a_file_that_is_not_a_capture_is_named_in_the_error() {
    let folder = Folder::new("no-capture");
    let path = folder.0.join("a.pcap");
    let plan = creel_cast::receive::Plan::new(vec![session(5_004, &[])]);
    for bytes in [&b""[..], b"hello, world", &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]] {
        std::fs::write(&path, bytes).unwrap();
        let error = creel_cast::receive::analyse(&plan, &path)
            .unwrap_err()
            .to_string();
        assert!(error.contains("a.pcap"), "{error}");
    }
}

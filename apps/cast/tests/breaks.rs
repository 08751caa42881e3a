//! Checks how discontinuities of a source affect the figures and the recordings.

mod folder;
mod packets;

use creel_cast::Sound;
use folder::Folder;
use packets::{Packet, analysed};
use std::time::Duration;

/// The number of samples in a packet of 20 ms at 8,000 Hz.
const FRAMES: u32 = 160;

/// Returns the `n`th packet of L16 at 8,000 Hz, all of whose samples are `n` + 1.
fn packet(n: u32) -> (Duration, Packet) {
    let packet = Packet {
        payload_type: 97,
        sequence: 100 + n as u16,
        timestamp: 100_000 + n * FRAMES,
        ssrc: 7,
        payload: (0..FRAMES)
            .flat_map(|_| (n as u16 + 1).to_be_bytes())
            .collect(),
    };
    (Duration::from_millis(20) * n, packet)
}

fn packets() -> Vec<(Duration, Packet)> {
    (0..300).map(packet).collect()
}

/// Returns the number of packets that a recording contains completely and in order.
fn recorded(folder: &Folder, name: &str) -> usize {
    let sound = Sound::read(&folder.0.join(name)).unwrap();
    let numbers: Vec<i16> = sound
        .samples
        .chunks(FRAMES as usize)
        .map(|it| it[0])
        .collect();
    let heard: Vec<i16> = numbers.into_iter().filter(|&it| it != 0).collect();
    assert!(heard.is_sorted(), "{heard:?}");
    heard.len()
}

const FORMATS: [(u8, &str); 2] = [(97, "L16/8000"), (98, "L16/16000")];

#[test]
fn a_timestamp_that_jumps_back_or_forward_does_not_damage_the_recording() {
    // With a jump by one packet, two packets have the same timestamp.
    for ticks in [-24_000_i32, -200, -(FRAMES as i32), 24_000, 4_000_000] {
        let folder = Folder::new("jump");
        let mut packets = packets();
        for (_, packet) in &mut packets[150..] {
            packet.timestamp = packet.timestamp.wrapping_add_signed(ticks);
        }
        let measured = analysed(&folder.0, &FORMATS, &packets);
        let source = &measured.sources[0];
        assert_eq!(source.timestamp_jumps, 1, "{ticks}");
        assert_eq!((source.lost, source.restarts, source.late), (0, 0, 0));
        assert_eq!(source.jitter.unwrap().max, 0.0, "{ticks}");
        assert_eq!(recorded(&folder, "stream-0.wav"), 300, "{ticks}");
        let note = measured.notes.iter().find(|note| note.contains("jumps"));
        assert!(note.is_some(), "{:?}", measured.notes);
    }
}

#[test]
fn packets_that_are_reordered_around_a_jump_have_their_own_places() {
    let folder = Folder::new("around");
    let mut packets = packets();
    for (_, packet) in &mut packets[150..] {
        packet.timestamp -= 24_000;
    }
    // The first two packets after the jump arrive before the last two in front of it.
    let late = packets.drain(148..150).collect::<Vec<_>>();
    packets.splice(150..150, late);
    for (n, (at, _)) in packets.iter_mut().enumerate() {
        *at = Duration::from_millis(20) * n as u32;
    }
    let measured = analysed(&folder.0, &FORMATS, &packets);
    let source = &measured.sources[0];
    assert_eq!((source.timestamp_jumps, source.lost), (1, 0));
    assert_eq!(recorded(&folder, "stream-0.wav"), 300);
}

#[test]
fn keys_after_a_jump_are_new_although_they_have_the_timestamps_of_earlier_ones() {
    let folder = Folder::new("keys-after-a-jump");
    let mut packets = packets();
    for (_, packet) in &mut packets[150..] {
        // The packet with number 200 has the timestamp of that with number 100.
        packet.timestamp -= 100 * FRAMES;
    }
    // The same key twice, each in five packets with the timestamp of the first one.
    for begin in [100, 200] {
        let timestamp = packets[begin].1.timestamp;
        for (n, (_, packet)) in packets[begin..begin + 5].iter_mut().enumerate() {
            packet.payload_type = 101;
            packet.timestamp = timestamp;
            packet.payload = vec![5, if n < 2 { 0x0a } else { 0x8a }, 0, 160];
        }
    }
    let formats = [FORMATS[0], (101, "telephone-event/8000")];
    for copies in 0..2 {
        if copies > 0 {
            // A copy of the packet that ended the first key arrives after the jump.
            let mut copy = packets[104].clone();
            copy.0 = packets[160].0;
            packets.insert(161, copy);
        }
        let measured = analysed(&folder.0, &formats, &packets);
        let source = &measured.sources[0];
        assert_eq!((source.timestamp_jumps, source.duplicates), (1, copies));
        assert_eq!(source.keys, "55", "{copies} copies");
    }
}

#[test]
fn packets_of_padding_with_an_old_timestamp_are_not_jumps() {
    let folder = Folder::new("padding");
    let mut packets = packets();
    let (at, mut padding) = packets[149].clone();
    padding.sequence += 1;
    padding.payload.clear();
    for (_, packet) in &mut packets[150..] {
        packet.sequence += 1;
    }
    packets.insert(150, (at, padding));
    let measured = analysed(&folder.0, &FORMATS, &packets);
    assert_eq!(measured.sources[0].timestamp_jumps, 0);
    assert_eq!(recorded(&folder, "stream-0.wav"), 300);
}

#[test]
fn a_source_that_begins_again_a_few_numbers_before_is_a_restart() {
    // In the first case, the whole sequence is repeated two seconds later. In the second one, the
    // sequence numbers go back while the timestamps go on. In both cases, the numbers are among the
    // last ones that arrived.
    for (numbers, ticks) in [(100_u16, 0), (20, 80 * FRAMES)] {
        let folder = Folder::new("again");
        let mut packets: Vec<_> = (0..100).map(packet).collect();
        let more = packets.clone().into_iter().take(numbers.into());
        let more: Vec<_> = more
            .map(|(at, mut packet)| {
                packet.sequence += 100 - numbers;
                packet.timestamp += ticks + if ticks > 0 { 20 * FRAMES } else { 0 };
                packet.payload[0] = 1;
                (at + Duration::from_secs(4), packet)
            })
            .collect();
        packets.extend(more);
        let measured = analysed(&folder.0, &FORMATS, &packets);
        let source = &measured.sources[0];
        assert_eq!((source.restarts, source.duplicates), (1, 0), "{numbers}");
        assert_eq!((source.lost, source.late), (0, 0), "{numbers}");
        let sound = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
        let again = sound.samples.iter().filter(|&&it| it >= 256).count();
        assert_eq!(again, usize::from(numbers), "{numbers}");
    }
}

#[test]
fn only_the_first_packet_after_a_pause_is_late() {
    let folder = Folder::new("pause");
    let mut packets = packets();
    // A telephone on hold sends nothing for three seconds, and its timestamps stand still.
    for (at, _) in &mut packets[100..] {
        *at += Duration::from_secs(3);
    }
    let measured = analysed(&folder.0, &FORMATS, &packets);
    let source = &measured.sources[0];
    assert_eq!(
        (source.late, source.lost, source.timestamp_jumps),
        (1, 0, 0)
    );
    assert_eq!(recorded(&folder, "stream-0.wav"), 300);
}

#[test]
fn silence_lost_packets_and_delays_are_not_jumps() {
    let folder = Folder::new("no-jump");
    let mut packets = packets();
    // The sender is silent for three seconds, and its timestamps go on.
    for (at, packet) in &mut packets[200..] {
        *at += Duration::from_secs(3);
        packet.timestamp += 24_000;
    }
    // Packets are lost, or held up for 400 ms and arrive at once.
    packets.drain(100..140);
    for (at, _) in &mut packets[30..50] {
        *at = Duration::from_millis(1_000);
    }
    packets.swap(60, 61);
    let measured = analysed(&folder.0, &FORMATS, &packets);
    let source = &measured.sources[0];
    assert_eq!((source.timestamp_jumps, source.restarts), (0, 0));
    assert_eq!(source.lost, 40);
    assert_eq!(recorded(&folder, "stream-0.wav"), 260);
}

#[test]
fn a_packet_that_is_reordered_around_a_jump_keeps_its_place() {
    let folder = Folder::new("jump-order");
    let mut packets = packets();
    for (_, packet) in &mut packets[150..] {
        packet.timestamp -= 24_000;
    }
    let (_, late) = packets.remove(149);
    packets.insert(150, (packets[149].0, late));
    let measured = analysed(&folder.0, &FORMATS, &packets);
    assert_eq!(measured.sources[0].timestamp_jumps, 1);
    assert_eq!(recorded(&folder, "stream-0.wav"), 300);
}

#[test]
fn another_clock_begins_another_file_and_does_not_count_as_jitter() {
    let folder = Folder::new("clock");
    let mut packets = packets();
    for (n, (_, packet)) in packets.iter_mut().enumerate().skip(150) {
        packet.payload_type = 98;
        packet.timestamp = 5 + n as u32 * 2 * FRAMES;
        packet.payload = packet.payload.repeat(2);
    }
    let measured = analysed(&folder.0, &FORMATS, &packets);
    let source = &measured.sources[0];
    assert_eq!((source.clock_changes, source.codec_changes), (1, 1));
    assert!(source.jitter.unwrap().max < 0.001, "{:?}", source.jitter);
    assert_eq!((source.unrecorded, measured.warnings.len()), (0, 0));
    assert_eq!(recorded(&folder, "stream-0.wav"), 150);
    let wide = Sound::read(&folder.0.join("stream-0-part2.wav")).unwrap();
    assert_eq!((wide.rate, wide.samples.len()), (16_000, 150 * 320));
}

#[test]
fn two_addresses_with_one_ssrc_are_two_streams() {
    let folder = Folder::new("collision");
    let path = folder.0.join("a.pcap");
    let mut datagrams = Vec::new();
    for (at, packet) in packets() {
        datagrams.push((at, 4_000, packet.bytes()));
        let other = Packet {
            sequence: packet.sequence + 20_000,
            ..packet
        };
        datagrams.push((at + Duration::from_millis(3), 4_002, other.bytes()));
    }
    packets::capture_from(&path, &datagrams);
    let plan = creel_cast::receive::Plan {
        wav: Some(folder.0.clone()),
        ..creel_cast::receive::Plan::new(vec![packets::session(5_004, &FORMATS)])
    };
    let measured = creel_cast::receive::analyse(&plan, &path).unwrap();
    assert_eq!(measured.sources.len(), 2);
    for source in &measured.sources {
        assert_eq!((source.packets, source.lost, source.strays), (300, 0, 0));
        assert!(source.collision);
    }
    assert_eq!(recorded(&folder, "stream-0.wav"), 300);
    assert_eq!(recorded(&folder, "stream-0-00000007-1.wav"), 300);
}

#[test]
fn a_source_that_moves_to_another_port_stays_one_stream() {
    let folder = Folder::new("moved");
    let path = folder.0.join("a.pcap");
    let datagrams: Vec<_> = packets()
        .into_iter()
        .enumerate()
        .map(|(n, (at, packet))| (at, if n < 150 { 4_000 } else { 4_002 }, packet.bytes()))
        .collect();
    packets::capture_from(&path, &datagrams);
    let plan = creel_cast::receive::Plan::new(vec![packets::session(5_004, &FORMATS)]);
    let measured = creel_cast::receive::analyse(&plan, &path).unwrap();
    assert_eq!(measured.sources.len(), 1);
    let source = &measured.sources[0];
    assert_eq!(
        (source.packets, source.lost, source.from.port()),
        (300, 0, 4_002)
    );
    assert!(!source.collision);
}

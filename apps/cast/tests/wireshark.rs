//! The figures of a capture, compared with the RTP analysis of `tshark`, if it is installed.
//!
//! After some events we differ on purpose, so these captures do not contain them. Examples are a
//! timestamp that jumps, a source that restarts with the same SSRC, another clock, and telephone
//! keys.

mod folder;
mod packets;

use creel_cast::receive::{Plan, SourceReport, analyse};
use folder::Folder;
use packets::{Packet, capture_from, session};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A generator of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A packet on its way: the time of its arrival in microseconds, the port of its sender, the marker
/// bit, and the packet.
type Sent = (u64, u16, bool, Packet);

/// Returns a stream of 20 ms packets at 8,000 Hz, each of which is delayed by up to `jitter`
/// microseconds. The first and the last packets are in order, because tshark takes the first and
/// the last packet to arrive for the ends of the sequence.
fn stream(count: u32, jitter: u64, random: &mut Random) -> Vec<Sent> {
    let packet = |n: u32| Packet {
        payload_type: 0,
        sequence: 100 + n as u16,
        timestamp: 1_000 + n * 160,
        ssrc: 0xabad_cafe,
        payload: vec![0xff; 160],
    };
    (0..count)
        .map(|n| {
            let is_inner = (5..count - 5).contains(&n);
            let delay = random.below(if is_inner { jitter.max(1) } else { 1 });
            (u64::from(n) * 20_000 + delay, 4_000, false, packet(n))
        })
        .collect()
}

/// Returns the captures by name.
fn captures(random: &mut Random) -> Vec<(String, Vec<Sent>)> {
    let mut all = Vec::new();
    for jitter in [0, 1_000, 15_000, 60_000] {
        all.push((
            format!("jitter of {jitter} µs"),
            stream(400, jitter, random),
        ));
    }
    for one_in in [3, 20, 150] {
        let mut sent = stream(600, 5_000, random);
        let last = sent.pop().unwrap();
        sent.retain(|it| it.3.sequence < 105 || random.below(one_in) > 0);
        sent.push(last);
        all.push((format!("one in {one_in} lost"), sent));
    }
    for one_in in [5, 40] {
        let mut sent = stream(600, 5_000, random);
        for it in &mut sent[5..580] {
            it.0 += if random.below(one_in) == 0 { 70_000 } else { 0 };
        }
        all.push((format!("one in {one_in} reordered"), sent));
    }
    for one_in in [4, 30] {
        let mut sent = stream(600, 5_000, random);
        for it in sent.clone() {
            if random.below(one_in) == 0 {
                sent.push((it.0 + 700, it.1, it.2, it.3));
            }
        }
        all.push((format!("one in {one_in} duplicated"), sent));
    }
    let mut sent = stream(400, 5_000, random);
    sent.iter_mut()
        .for_each(|it| it.3.sequence = it.3.sequence.wrapping_sub(300));
    all.push(("sequence numbers that wrap".into(), sent));
    let mut sent = stream(400, 5_000, random);
    sent.iter_mut()
        .for_each(|it| it.3.timestamp = it.3.timestamp.wrapping_sub(30_000));
    all.push(("timestamps that wrap".into(), sent));
    for ppm in [-300, 300] {
        let mut sent = stream(2_000, 0, random);
        sent.iter_mut()
            .for_each(|it| it.0 = (it.0 as i64 + it.0 as i64 * ppm / 1_000_000) as u64);
        all.push((format!("a clock that is wrong by {ppm} ppm"), sent));
    }
    let mut sent = stream(600, 4_000, random);
    for (n, it) in sent.iter_mut().enumerate().skip(300) {
        (it.3.ssrc, it.3.sequence, it.3.timestamp) = (9, n as u16, 7 + n as u32 * 160);
    }
    all.push(("a restart with another SSRC".into(), sent));
    for (name, marks, noise) in [
        ("silence without markers", false, false),
        ("silence with markers", true, false),
        ("silence with comfort noise", true, true),
        ("comfort noise without markers", false, true),
    ] {
        let (mut sent, mut number) = (Vec::new(), 100);
        for (n, mut it) in stream(800, 3_000, random).into_iter().enumerate() {
            let (is_voice, is_first) = (n / 50 % 2 == 0, n % 50 == 0);
            if !(is_voice || noise && is_first) {
                continue;
            }
            it.2 = marks && is_voice && is_first;
            if !is_voice {
                (it.3.payload_type, it.3.payload) = (13, vec![60]);
            }
            it.3.sequence = number;
            number += 1;
            sent.push(it);
        }
        all.push((name.into(), sent));
    }
    // This stream is a video. A frame consists of five packets that are sent at once with one
    // timestamp, and the last of them is marked.
    let mut sent = Vec::new();
    for n in 0..800_u32 {
        let (frame, part) = (n / 5, n % 5);
        let packet = Packet {
            payload_type: 34,
            sequence: n as u16,
            timestamp: frame * 3_600,
            ssrc: 5,
            payload: vec![1; 900],
        };
        let at = u64::from(frame) * 40_000 + u64::from(part) * 200 + random.below(100);
        sent.push((at, 4_000, part == 4, packet));
    }
    all.push(("bursts like those of a video".into(), sent));
    let mut sent = stream(400, 5_000, random);
    for (n, it) in sent.iter_mut().enumerate() {
        it.3.payload_type = if n / 100 % 2 == 0 { 0 } else { 8 };
    }
    all.push(("two codecs".into(), sent));
    // Streams of several clocks at once.
    let mut sent = stream(300, 5_000, random);
    for (number, (payload_type, step)) in
        [(11, 882), (34, 1_800), (10, 882)].into_iter().enumerate()
    {
        sent.extend(
            stream(300, 9_000, random)
                .into_iter()
                .enumerate()
                .map(|(n, mut it)| {
                    (it.3.payload_type, it.3.ssrc) = (payload_type, number as u32);
                    it.3.timestamp = n as u32 * step;
                    it
                }),
        );
    }
    all.push(("streams of several clocks".into(), sent));
    let mut sent = stream(300, 5_000, random);
    sent.extend(stream(300, 5_000, random).into_iter().map(|mut it| {
        it.1 = 4_002;
        it.3.sequence += 20_000;
        it
    }));
    all.push(("two senders with one SSRC".into(), sent));
    mixed_captures(random, &mut all);
    assert!(all.len() >= 30, "{} captures", all.len());
    all
}

/// Adds captures in which several of the events of [`captures`] happen at once.
fn mixed_captures(random: &mut Random, all: &mut Vec<(String, Vec<Sent>)>) {
    let mut sent = stream(800, 3_000, random);
    sent.retain(|it| !(30..42).contains(&(it.3.sequence % 100)));
    all.push(("bursts of twelve losses".into(), sent));
    let mut sent = stream(1_000, 2_000, random);
    sent.retain(|it| it.3.sequence < 110 || it.3.sequence > 1_080 || random.below(25) > 0);
    for it in &mut sent {
        it.0 = it.0 * 1_000_150 / 1_000_000;
        it.3.sequence = it.3.sequence.wrapping_sub(600);
        it.3.timestamp = it.3.timestamp.wrapping_sub(80_000);
    }
    all.push(("losses, drift, and numbers that wrap".into(), sent));
    // All packets of 0.8 s are held up, and then arrive almost at once.
    let mut sent = stream(400, 500, random);
    for (n, it) in sent.iter_mut().enumerate().skip(200).take(40) {
        it.0 = 4_800_000 + n as u64 * 50;
    }
    all.push(("a stall".into(), sent));
    // From the middle on, a packet has twice as many samples and comes half as often.
    let mut sent = stream(400, 2_000, random);
    for (n, it) in sent.iter_mut().enumerate().skip(200) {
        let more = n as u64 - 200;
        it.0 += more * 20_000;
        it.3.timestamp += more as u32 * 160;
        it.3.payload = vec![0xff; 320];
    }
    all.push(("a packet time that changes".into(), sent));
    let mut sent = stream(600, 4_000, random);
    for it in sent.clone() {
        match random.below(12) {
            0 if (110..680).contains(&it.3.sequence) => {
                sent.push((it.0 + 30_000, it.1, it.2, it.3))
            }
            1 if (110..680).contains(&it.3.sequence) => {
                sent.retain(|other| other.3.sequence != it.3.sequence);
            }
            _ => {}
        }
    }
    all.push(("losses and late duplicates".into(), sent));
    let mut sent = stream(500, 90_000, random);
    sent.iter_mut().for_each(|it| it.3.payload_type = 9);
    sent.retain(|it| it.3.sequence < 110 || it.3.sequence > 580 || random.below(10) > 0);
    all.push(("G.722 with losses and much reordering".into(), sent));
    // The sender is silent for up to half a second at a time, and some packets are lost.
    let (mut sent, mut number, mut silent) = (Vec::new(), 100, 0);
    for (n, mut it) in stream(900, 2_000, random).into_iter().enumerate() {
        if silent == 0 && random.below(30) == 0 {
            silent = random.below(25);
        }
        if (10..890).contains(&n) && silent > 0 {
            silent -= 1;
            continue;
        }
        it.3.sequence = number;
        number += 1;
        if !(10..890).contains(&n) || random.below(20) > 0 {
            sent.push(it);
        }
    }
    all.push(("silence and losses".into(), sent));
    // Comfort noise in every fifth packet of a silence, some of it lost or reordered, and no markers.
    for (jitter, one_in) in [(60_000, 1_000), (3_000, 15)] {
        let (mut sent, mut number) = (Vec::new(), 100);
        for (n, mut it) in stream(900, jitter, random).into_iter().enumerate() {
            let is_voice = n / 50 % 2 == 0;
            if !is_voice && n % 5 != 0 {
                continue;
            }
            if !is_voice {
                (it.3.payload_type, it.3.payload) = (13, vec![60]);
            }
            it.3.sequence = number;
            number += 1;
            if !(10..890).contains(&n) || random.below(one_in) > 0 {
                sent.push(it);
            }
        }
        all.push((format!("comfort noise and one in {one_in} lost"), sent));
    }
    // A video of which one packet in thirty is lost, together with its voice.
    let mut sent = stream(400, 6_000, random);
    for n in 0..1_000_u32 {
        let (frame, part) = (n / 5, n % 5);
        let packet = Packet {
            payload_type: 34,
            sequence: 65_000_u16.wrapping_add(n as u16),
            timestamp: 0xffff_0000_u32.wrapping_add(frame * 3_600),
            ssrc: 5,
            payload: vec![1; 900],
        };
        let at = u64::from(frame) * 40_000 + u64::from(part) * 150 + random.below(90);
        if !(10..990).contains(&n) || random.below(30) > 0 {
            sent.push((at, 4_002, part == 4, packet));
        }
    }
    all.push(("a video with losses and its voice".into(), sent));
}

/// Returns the largest difference in milliseconds. tshark prints three digits. If the clock is not a
/// multiple of 1,000, it is less precise, but by less than one tick.
fn rounding(source: &SourceReport) -> f64 {
    let clock = source.format.map_or(8_000, |format| format.clock);
    match clock % 1_000 {
        0 => 0.0011,
        _ => 1e3 / f64::from(clock),
    }
}

/// The figures of one stream: packets, lost packets, and the minimum, mean and maximum of the
/// deltas and of the jitter.
type Figures = [f64; 8];

fn ours(source: &SourceReport) -> Figures {
    let (delta, jitter) = (source.delta.unwrap(), source.jitter.unwrap());
    [
        source.packets as f64,
        source.lost_rfc3550 as f64,
        delta.min,
        delta.mean,
        delta.max,
        jitter.min,
        jitter.mean,
        jitter.max,
    ]
}

/// Returns the figures of tshark by the sender's port and the SSRC, or `None` if it is not
/// installed.
fn tshark(path: &Path) -> Option<Vec<((u16, u32), Figures)>> {
    let mut command = Command::new("tshark");
    command.args(["-q", "-d", "udp.port==5004,rtp", "-z", "rtp,streams", "-r"]);
    let output = command.arg(path).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.contains("127.0.0.1"));
    let rows = lines.map(|line| {
        // The name of the payload may have spaces, so we count from the end.
        let line = line
            .trim_end()
            .trim_end_matches('X')
            .replace(['(', ')', '%'], " ");
        let words: Vec<&str> = line.split_whitespace().collect();
        let end = words.len();
        let number = |at: usize| words[at].parse::<f64>().unwrap();
        let ssrc = u32::from_str_radix(words[6].trim_start_matches("0x"), 16).unwrap();
        let mut figures = [
            number(end - 9),
            number(end - 8),
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
            0.0,
        ];
        for n in 0..6 {
            figures[2 + n] = number(end - 6 + n);
        }
        ((words[3].parse().unwrap(), ssrc), figures)
    });
    Some(rows.collect())
}

#[test]
fn all_figures_equal_those_of_tshark() {
    let folder = Folder::new("tshark");
    let path = folder.0.join("a.pcap");
    let seed = std::env::var("CREEL_SEED").map_or_else(
        |_| u64::from(std::process::id()),
        |text| text.parse().unwrap(),
    );
    eprintln!("CREEL_SEED={seed}");
    for (name, mut sent) in captures(&mut Random(seed)) {
        sent.sort_by_key(|it| it.0);
        let datagrams: Vec<_> = sent
            .iter()
            .map(|(at, from, marker, packet)| {
                let mut bytes = packet.bytes();
                bytes[1] |= u8::from(*marker) << 7;
                (Duration::from_micros(*at), *from, bytes)
            })
            .collect();
        capture_from(&path, &datagrams);
        let measured = analyse(&Plan::new(vec![session(5_004, &[])]), &path).unwrap();
        let Some(expected) = tshark(&path) else {
            eprintln!("skipped, because tshark is not installed");
            return;
        };
        assert_eq!(measured.sources.len(), expected.len(), "{name}");
        for source in &measured.sources {
            let key = (source.from.port(), source.ssrc);
            let found = expected.iter().find(|(of, _)| *of == key);
            let (_, expected) = found.unwrap_or_else(|| panic!("{name}: no {key:?}"));
            let ours = ours(source);
            let is_equal = ours
                .iter()
                .zip(expected)
                .all(|(a, b)| (a - b).abs() < rounding(source));
            assert!(is_equal, "{name}: {ours:?} instead of {expected:?}");
        }
    }
}

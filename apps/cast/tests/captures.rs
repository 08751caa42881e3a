//! Captures as other programs write them: link types, time resolutions, and incomplete files.
#![cfg(unix)]

mod folder;
mod packets;
mod ports;

use creel_cast::receive::{Plan, analyse};
use creel_cast::{Error, Measured};
use etherparse::{EtherType, PacketBuilder};
use folder::Folder;
use packets::{counting, session};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter, RawPcapPacket};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::packet::PacketBlock;
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::{DataLink, Endianness};
use ports::free_ports;
use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const COUNT: u32 = 50;
/// The time between two packets. 20 ms have 160 samples at 8,000 Hz.
const PERIOD: Duration = Duration::from_millis(20);
/// The number of L16 samples in a packet.
const FRAMES: u32 = 160;

/// Returns the `n`th packet with its IP and UDP headers, and the time at which it was captured.
fn packet(n: u32) -> (Duration, Vec<u8>) {
    let mut bytes = Vec::new();
    PacketBuilder::ipv4([127, 0, 0, 1], [127, 0, 0, 1], 64)
        .udp(4_000, 5_004)
        .write(&mut bytes, &counting(97, n, FRAMES, 1).bytes())
        .unwrap();
    (Duration::from_secs(1_000) + PERIOD * n, bytes)
}

/// Writes a pcap of this link type, with `header` in front of each packet.
fn pcap(path: &Path, link: DataLink, header: &[u8]) {
    let head = PcapHeader {
        datalink: link,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(File::create(path).unwrap(), head).unwrap();
    for (at, bytes) in (0..COUNT).map(packet) {
        let bytes = [header, &bytes].concat();
        let record = PcapPacket::new(at, bytes.len() as u32, &bytes);
        writer.write_packet(&record).unwrap();
    }
}

fn read_capture(path: &Path) -> Result<Measured, Error> {
    let plan = Plan::new(vec![session(5_004, &[(97, "L16/8000")])]);
    analyse(&plan, path)
}

/// Checks that all packets are there, at their times.
fn is_whole(measured: &Measured) {
    let source = &measured.sources[0];
    assert_eq!((source.packets, source.lost), (COUNT.into(), 0));
    let bytes = u64::from(COUNT * FRAMES * 2);
    assert_eq!(source.bytes, bytes);
    let time = (PERIOD * (COUNT - 1)).as_secs_f64();
    assert!((source.seconds - time).abs() < 1e-5, "{}", source.seconds);
    assert!((source.interval_ms - 20.0).abs() < 0.01);
    assert_eq!(measured.warnings, Vec::<String>::new());
}

#[test]
fn tcpdump_link_types_are_read() {
    let folder = Folder::new("cooked");
    let path = folder.0.join("a.pcap");
    // The fields are the protocol, zeros, the interface, the kind of hardware, the direction, the
    // length of the address, and the address.
    let mut cooked = vec![0; 20];
    cooked[..2].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
    pcap(&path, DataLink::LINUX_SLL2, &cooked);
    is_whole(&read_capture(&path).unwrap());
    let mut cooked = vec![0; 16];
    cooked[14..].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
    pcap(&path, DataLink::LINUX_SLL, &cooked);
    is_whole(&read_capture(&path).unwrap());
    pcap(&path, DataLink::IEEE802_11, &[0; 24]);
    let error = read_capture(&path).unwrap_err();
    assert!(matches!(error, Error::Malformed(..)));
    assert!(
        error
            .to_string()
            .ends_with("the link type 105 of the capture is not supported"),
        "{error}"
    );
}

#[test]
fn datagrams_inside_of_tunnels_are_found() {
    let folder = Folder::new("tunnels");
    let path = folder.0.join("a.pcap");
    let ethernet = |kind: u16| [&[1; 12][..], &kind.to_be_bytes()].concat();
    // Returns the outer headers of a tunnel over IP. Their checksums are 0, as in captures on a
    // sending machine whose network card computes the checksums.
    let over_ip = |protocol: u8, header: &[u8]| {
        let inner = (packet(0).1.len() + header.len()) as u16;
        let mut ip = vec![0x45, 0];
        ip.extend((20 + inner).to_be_bytes());
        ip.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        [ethernet(0x0800), ip, header.to_vec()].concat()
    };
    let over_udp = |port: u16, header: &[u8]| {
        let length = (8 + packet(0).1.len() + header.len()) as u16;
        let mut udp = 4_000_u16.to_be_bytes().to_vec();
        udp.extend(port.to_be_bytes());
        udp.extend(length.to_be_bytes());
        udp.extend([0, 0]);
        udp.extend(header);
        over_ip(17, &udp)
    };
    let inner = ethernet(0x0800);
    let tunnels = [
        (
            "two labels",
            [ethernet(0x8847), vec![0, 1, 0, 64, 0, 1, 1, 64]].concat(),
        ),
        (
            "Ethernet over MPLS",
            [
                ethernet(0x8847),
                vec![0, 1, 1, 64, 0, 0, 0, 0],
                inner.clone(),
            ]
            .concat(),
        ),
        (
            "Ethernet over MPLS without a control word",
            [ethernet(0x8847), vec![0, 1, 1, 64], inner.clone()].concat(),
        ),
        (
            "SNAP",
            [&[1; 12][..], &[1, 92, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat(),
        ),
        (
            "VXLAN at the port of Linux, with a group policy",
            over_udp(8_472, &[&[0x88, 0, 0, 5, 0, 0, 7, 0][..], &inner].concat()),
        ),
        (
            "VXLAN with another protocol inside",
            over_udp(4_790, &[0x0c, 0, 0, 1, 0, 0, 7, 0]),
        ),
        (
            "PPPoE in VLANs",
            [
                ethernet(0x88a8),
                vec![0, 1, 0x81, 0, 0, 2, 0x88, 0x64],
                vec![0x11, 0, 0, 9, 1, 0, 0, 0x21],
            ]
            .concat(),
        ),
        (
            "MPLS in two tags",
            [
                ethernet(0x9100),
                vec![0, 1, 0x88, 0xa8, 0, 2, 0x88, 0x47],
                vec![0, 1, 1, 64],
            ]
            .concat(),
        ),
        (
            "a tagged frame in GRE",
            over_ip(47, &[0, 0, 0x81, 0, 0, 5, 8, 0]),
        ),
        ("GRE", over_ip(47, &[0, 0, 8, 0])),
        ("GRE with a key", over_ip(47, &[0x20, 0, 8, 0, 0, 0, 0, 7])),
        (
            "Ethernet over GRE",
            over_ip(47, &[&[0, 0, 0x65, 0x58][..], &inner].concat()),
        ),
        ("IP in IP", over_ip(4, &[])),
        (
            "VXLAN",
            over_udp(4_789, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &inner].concat()),
        ),
        (
            "Geneve",
            over_udp(
                6_081,
                &[&[1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 4][..], &inner].concat(),
            ),
        ),
        ("GTP-U", over_udp(2_152, &[0x30, 0xff, 0, 0, 0, 0, 0, 1])),
    ];
    for (name, header) in tunnels {
        eprintln!("{name}");
        pcap(&path, DataLink::ETHERNET, &header);
        is_whole(&read_capture(&path).unwrap());
    }
    for raw in [12, 14] {
        pcap(&path, DataLink::from(raw), &[]);
        is_whole(&read_capture(&path).unwrap());
    }
    // PPP frames may begin with the address and control bytes FF 03.
    pcap(&path, DataLink::PPP, &[0xff, 0x03, 0x00, 0x21]);
    is_whole(&read_capture(&path).unwrap());
}

#[test]
fn compressed_captures_and_stdin_are_read() {
    let folder = Folder::new("compressed");
    let (plain, path) = (folder.0.join("a.pcap"), folder.0.join("a.pcap.gz"));
    pcap(&plain, DataLink::RAW, &[]);
    let file = File::create(&path).unwrap();
    let mut writer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    writer.write_all(&std::fs::read(&plain).unwrap()).unwrap();
    writer.finish().unwrap();
    is_whole(&read_capture(&path).unwrap());
    for path in [&plain, &path] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_creel-cast"));
        program.args(["receive", "--pcap", "-", "--codec", "97=L16/8000"]);
        program.args(["--format", "json"]);
        let run = program.stdin(File::open(path).unwrap()).output().unwrap();
        assert_eq!(run.status.code(), Some(0));
        assert!(String::from_utf8_lossy(&run.stdout).contains(r#""packets": 50"#));
    }
}

#[test]
fn pcapng_timestamps_use_the_interface_resolution() {
    let folder = Folder::new("units");
    let path = folder.0.join("a.pcapng");
    // If an interface has no option `if_tsresol`, the unit is microseconds. 0x94 stands for units
    // of 2⁻²⁰ seconds.
    let units: [(Option<u8>, u64); 4] = [
        (None, 1_000_000),
        (Some(6), 1_000_000),
        (Some(9), 1_000_000_000),
        (Some(0x94), 1 << 20),
    ];
    for (resolution, a_second) in units {
        let mut writer = PcapNgWriter::new(File::create(&path).unwrap()).unwrap();
        let mut interface = InterfaceDescriptionBlock::new(DataLink::RAW, 65_535);
        let option = resolution.map(InterfaceDescriptionOption::IfTsResol);
        interface.options.extend(option);
        writer.write_pcapng_block(interface).unwrap();
        for (at, bytes) in (0..COUNT).map(packet) {
            let units = at.as_nanos() * u128::from(a_second) / 1_000_000_000;
            let block = EnhancedPacketBlock {
                interface_id: 0,
                // The library writes this number as it is, although it takes it for nanoseconds.
                timestamp: Duration::from_nanos(units as u64),
                original_len: bytes.len() as u32,
                data: bytes.into(),
                options: Vec::new(),
            };
            writer.write_pcapng_block(block).unwrap();
        }
        drop(writer);
        is_whole(&read_capture(&path).unwrap());
    }
}

#[test]
fn packet_blocks_of_all_kinds_are_read() {
    let folder = Folder::new("blocks");
    let path = folder.0.join("a.pcapng");
    for endianness in [Endianness::Little, Endianness::Big] {
        let file = File::create(&path).unwrap();
        let mut writer = PcapNgWriter::with_endianness(file, endianness).unwrap();
        let mut interface = InterfaceDescriptionBlock::new(DataLink::RAW, 65_535);
        // The times of this interface lack a thousand seconds.
        let offset = InterfaceDescriptionOption::IfTsOffset(1_000);
        interface.options.push(offset);
        writer.write_pcapng_block(interface).unwrap();
        for (n, (at, bytes)) in (0..COUNT).map(packet).enumerate() {
            let micros = (at - Duration::from_secs(1_000)).as_micros() as u64;
            if n % 2 == 0 {
                // The high half of the time comes first.
                let timestamp = match endianness {
                    Endianness::Little => micros.rotate_left(32),
                    Endianness::Big => micros,
                };
                let block = PacketBlock {
                    interface_id: 0,
                    drop_count: 0,
                    timestamp,
                    captured_len: bytes.len() as u32,
                    original_len: bytes.len() as u32,
                    data: bytes.into(),
                    options: Vec::new(),
                };
                writer.write_pcapng_block(block).unwrap();
                continue;
            }
            let block = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(micros),
                original_len: bytes.len() as u32,
                data: bytes.into(),
                options: Vec::new(),
            };
            writer.write_pcapng_block(block).unwrap();
        }
        drop(writer);
        is_whole(&read_capture(&path).unwrap());
    }
    // A Simple Packet Block has no time.
    let mut writer = PcapNgWriter::new(File::create(&path).unwrap()).unwrap();
    let interface = InterfaceDescriptionBlock::new(DataLink::RAW, 65_535);
    writer.write_pcapng_block(interface).unwrap();
    for (_, bytes) in (0..COUNT).map(packet) {
        let block = SimplePacketBlock {
            original_len: bytes.len() as u32,
            data: bytes.into(),
        };
        writer.write_pcapng_block(block).unwrap();
    }
    drop(writer);
    let measured = read_capture(&path).unwrap();
    assert_eq!(measured.sources[0].packets, u64::from(COUNT));
    let warnings = measured.warnings;
    assert!(
        warnings[0].contains("50 packets have no time"),
        "{warnings:?}"
    );
}

#[test]
fn truncated_packets_are_measured_by_their_headers() {
    const SNAP: usize = 60;
    let folder = Folder::new("snap");
    let path = folder.0.join("a.pcap");
    let head = PcapHeader {
        datalink: DataLink::RAW,
        snaplen: SNAP as u32,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(File::create(&path).unwrap(), head).unwrap();
    for (at, bytes) in (0..COUNT).map(packet) {
        let record = RawPcapPacket {
            ts_sec: at.as_secs() as u32,
            ts_frac: at.subsec_micros(),
            incl_len: SNAP as u32,
            orig_len: bytes.len() as u32,
            data: bytes[..SNAP].into(),
        };
        writer.write_raw_packet(&record).unwrap();
    }
    drop(writer);
    let measured = read_capture(&path).unwrap();
    is_whole(&measured);
    assert_eq!(measured.unrecognized.truncated, u64::from(COUNT));
}

#[test]
fn the_whole_packets_of_a_torn_capture_are_reported() {
    let folder = Folder::new("torn");
    let path = folder.0.join("a.pcap");
    pcap(&path, DataLink::RAW, &[]);
    let whole = std::fs::read(&path).unwrap();
    let a_packet = (whole.len() - 24) / COUNT as usize;
    std::fs::write(&path, &whole[..24 + 30 * a_packet + 100]).unwrap();
    let measured = read_capture(&path).unwrap();
    assert_eq!(
        (measured.sources[0].packets, measured.sources[0].lost),
        (30, 0)
    );
    assert_eq!(measured.warnings.len(), 1, "{:?}", measured.warnings);
    assert!(measured.warnings[0].contains("ends within a packet"));
    let path = path.to_str().unwrap();
    let program = env!("CARGO_BIN_EXE_creel-cast");
    let run = Command::new(program)
        .args(["receive", "--pcap", path, "--format", "json"])
        .output();
    let run = run.unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stdout).contains(r#""packets": 30"#));
}

/// Splits an IPv4 packet into fragments of up to 128 bytes, which all have this identification.
fn fragments(whole: &[u8], identification: u16) -> Vec<Vec<u8>> {
    let (header, payload) = whole.split_at(20);
    let count = payload.len().div_ceil(128);
    let fragment = |(n, part): (usize, &[u8])| {
        let mut bytes = [header, part].concat();
        let len = bytes.len() as u16;
        let more = if n + 1 < count { 0x2000 } else { 0 };
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        bytes[4..6].copy_from_slice(&identification.to_be_bytes());
        bytes[6..8].copy_from_slice(&(more | (n as u16 * 16)).to_be_bytes());
        bytes
    };
    payload.chunks(128).enumerate().map(fragment).collect()
}

/// Splits the datagram of an IPv4 packet into fragments of IPv6.
fn fragments_of_ipv6(whole: &[u8], identification: u32) -> Vec<Vec<u8>> {
    let payload = &whole[20..];
    let count = payload.len().div_ceil(128);
    let fragment = |(n, part): (usize, &[u8])| {
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((8 + part.len() as u16).to_be_bytes());
        bytes.extend([44, 64]);
        bytes.extend([[0; 15].as_slice(), &[1], &[0; 15], &[1]].concat());
        bytes.extend([17, 0]);
        bytes.extend((n as u16 * 128 + u16::from(n + 1 < count)).to_be_bytes());
        bytes.extend(identification.to_be_bytes());
        [bytes, part.to_vec()].concat()
    };
    payload.chunks(128).enumerate().map(fragment).collect()
}

/// Writes a capture of raw IP packets.
fn raw_pcap(path: &Path, packets: &[(Duration, Vec<u8>)]) {
    let head = PcapHeader {
        datalink: DataLink::RAW,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(File::create(path).unwrap(), head).unwrap();
    for (at, bytes) in packets {
        let record = PcapPacket::new(*at, bytes.len() as u32, bytes);
        writer.write_packet(&record).unwrap();
    }
}

#[test]
fn fragments_are_reassembled_in_any_order() {
    let folder = Folder::new("fragments");
    let path = folder.0.join("a.pcap");
    type Split = fn(&[u8], u32) -> Vec<Vec<u8>>;
    let splits: [Split; 2] = [|whole, n| fragments(whole, n as u16), fragments_of_ipv6];
    for split in splits {
        for order in [[0, 1, 2], [2, 0, 1], [1, 2, 0]] {
            let of_packet = |n| {
                let (at, whole) = packet(n);
                let all = split(&whole, 7 + n);
                assert_eq!(all.len(), order.len());
                order.map(|part| (at, all[part].clone()))
            };
            let all: Vec<_> = (0..COUNT).flat_map(of_packet).collect();
            raw_pcap(&path, &all);
            is_whole(&read_capture(&path).unwrap());
        }
    }
    // The outer packets of a tunnel are fragments, and the identification is always the same.
    let in_tunnel = |n| {
        let (at, inner) = packet(n);
        let mut outer = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(4_000, 4_789)
            .write(
                &mut outer,
                &[&[8, 0, 0, 0, 0, 0, 7, 0][..], &[1; 12], &[8, 0], &inner].concat(),
            )
            .unwrap();
        fragments(&outer, 1).into_iter().map(move |it| (at, it))
    };
    let all: Vec<_> = (0..COUNT).flat_map(in_tunnel).collect();
    raw_pcap(&path, &all);
    is_whole(&read_capture(&path).unwrap());
}

#[test]
fn fragments_of_incomplete_packets_are_counted_and_warned_about() {
    let folder = Folder::new("incomplete");
    let path = folder.0.join("a.pcap");
    let all = (0..COUNT).flat_map(|n| {
        let (at, whole) = packet(n);
        let mut all = fragments(&whole, n as u16);
        if n % 10 == 5 {
            all.remove(n as usize % 3);
        }
        all.into_iter().map(move |it| (at, it))
    });
    raw_pcap(&path, &all.collect::<Vec<_>>());
    let measured = read_capture(&path).unwrap();
    assert_eq!(measured.sources[0].lost, 5);
    let warnings = measured.warnings;
    assert!(
        warnings[0].contains("skipped 10 IP fragments"),
        "{warnings:?}"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported_by_name() {
    let on = free_ports(1);
    let mut receiver = Command::new(env!("CARGO_BIN_EXE_creel-cast"));
    receiver.args([
        "receive",
        "--streams",
        "1",
        "--on",
        &on.to_string(),
        "--idle",
        "300ms",
    ]);
    receiver
        .args(["--write-pcap", "/dev/full"])
        .stdout(Stdio::null());
    let mut receiver = receiver.stderr(Stdio::piped()).spawn().unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(on).unwrap();
    let (mut n, mut delivered) = (0, 0);
    while delivered < 20 && receiver.try_wait().unwrap().is_none() {
        // An error means that no one received the previous packet.
        let is_sent = sender.send(&counting(11, n, 441, 1).bytes()).is_ok();
        delivered = if is_sent { delivered + 1 } else { 0 };
        n += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = receiver.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("No space left on device"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
}

//! RTP packets for tests, to be sent over a socket or written to a capture.
#![allow(dead_code, reason = "each test program uses some of it")]

use creel_cast::receive::{Plan, analyse};
use creel_cast::{Format, Formats, Measured, RtpSession};
use etherparse::PacketBuilder;
use pcap_file::pcap::{PcapPacket, PcapWriter};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

/// An RTP packet.
#[derive(Debug, Clone)]
pub struct Packet {
    pub payload_type: u8,
    pub sequence: u16,
    pub timestamp: u32,
    pub ssrc: u32,
    pub payload: Vec<u8>,
}

impl Packet {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0x80, self.payload_type];
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.timestamp.to_be_bytes());
        bytes.extend(self.ssrc.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

/// Returns the `n`th packet of an L16 stream, with `frames` frames of `channels` channels. The
/// samples count up throughout the stream.
pub fn counting(payload_type: u8, n: u32, frames: u32, channels: u32) -> Packet {
    let first = n * frames * channels;
    let samples = first..first + frames * channels;
    Packet {
        payload_type,
        sequence: 65_000_u16.wrapping_add(n as u16),
        timestamp: 0xffff_0000_u32.wrapping_add(n * frames),
        ssrc: 0xabad_cafe,
        payload: samples.flat_map(|s| (s as u16).to_be_bytes()).collect(),
    }
}

/// Returns the first samples of the stream whose packets [`counting`] returns.
pub fn counted(samples: usize) -> Vec<i16> {
    (0..samples).map(|n| n as u16 as i16).collect()
}

/// Writes a capture of datagrams to these ports, each with its time.
pub fn capture(path: &Path, datagrams: &[(Duration, u16, Vec<u8>)]) {
    let all = datagrams
        .iter()
        .map(|(at, to, bytes)| (*at, 4_000, *to, &bytes[..]));
    write_capture(path, all);
}

/// Writes a capture of datagrams from these ports to port 5004.
pub fn capture_from(path: &Path, datagrams: &[(Duration, u16, Vec<u8>)]) {
    let all = datagrams
        .iter()
        .map(|(at, from, bytes)| (*at, *from, 5_004, &bytes[..]));
    write_capture(path, all);
}

fn write_capture<'a>(path: &Path, datagrams: impl Iterator<Item = (Duration, u16, u16, &'a [u8])>) {
    let mut writer = PcapWriter::new(std::fs::File::create(path).unwrap()).unwrap();
    for (at, from, to, bytes) in datagrams {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv4([127, 0, 0, 1], [127, 0, 0, 1], 64)
            .udp(from, to)
            .write(&mut frame, bytes)
            .unwrap();
        let record = PcapPacket::new(Duration::from_secs(1_000) + at, frame.len() as u32, &frame);
        writer.write_packet(&record).unwrap();
    }
}

/// Analyses packets as if they arrived at these times.
pub fn analysed(folder: &Path, formats: &[(u8, &str)], packets: &[(Duration, Packet)]) -> Measured {
    let path = folder.join("capture.pcap");
    let datagrams: Vec<_> = packets
        .iter()
        .map(|(at, packet)| (*at, 5_004, packet.bytes()))
        .collect();
    capture(&path, &datagrams);
    let plan = Plan {
        wav: Some(folder.into()),
        ..Plan::new(vec![session(5_004, formats)])
    };
    analyse(&plan, &path).unwrap()
}

pub fn session(port: u16, formats: &[(u8, &str)]) -> RtpSession {
    let named = formats
        .iter()
        .map(|(number, text)| (*number, text.parse::<Format>().unwrap()));
    let mut session = RtpSession::new((Ipv4Addr::LOCALHOST, port).into(), 11, Format::CD_MONO);
    session.formats = Formats::new(named.collect());
    session
}

//! Captures of UDP datagrams with their times. We read pcap and pcapng, and write pcap.
//!
//! One library reads and writes the files, and another one parses the packets.

use super::fragments::Reassembly;
use super::tunnel::{self, Inner, Link};
use crate::error::Error;
use etherparse::PacketBuilder;
use flate2::read::MultiGzDecoder;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// The maximum number of datagrams that wait to be written.
const QUEUE: usize = 16_384;

/// A datagram of a capture.
#[derive(Debug)]
pub(crate) struct CapturedDatagram<'a> {
    /// The time of the capture, in nanoseconds since 1970.
    pub(crate) at: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// The captured bytes of the payload.
    pub(crate) bytes: &'a [u8],
    /// The number of bytes at the end of the payload that were not captured.
    pub(crate) missing: usize,
}

/// Counters of everything in a capture that is not a UDP datagram.
#[derive(Debug, Default)]
pub(crate) struct CaptureSummary {
    /// The number of packets that are not UDP datagrams.
    pub(crate) others: u64,
    /// The number of IP fragments whose packets are not complete.
    pub(crate) fragments: u64,
    /// The number of packets without a time.
    pub(crate) untimed: u64,
    /// The number of packets per link type that we cannot parse.
    pub(crate) unknown_links: BTreeMap<u32, u64>,
    /// Whether the file ends within a packet.
    pub(crate) is_truncated: bool,
}

impl CaptureSummary {
    /// Returns warnings about data that the figures may lack.
    pub(crate) fn warnings(&self, path: &Path) -> Vec<String> {
        let path = path.display();
        let mut all = Vec::new();
        if self.is_truncated {
            all.push(format!(
                "the capture {path} ends within a packet. The figures cover the complete packets \
                 before that packet"
            ));
        }
        if self.fragments > 0 {
            let fragments = self.fragments;
            all.push(format!(
                "{path}: skipped {fragments} IP fragments, because the other fragments of their packets are missing"
            ));
        }
        if self.untimed > 0 {
            let untimed = self.untimed;
            all.push(format!(
                "{path}: {untimed} packets have no time (simple packet blocks), so their deltas, jitter and lateness have no meaning"
            ));
        }
        for (link, packets) in &self.unknown_links {
            all.push(format!(
                "{path}: skipped {packets} packets of link type {link}, which is not supported"
            ));
        }
        all
    }
}

/// Reads a capture, and passes each UDP datagram to `each`. Returns a summary of everything else.
/// This function blocks.
///
/// # Errors
///
/// Returns an error if the file cannot be read, is not a capture, or only has link types that we
/// cannot parse. An incomplete packet at the end is not an error.
pub(crate) fn read(
    path: &Path,
    mut each: impl FnMut(&CapturedDatagram<'_>),
) -> Result<CaptureSummary, Error> {
    let io = |error| Error::File(path.into(), error);
    let mut file = open(path).map_err(io)?;
    let magic = peek(&mut file).map_err(io)?;
    let malformed = |what: String| Error::Malformed(path.into(), what);
    let Some(magic) = magic else {
        return Err(malformed(
            "the file is not a capture (pcap or pcapng)".into(),
        ));
    };
    let (mut summary, mut understood) = (CaptureSummary::default(), 0_u64);
    let (mut reassembly, mut untimed) = (Reassembly::default(), 0);
    let mut handle = |at: u64, link: DataLink, bytes: &[u8], truncated: bool| {
        understood += 1;
        match datagram(at, link, bytes, truncated, &mut reassembly, &mut each) {
            PacketKind::Datagram | PacketKind::Fragment => {}
            PacketKind::Other => summary.others += 1,
            PacketKind::Link => {
                understood -= 1;
                *summary.unknown_links.entry(link.into()).or_default() += 1;
            }
        }
    };
    let ended = if magic == [0x0a, 0x0d, 0x0d, 0x0a] {
        read_pcapng(file, &mut handle, &mut untimed)
    } else {
        read_pcap(file, &mut handle)
    };
    (summary.fragments, summary.untimed) = (reassembly.incomplete(), untimed);
    match ended {
        Ok(()) => {}
        Err(error) if is_end(&error) => summary.is_truncated = true,
        Err(PcapError::IoError(error)) => return Err(io(error)),
        Err(error) => return Err(malformed(error.to_string())),
    }
    if let (0, Some((link, _))) = (understood, summary.unknown_links.first_key_value()) {
        return Err(malformed(format!(
            "the link type {link} of the capture is not supported"
        )));
    }
    Ok(summary)
}

/// A capture, which may be compressed.
type CaptureFile = BufReader<Box<dyn Read>>;

/// Opens a capture, or stdin if the path is `-`. If it is compressed with gzip, we decompress it.
fn open(path: &Path) -> std::io::Result<CaptureFile> {
    let file: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(File::open(path)?),
    };
    let mut file = BufReader::new(file);
    let is_compressed = peek(&mut file)?.is_some_and(|magic| magic[..2] == [0x1f, 0x8b]);
    Ok(match is_compressed {
        true => BufReader::new(Box::new(MultiGzDecoder::new(file))),
        false => file,
    })
}

/// Returns the first four bytes and leaves them in the file, or `None` if there are fewer.
fn peek(file: &mut CaptureFile) -> std::io::Result<Option<[u8; 4]>> {
    let mut magic = Vec::new();
    file.by_ref().take(4).read_to_end(&mut magic)?;
    let found = magic.first_chunk().copied();
    let rest = std::mem::replace(file, BufReader::new(Box::new(std::io::empty())));
    *file = BufReader::new(Box::new(std::io::Cursor::new(magic).chain(rest)));
    Ok(found)
}

/// Returns whether the file ended within a packet.
fn is_end(error: &PcapError) -> bool {
    match error {
        PcapError::IncompleteBuffer => true,
        PcapError::IoError(error) => error.kind() == std::io::ErrorKind::UnexpectedEof,
        _ => false,
    }
}

/// Makes a file whose header is incomplete an error. It is not a capture, so we must not treat it
/// as a capture that was cut off.
fn header_error(error: PcapError) -> PcapError {
    match is_end(&error) {
        true => PcapError::InvalidField("the header of the capture is incomplete"),
        false => error,
    }
}

/// A function that handles a packet. It receives the time in nanoseconds, the link type, the
/// captured bytes, and whether the packet had more bytes.
type PacketHandler<'a> = dyn FnMut(u64, DataLink, &[u8], bool) + 'a;

fn read_pcap(file: CaptureFile, handle: &mut PacketHandler<'_>) -> Result<(), PcapError> {
    let mut reader = PcapReader::new(file).map_err(header_error)?;
    let header = reader.header();
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    // We read raw packets, because the library rejects packets that were longer than what was
    // captured.
    while let Some(packet) = reader.next_raw_packet() {
        let packet = packet?;
        let nanos = u64::from(packet.ts_frac) * unit;
        let at = u64::from(packet.ts_sec) * 1_000_000_000 + nanos;
        handle(
            at,
            header.datalink,
            &packet.data,
            packet.orig_len > packet.incl_len,
        );
    }
    Ok(())
}

/// An interface of a capture: its link type, its time unit, and the seconds that its times lack.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: DataLink,
    resolution: u8,
    offset: u64,
}

impl Interface {
    fn new(described: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut interface = Interface {
            link: described.linktype,
            ..Interface::default()
        };
        for option in &described.options {
            match option {
                InterfaceDescriptionOption::IfTsResol(resolution) => {
                    interface.resolution = *resolution;
                }
                InterfaceDescriptionOption::IfTsOffset(seconds) => interface.offset = *seconds,
                _ => {}
            }
        }
        interface
    }

    /// Returns a time of the interface in nanoseconds since 1970.
    fn time(self, units: u128) -> u64 {
        // The offset of the interface may be negative. We can store it as an unsigned number,
        // because a wrapping sum has the same bits for both.
        let offset = self.offset.wrapping_mul(1_000_000_000);
        nanos(units, self.resolution).wrapping_add(offset)
    }
}

impl Default for Interface {
    fn default() -> Self {
        Interface {
            link: DataLink::ETHERNET,
            resolution: MICROSECONDS,
            offset: 0,
        }
    }
}

/// Reads a pcapng file, and counts the packets without a time.
fn read_pcapng(
    file: CaptureFile,
    handle: &mut PacketHandler<'_>,
    untimed: &mut u64,
) -> Result<(), PcapError> {
    let mut reader = PcapNgReader::new(file).map_err(header_error)?;
    let mut is_little = reader.section().endianness == Endianness::Little;
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut last = 0;
    while let Some(block) = reader.next_block() {
        match block? {
            Block::InterfaceDescription(described) => interfaces.push(Interface::new(&described)),
            Block::SectionHeader(section) => {
                interfaces.clear();
                is_little = section.endianness == Endianness::Little;
            }
            Block::EnhancedPacket(packet) => {
                let interface = interfaces.get(packet.interface_id as usize).copied();
                let interface = interface.unwrap_or_default();
                let truncated = packet.original_len as usize > packet.data.len();
                // The library treats all units as nanoseconds, so this is the number of units.
                last = interface.time(packet.timestamp.as_nanos());
                handle(last, interface.link, &packet.data, truncated);
            }
            // Old programs write packets as a Packet Block, which states the time as two halves of
            // 32 bits.
            Block::Packet(packet) => {
                let interface = interfaces.get(usize::from(packet.interface_id)).copied();
                let interface = interface.unwrap_or_default();
                let units = match is_little {
                    true => packet.timestamp.rotate_left(32),
                    false => packet.timestamp,
                };
                let truncated = packet.original_len as usize > packet.data.len();
                last = interface.time(units.into());
                handle(last, interface.link, &packet.data, truncated);
            }
            Block::SimplePacket(packet) => {
                let interface = interfaces.first().copied().unwrap_or_default();
                let len = packet.data.len().min(packet.original_len as usize);
                let truncated = packet.original_len as usize > len;
                *untimed += 1;
                handle(last, interface.link, &packet.data[..len], truncated);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The time unit of an interface that states none: 10⁻⁶ s. Source: pcapng, section 4.2, if_tsresol.
const MICROSECONDS: u8 = 6;

/// Converts units of time to nanoseconds. The resolution is a negative power of ten, or of two if
/// its highest bit is set.
fn nanos(units: u128, resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    // If a second has more units than a `u128` can count, every time is zero seconds.
    let a_second = base.checked_pow(exponent).unwrap_or(u128::MAX);
    let (seconds, rest) = (units / a_second, units % a_second);
    let rest = rest.checked_mul(1_000_000_000).map_or(0, |r| r / a_second);
    u64::try_from(seconds * 1_000_000_000 + rest).unwrap_or(u64::MAX)
}

enum PacketKind {
    Datagram,
    Fragment,
    Other,
    /// The packet has a link type that we cannot parse.
    Link,
}

/// The number of header bytes in version 2 of the Linux cooked capture format.
///
/// Source: tcpdump.org, LINKTYPE_LINUX_SLL2.
const SLL2_BYTES: usize = 20;

/// Parses a packet, whose end may not have been captured, and passes its UDP datagram to `each`, if
/// it has one.
fn datagram(
    at: u64,
    link: DataLink,
    bytes: &[u8],
    truncated: bool,
    reassembly: &mut Reassembly,
    each: &mut impl FnMut(&CapturedDatagram<'_>),
) -> PacketKind {
    let cooked = |protocol: usize, header: usize| {
        let number = bytes.get(protocol..protocol + 2)?;
        let number = u16::from_be_bytes([number[0], number[1]]);
        Some((Link::Type(number), bytes.get(header..)?))
    };
    let begin = match link {
        DataLink::ETHERNET => Some((Link::Ethernet, bytes)),
        // Some systems write raw IP under their own numbers, 12 and 14.
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 | DataLink::Unknown(12 | 14) => {
            Some((Link::Ip, bytes))
        }
        DataLink::PPP | DataLink::PPP_HDLC => Some((Link::Ppp, bytes)),
        DataLink::PPP_ETHER => bytes.get(6..).map(|rest| (Link::Ppp, rest)),
        DataLink::LINUX_SLL => cooked(14, 16),
        DataLink::LINUX_SLL2 => cooked(0, SLL2_BYTES),
        // Four bytes with the address family precede the packet.
        DataLink::NULL | DataLink::LOOP => bytes.get(4..).map(|rest| (Link::Ip, rest)),
        _ => return PacketKind::Link,
    };
    let Some((link, bytes)) = begin else {
        return PacketKind::Other;
    };
    pass_on(at, tunnel::inner(link, bytes), truncated, reassembly, each)
}

/// Passes a datagram to `each`. A fragment waits until its packet is complete, so the datagram has
/// the time of the fragment that arrived last.
fn pass_on(
    at: u64,
    found: Inner<'_>,
    truncated: bool,
    reassembly: &mut Reassembly,
    each: &mut impl FnMut(&CapturedDatagram<'_>),
) -> PacketKind {
    let (ips, whole) = match found {
        Inner::Udp { ips, datagram } => (ips, datagram),
        Inner::Fragment(fragment) => {
            return match reassembly.add(&fragment, at) {
                Some(payload) => {
                    let found = tunnel::inner_of_payload(&fragment.id, &payload);
                    pass_on(at, found, truncated, reassembly, each)
                }
                None => PacketKind::Fragment,
            };
        }
        Inner::Other => return PacketKind::Other,
    };
    let Some((header, payload)) = whole.split_first_chunk::<8>() else {
        return PacketKind::Other;
    };
    let field = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let Some(length) = usize::from(field(4)).checked_sub(8) else {
        return PacketKind::Other;
    };
    if length > payload.len() && !truncated {
        return PacketKind::Other;
    }
    each(&CapturedDatagram {
        at,
        from: SocketAddr::new(ips.0, field(0)),
        to: SocketAddr::new(ips.1, field(2)),
        bytes: &payload[..length.min(payload.len())],
        missing: length.saturating_sub(payload.len()),
    });
    PacketKind::Datagram
}

/// A datagram that the thread will write to the file.
#[derive(Debug)]
struct QueuedDatagram {
    at: Duration,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// The thread that writes the file. It returns the error that ended it, if any.
type WriterThread = JoinHandle<Result<(), String>>;

/// Writes datagrams to a capture on a thread of its own. Clones write to the same file.
#[derive(Debug, Clone)]
pub(crate) struct CaptureWriter {
    sender: SyncSender<QueuedDatagram>,
    missed: Arc<AtomicU64>,
    writer: Arc<Mutex<Option<WriterThread>>>,
    path: PathBuf,
}

impl CaptureWriter {
    /// Creates a capture at `path`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file or the thread cannot be created.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::File(path.into(), error);
        let file = BufWriter::new(File::create(path).map_err(io)?);
        let (sender, receiver) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("capture".into());
        let writer = thread.spawn(move || write(file, &receiver)).map_err(io)?;
        Ok(CaptureWriter {
            sender,
            missed: Arc::default(),
            writer: Arc::new(Mutex::new(Some(writer))),
            path: path.into(),
        })
    }

    /// Writes a datagram. If the thread cannot keep up, the datagram is left out and counted.
    /// `at` is its time of arrival since 1970.
    pub(crate) fn write(&self, at: Duration, bytes: &[u8], from: SocketAddr, to: SocketAddr) {
        let written = QueuedDatagram {
            at,
            from,
            to,
            bytes: bytes.to_vec(),
        };
        if self.sender.try_send(written).is_err() {
            // Relaxed ordering suffices, because the count is only read at the end.
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all clones are gone and the file is complete. Returns a warning if something
    /// went wrong. This function blocks.
    pub(crate) fn finish(self) -> Option<String> {
        let CaptureWriter {
            sender,
            missed,
            writer,
            path,
        } = self;
        drop(sender);
        let thread = writer.lock().ok()?.take()?;
        let ended = thread
            .join()
            .unwrap_or_else(|_| Err("the thread that writes the capture panicked".into()));
        let path = path.display();
        match (ended, missed.load(Ordering::Relaxed)) {
            (Err(error), _) => Some(format!("cannot write all of {path}: {error}")),
            (Ok(()), 0) => None,
            (Ok(()), missed) => Some(format!(
                "the capture {path} lacks {missed} packets, because they arrived faster than we \
                 could write them"
            )),
        }
    }
}

/// Returns the reason of the operating system, if there is one. The library's own text for a full
/// disk is "Error reading bytes".
fn reason(error: &PcapError) -> String {
    match error {
        PcapError::IoError(error) => error.to_string(),
        error => error.to_string(),
    }
}

fn write(file: BufWriter<File>, receiver: &Receiver<QueuedDatagram>) -> Result<(), String> {
    let header = PcapHeader {
        datalink: DataLink::RAW,
        ts_resolution: TsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(file, header).map_err(|error| reason(&error))?;
    let mut packet = Vec::new();
    for written in receiver {
        packet.clear();
        let (from, to) = (written.from, written.to);
        let built = match (from.ip(), to.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => PacketBuilder::ipv4(a.octets(), b.octets(), 64)
                .udp(from.port(), to.port())
                .write(&mut packet, &written.bytes),
            (a, b) => {
                let six = |ip| match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                PacketBuilder::ipv6(six(a), six(b), 64)
                    .udp(from.port(), to.port())
                    .write(&mut packet, &written.bytes)
            }
        };
        built.map_err(|error| error.to_string())?;
        let len = packet.len() as u32;
        let record = PcapPacket::new(written.at, len, &packet);
        writer
            .write_packet(&record)
            .map_err(|error| reason(&error))?;
    }
    writer
        .into_writer()
        .flush()
        .map_err(|error| error.to_string())
}

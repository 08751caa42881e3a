//! Captures: UDP datagrams with their times, read from pcap and pcapng, written as pcap.
//!
//! Files are read and written by a library, and packets taken apart by another.
//!
//! Left out: fragments of IP, which are counted and not put together.

use crate::error::Error;
use etherparse::{EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, PacketBuilder};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Datagrams on their way to a file.
const QUEUE: usize = 16_384;

/// A datagram of a capture.
#[derive(Debug)]
pub(crate) struct CapturedDatagram<'a> {
    /// In nanoseconds since 1970.
    pub(crate) at: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// What was captured of it.
    pub(crate) bytes: &'a [u8],
    /// Bytes at its end that were not.
    pub(crate) missing: usize,
}

/// What a capture holds beside datagrams.
#[derive(Debug, Default)]
pub(crate) struct CaptureSummary {
    /// Packets that are no UDP datagrams.
    pub(crate) others: u64,
    /// Fragments of IP packets.
    pub(crate) fragments: u64,
    /// Packets of link types that are not understood, by their numbers.
    pub(crate) unknown_links: BTreeMap<u32, u64>,
    /// It ends within a packet.
    pub(crate) is_truncated: bool,
}

impl CaptureSummary {
    /// What is amiss: something may be missing in the figures.
    pub(crate) fn warnings(&self, path: &Path) -> Vec<String> {
        let path = path.display();
        let mut all = Vec::new();
        if self.is_truncated {
            all.push(format!(
                "{path}: the file ends within a packet; the whole packets before it are reported"
            ));
        }
        if self.fragments > 0 {
            let fragments = self.fragments;
            all.push(format!(
                "{path}: {fragments} packets are fragments of IP, which are not put together"
            ));
        }
        for (link, packets) in &self.unknown_links {
            all.push(format!(
                "{path}: {packets} packets of link type {link}, which is not understood"
            ));
        }
        all
    }
}

/// Reads a capture; what was in it beside datagrams. Blocks.
///
/// # Errors
///
/// If it cannot be read or is none, or nothing in it is of a link type that is understood. What is
/// torn at its end counts as not there.
pub(crate) fn read(
    path: &Path,
    mut each: impl FnMut(&CapturedDatagram<'_>),
) -> Result<CaptureSummary, Error> {
    let io = |error| Error::File(path.into(), error);
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let mut magic = [0; 4];
    let is_short = file.read_exact(&mut magic).is_err();
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    let malformed = |what: String| Error::Malformed(path.into(), what);
    if is_short {
        return Err(malformed("not a capture".into()));
    }
    let (mut summary, mut understood) = (CaptureSummary::default(), 0_u64);
    let mut handle = |at: u64, link: DataLink, bytes: &[u8], truncated: bool| {
        understood += 1;
        match datagram(at, link, bytes, truncated, &mut each) {
            PacketKind::Datagram => {}
            PacketKind::Fragment => summary.fragments += 1,
            PacketKind::Other => summary.others += 1,
            PacketKind::Link => {
                understood -= 1;
                *summary.unknown_links.entry(link.into()).or_default() += 1;
            }
        }
    };
    let ended = if magic == [0x0a, 0x0d, 0x0d, 0x0a] {
        read_pcapng(file, &mut handle)
    } else {
        read_pcap(file, &mut handle)
    };
    match ended {
        Ok(()) => {}
        Err(error) if is_end(&error) => summary.is_truncated = true,
        Err(PcapError::IoError(error)) => return Err(io(error)),
        Err(error) => return Err(malformed(error.to_string())),
    }
    if let (0, Some((link, _))) = (understood, summary.unknown_links.first_key_value()) {
        return Err(malformed(format!("link type {link} is not understood")));
    }
    Ok(summary)
}

/// Whether the file was over before the packet was.
fn is_end(error: &PcapError) -> bool {
    match error {
        PcapError::IncompleteBuffer => true,
        PcapError::IoError(error) => error.kind() == std::io::ErrorKind::UnexpectedEof,
        _ => false,
    }
}

/// Without a whole header it is no capture, and not one that was broken off.
fn header_error(error: PcapError) -> PcapError {
    match is_end(&error) {
        true => PcapError::InvalidField("its header is not whole"),
        false => error,
    }
}

/// Takes a time, a link type, the bytes, and whether there were more.
type PacketHandler<'a> = dyn FnMut(u64, DataLink, &[u8], bool) + 'a;

fn read_pcap(file: BufReader<File>, handle: &mut PacketHandler<'_>) -> Result<(), PcapError> {
    let mut reader = PcapReader::new(file).map_err(header_error)?;
    let header = reader.header();
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1_000,
        TsResolution::NanoSecond => 1,
    };
    // Raw: the library holds that a packet was never longer than what is captured of it.
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

fn read_pcapng(file: BufReader<File>, handle: &mut PacketHandler<'_>) -> Result<(), PcapError> {
    let mut reader = PcapNgReader::new(file).map_err(header_error)?;
    let mut interfaces: Vec<(DataLink, u8)> = Vec::new();
    while let Some(block) = reader.next_block() {
        match block? {
            Block::InterfaceDescription(interface) => {
                let resolution = interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
                    _ => None,
                });
                let resolution = resolution.unwrap_or(MICROSECONDS);
                interfaces.push((interface.linktype, resolution));
            }
            Block::SectionHeader(_) => interfaces.clear(),
            Block::EnhancedPacket(packet) => {
                let interface = interfaces.get(packet.interface_id as usize).copied();
                let (link, resolution) = interface.unwrap_or((DataLink::ETHERNET, MICROSECONDS));
                // The library takes all units for nanoseconds.
                let units = packet.timestamp.as_nanos();
                let truncated = packet.original_len as usize > packet.data.len();
                handle(nanos(units, resolution), link, &packet.data, truncated);
            }
            _ => {}
        }
    }
    Ok(())
}

/// An interface's resolution where it tells none: 10⁻⁶ s. Source: pcapng, section 4.2, if_tsresol.
const MICROSECONDS: u8 = 6;

/// Units of time in nanoseconds: a power of ten, or of two if the highest bit is set, in a second.
fn nanos(units: u128, resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let base: u128 = if resolution & 0x80 == 0 { 10 } else { 2 };
    // Finer ones than there are in an integer: time stands still.
    let a_second = base.checked_pow(exponent).unwrap_or(u128::MAX);
    let (seconds, rest) = (units / a_second, units % a_second);
    let rest = rest.checked_mul(1_000_000_000).map_or(0, |r| r / a_second);
    u64::try_from(seconds * 1_000_000_000 + rest).unwrap_or(u64::MAX)
}

/// What a packet is.
enum PacketKind {
    Datagram,
    Fragment,
    Other,
    /// Of a link type that is not understood.
    Link,
}

/// Bytes of the header of Linux' cooked captures, version 2.
/// Source: tcpdump.org, LINKTYPE_LINUX_SLL2.
const SLL2_BYTES: usize = 20;

/// Takes a packet apart, of which the end may not have been captured.
fn datagram(
    at: u64,
    link: DataLink,
    bytes: &[u8],
    truncated: bool,
    each: &mut impl FnMut(&CapturedDatagram<'_>),
) -> PacketKind {
    let cooked = |protocol: usize, header: usize| {
        let number = bytes.get(protocol..protocol + 2)?;
        let number = u16::from_be_bytes([number[0], number[1]]);
        Some(LaxSlicedPacket::from_ether_type(
            EtherType(number),
            bytes.get(header..)?,
        ))
    };
    let sliced = match link {
        DataLink::ETHERNET => LaxSlicedPacket::from_ethernet(bytes).ok(),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => LaxSlicedPacket::from_ip(bytes).ok(),
        DataLink::LINUX_SLL => cooked(14, 16),
        DataLink::LINUX_SLL2 => cooked(0, SLL2_BYTES),
        // The family, then the packet.
        DataLink::NULL | DataLink::LOOP => {
            LaxSlicedPacket::from_ip(bytes.get(4..).unwrap_or_default()).ok()
        }
        _ => return PacketKind::Link,
    };
    let Some(sliced) = sliced else {
        return PacketKind::Other;
    };
    let ips: (IpAddr, IpAddr) = match &sliced.net {
        Some(LaxNetSlice::Ipv4(ip)) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        Some(LaxNetSlice::Ipv6(ip)) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        _ => return PacketKind::Other,
    };
    let Some(ip) = sliced.ip_payload() else {
        return PacketKind::Other;
    };
    if ip.fragmented {
        return PacketKind::Fragment;
    }
    let (whole, is_udp) = (ip.payload, ip.ip_number == IpNumber::UDP);
    let Some((header, payload)) = whole.split_first_chunk::<8>().filter(|_| is_udp) else {
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

/// A datagram on its way to the file.
#[derive(Debug)]
struct QueuedDatagram {
    at: Duration,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// The thread that writes; what went wrong, at its end.
type WriterThread = JoinHandle<Result<(), String>>;

/// Writes what comes to a capture, on a thread of its own. Clones write to the same one.
#[derive(Debug, Clone)]
pub(crate) struct CaptureWriter {
    sender: SyncSender<QueuedDatagram>,
    missed: Arc<AtomicU64>,
    writer: Arc<Mutex<Option<WriterThread>>>,
    path: PathBuf,
}

impl CaptureWriter {
    /// Begins a capture at `path`.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
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

    /// Writes a datagram; what is too much for the file is left out and counted.
    pub(crate) fn write(&self, bytes: &[u8], from: SocketAddr, to: SocketAddr) {
        let at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let written = QueuedDatagram {
            at,
            from,
            to,
            bytes: bytes.to_vec(),
        };
        if self.sender.try_send(written).is_err() {
            // Relaxed: a count that is told at the end.
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the file, once all clones are gone; what went wrong, if something did.
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
            .unwrap_or_else(|_| Err("its thread panicked".into()));
        let path = path.display();
        match (ended, missed.load(Ordering::Relaxed)) {
            (Err(error), _) => Some(format!("{path}: {error}; the capture ends there")),
            (Ok(()), 0) => None,
            (Ok(()), missed) => Some(format!(
                "{path}: {missed} packets came faster than it could be written"
            )),
        }
    }
}

/// The system's reason, if there is one: the library calls a full disk "Error reading bytes".
fn reason(error: &PcapError) -> String {
    match error {
        PcapError::IoError(error) => error.to_string(),
        error => error.to_string(),
    }
}

fn write(file: BufWriter<File>, receiver: &Receiver<QueuedDatagram>) -> Result<(), String> {
    let header = PcapHeader {
        datalink: DataLink::RAW,
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

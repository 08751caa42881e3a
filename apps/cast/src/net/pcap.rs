//! Captures: UDP datagrams with their times, read from pcap and pcapng, written as pcap.
//!
//! Files are read and written by a library, and packets taken apart by another.
//!
//! Left out: fragments of IP.

use crate::run::Error;
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};
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
pub(crate) struct Captured<'a> {
    /// In nanoseconds since 1970.
    pub(crate) at: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: &'a [u8],
    /// It was longer than what was captured.
    pub(crate) cut: bool,
}

/// Reads a capture; how many packets in it were no UDP datagrams. Blocks.
///
/// # Errors
///
/// If it cannot be read or is none. What is torn at its end counts as not there.
pub(crate) fn read(path: &Path, mut each: impl FnMut(&Captured<'_>)) -> Result<u64, Error> {
    let io = |error| Error::File(path.into(), error);
    let mut file = BufReader::new(File::open(path).map_err(io)?);
    let mut magic = [0; 4];
    let is_short = file.read_exact(&mut magic).is_err();
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    let malformed = |what: String| Error::Malformed(path.into(), what);
    if is_short {
        return Err(malformed("not a capture".into()));
    }
    let mut skipped = 0;
    let mut take = |at: Duration, link: DataLink, bytes: &[u8], cut: bool| {
        skipped += u64::from(!datagram(at, link, bytes, cut, &mut each));
    };
    if magic == [0x0a, 0x0d, 0x0d, 0x0a] {
        let mut reader = PcapNgReader::new(file).map_err(|error| malformed(error.to_string()))?;
        let mut links = Vec::new();
        while let Some(block) = reader.next_block() {
            match block {
                Ok(Block::InterfaceDescription(interface)) => links.push(interface.linktype),
                Ok(Block::SectionHeader(_)) => links.clear(),
                Ok(Block::EnhancedPacket(packet)) => {
                    let link = links.get(packet.interface_id as usize).copied();
                    let cut = packet.original_len as usize > packet.data.len();
                    take(
                        packet.timestamp,
                        link.unwrap_or(DataLink::ETHERNET),
                        &packet.data,
                        cut,
                    );
                }
                Ok(_) => {}
                Err(PcapError::IncompleteBuffer) => break,
                Err(error) => return Err(malformed(error.to_string())),
            }
        }
    } else {
        let mut reader = PcapReader::new(file).map_err(|error| malformed(error.to_string()))?;
        let link = reader.header().datalink;
        while let Some(packet) = reader.next_packet() {
            match packet {
                Ok(packet) => {
                    let cut = packet.orig_len as usize > packet.data.len();
                    take(packet.timestamp, link, &packet.data, cut);
                }
                Err(PcapError::IncompleteBuffer) => break,
                Err(error) => return Err(malformed(error.to_string())),
            }
        }
    }
    Ok(skipped)
}

/// Takes a packet apart; false if it is no UDP datagram.
fn datagram(
    at: Duration,
    link: DataLink,
    bytes: &[u8],
    cut: bool,
    each: &mut impl FnMut(&Captured<'_>),
) -> bool {
    let sliced = match link {
        DataLink::ETHERNET => SlicedPacket::from_ethernet(bytes),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => SlicedPacket::from_ip(bytes),
        DataLink::LINUX_SLL => SlicedPacket::from_linux_sll(bytes),
        // The family, then the packet.
        DataLink::NULL | DataLink::LOOP => {
            SlicedPacket::from_ip(bytes.get(4..).unwrap_or_default())
        }
        _ => return false,
    };
    let Ok(sliced) = sliced else { return false };
    let ips: (IpAddr, IpAddr) = match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        Some(NetSlice::Ipv6(ip)) => (
            ip.header().source_addr().into(),
            ip.header().destination_addr().into(),
        ),
        _ => return false,
    };
    let Some(TransportSlice::Udp(udp)) = &sliced.transport else {
        return false;
    };
    each(&Captured {
        at: u64::try_from(at.as_nanos()).unwrap_or(u64::MAX),
        from: SocketAddr::new(ips.0, udp.source_port()),
        to: SocketAddr::new(ips.1, udp.destination_port()),
        bytes: udp.payload(),
        cut,
    });
    true
}

/// A datagram on its way to the file.
#[derive(Debug)]
struct Written {
    at: Duration,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// The thread that writes; what went wrong, at its end.
type Writing = JoinHandle<Result<(), String>>;

/// Writes what comes to a capture, on a thread of its own. Clones write to the same one.
#[derive(Debug, Clone)]
pub(crate) struct Tap {
    sender: SyncSender<Written>,
    missed: Arc<AtomicU64>,
    writer: Arc<Mutex<Option<Writing>>>,
    path: PathBuf,
}

impl Tap {
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
        Ok(Tap {
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
        let written = Written {
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
        let Tap {
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

fn write(file: BufWriter<File>, receiver: &Receiver<Written>) -> Result<(), String> {
    let header = PcapHeader {
        datalink: DataLink::RAW,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(file, header).map_err(|error| error.to_string())?;
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
            .map_err(|error| error.to_string())?;
    }
    writer
        .into_writer()
        .flush()
        .map_err(|error| error.to_string())
}

//! Demultiplexes the packets of one socket by source, and counts everything that is not a valid
//! packet of a known source.

mod rtcp_of_sources;

pub(super) use rtcp_of_sources::PendingRtcp;

use super::live::LiveReport;
use super::recorder::{Folder, Recorder};
use super::rtp_source::{Packet, RtpSource, Times};
use crate::measure::reception::SequenceUpdate;
use crate::measure::stats::StreamStats;
use crate::media::format::Formats;
use crate::net::arrival;
use crate::net::rtcp;
use crate::net::rtp::{self, Header};
use crate::net::session::{Rtcp, RtpSession, Senders};
use crate::net::xr::{self, VoipMetrics};
use crate::results::{SourceReport, Unrecognized};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The maximum number of sources per socket. Packets of further sources count as unknown.
const SOURCES_MAX: usize = 32_768;
/// The limits during probation: the bytes of all packets that we hold, and the packets per source.
const PROBATION_BYTES_MAX: usize = 32 << 20;
const PROBATION_PACKETS_MAX: usize = 4;
/// The value that stands for the address of a packet if we did not query the address.
const UNKNOWN_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Maps keys that a sender chooses to indices. Its hash function is fast, and starts with a random
/// value, so that a sender cannot choose many keys with the same hash.
pub(super) type IndexMap<K> = HashMap<K, usize, foldhash::fast::RandomState>;

/// The configuration that all sockets of a run share.
#[derive(Debug)]
pub(super) struct Config {
    /// A packet that arrives more than this many nanoseconds after it was due counts as late.
    pub(super) late_after: u64,
    pub(super) folder: Option<Arc<Folder>>,
    /// Whether datagrams are bare samples, little-endian, instead of RTP.
    pub(super) raw: bool,
    /// The receiver's own SSRC and CNAME in reports.
    pub(super) ssrc: u32,
    pub(super) cname: String,
    /// Whether our reports have the quality of voice streams (RFC 3611).
    pub(super) extended: bool,
    /// Sender info and BYE that arrived on another port than their source, or before it, by SSRC.
    pub(super) pending_rtcp: Mutex<HashMap<u32, PendingRtcp>>,
}

/// A packet that is held until its source has passed probation.
#[derive(Debug)]
struct ProbationPacket {
    header: Header,
    payload: Vec<u8>,
    missing: usize,
    from: SocketAddr,
    times: Times,
}

impl ProbationPacket {
    fn packet(&self) -> Packet<'_> {
        Packet {
            header: self.header,
            payload: &self.payload,
            missing: self.missing,
            from: self.from,
            times: self.times,
        }
    }
}

/// The sources of one socket.
///
/// With thousands of sockets, none is in the cache when its packet arrives. The fields that every
/// packet uses therefore come first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Demux {
    config: Arc<Config>,
    sources: Vec<RtpSource>,
    /// The index of the source of the last packet. The next packet probably belongs to this source
    /// or to the one after it, so we check these two first.
    last: usize,
    packets: u64,
    /// Packets that arrived while their source was on probation.
    probation_packets: u64,
    /// The number of datagrams that the socket has dropped, modulo 2³², or `None` if the system does
    /// not count them.
    dropped: Option<u32>,
    /// Whether we accept packets of all senders.
    accepts_all: bool,
    /// Whether there is one source only, none is on probation, and we accept packets of all
    /// senders.
    is_alone: bool,
    /// Whether we did not query the address of the current packet, and assume that it is the
    /// address of the only source.
    is_guessed: bool,
    /// Whether we send reports, and when the next one is due.
    sends_reports: bool,
    next_report: u64,
    session: RtpSession,
    number: usize,
    by_ssrc: IndexMap<u32>,
    /// The indices of sources whose SSRC an earlier source of this socket has as well, by SSRC and
    /// address.
    collisions: HashMap<(u32, SocketAddr), usize>,
    probation: HashMap<(u32, SocketAddr), Vec<ProbationPacket>>,
    /// The number of payload bytes in `probation`.
    probation_bytes: usize,
    unrecognized: Unrecognized,
    /// The next sequence number and timestamp of bare samples.
    raw: (u16, u32),
    shared: bool,
}

impl Demux {
    /// Creates a demultiplexer for socket `number`. `shared` states whether several streams share
    /// the socket.
    pub(super) fn new(
        config: Arc<Config>,
        session: RtpSession,
        number: usize,
        shared: bool,
    ) -> Self {
        Demux {
            config,
            accepts_all: session.sources == Senders::Any,
            is_alone: false,
            is_guessed: false,
            sends_reports: session.rtcp != Rtcp::Off,
            session,
            number,
            by_ssrc: HashMap::default(),
            sources: Vec::new(),
            last: 0,
            collisions: HashMap::new(),
            probation: HashMap::new(),
            probation_bytes: 0,
            unrecognized: Unrecognized::default(),
            packets: 0,
            probation_packets: 0,
            raw: (0, 0),
            next_report: 0,
            dropped: Some(0),
            shared,
        }
    }

    /// Returns the number of packets that belong to valid sources.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the number of packets that arrived while their source was on probation.
    pub(super) fn probation_packets(&self) -> u64 {
        self.probation_packets
    }

    /// Processes a datagram, which may be RTP, RTCP or neither.
    #[inline]
    pub(super) fn receive(&mut self, datagram: &[u8], from: SocketAddr, times: Times) {
        if !self.accepts_all && !self.session.sources.accepts(from.ip()) {
            self.unrecognized.unknown += 1;
            return;
        }
        if self.config.raw {
            return self.receive_raw(datagram, from, times);
        }
        if rtp::is_rtcp(datagram) {
            return self.receive_rtcp(datagram, times.arrived);
        }
        let Ok((header, payload)) = rtp::parse(datagram) else {
            self.unrecognized.malformed += 1;
            return;
        };
        let packet = Packet {
            header,
            payload,
            missing: 0,
            from,
            times,
        };
        self.receive_packet(&packet);
    }

    /// Processes a datagram without its last `missing` bytes. We count it like a complete datagram,
    /// but do not decode it.
    #[cold]
    pub(super) fn receive_truncated(
        &mut self,
        datagram: &[u8],
        missing: usize,
        from: SocketAddr,
        times: Times,
    ) {
        self.unrecognized.truncated += 1;
        if rtp::is_rtcp(datagram) {
            self.unrecognized.rtcp += 1;
            return;
        }
        let Ok((header, payload)) = rtp::parse_truncated(datagram) else {
            self.unrecognized.malformed += 1;
            return;
        };
        self.receive_packet(&Packet {
            header,
            payload,
            missing,
            from,
            times,
        });
    }

    /// Returns the address from which the next datagram probably arrives, if there is one source
    /// only and its last packets were in sequence.
    #[inline]
    pub(super) fn expected_from(&self) -> Option<SocketAddr> {
        let source = self.sources.first();
        source
            .filter(|source| self.is_alone && source.is_in_sequence())
            .map(RtpSource::from)
    }

    /// States whether the addresses of the next packets are those of
    /// [`expected_from`](Self::expected_from).
    #[inline]
    pub(super) fn set_guessed(&mut self, is_guessed: bool) {
        self.is_guessed = is_guessed;
    }

    /// Records the number of datagrams that the socket has dropped so far, or `None` if the system
    /// does not count them.
    pub(super) fn set_dropped(&mut self, dropped: Option<u32>) {
        self.dropped = dropped;
    }

    /// Counts a datagram that the socket truncated.
    pub(super) fn count_truncated(&mut self) {
        self.unrecognized.truncated += 1;
    }

    #[inline]
    fn receive_packet(&mut self, packet: &Packet<'_>) {
        let ssrc = packet.header.ssrc;
        let is_it = |at: usize| {
            self.sources
                .get(at)
                .is_some_and(|source| source.ssrc() == ssrc && source.from() == packet.from)
        };
        let at = if is_it(self.last + 1) {
            self.last + 1
        } else if is_it(self.last) {
            self.last
        } else {
            match self.by_ssrc.get(&ssrc) {
                Some(&at) if self.sources[at].from() == packet.from => at,
                Some(_) => return self.receive_from_elsewhere(packet),
                None => return self.receive_on_probation(packet, None),
            }
        };
        self.receive_at(at, packet);
    }

    #[inline]
    fn receive_at(&mut self, at: usize, packet: &Packet<'_>) {
        self.last = at;
        self.packets += 1;
        let late_after = self.config.late_after;
        self.sources[at].receive(packet, &self.session.formats, late_after);
    }

    /// Processes a packet with the SSRC of a source from another address than that source's. Either
    /// the source has moved, for example because a NAT gave it another port, or two senders have
    /// chosen the same SSRC (RFC 3550 section 8.2).
    #[cold]
    fn receive_from_elsewhere(&mut self, packet: &Packet<'_>) {
        let ssrc = packet.header.ssrc;
        match self.collisions.get(&(ssrc, packet.from)) {
            Some(&at) => self.receive_at(at, packet),
            None => self.receive_on_probation(packet, self.by_ssrc.get(&ssrc).copied()),
        }
    }

    /// Processes a packet of a source on probation. The source is valid once two of its packets
    /// follow one another, in either order of arrival. `known` is a source with the same SSRC at
    /// another address.
    #[cold]
    fn receive_on_probation(&mut self, packet: &Packet<'_>, known: Option<usize>) {
        self.hold(packet, known);
        self.is_alone = self.accepts_all && self.sources.len() == 1 && self.probation.is_empty();
    }

    fn hold(&mut self, packet: &Packet<'_>, known: Option<usize>) {
        if self.sources.len() >= SOURCES_MAX {
            self.unrecognized.unknown += 1;
            return;
        }
        self.probation_packets += 1;
        // The packet is not one of the expected source, so we do not know its address. The next
        // packet of the same SSRC has one.
        let from = match self.is_guessed {
            true => UNKNOWN_ADDRESS,
            false => packet.from,
        };
        let key = (packet.header.ssrc, from);
        if let Some(mut early) = self.probation.remove(&(key.0, UNKNOWN_ADDRESS)) {
            early.iter_mut().for_each(|early| early.from = from);
            self.probation.entry(key).or_default().append(&mut early);
        }
        if self.probation_bytes > PROBATION_BYTES_MAX || self.probation.len() >= SOURCES_MAX {
            let all = self.probation.drain().map(|(_, early)| early.len() as u64);
            self.unrecognized.unvalidated += all.sum::<u64>();
            self.probation_bytes = 0;
        }
        self.probation_bytes += packet.payload.len();
        let early = self.probation.entry(key).or_default();
        let number = packet.header.sequence;
        let follows = |other: &ProbationPacket| {
            matches!(number.wrapping_sub(other.header.sequence), 1 | u16::MAX)
        };
        let is_valid = early.iter().any(follows);
        if early.len() == PROBATION_PACKETS_MAX {
            self.probation_bytes -= early.remove(0).payload.len();
            self.unrecognized.unvalidated += 1;
        }
        early.push(ProbationPacket {
            header: packet.header,
            payload: packet.payload.to_vec(),
            missing: packet.missing,
            from,
            times: packet.times,
        });
        if is_valid
            && from != UNKNOWN_ADDRESS
            && let Some(early) = self.probation.remove(&key)
        {
            let bytes: usize = early.iter().map(|early| early.payload.len()).sum();
            self.probation_bytes -= bytes;
            match known {
                Some(at) if self.has_moved(at, &early) => self.move_source(at, &early),
                Some(at) => {
                    self.sources[at].mark_collision();
                    self.add_source(&early);
                    let last = self.sources.len() - 1;
                    self.sources[last].mark_collision();
                    self.collisions.insert(key, last);
                    // `add_source` has put the new source into `by_ssrc`. We put the first source
                    // back, because packets find the new source by `collisions`.
                    self.by_ssrc.insert(key.0, at);
                }
                None => self.add_source(&early),
            }
        }
    }

    /// Returns whether packets from another address continue a source that has fallen silent.
    fn has_moved(&self, at: usize, early: &[ProbationPacket]) -> bool {
        let source = &self.sources[at];
        let Some(first) = early.iter().min_by_key(|early| early.times.arrived) else {
            return false;
        };
        source.last_arrival() < first.times.arrived && source.is_continued_by(first.header)
    }

    fn move_source(&mut self, at: usize, early: &[ProbationPacket]) {
        let source = &mut self.sources[at];
        for packet in early.iter().map(ProbationPacket::packet) {
            source.move_to(packet.from);
            source.receive(&packet, &self.session.formats, self.config.late_after);
        }
        self.packets += early.len() as u64;
    }

    /// Adds a source that has passed probation, with the packets that we held.
    fn add_source(&mut self, early: &[ProbationPacket]) {
        let packets = early.iter().map(ProbationPacket::packet);
        let late_after = self.config.late_after;
        for (n, packet) in packets.enumerate() {
            if n > 0 {
                if let Some(source) = self.sources.last_mut() {
                    source.receive(&packet, &self.session.formats, late_after);
                }
                continue;
            }
            let recorder = self.recorder(packet.header.ssrc);
            let mut source = RtpSource::new(&packet, recorder);
            source.accept(
                &packet,
                SequenceUpdate::Newest,
                0,
                &self.session.formats,
                late_after,
            );
            let index = self.sources.len();
            self.by_ssrc.insert(source.ssrc(), index);
            self.sources.push(source);
        }
        self.last = self.sources.len() - 1;
        self.packets += early.len() as u64;
    }

    /// Returns the recorder of a new source, or `None` if the run records nothing. If several
    /// streams share the socket, each source gets the next stream number as its name. Otherwise the
    /// name is the number of the stream. From the second source of the stream on, the name also
    /// contains the SSRC, and the index of the source if another source has the same SSRC.
    fn recorder(&self, ssrc: u32) -> Option<Recorder> {
        let folder = self.config.folder.clone()?;
        let name = match (self.shared, self.sources.len()) {
            (true, index) => format!("stream-{}", self.number + index),
            (false, 0) => format!("stream-{}", self.number),
            (false, index) if self.by_ssrc.contains_key(&ssrc) => {
                format!("stream-{}-{ssrc:08x}-{index}", self.number)
            }
            (false, _) => format!("stream-{}-{ssrc:08x}", self.number),
        };
        Some(Recorder::new(folder, name))
    }

    fn receive_raw(&mut self, datagram: &[u8], from: SocketAddr, times: Times) {
        let (payload_type, format) = self.session.preferred();
        let (sequence, timestamp) = self.raw;
        let frames = datagram.len() / 2 / usize::from(format.channels);
        self.raw = (
            sequence.wrapping_add(1),
            timestamp.wrapping_add(frames as u32),
        );
        // The samples are little-endian, but L16 is big-endian.
        let swapped: Vec<u8> = datagram
            .chunks_exact(2)
            .flat_map(|pair| [pair[1], pair[0]])
            .collect();
        let header = Header {
            payload_type,
            marker: false,
            sequence,
            timestamp,
            ssrc: 0,
        };
        self.receive_packet(&Packet {
            header,
            payload: &swapped,
            missing: 0,
            from,
            times,
        });
    }

    /// Returns the reports that are due, and their addresses. The result is empty until the next
    /// report is due.
    #[inline]
    pub(super) fn reports(&mut self, now: u64) -> Vec<(SocketAddr, Vec<u8>)> {
        match self.sends_reports && now >= self.next_report && !self.sources.is_empty() {
            true => self.due_reports(now),
            false => Vec::new(),
        }
    }

    #[cold]
    fn due_reports(&mut self, now: u64) -> Vec<(SocketAddr, Vec<u8>)> {
        // The first report is early, so that short streams get one. The others are spread as
        // section 6.3.1 requires.
        let interval = rtcp::INTERVAL.as_nanos() as u64;
        let spread = interval / 2 + (u64::from(self.config.ssrc) ^ now) % interval;
        self.next_report = now + spread;
        self.apply_pending_rtcp();
        let own_port = self.session.rtcp == Rtcp::Own;
        let mut by_address: HashMap<SocketAddr, Vec<_>> = HashMap::new();
        for source in &mut self.sources {
            let mut to = source.from();
            if own_port {
                to.set_port(to.port().saturating_add(1));
            }
            let voip = source.voip_metrics(self.config.late_after);
            let blocks = by_address.entry(to).or_default();
            blocks.push((source.block(now), voip));
        }
        let Config {
            ssrc,
            cname,
            extended,
            ..
        } = &*self.config;
        // Extended reports are longer, and a datagram should not exceed the size of a frame.
        let most = if *extended { 15 } else { 31 };
        let reports = by_address.into_iter().flat_map(|(to, blocks)| {
            let report = |chunk: &[(rtcp::ReportBlock, Option<VoipMetrics>)]| {
                let (blocks, voip): (Vec<_>, Vec<_>) = chunk.iter().copied().unzip();
                let mut report = rtcp::receiver_report(*ssrc, &blocks, cname);
                if *extended {
                    let voip: Vec<VoipMetrics> = voip.into_iter().flatten().collect();
                    report.extend(xr::of_receiver(*ssrc, rtcp::ntp_now(), &voip));
                }
                (to, report)
            };
            blocks.chunks(most).map(report).collect::<Vec<_>>()
        });
        reports.collect()
    }

    /// Returns the current reports of all sources.
    pub(super) fn live_reports(&self) -> Vec<LiveReport> {
        let now = arrival::now();
        let (port, dropped) = (self.session.address.port(), self.dropped.map(u64::from));
        let report = |source: &RtpSource| LiveReport {
            report: source.report(port, dropped, self.config.late_after),
            silent: Duration::from_nanos(now.saturating_sub(source.last_arrival())),
        };
        self.sources.iter().map(report).collect()
    }

    /// Returns a row per source, and the counts of everything else.
    pub(super) fn into_reports(mut self) -> (Vec<(SourceReport, StreamStats)>, Unrecognized) {
        self.unrecognized.unvalidated += self
            .probation
            .values()
            .map(|early| early.len() as u64)
            .sum::<u64>();
        let port = self.session.address.port();
        self.apply_pending_rtcp();
        let dropped = self.dropped.map(u64::from);
        let rows = self
            .sources
            .into_iter()
            .map(|source| source.into_report(port, dropped, self.config.late_after));
        (rows.collect(), self.unrecognized)
    }

    /// Returns the formats of the payload types.
    pub(super) fn formats(&self) -> &Formats {
        &self.session.formats
    }
}

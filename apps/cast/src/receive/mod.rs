//! Receives many streams from UDP, TCP or a capture, and measures which packets arrived and when.

mod breaks;
mod counters;
mod demux;
mod live;
mod recorder;
mod rtp_source;
mod tcp_reader;
mod udp_reader;

pub use crate::results::{SourceReport, Unrecognized};
pub use live::{Live, LiveReport};

use crate::error::Error;
use crate::measure::context::with_histograms;
use crate::measure::contexts::{Contexts, Usage};
use crate::measure::stats::Histograms;
use crate::media::format::{Encoding, Format, Formats};
use crate::net::identity;
use crate::net::options::Options;
use crate::net::overflow::Overflow;
use crate::net::ports::{BufferSize, Ports};
use crate::net::session::{Rtcp, RtpSession};
use crate::net::{overflow, pcap};
use crate::results::Measured;
use counters::ReceiveCounters;
use creel_media::control::{Changes, Control, Ended, Running, Trigger};
use demux::{Config, Demux, IndexMap};
use recorder::Files;
use rtp_source::Times;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tcp_reader::TcpReader;
use udp_reader::UdpReader;

/// How often the program checks whether the run is over.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The time after the first packet that we leave out of the figures, because caches and timers are
/// still warming up.
const RAMP_UP: Duration = Duration::from_secs(1);

/// The configuration of a run that receives streams.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The sessions to receive. Each has a port of its own.
    pub sessions: Vec<RtpSession>,
    /// Whether the packet times of the sessions are those of the streams, and not a guess. They
    /// determine the size of the sockets' buffers.
    pub packet_time_is_known: bool,
    /// The total number of expected streams, or `None` to accept any number.
    pub streams: Option<usize>,
    /// Whether datagrams are bare samples, little-endian, instead of RTP. We cannot detect losses
    /// then.
    pub raw: bool,
    /// The number of contexts, which are pools of one worker.
    pub contexts: usize,
    /// How long a context waits before it handles packets and timers again.
    pub wait: Duration,
    /// The access of other processes to the contexts, for example to observe them with `creel top`.
    pub observe: creel::Observe,
    /// A packet counts as late if it arrives more than this time after it was due. It corresponds
    /// to the buffer of a player. The time of arrival is that of the kernel, so `wait` has no
    /// influence.
    pub late_after: Duration,
    /// The run ends after this number of packets per stream. We count the packets of all streams
    /// together.
    pub buffers: Option<u64>,
    /// The run ends when no packet has arrived for this time, counted from the first packet on.
    pub idle: Duration,
    /// The run ends after this time in any case.
    pub time_limit: Option<Duration>,
    /// The folder to which we write each stream as `stream-N.wav`.
    pub wav: Option<PathBuf>,
    /// The capture to which we write everything that arrives.
    pub capture: Option<PathBuf>,
    /// Whether reports have the quality of voice streams as well (RFC 3611).
    pub extended_reports: bool,
    /// Where to publish the figures of the streams during the run.
    pub live: Option<Live>,
    /// The options of the sockets.
    pub options: Options,
}

impl Plan {
    /// Creates a plan that receives `sessions`, reacts every 2 ms, and ends two seconds after the
    /// last packet.
    pub fn new(sessions: Vec<RtpSession>) -> Self {
        Plan {
            sessions,
            packet_time_is_known: false,
            streams: None,
            raw: false,
            contexts: 1,
            wait: Duration::from_millis(2),
            observe: creel::Observe::default(),
            late_after: Duration::from_millis(10),
            buffers: None,
            idle: Duration::from_secs(2),
            time_limit: None,
            wav: None,
            capture: None,
            extended_reports: false,
            live: None,
            options: Options::default(),
        }
    }

    /// Creates sessions for `ports` ports from `on` on. The ports are two apart if reports have a
    /// port of their own.
    ///
    /// # Errors
    ///
    /// Returns an error if a port would exceed 65,535.
    pub fn sessions(
        on: SocketAddr,
        ports: usize,
        formats: &Formats,
        rtcp: Rtcp,
    ) -> Result<Vec<RtpSession>, Error> {
        let step = 1 + usize::from(rtcp == Rtcp::Own);
        let session = |n: usize| {
            let address = crate::net::ports::port_of_stream(on, n, n * step, false)?;
            let mut session = RtpSession::new(address, 11, Format::CD_MONO);
            session.formats = formats.clone();
            session.rtcp = rtcp;
            Ok(session)
        };
        (0..ports).map(session).collect()
    }

    fn config(&self, files: Option<&Files>) -> Config {
        let identity = identity::random();
        Config {
            late_after: self.late_after.as_nanos() as u64,
            folder: files.map(Files::folder),
            raw: self.raw,
            ssrc: identity.ssrc,
            cname: identity.cname,
            extended: self.extended_reports,
            pending_rtcp: Default::default(),
        }
    }

    /// Returns whether several streams may share one port.
    fn is_shared(&self) -> bool {
        self.sessions.len() == 1 && self.streams != Some(1)
    }
}

/// Receives as planned and measures. This function blocks until the run is over. It calls
/// `interrupted` several times per second, and ends the run early if it returns true.
///
/// # Errors
///
/// Returns the errors of [`Receiver::open`].
pub fn run(plan: &Plan, interrupted: &dyn Fn() -> bool) -> Result<Measured, Error> {
    Ok(Receiver::open(plan)?.run(interrupted))
}

/// The task that reads one socket.
type Task = Running<UdpReader>;
type TcpTask = Running<TcpReader>;

/// Streams whose ports are open. No packet that is sent from now on is lost because its port is
/// closed.
#[derive(Debug)]
pub struct Receiver<'a> {
    plan: &'a Plan,
    contexts: Contexts,
    readers: Vec<(usize, UdpReader)>,
    tcp: Vec<(usize, TcpReader)>,
    files: Option<Files>,
    capture: Option<pcap::CaptureWriter>,
    warnings: Vec<String>,
    notes: Vec<String>,
    counters: ReceiveCounters,
}

impl<'a> Receiver<'a> {
    /// Opens the ports and the files.
    ///
    /// # Errors
    ///
    /// Returns an error if a context or a file cannot be created, or if no port can be opened. If
    /// only some ports fail to open, the result has a warning.
    pub fn open(plan: &'a Plan) -> Result<Self, Error> {
        let files = plan
            .wav
            .clone()
            .map(|path| Files::new(path, false))
            .transpose()?;
        let capture = plan
            .capture
            .as_deref()
            .map(pcap::CaptureWriter::create)
            .transpose()?;
        let config = Arc::new(plan.config(files.as_ref()));
        let mut receiver = Receiver {
            plan,
            contexts: Contexts::new(plan.contexts, plan.wait, plan.observe)?,
            readers: Vec::new(),
            tcp: Vec::new(),
            files,
            capture,
            warnings: Vec::new(),
            notes: Vec::new(),
            counters: ReceiveCounters::default(),
        };
        let shared = plan.is_shared();
        let streams_a_port = plan
            .streams
            .unwrap_or(1)
            .div_ceil(plan.sessions.len().max(1));
        let packet_time = plan.packet_time_is_known.then(|| {
            plan.sessions
                .iter()
                .map(|session| session.packet_time)
                .min()
        });
        let size = BufferSize::of(streams_a_port, packet_time.flatten(), plan.wait);
        let mut ports = Ports::new(size);
        for (number, session) in plan.sessions.iter().enumerate() {
            let demux = Demux::new(Arc::clone(&config), session.clone(), number, shared);
            if session.tcp {
                if let Some(listener) = ports.listen(session.address) {
                    let mut reader = TcpReader::new(listener, demux, receiver.counters.clone());
                    reader.publish_to(plan.live.as_ref(), number);
                    receiver.tcp.push((number, reader));
                }
                continue;
            }
            if let Some(socket) = ports.open(&plan.options, session) {
                let mut reader = UdpReader::new(socket, demux, shared, receiver.counters.clone());
                reader.capture_to(receiver.capture.as_ref(), session.address);
                reader.publish_to(plan.live.as_ref(), number);
                receiver.readers.push((number, reader));
            }
            // Reports arrive on a port of their own. We match them with the streams by their SSRCs.
            if session.rtcp == Rtcp::Own
                && let Some(address) = session.rtcp_address()
            {
                let own = RtpSession {
                    address,
                    rtcp: Rtcp::Off,
                    ..session.clone()
                };
                let demux = Demux::new(Arc::clone(&config), own.clone(), number, shared);
                if let Some(socket) = ports.open(&plan.options, &own) {
                    if let Some((of, packets)) = receiver.readers.last_mut()
                        && *of == number
                    {
                        packets.send_reports_from(&socket);
                    }
                    let reader = UdpReader::new(socket, demux, false, ReceiveCounters::default());
                    receiver.readers.push((number, reader));
                }
            }
        }
        ports.close(
            &mut receiver.warnings,
            &mut receiver.notes,
            !receiver.readers.is_empty() || !receiver.tcp.is_empty(),
        )?;
        Ok(receiver)
    }

    /// Receives until the run is over. This function blocks. It calls `interrupted` several times
    /// per second, and ends the run early if it returns true.
    pub fn run(self, interrupted: &dyn Fn() -> bool) -> Measured {
        let (plan, changes) = (self.plan, Changes::default());
        let (done, results) = mpsc::channel();
        let mut controls = Vec::new();
        let mut overflow = Overflow::default();
        for (number, reader) in self.readers {
            overflow.watch(reader.socket());
            let control = Arc::new(Control::started(changes.clone()));
            let mut running: Task = control.run(reader);
            controls.push(control);
            let done = done.clone();
            let task = async move {
                let ended = (&mut running).await;
                // This cannot fail, because we wait for the results of all tasks.
                let _ = done.send((number, ended, running.into_work().into_demux()));
            };
            self.contexts.of(number).spawn(task).detach();
        }
        for (number, reader) in self.tcp {
            let control = Arc::new(Control::started(changes.clone()));
            let mut running: TcpTask = control.run(reader);
            controls.push(control);
            let done = done.clone();
            let task = async move {
                let ended = (&mut running).await;
                if let Some(demux) = running.into_work().into_demux() {
                    let _ = done.send((number, ended, demux));
                }
            };
            self.contexts.of(number).spawn(task).detach();
        }
        drop(done);
        let mut measured = wait_until_done(plan, &self.contexts, &self.counters, interrupted);
        measured.overflowed = overflow.dropped();
        for control in &controls {
            // Stopping a stream that has failed already has no effect, so we ignore the result.
            let _ = control.trigger(Trigger::Stop);
        }
        measured.warnings = self.warnings;
        measured.notes = self.notes;
        measured.notes.extend(overflow::note(measured.overflowed));
        let mut demuxes: Vec<_> = results.iter().collect();
        let failed = demuxes
            .iter()
            .filter(|(_, ended, _)| *ended == Ended::Failed);
        let failed = failed.count();
        if failed > 0 {
            measured.warnings.push(format!(
                "{failed} sockets failed. The figures cover the packets that arrived before the \
                 failure"
            ));
        }
        demuxes.sort_by_key(|(number, ..)| *number);
        for (_, _, demux) in demuxes {
            add_reports(demux, &mut measured);
        }
        measured.histograms = self.contexts.take_histograms();
        finish(plan, &mut measured, self.files, self.capture);
        measured
    }
}

/// The time at which a capture begins. It is not zero, because zero means that there is no time.
const CAPTURE_BEGIN: u64 = 1_000_000_000;

/// Analyses a capture as if its packets arrived at the times that it states. It reads all streams,
/// whatever their ports are. This function blocks.
///
/// The plan's sessions define the payload types of their ports. The first session applies to all
/// other ports.
///
/// # Errors
///
/// Returns an error if the file cannot be read or is not a capture, or if a recording cannot be
/// created.
pub fn analyse(plan: &Plan, capture: &Path) -> Result<Measured, Error> {
    let files = plan
        .wav
        .clone()
        .map(|path| Files::new(path, true))
        .transpose()?;
    let config = Arc::new(plan.config(files.as_ref()));
    let mut demuxes: Vec<Demux> = Vec::new();
    let mut by_port = IndexMap::<(u128, u16)>::default();
    let mut measured = Measured {
        overflowed: Some(0),
        ..Measured::default()
    };
    // We discard measurements that earlier runs on this thread may have left.
    with_histograms(|histograms| *histograms = Histograms::new());
    let summary = pcap::read(capture, |packet| {
        let at = Times::at(CAPTURE_BEGIN.saturating_add(packet.at));
        let port = (address_bits(packet.to.ip()), packet.to.port());
        let index = *by_port.entry(port).or_insert_with(|| {
            let of_port = plan
                .sessions
                .iter()
                .find(|session| session.address.port() == packet.to.port());
            let formats = of_port
                .or(plan.sessions.first())
                .map(|session| session.formats.clone());
            let mut session = RtpSession::new(packet.to, 11, Format::CD_MONO);
            session.formats = formats.unwrap_or_default();
            demuxes.push(Demux::new(
                Arc::clone(&config),
                session,
                demuxes.len(),
                false,
            ));
            demuxes.len() - 1
        });
        match packet.missing {
            0 => demuxes[index].receive(packet.bytes, packet.from, at),
            missing => demuxes[index].receive_truncated(packet.bytes, missing, packet.from, at),
        }
    })?;
    measured.warnings.extend(summary.warnings(capture));
    if summary.others > 0 {
        let others = summary.others;
        measured.notes.push(format!(
            "ignored {others} packets of the capture, which are not complete UDP datagrams"
        ));
    }
    drop(config);
    for demux in demuxes {
        add_reports(demux, &mut measured);
    }
    measured.contexts = 1;
    measured.buffers = measured.sources.iter().map(|source| source.packets).sum();
    measured.histograms = with_histograms(std::mem::take);
    finish(plan, &mut measured, files, None);
    Ok(measured)
}

/// Returns an address as a number. An IPv4 address gets the number of the IPv6 address to which it
/// is mapped.
fn address_bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

/// Adds the reports of one port to the results.
fn add_reports(demux: Demux, measured: &mut Measured) {
    let unknown = |source: &SourceReport, formats: &Formats| {
        let is_unknown = |number: &&u8| formats.of(**number).is_none();
        source.payload_types.iter().find(is_unknown).copied()
    };
    let formats = demux.formats().clone();
    let (rows, unrecognized) = demux.into_reports();
    for (mut source, stats) in rows {
        source.stream = measured.sources.len();
        if let Some(number) = unknown(&source, &formats) {
            measured.unknown_types.insert(number);
        }
        measured.lost += source.lost;
        measured.reordered += source.reordered;
        measured.duplicates += source.duplicates;
        measured.late += source.late;
        measured.streams.push(stats);
        measured.sources.push(source);
    }
    measured.unrecognized.add(&unrecognized);
}

/// Completes the files, and adds warnings and notes to the results.
fn finish(
    plan: &Plan,
    measured: &mut Measured,
    files: Option<Files>,
    capture: Option<pcap::CaptureWriter>,
) {
    measured
        .warnings
        .extend(overflow::warning(measured.overflowed));
    measured
        .warnings
        .extend(files.into_iter().flat_map(Files::finish));
    measured
        .warnings
        .extend(capture.and_then(pcap::CaptureWriter::finish));
    for number in &measured.unknown_types {
        let text = format!(
            "the clock rate of payload type {number} is unknown, so its packets have neither jitter nor sound: define the type with --codec {number}=NAME/CLOCK or --from-sdp"
        );
        measured.warnings.push(text);
    }
    let unrecorded: u64 = measured
        .sources
        .iter()
        .map(|source| source.unrecorded)
        .sum();
    if unrecorded > 0 {
        measured.warnings.push(format!("{unrecorded} packets could not be written to a recording, because there is no codec for them, or because their sample rate differs from that of the first packets{}", no_opus(&measured.sources)));
    }
    let Unrecognized {
        malformed,
        unvalidated,
        unknown,
        truncated,
        rtcp: _,
    } = measured.unrecognized;
    let counts = [
        (malformed, "datagrams were neither RTP nor RTCP"),
        (
            unvalidated,
            "packets belong to sources that never sent two packets with consecutive sequence \
             numbers",
        ),
        (
            unknown,
            "packets belong to sources that were not expected, or that exceeded the limit of \
             sources",
        ),
        (
            truncated,
            "packets were truncated, so we counted but did not decode them",
        ),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        measured.notes.push(format!("{count} {what}"));
    }
    let strays: u64 = measured.sources.iter().map(|source| source.strays).sum();
    if strays > 0 {
        measured.notes.push(format!(
            "{strays} packets had sequence numbers far from all others of their source"
        ));
    }
    measured.notes.extend(breaks::notes(&measured.sources));
    let received = measured.sources.len();
    match plan.streams {
        _ if received == 0 && unvalidated > 0 => measured.warnings.push(format!(
            "received no stream: among {unvalidated} packets, no two have consecutive sequence \
             numbers"
        )),
        _ if received == 0 => measured
            .warnings
            .push("received no packets: check the address, the port and the firewall".into()),
        Some(streams) if received < streams => {
            measured.warnings.push(format!(
                "{} of {streams} streams did not arrive",
                streams - received
            ));
        }
        _ => {}
    }
}

/// Returns an explanation if Opus could not be recorded because this build does not support it.
fn no_opus(sources: &[SourceReport]) -> &'static str {
    let is_opus = |source: &SourceReport| {
        source.unrecorded > 0
            && source
                .format
                .is_some_and(|format| format.encoding == Encoding::Opus)
    };
    match !cfg!(feature = "opus") && sources.iter().any(is_opus) {
        true => ". Opus requires a build with the feature `opus`",
        false => "",
    }
}

/// Waits until the run is over. Returns the resources used between the ramp-up and the last packet.
fn wait_until_done(
    plan: &Plan,
    contexts: &Contexts,
    counters: &ReceiveCounters,
    interrupted: &dyn Fn() -> bool,
) -> Measured {
    let start = Instant::now();
    let streams = plan.streams.unwrap_or(plan.sessions.len()) as u64;
    let wanted = plan.buffers.map(|buffers| buffers * streams);
    let mut first_packet: Option<Instant> = None;
    let mut begin: Option<(Usage, u64)> = None;
    let mut last = (contexts.usage(), 0);
    // A source without two packets in sequence is not a stream, but it shows that someone is
    // sending.
    let mut last_active = (0, start);
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let now = Instant::now();
        let count = counters.packets();
        if counters.activity() > last_active.0 {
            last_active = (counters.activity(), now);
        }
        if count > last.1 {
            let first = *first_packet.get_or_insert(now);
            last = (contexts.usage(), count);
            if now - first >= RAMP_UP {
                begin.get_or_insert((last.0, count));
            }
        }
        let is_idle = last_active.0 > 0 && now - last_active.1 >= plan.idle;
        let is_over = plan
            .time_limit
            .is_some_and(|time_limit| now - start >= time_limit);
        let is_done = wanted.is_some_and(|wanted| count >= wanted);
        if is_idle || is_over || is_done || interrupted() {
            break;
        }
    }
    let (usage, at_begin) = begin.unwrap_or((last.0, last.1));
    Measured {
        contexts: contexts.count(),
        buffers: last.1 - at_begin,
        used: last.0.since(&usage),
        ..Measured::default()
    }
}

//! Many streams from UDP, TCP or a capture: what came, what did not, and when.

mod counters;
mod demux;
mod recorder;
mod rtp_source;
mod tcp_reader;
mod udp_reader;

pub use crate::results::{SourceReport, Unrecognized};

use crate::error::Error;
use crate::measure::context::with_histograms;
use crate::measure::contexts::{Contexts, Usage};
use crate::measure::stats::Histograms;
use crate::media::format::{Encoding, Format, Formats};
use crate::net::identity;
use crate::net::options::Options;
use crate::net::overflow::Overflow;
use crate::net::ports::{Ports, buffer_bytes};
use crate::net::session::{Rtcp, RtpSession};
use crate::net::{overflow, pcap};
use crate::results::Measured;
use counters::ReceiveCounters;
use creel::task::control::{Changes, Control, Ended, Running, Trigger};
use demux::{Config, Demux};
use recorder::Files;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tcp_reader::TcpReader;
use udp_reader::UdpReader;

/// How often the program looks what has come.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// What is left out after the first packet: caches and timers find their pace.
const RAMP_UP: Duration = Duration::from_secs(1);

/// What is received.
#[derive(Debug, Clone)]
pub struct Plan {
    /// A port each.
    pub sessions: Vec<RtpSession>,
    /// Streams that are expected in all; none: whatever comes.
    pub streams: Option<usize>,
    /// Bare samples, little-endian, instead of RTP: losses cannot be told.
    pub raw: bool,
    /// Contexts: pools of one worker.
    pub contexts: usize,
    /// How long a context waits before it reacts again.
    pub wait: Duration,
    /// What others may do with the contexts from outside.
    pub observe: creel::Observe,
    /// What comes later after its time than this and a quantum is late: a player's buffer.
    pub late_after: Duration,
    /// Ends after so many packets of each stream.
    pub buffers: Option<u64>,
    /// Ends when nothing has come for so long, once something has.
    pub idle: Duration,
    /// Ends after so long in any case.
    pub time_limit: Option<Duration>,
    /// A folder into which each stream is written as `stream-N.wav`.
    pub wav: Option<PathBuf>,
    /// A file into which everything that comes is written, as a capture.
    pub capture: Option<PathBuf>,
    /// What is asked of the sockets.
    pub options: Options,
}

impl Plan {
    /// Receives `sessions` once in 2 ms, until nothing has come for two seconds.
    pub fn new(sessions: Vec<RtpSession>) -> Self {
        Plan {
            sessions,
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
            options: Options::default(),
        }
    }

    /// Sessions at `ports` ports from `on` on, two apart where reports have a port of their own.
    ///
    /// # Errors
    ///
    /// If there are not so many ports.
    pub fn sessions(
        on: SocketAddr,
        ports: usize,
        formats: &Formats,
        rtcp: Rtcp,
    ) -> Result<Vec<RtpSession>, Error> {
        let step = 1 + usize::from(rtcp == Rtcp::Own);
        let session = |n: usize| {
            let address = crate::net::ports::port_of_stream(on, n * step, false)?;
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
            late_after: (self.wait + self.late_after).as_nanos() as u64,
            folder: files.map(Files::folder),
            raw: self.raw,
            ssrc: identity.ssrc,
            cname: identity.cname,
            pending_rtcp: Default::default(),
        }
    }

    /// Whether several streams come to one port.
    fn is_shared(&self) -> bool {
        self.sessions.len() == 1 && self.streams != Some(1)
    }
}

/// Receives as planned and measures. Blocks until it is over; `interrupted` is asked some times a
/// second and ends it, too.
///
/// # Errors
///
/// As [`Receiver::open`].
pub fn run(plan: &Plan, interrupted: &dyn Fn() -> bool) -> Result<Measured, Error> {
    Ok(Receiver::open(plan)?.run(interrupted))
}

/// What one socket's task does.
type Task = Running<UdpReader>;
type TcpTask = Running<TcpReader>;

/// Streams whose ports are open: nothing that is sent from now on is lost for want of one.
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
    /// Opens the ports and files.
    ///
    /// # Errors
    ///
    /// If a context or file cannot be made, or no port can be opened. Some ports that cannot are
    /// a warning.
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
        let mut ports = Ports::new(buffer_bytes(streams_a_port, plan.wait));
        for (number, session) in plan.sessions.iter().enumerate() {
            let demux = Demux::new(Arc::clone(&config), session.clone(), number, shared);
            if session.tcp {
                if let Some(listener) = ports.listen(session.address) {
                    let reader = TcpReader::new(listener, demux, receiver.counters.clone());
                    receiver.tcp.push((number, reader));
                }
                continue;
            }
            if let Some(socket) = ports.open(&plan.options, session) {
                let mut reader = UdpReader::new(socket, demux, shared, receiver.counters.clone());
                reader.capture_to(receiver.capture.as_ref(), session.address);
                receiver.readers.push((number, reader));
            }
            // Reports on a port of their own: what comes there is told apart by its sources.
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

    /// Receives until it is over. Blocks; `interrupted` is asked some times a second and ends
    /// it, too.
    pub fn run(self, interrupted: &dyn Fn() -> bool) -> Measured {
        let (plan, changes) = (self.plan, Changes::default());
        let (done, results) = mpsc::channel();
        let mut controls = Vec::new();
        let mut overflow = Overflow::default();
        for (number, reader) in self.readers {
            overflow.watch(reader.socket().as_std().as_fd());
            let control = Arc::new(Control::started(changes.clone()));
            let mut running: Task = control.run(reader);
            controls.push(control);
            let done = done.clone();
            let task = async move {
                let ended = (&mut running).await;
                // The receiver waits for all.
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
            // A stream that has failed already is told in vain.
            let _ = control.trigger(Trigger::Stop);
        }
        measured.warnings = self.warnings;
        measured.notes = self.notes;
        let mut demuxes: Vec<_> = results.iter().collect();
        let failed = demuxes
            .iter()
            .filter(|(_, ended, _)| *ended == Ended::Failed);
        let failed = failed.count();
        if failed > 0 {
            measured.warnings.push(format!(
                "{failed} sockets failed; packets received before that are reported"
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

/// Reads a capture as if its packets came now: every stream in it, whatever its port. Blocks.
///
/// The plan's sessions say what payload types mean, by port; the first one's hold for other ports.
///
/// # Errors
///
/// If the file cannot be read or is no capture, or no recording can be made.
pub fn analyse(plan: &Plan, capture: &Path) -> Result<Measured, Error> {
    let files = plan
        .wav
        .clone()
        .map(|path| Files::new(path, true))
        .transpose()?;
    let config = Arc::new(plan.config(files.as_ref()));
    let mut demuxes: Vec<Demux> = Vec::new();
    let mut by_port: HashMap<SocketAddr, usize> = HashMap::new();
    let mut measured = Measured::default();
    // What other runs of this thread have left.
    with_histograms(|histograms| *histograms = Histograms::new());
    let summary = pcap::read(capture, |packet| {
        let index = *by_port.entry(packet.to).or_insert_with(|| {
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
            0 => demuxes[index].receive(packet.bytes, packet.from, packet.at),
            missing => {
                demuxes[index].receive_truncated(packet.bytes, missing, packet.from, packet.at)
            }
        }
    })?;
    measured.warnings.extend(summary.warnings(capture));
    if summary.others > 0 {
        let others = summary.others;
        measured.notes.push(format!(
            "{others} packets of the capture are no whole UDP datagrams"
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

/// Adds what came to one port.
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

/// Ends the files, and says what is amiss.
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
            "payload type {number} is not known, so its clock is not: name it with --codec {number}=NAME/CLOCK or --from-sdp"
        );
        measured.warnings.push(text);
    }
    let unrecorded: u64 = measured
        .sources
        .iter()
        .map(|source| source.unrecorded)
        .sum();
    if unrecorded > 0 {
        measured.warnings.push(format!("{unrecorded} packets could not be written to a recording: no codec for them, or another rate than its first ones'{}", no_opus(&measured.sources)));
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
            "packets were of sources that sent no two in sequence",
        ),
        (
            unknown,
            "packets were of sources that were not asked for, or too many",
        ),
        (
            truncated,
            "packets were cut: they are counted, and not heard",
        ),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        measured.notes.push(format!("{count} {what}"));
    }
    let strays: u64 = measured.sources.iter().map(|source| source.strays).sum();
    if strays > 0 {
        measured.notes.push(format!(
            "{strays} packets were far from all others of their source"
        ));
    }
    let received = measured.sources.len();
    match plan.streams {
        _ if received == 0 && unvalidated > 0 => measured.warnings.push(format!(
            "nothing was received but {unvalidated} packets, no two of them in sequence"
        )),
        _ if received == 0 => measured.warnings.push("nothing was received".into()),
        Some(streams) if received < streams => {
            measured.warnings.push(format!(
                "{} of {streams} streams never came",
                streams - received
            ));
        }
        _ => {}
    }
}

/// Where Opus was to be written by a build that has none.
fn no_opus(sources: &[SourceReport]) -> &'static str {
    let is_opus = |source: &SourceReport| {
        source.unrecorded > 0
            && source
                .format
                .is_some_and(|format| format.encoding == Encoding::Opus)
    };
    match !cfg!(feature = "opus") && sources.iter().any(is_opus) {
        true => "; Opus is in builds with the feature `opus` only",
        false => "",
    }
}

/// Waits until the run is over; what was used between the ramp-up and the last packet.
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
    // What sends no two packets in sequence is no stream, but somebody is there.
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

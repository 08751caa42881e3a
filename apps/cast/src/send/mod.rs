//! Sends many streams to clients over UDP or TCP.

mod replay;
mod rtp_sink;
mod unsent;

pub use crate::results::{ReceiverReport, SentReport};
pub use replay::{Replay, replay};
pub(crate) use unsent::refused;

use crate::error::Error;
use crate::measure::context::{StatsSink, Window};
use crate::measure::contexts::Contexts;
use crate::measure::stats::StreamStats;
use crate::media::codec::Encoder;
use crate::media::format::{Encoding, Format, Formats};
use crate::media::tone::{Shape, Tone};
use crate::media::wav::{Looped, Sound};
use crate::net::client_registry::ClientRegistry;
use crate::net::identity::{self, Random};
use crate::net::options::{Options, socket_error};
use crate::net::ports::{BufferSize, capped};
use crate::net::session::{Rtcp, RtpSession};
use crate::net::tcp::{self, TcpSource};
use crate::net::udp::{Outbox, Reports};
use crate::results::Measured;
use crate::stream::buffer::Buffer;
use crate::stream::flow::Stream;
use crate::stream::sink::{InPlace, Sink};
use crate::stream::source::{Paced, SameInAllChannels, Signal, Source};
use creel::time::interval;
use creel::{Observe, Pool};
use creel_media::control::{Changes, Control, Ended, Flow, Trigger};
use creel_media::leaky::{self, Leak};
use rtp_sink::{InitialNumbers, Layout, RtpSink, Transport};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use unsent::report_unsent;

/// The maximum number of packets that wait for a TCP connection. If the connection is slow, the
/// oldest are dropped.
const TCP_QUEUE: usize = 64;

/// The content of the streams.
#[derive(Debug, Clone)]
pub enum Content {
    /// A test signal of this shape and frequency. Each further stream is one hertz higher, so that
    /// streams can be distinguished.
    Tone(Shape, f64),
    /// A sound in an endless loop. Its rate must be that of the format.
    Sound(Arc<Sound>),
    /// Bare samples that we read from this address over TCP. Each stream has its own connection.
    Tcp(SocketAddr),
}

/// The configuration of a run that sends streams.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The format of each stream's packets. If `described` is set, also their destination.
    pub sessions: Vec<RtpSession>,
    /// Whether packets also go to the addresses that their sessions state.
    pub described: bool,
    /// The clients. Stream n goes to port + n of each client, or to port + 2 n if reports have a
    /// port of their own. If the port is shared, all streams go to one port.
    pub to: Vec<SocketAddr>,
    /// Whether all streams go to the same port of a client.
    pub shared_port: bool,
    /// The number of contexts, which are pools of one worker. Each has its own sockets.
    pub contexts: usize,
    /// How long a context waits before it handles packets and timers again.
    pub wait: Duration,
    /// The access of other processes to the contexts, for example to observe them with `creel top`.
    pub observe: Observe,
    /// The number of packets of each stream that are measured, after those of the ramp-up.
    pub buffers: u64,
    /// The time at the beginning that is left out of the figures.
    pub ramp_up: Duration,
    /// Whether to send bare samples, little-endian, instead of RTP.
    pub raw: bool,
    /// The content of the streams.
    pub content: Content,
    /// The SSRC of the first stream. The other streams count up from it. `None` means random SSRCs.
    pub ssrc: Option<u32>,
    /// The first sequence number of each stream. `None` means random numbers.
    pub sequence: Option<u16>,
    /// The first timestamp of each stream. `None` means random timestamps.
    pub timestamp: Option<u32>,
    /// The seed of the random numbers. `None` means a new seed in each run.
    pub seed: Option<u64>,
    /// The payload type of telephone keys, and the keys that each stream presses at its beginning.
    pub keys: Option<(u8, String)>,
    /// The options of the sockets.
    pub options: Options,
}

impl Plan {
    /// Creates a plan that sends `streams` tones to this client: a thousand packets each after one
    /// second of ramp-up, with 10 ms of mono L16 at 44,100 Hz.
    pub fn new(to: SocketAddr, streams: usize) -> Self {
        let mut session = RtpSession::new(to, 11, Format::CD_MONO);
        session.packet_time = Duration::from_millis(10);
        Plan {
            sessions: vec![session; streams],
            described: false,
            to: vec![to],
            shared_port: false,
            contexts: 1,
            wait: Duration::from_millis(2),
            observe: Observe::default(),
            buffers: 1_000,
            ramp_up: Duration::from_secs(1),
            raw: false,
            content: Content::Tone(Shape::Sine, 440.0),
            ssrc: None,
            sequence: None,
            timestamp: None,
            seed: None,
            keys: None,
            options: Options::default(),
        }
    }

    fn rtcp(&self) -> Rtcp {
        self.sessions
            .first()
            .map_or(Rtcp::Off, |session| session.rtcp)
    }

    /// Returns a registry with the clients that receive the streams from the beginning.
    ///
    /// # Errors
    ///
    /// Returns an error if a client is rejected, for example because a port would exceed 65,535.
    pub fn client_registry(&self) -> Result<ClientRegistry, Error> {
        let registry = ClientRegistry::new(self.sessions.len(), self.shared_port, self.rtcp());
        for &client in &self.to {
            registry.add(client)?;
        }
        if self.described {
            registry.add_sessions(&self.sessions);
        }
        Ok(registry)
    }

    /// Returns the sessions for the session description of this client.
    ///
    /// # Errors
    ///
    /// Returns an error if a port would exceed 65,535.
    pub fn described_to(&self, client: SocketAddr) -> Result<Vec<RtpSession>, Error> {
        let registry = ClientRegistry::new(self.sessions.len(), self.shared_port, self.rtcp());
        let addresses = registry.addresses(client)?;
        let sessions = self.sessions.iter().zip(addresses);
        Ok(sessions
            .map(|(session, address)| RtpSession {
                address,
                ..self.as_sent(session)
            })
            .collect())
    }

    /// Returns a session with the additions of the plan: the hop limit and the keys.
    pub fn as_sent(&self, session: &RtpSession) -> RtpSession {
        let mut session = session.clone();
        session.ttl = self.options.ttl.or(session.ttl);
        let mut named = session.formats.named().to_vec();
        let (number, format) = session.preferred();
        if named.is_empty() {
            named.push((number, format));
        }
        if let Some((number, _)) = &self.keys
            && named.iter().all(|(known, _)| known != number)
        {
            let keys = Format {
                encoding: Encoding::Event,
                clock: format.clock,
                channels: 1,
            };
            named.push((*number, keys));
        }
        session.formats = Formats::new(named);
        session
    }

    /// Returns the number of packets of a stream before the measured ones.
    fn ramp_up_packets(&self, session: &RtpSession) -> u64 {
        let packets = self.ramp_up.as_secs_f64() / session.packet_time.as_secs_f64();
        packets.ceil() as u64
    }

    /// Returns how long the longest stream lasts.
    fn time(&self) -> Duration {
        let of = |session: &RtpSession| {
            session
                .packet_time
                .mul_f64((self.buffers + self.ramp_up_packets(session)) as f64)
        };
        self.sessions.iter().map(of).max().unwrap_or_default()
    }
}

/// Sends as planned and measures. This function blocks for the whole run. It calls `interrupted`
/// several times per second, and ends the run early if it returns true, with the figures up to
/// then.
///
/// # Errors
///
/// Returns an error if a context or a socket cannot be created, a port would exceed 65,535, or
/// there is no codec for a format.
pub fn run(plan: &Plan, interrupted: &dyn Fn() -> bool) -> Result<Measured, Error> {
    run_with(plan, &plan.client_registry()?, interrupted)
}

/// Works like [`run`], but with clients that may change while it sends.
///
/// # Errors
///
/// Returns the errors of [`run`].
pub fn run_with(
    plan: &Plan,
    registry: &ClientRegistry,
    interrupted: &dyn Fn() -> bool,
) -> Result<Measured, Error> {
    let contexts = Contexts::new(plan.contexts, plan.wait, plan.observe)?;
    let (done, results) = mpsc::channel();
    let mut notes = Vec::new();
    let reports = Reports::default();
    let outboxes = outboxes(plan, &contexts, &reports, &mut notes)?;
    let first = Instant::now() + Duration::from_millis(10);
    let (begin, end) = (first + plan.ramp_up, first + plan.time());
    let launcher = Launcher {
        plan,
        changes: Changes::default(),
        done,
        first,
        cname: identity::random().cname.into(),
    };
    let mut random = Random::new(plan.seed);
    let mut controls = Vec::with_capacity(plan.sessions.len());
    for (stream, session) in plan.sessions.iter().enumerate() {
        let context = contexts.of(stream);
        let numbers = plan.initial_numbers(stream, &mut random);
        let sink = if session.tcp {
            launcher.sink(session, numbers, tcp_transport(context, session.address))?
        } else {
            let outbox = Arc::clone(&outboxes[stream % contexts.count()]);
            launcher.sink(
                session,
                numbers,
                Transport::Udp(outbox, registry.of_stream(stream)),
            )?
        };
        controls.push(launcher.start(stream, context, sink)?);
    }
    drop(launcher);
    let used = contexts
        .usage_at(begin, interrupted)
        .map(|first| (first, contexts.usage_at(end, interrupted)));
    let now = contexts.usage();
    let (used, is_over) = match used {
        Some((first, Some(last))) => (last.since(&first), true),
        Some((first, None)) => (now.since(&first), false),
        None => (now.since(&now), false),
    };
    // A stream that is paced by the clock ends by itself after its last packet. A stream that reads
    // from elsewhere does not, so we stop it.
    if !is_over || matches!(plan.content, Content::Tcp(_)) {
        for control in &controls {
            // Stopping a stream that has failed already has no effect, so we ignore the result.
            let _ = control.trigger(Trigger::Stop);
        }
    }
    let mut measured = Measured {
        contexts: contexts.count(),
        used,
        notes,
        overflowed: Some(0),
        ..Measured::default()
    };
    let mut ended: Vec<EndedStream> = results.iter().collect();
    ended.sort_by_key(|done| done.stream);
    let failures = ended
        .iter()
        .filter(|done| done.ended == Ended::Failed)
        .count();
    for done in ended {
        measured.streams.push(done.stats);
        measured.skipped += done.report.skipped;
        measured.sent.push(done.report);
    }
    measured.buffers = measured.streams.iter().map(|stream| stream.buffers).sum();
    outboxes.iter().for_each(|outbox| outbox.close());
    if failures > 0 {
        let streams = plan.sessions.len();
        measured.warnings.push(format!(
            "{failures} of {streams} streams failed, because their source or their connection ended"
        ));
    }
    for report in &mut measured.sent {
        let clock = plan.sessions[report.stream].preferred().1.clock;
        report.receivers = receivers(&reports, report.ssrc, clock);
    }
    report_unsent(&outboxes, &mut measured);
    measured.histograms = contexts.take_histograms();
    Ok(measured)
}

/// Returns what receivers have reported about a stream.
fn receivers(reports: &Reports, ssrc: u32, clock: u32) -> Vec<ReceiverReport> {
    let row = |(from, reported): (SocketAddr, crate::net::udp::LatestReport)| ReceiverReport {
        from,
        lost: reported.block.lost,
        fraction_lost: f64::from(reported.block.fraction_lost) / 256.0,
        jitter_ms: f64::from(reported.block.jitter) * 1e3 / f64::from(clock.max(1)),
        round_trip_ms: reported.round_trip.map(|time| time.as_secs_f64() * 1e3),
        discarded: reported.voip.map(|voip| f64::from(voip.discarded) / 256.0),
        rating: reported.voip.and_then(|voip| voip.rating),
        mos: reported.voip.and_then(|voip| voip.mos()),
    };
    reports.of(ssrc).into_iter().map(row).collect()
}

/// Opens the sockets of the contexts and starts their tasks.
fn outboxes(
    plan: &Plan,
    contexts: &Contexts,
    reports: &Reports,
    notes: &mut Vec<String>,
) -> Result<Vec<Arc<Outbox>>, Error> {
    let streams = plan.sessions.len().div_ceil(contexts.count()) * plan.to.len().max(1);
    let shortest = plan
        .sessions
        .iter()
        .map(|session| session.packet_time)
        .min();
    let wanted = BufferSize::of(streams, shortest, plan.wait).bytes;
    let open = |context: &Pool| {
        let outbox = Outbox::open(&plan.options, plan.rtcp(), wanted, reports.clone());
        let outbox = outbox.map_err(socket_error("cannot open a socket for sending"))?;
        outbox.start(context, plan.rtcp() != Rtcp::Off);
        Ok(outbox)
    };
    let opened = contexts
        .iter()
        .map(open)
        .collect::<Result<Vec<_>, Error>>()?;
    let least = opened.iter().map(|outbox| outbox.buffer).min();
    notes.extend(least.and_then(|got| capped("send", "wmem_max", wanted, got)));
    Ok(opened)
}

/// Starts a task that connects to `to` and then writes the packets of a stream.
fn tcp_transport(context: &Pool, to: SocketAddr) -> Transport {
    let (sender, receiver) = leaky::channel(TCP_QUEUE, Leak::Old);
    context.spawn(tcp::write(to, receiver)).detach();
    Transport::Tcp(sender)
}

impl Plan {
    /// Returns the SSRC, the first sequence number and the first timestamp of a stream. They are
    /// random unless the plan has them.
    fn initial_numbers(&self, stream: usize, random: &mut Random) -> InitialNumbers {
        let (ssrc, numbers) = (random.next() as u32, random.next());
        InitialNumbers {
            ssrc: self
                .ssrc
                .map_or(ssrc, |first| first.wrapping_add(stream as u32)),
            sequence: self.sequence.unwrap_or(numbers as u16),
            timestamp: self.timestamp.unwrap_or((numbers >> 16) as u32),
        }
    }
}

/// Sends buffers, and measures those that were sent.
struct MeasuredSink {
    sink: RtpSink,
    stats_sink: StatsSink,
}

impl Sink for MeasuredSink {
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow> {
        self.sink.take(buffer)?;
        self.stats_sink.take(buffer)
    }
}

/// The results of a stream that has ended.
struct EndedStream {
    stream: usize,
    ended: Ended,
    stats: StreamStats,
    report: SentReport,
}

/// Starts streams. It has the values that all streams of a run have in common.
struct Launcher<'a> {
    plan: &'a Plan,
    changes: Changes,
    first: Instant,
    done: mpsc::Sender<EndedStream>,
    cname: Arc<str>,
}

impl Launcher<'_> {
    fn sink(
        &self,
        session: &RtpSession,
        numbers: InitialNumbers,
        transport: Transport,
    ) -> Result<MeasuredSink, Error> {
        let (payload_type, format) = session.preferred();
        let encoder = Encoder::new(format).map_err(|error| Error::Plan(error.to_string()))?;
        let layout = Layout {
            payload_type,
            format,
            raw: self.plan.raw,
            rtcp: session.rtcp,
            rtcp_at: session.rtcp_at.map(|to| (session.address, to)),
            cname: Arc::clone(&self.cname),
            keys: self
                .plan
                .keys
                .as_ref()
                .map(|(number, keys)| (*number, keys.as_str().into())),
        };
        let ramp_up_packets = self.plan.ramp_up_packets(session);
        let window = Window {
            begin: ramp_up_packets,
            end: ramp_up_packets + self.plan.buffers,
        };
        Ok(MeasuredSink {
            sink: RtpSink::new(transport, layout, encoder, numbers),
            stats_sink: StatsSink::new(Arc::new(window)),
        })
    }

    fn start(
        &self,
        stream: usize,
        context: &Pool,
        sink: MeasuredSink,
    ) -> Result<Arc<Control>, Error> {
        let session = &self.plan.sessions[stream];
        let (_, format) = session.preferred();
        let (rate, channels) = (format.rate(), usize::from(format.channels));
        Ok(match &self.plan.content {
            Content::Tone(shape, hertz) => {
                let signal = Tone::new(*shape, hertz + stream as f64, rate);
                let signal = SameInAllChannels { signal, channels };
                self.spawn(stream, context, self.paced(stream, session, signal), sink)
            }
            Content::Sound(sound) => {
                if sound.rate != rate {
                    return Err(Error::Plan(format!(
                        "cannot send the sound as {format}, because the sound has {} frames per \
                         second",
                        sound.rate
                    )));
                }
                let sound = match sound.channels == channels {
                    true => Arc::clone(sound),
                    false => Arc::new(Sound::clone(sound).with_channels(channels)),
                };
                let looped = Looped::new(sound);
                self.spawn(stream, context, self.paced(stream, session, looped), sink)
            }
            Content::Tcp(from) => {
                let samples = format.samples_in(session.packet_time);
                self.spawn(stream, context, TcpSource::to(*from, samples), sink)
            }
        })
    }

    fn paced<S: Signal>(&self, stream: usize, session: &RtpSession, signal: S) -> Paced<S> {
        let (_, format) = session.preferred();
        let frames = format.frames_in(session.packet_time).max(1);
        let period = format.time_of(frames);
        let phase = period.mul_f64(stream as f64 / self.plan.sessions.len() as f64);
        let pace = interval(period).starting(self.first + phase);
        let limit = self.plan.ramp_up_packets(session) + self.plan.buffers;
        Paced::new(pace, signal, frames * usize::from(format.channels), limit)
    }

    fn spawn(
        &self,
        stream: usize,
        context: &Pool,
        source: impl Source + 'static,
        sink: MeasuredSink,
    ) -> Arc<Control> {
        let control = Arc::new(Control::started(self.changes.clone()));
        let mut running = control.run(Stream::new(source, InPlace::new(sink)));
        let done = self.done.clone();
        let task = context.spawn(async move {
            let ended = (&mut running).await;
            let MeasuredSink {
                mut sink,
                stats_sink,
            } = running.into_work().into_push().into_sink();
            sink.send_bye();
            let sent = sink.sent();
            let report = SentReport {
                stream,
                ssrc: sink.ssrc(),
                packets: sent.packets,
                bytes: sent.bytes,
                skipped: sink.skipped,
                receivers: Vec::new(),
            };
            // This cannot fail, because we wait for the results of all streams.
            let _ = done.send(EndedStream {
                stream,
                ended,
                stats: stats_sink.stats,
                report,
            });
        });
        task.detach();
        control
    }
}

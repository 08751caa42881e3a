//! Many streams to clients over UDP.

use crate::audio::{BUFFER_SAMPLES, BUFFER_TIME, RATE};
use crate::buffer::Buffer;
use crate::context::{StatsSink, Window};
use crate::contexts::Contexts;
use crate::control::{Changes, Control};
use crate::framing::Framing;
use crate::machine::{Flow, Trigger};
use crate::run::{Error, Measured};
use crate::sink::{InPlace, Sink};
use crate::source::{Paced, Signal};
use crate::stats::StreamStats;
use crate::stream::Stream;
use crate::tone::{Shape, Tone};
use crate::udp::{Clients, Outbox, UdpSink};
use crate::wav::{Looped, Sound};
use creel::Pool;
use creel::net::UdpSocket;
use creel::time::{Clock, interval};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// What a socket's buffer is asked to hold: the packets of so much time.
const SOCKET_BUFFER_TIME: Duration = Duration::from_millis(100);
/// What the kernel counts for a packet of 10 ms in a buffer, its own overhead included.
const PACKET_IN_BUFFER_BYTES: usize = 2_304;

/// What the streams carry.
#[derive(Debug, Clone)]
pub enum Program {
    /// A test signal; each stream a hertz above the one before, to tell them apart.
    Tone(Shape, f64),
    /// A sound, again and again, mono at 44,100 samples a second.
    Sound(Arc<Sound>),
}

/// What is sent.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Streams.
    pub streams: usize,
    /// Where to: stream n to port + n of each client, or all to one port.
    pub to: Vec<SocketAddr>,
    /// All streams go to the same port of a client.
    pub shared_port: bool,
    /// Contexts: pools of one worker, a socket each.
    pub groups: usize,
    /// How long a context waits before it reacts again.
    pub wait: Duration,
    /// Buffers of each stream that are measured; the ramp-up comes before them.
    pub buffers: u64,
    /// Left out at the begin.
    pub ramp_up: Duration,
    /// How a datagram is laid out.
    pub framing: Framing,
    /// What the streams carry.
    pub program: Program,
}

impl Plan {
    /// The clients of a stream.
    ///
    /// # Errors
    ///
    /// If its port would exceed 65,535.
    pub fn clients(&self, stream: usize) -> Result<Vec<SocketAddr>, Error> {
        let port_of = |client: &SocketAddr| port_of_stream(*client, stream, self.shared_port);
        self.to.iter().map(port_of).collect()
    }
}

/// The address of a stream where each has a port of its own, from `base` on.
///
/// # Errors
///
/// If its port would exceed 65,535.
pub fn port_of_stream(base: SocketAddr, stream: usize, shared: bool) -> Result<SocketAddr, Error> {
    if shared {
        return Ok(base);
    }
    let port = usize::from(base.port()) + stream;
    let port = u16::try_from(port).map_err(|_| {
        Error::Plan(format!(
            "{base}: stream {stream} has no port above it; use --shared-port"
        ))
    })?;
    Ok(SocketAddr::new(base.ip(), port))
}

/// Sends as planned and measures. Blocks for its whole time; `interrupted` is asked some times a
/// second and ends it early, with what was measured until then.
///
/// # Errors
///
/// If a context or socket cannot be made, or the ports do not suffice.
pub fn run(plan: &Plan, interrupted: &dyn Fn() -> bool) -> Result<Measured, Error> {
    let clients = (0..plan.streams)
        .map(|stream| plan.clients(stream).map(Clients::new))
        .collect::<Result<Vec<_>, _>>()?;
    let contexts = Contexts::new(plan.groups, plan.wait)?;
    let (done, results) = mpsc::channel();
    let mut warnings = Vec::new();
    let outboxes = contexts
        .iter()
        .map(|context| open_outbox(plan, context, contexts.count(), &mut warnings))
        .collect::<Result<Vec<_>, _>>()?;
    let begin = Instant::now() + plan.ramp_up;
    let end = begin + BUFFER_TIME * u32::try_from(plan.buffers).unwrap_or(u32::MAX);
    let clock = Clock::monotonic();
    let window = Arc::new(Window {
        begin: clock.nanos_at(begin),
        end: clock.nanos_at(end),
    });
    let launch = Launch {
        plan,
        window,
        changes: Changes::default(),
        done,
        first: Instant::now() + BUFFER_TIME,
    };
    let controls: Vec<Arc<Control>> = (0..)
        .zip(clients)
        .map(|(stream, clients)| {
            let outbox = &outboxes[stream % contexts.count()];
            launch.start(stream, contexts.of(stream), Arc::clone(outbox), clients)
        })
        .collect();
    drop(launch);
    let first = contexts
        .usage_at(begin, interrupted)
        .unwrap_or(contexts.usage());
    let last = contexts
        .usage_at(end, interrupted)
        .unwrap_or(contexts.usage());
    for control in &controls {
        // A stream that has failed already is told in vain.
        let _ = control.trigger(Trigger::Stop);
    }
    let streams: Vec<StreamStats> = results.iter().collect();
    outboxes.iter().for_each(|outbox| outbox.close());
    let counted = |count: fn(&Outbox) -> u64| outboxes.iter().map(|o| count(o)).sum::<u64>();
    let (failed, dropped) = (
        counted(|o| o.counters.failed()),
        counted(|o| o.counters.dropped()),
    );
    if failed > 0 {
        warnings.push(format!("{failed} packets were refused by the system"));
    }
    if dropped > 0 {
        warnings.push(format!(
            "{dropped} packets were dropped: the socket's buffer stayed full"
        ));
    }
    Ok(Measured {
        contexts: contexts.count(),
        buffers: streams.iter().map(|stream| stream.latency.count()).sum(),
        used: last.since(&first),
        histograms: contexts.take_histograms(),
        streams,
        lost: failed + dropped,
        warnings,
        ..Measured::default()
    })
}

/// Opens a context's socket and starts its outbox.
fn open_outbox(
    plan: &Plan,
    context: &Pool,
    contexts: usize,
    warnings: &mut Vec<String>,
) -> Result<Arc<Outbox>, Error> {
    let any: IpAddr = match plan.to.first() {
        Some(SocketAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    let error = |error| Error::Socket("the senders' socket".into(), error);
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).map_err(error)?;
    let streams = plan.streams.div_ceil(contexts) * plan.to.len().max(1);
    let wanted = buffer_bytes(streams, plan.wait);
    let got = socket.set_send_buffer(wanted).map_err(error)?;
    warnings.extend(capped("send", "wmem_max", wanted, got));
    let outbox = Arc::new(Outbox::default());
    let sender = Arc::clone(&outbox);
    let task = context.spawn(async move {
        // The counters tell of what failed.
        sender.send(&socket).await;
    });
    task.detach();
    Ok(outbox)
}

/// What a socket's buffer must hold for `streams` streams between two reactions.
pub fn buffer_bytes(streams: usize, wait: Duration) -> usize {
    let time = wait + SOCKET_BUFFER_TIME;
    let packets = time.as_secs_f64() / BUFFER_TIME.as_secs_f64() * streams as f64;
    packets.ceil() as usize * PACKET_IN_BUFFER_BYTES
}

/// A warning if the system has made less of it. It tells twice of what it took, the half for
/// its own overhead.
pub fn capped(which: &str, limit: &str, wanted: usize, got: usize) -> Option<String> {
    (got < wanted).then(|| {
        format!(
            "the {which} buffer holds {} KiB of the {} that the rate asks for; \
             the limit is net.core.{limit}",
            got / 1024,
            wanted / 1024
        )
    })
}

/// Measures what another sink takes.
struct Gauged<S> {
    sink: S,
    gauge: StatsSink,
}

impl<S: Sink> Sink for Gauged<S> {
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow> {
        self.sink.take(buffer)?;
        self.gauge.take(buffer)
    }

    fn flush(&mut self) {
        self.sink.flush();
    }
}

/// What all streams have in common.
struct Launch<'a> {
    plan: &'a Plan,
    window: Arc<Window>,
    changes: Changes,
    first: Instant,
    done: mpsc::Sender<StreamStats>,
}

impl Launch<'_> {
    fn start(
        &self,
        stream: usize,
        context: &Pool,
        outbox: Arc<Outbox>,
        clients: Clients,
    ) -> Arc<Control> {
        let ssrc = u32::try_from(stream).unwrap_or(u32::MAX);
        let sink = Gauged {
            sink: UdpSink::new(outbox, clients, self.plan.framing, ssrc),
            gauge: StatsSink::new(Arc::clone(&self.window)),
        };
        match &self.plan.program {
            Program::Tone(shape, hertz) => {
                let tone = Tone::new(*shape, hertz + stream as f64, RATE);
                self.spawn(stream, context, tone, sink)
            }
            Program::Sound(sound) => {
                let looped = Looped::new(Arc::clone(sound));
                self.spawn(stream, context, looped, sink)
            }
        }
    }

    fn spawn(
        &self,
        stream: usize,
        context: &Pool,
        signal: impl Signal + 'static,
        sink: Gauged<UdpSink>,
    ) -> Arc<Control> {
        let phase = BUFFER_TIME.mul_f64(stream as f64 / self.plan.streams as f64);
        let pace = interval(BUFFER_TIME).starting(self.first + phase);
        let source = Paced::new(pace, signal, u64::MAX);
        let mut stream = Stream::new(source, InPlace::new(sink), BUFFER_SAMPLES);
        let control = Arc::new(Control::started(self.changes.clone()));
        let (obeyed, done) = (Arc::clone(&control), self.done.clone());
        let task = context.spawn(async move {
            obeyed.run(&mut stream).await;
            // The receiver waits for all.
            let _ = done.send(stream.into_push().into_sink().gauge.stats);
        });
        task.detach();
        control
    }
}

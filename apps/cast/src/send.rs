//! Many streams to clients over UDP.

use crate::audience::Audience;
use crate::audio::{BUFFER_SAMPLES, BUFFER_TIME, RATE};
use crate::buffer::Buffer;
use crate::context::{StatsSink, Window};
use crate::contexts::Contexts;
use crate::control::{Changes, Control, Ended};
use crate::framing::Framing;
use crate::machine::{Flow, Trigger};
use crate::ports::{Ports, buffer_bytes, capped};
use crate::run::{Error, Measured};
use crate::sink::{InPlace, Sink};
use crate::source::{Paced, Signal, Source};
use crate::stats::StreamStats;
use crate::stream::Stream;
use crate::tcp::TcpSource;
use crate::tone::{Shape, Tone};
use crate::udp::{Clients, Outbox, UdpSink, UdpSource};
use crate::wav::{Looped, Sound};
use creel::Pool;
use creel::net::UdpSocket;
use creel::time::{Clock, interval};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// What the streams carry.
#[derive(Debug, Clone)]
pub enum Program {
    /// A test signal; each stream a hertz above the one before, to tell them apart.
    Tone(Shape, f64),
    /// A sound, again and again, mono at 44,100 samples a second.
    Sound(Arc<Sound>),
    /// What comes to this address over UDP, framed as what is sent; stream n from port + n.
    Udp(SocketAddr),
    /// What this address gives over TCP, bare samples; each stream has its own connection.
    Tcp(SocketAddr),
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
    /// Who hears the streams at the begin.
    ///
    /// # Errors
    ///
    /// If a port would exceed 65,535.
    pub fn audience(&self) -> Result<Audience, Error> {
        let audience = Audience::new(self.streams, self.shared_port);
        for &client in &self.to {
            audience.add(client)?;
        }
        Ok(audience)
    }
}

/// Sends as planned and measures. Blocks for its whole time; `interrupted` is asked some times a
/// second and ends it early, with what was measured until then.
///
/// # Errors
///
/// If a context or socket cannot be made, or the ports do not suffice.
pub fn run(plan: &Plan, interrupted: &dyn Fn() -> bool) -> Result<Measured, Error> {
    run_with(plan, &plan.audience()?, interrupted)
}

/// The same for an audience that others change meanwhile.
///
/// # Errors
///
/// As [`run`].
pub fn run_with(
    plan: &Plan,
    audience: &Audience,
    interrupted: &dyn Fn() -> bool,
) -> Result<Measured, Error> {
    let contexts = Contexts::new(plan.groups, plan.wait)?;
    let (done, results) = mpsc::channel();
    let mut warnings = Vec::new();
    let mut inlets = inlets(plan, &mut warnings)?;
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
    let mut controls = Vec::with_capacity(plan.streams);
    for stream in 0..plan.streams {
        let outbox = &outboxes[stream % contexts.count()];
        let clients = audience.of_stream(stream);
        let sink = launch.sink(stream, Arc::clone(outbox), clients);
        let inlet = inlets.get_mut(stream).and_then(Option::take);
        controls.extend(launch.start(stream, contexts.of(stream), sink, inlet));
    }
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
    let (streams, ends): (Vec<StreamStats>, Vec<Ended>) = results.iter().unzip();
    let failures = ends.iter().filter(|&&ended| ended == Ended::Failed).count();
    if failures > 0 {
        warnings.push(format!(
            "{failures} of {} streams failed: their source gave no more",
            plan.streams
        ));
    }
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
    done: mpsc::Sender<(StreamStats, Ended)>,
}

impl Launch<'_> {
    fn sink(&self, stream: usize, outbox: Arc<Outbox>, clients: Clients) -> Gauged<UdpSink> {
        let ssrc = u32::try_from(stream).unwrap_or(u32::MAX);
        Gauged {
            sink: UdpSink::new(outbox, clients, self.plan.framing, ssrc),
            gauge: StatsSink::new(Arc::clone(&self.window)),
        }
    }

    /// Starts a stream; one without the inlet that it needs is left out.
    fn start(
        &self,
        stream: usize,
        context: &Pool,
        sink: Gauged<UdpSink>,
        inlet: Option<UdpSocket>,
    ) -> Option<Arc<Control>> {
        Some(match &self.plan.program {
            Program::Tone(shape, hertz) => {
                let tone = Tone::new(*shape, hertz + stream as f64, RATE);
                self.spawn(context, self.paced(stream, tone), sink)
            }
            Program::Sound(sound) => {
                let looped = Looped::new(Arc::clone(sound));
                self.spawn(context, self.paced(stream, looped), sink)
            }
            Program::Udp(_) => {
                let source = UdpSource::new(inlet?, self.plan.framing);
                self.spawn(context, source, sink)
            }
            Program::Tcp(from) => self.spawn(context, TcpSource::to(*from, BUFFER_SAMPLES), sink),
        })
    }

    fn paced<S: Signal>(&self, stream: usize, signal: S) -> Paced<S> {
        let phase = BUFFER_TIME.mul_f64(stream as f64 / self.plan.streams as f64);
        let pace = interval(BUFFER_TIME).starting(self.first + phase);
        Paced::new(pace, signal, BUFFER_SAMPLES, u64::MAX)
    }

    fn spawn(
        &self,
        context: &Pool,
        source: impl Source + 'static,
        sink: Gauged<UdpSink>,
    ) -> Arc<Control> {
        let control = Arc::new(Control::started(self.changes.clone()));
        let mut running = control.run(Stream::new(source, InPlace::new(sink)));
        let done = self.done.clone();
        let task = context.spawn(async move {
            let ended = (&mut running).await;
            let sink = running.into_work().into_push().into_sink();
            // The receiver waits for all.
            let _ = done.send((sink.gauge.stats, ended));
        });
        task.detach();
        control
    }
}

/// The sockets that the streams' sources receive on, if they do.
fn inlets(plan: &Plan, warnings: &mut Vec<String>) -> Result<Vec<Option<UdpSocket>>, Error> {
    let Program::Udp(from) = plan.program else {
        return Ok(Vec::new());
    };
    let opened = Ports {
        on: from,
        ports: plan.streams,
        bytes: buffer_bytes(1, plan.wait),
    }
    .open(warnings)?;
    let mut inlets: Vec<_> = (0..plan.streams).map(|_| None).collect();
    for (index, socket) in opened {
        inlets[index] = Some(socket);
    }
    Ok(inlets)
}

//! Many streams from UDP: what came, what did not, and when.

use crate::audio::{BUFFER_TIME, RATE};
use crate::buffer::Buffer;
use crate::context::with_histograms;
use crate::contexts::{Contexts, Usage};
use crate::control::{Changes, Control};
use crate::framing::Framing;
use crate::machine::{Flow, Trigger};
use crate::ports::{Ports, buffer_bytes};
use crate::queue::{self, Leak};
use crate::rtp::Sequence;
use crate::run::{Error, Measured};
use crate::sink::{InPlace, Sink};
use crate::stats::{Stations, StreamStats};
use crate::stream::Stream;
use crate::udp::UdpSource;
use crate::wav::{WavError, Writer};
use creel::net::UdpSocket;
use creel::time::Clock;
use creel::{Pool, Wait};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Datagrams a system call, of a port for all.
const SLOTS: usize = 64;
/// Buffers on their way to a file; what does not fit is lost to the file only.
const FILE_QUEUE: usize = 64;
/// How often the program looks what has come.
const LOOK: Duration = Duration::from_millis(100);
/// What is left out after the first packet: caches and timers find their pace.
const RAMP_UP: Duration = Duration::from_secs(1);

/// What is received.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Streams.
    pub streams: usize,
    /// Where: stream n on port + n, or all on one port.
    pub on: SocketAddr,
    /// All streams come to one port; told apart by their SSRC.
    pub shared_port: bool,
    /// Contexts: pools of one worker.
    pub groups: usize,
    /// How long a context waits before it reacts again.
    pub wait: Duration,
    /// How a datagram is laid out.
    pub framing: Framing,
    /// Ends after so many buffers of each stream.
    pub buffers: Option<u64>,
    /// Ends when nothing has come for so long, once something has.
    pub idle: Duration,
    /// Ends after so long in any case.
    pub at_most: Option<Duration>,
    /// A folder into which each stream is written as `stream-N.wav`.
    pub wav: Option<PathBuf>,
}

/// One stream as it comes.
#[derive(Debug, Default)]
struct Incoming {
    stats: StreamStats,
    sequence: Sequence,
    /// The newest packet's number, not wrapped; and when number zero would have come.
    newest: i64,
    anchor: Option<i64>,
    late: u64,
    file: Option<queue::Producer<Buffer>>,
}

impl Incoming {
    /// Notes a packet. Late is one that a player with a buffer of one quantum and one packet
    /// would have missed.
    fn note(&mut self, buffer: &Buffer, late_after: i64) {
        let arrived = Clock::monotonic().nanos();
        let made = buffer.made as i64;
        let step = (buffer.sequence as u16).wrapping_sub(self.newest as u16) as i16;
        let number = match self.anchor {
            None => i64::from(buffer.sequence as u16),
            Some(_) => self.newest + i64::from(step),
        };
        if self.sequence.note(buffer.sequence as u16) {
            self.newest = number;
        }
        let begin = made - number * BUFFER_TIME.as_nanos() as i64;
        let anchor = self.anchor.map_or(begin, |anchor| anchor.min(begin));
        self.anchor = Some(anchor);
        self.late += u64::from(begin - anchor > late_after);
        let at = Stations {
            due: (made - (begin - anchor)).max(0) as u64,
            made: buffer.made,
            arrived,
        };
        with_histograms(|histograms| self.stats.note(histograms, at));
    }
}

/// The streams of one socket.
#[derive(Debug)]
struct ReceiveSink {
    /// By SSRC on a shared port.
    streams: Vec<Incoming>,
    /// All come to one port; else whatever comes is the one stream.
    shared: bool,
    late_after: i64,
    counted: Arc<AtomicU64>,
    /// Packets of streams beyond those planned.
    strangers: u64,
}

impl Sink for ReceiveSink {
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow> {
        let index = if self.shared { buffer.ssrc as usize } else { 0 };
        let Some(stream) = self.streams.get_mut(index) else {
            self.strangers += 1;
            return Ok(());
        };
        stream.note(buffer, self.late_after);
        // Relaxed: a count that is looked at from time to time.
        self.counted.fetch_add(1, Ordering::Relaxed);
        if let Some(file) = &mut stream.file {
            let mut copy = Buffer::new(buffer.samples.len());
            copy.samples.copy_from_slice(&buffer.samples);
            return file.try_push(copy).map_err(|_| Flow::Failed);
        }
        Ok(())
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

/// Streams whose ports are open: nothing that is sent from now on is lost for want of one.
#[derive(Debug)]
pub struct Receiver<'a> {
    plan: &'a Plan,
    contexts: Contexts,
    sockets: Vec<(usize, ReceiveSink, UdpSocket)>,
    files: Option<Files>,
    warnings: Vec<String>,
    counted: Arc<AtomicU64>,
}

impl<'a> Receiver<'a> {
    /// Opens the ports and files.
    ///
    /// # Errors
    ///
    /// If a context or file cannot be made, or no port can be opened. Some ports that cannot are
    /// a warning.
    pub fn open(plan: &'a Plan) -> Result<Self, Error> {
        let mut receiver = Receiver {
            plan,
            contexts: Contexts::new(plan.groups, plan.wait)?,
            sockets: Vec::new(),
            files: plan.wav.clone().map(Files::new).transpose()?,
            warnings: Vec::new(),
            counted: Arc::default(),
        };
        let streams_a_port = if plan.shared_port { plan.streams } else { 1 };
        let ports = Ports {
            on: plan.on,
            ports: plan.streams / streams_a_port,
            bytes: buffer_bytes(streams_a_port, plan.wait),
        };
        for (index, socket) in ports.open(&mut receiver.warnings)? {
            let sink = receiver.sink(index)?;
            receiver.sockets.push((index, sink, socket));
        }
        Ok(receiver)
    }

    /// The sink of a port: for its stream, or for all on a shared port.
    fn sink(&mut self, index: usize) -> Result<ReceiveSink, Error> {
        let plan = self.plan;
        let numbers = match plan.shared_port {
            true => 0..plan.streams,
            false => index..index + 1,
        };
        let mut streams = Vec::with_capacity(numbers.len());
        for number in numbers {
            let mut stream = Incoming::default();
            if let Some(files) = &mut self.files {
                stream.file = Some(files.begin(number)?);
            }
            streams.push(stream);
        }
        Ok(ReceiveSink {
            streams,
            shared: plan.shared_port,
            late_after: (plan.wait + BUFFER_TIME).as_nanos() as i64,
            counted: Arc::clone(&self.counted),
            strangers: 0,
        })
    }

    /// Receives until it is over. Blocks; `interrupted` is asked some times a second and ends
    /// it, too.
    pub fn run(self, interrupted: &dyn Fn() -> bool) -> Measured {
        let (plan, changes) = (self.plan, Changes::default());
        let (done, results) = mpsc::channel();
        let mut controls = Vec::new();
        for (index, sink, socket) in self.sockets {
            let source = match plan.shared_port {
                true => UdpSource::batched(socket, plan.framing, SLOTS),
                false => UdpSource::new(socket, plan.framing),
            };
            let control = Arc::new(Control::started(changes.clone()));
            let mut running = control.run(Stream::new(source, InPlace::new(sink)));
            controls.push(control);
            let done = done.clone();
            let task = async move {
                (&mut running).await;
                // The receiver waits for all.
                let _ = done.send(running.into_work().into_push().into_sink());
            };
            self.contexts.of(index).spawn(task).detach();
        }
        drop(done);
        let mut measured = watch(plan, &self.contexts, &self.counted, interrupted);
        for control in &controls {
            // A stream that has failed already is told in vain.
            let _ = control.trigger(Trigger::Stop);
        }
        measured.warnings = self.warnings;
        for sink in results.iter() {
            sink.tell(&mut measured);
        }
        measured.histograms = self.contexts.take_histograms();
        measured
            .warnings
            .extend(self.files.into_iter().flat_map(Files::finish));
        measured
    }
}

impl ReceiveSink {
    /// Adds what came.
    fn tell(self, measured: &mut Measured) {
        if self.strangers > 0 {
            let text = format!("{} packets of streams not planned for", self.strangers);
            measured.warnings.push(text);
        }
        for stream in self.streams {
            measured.lost += stream.sequence.lost;
            measured.reordered += stream.sequence.reordered;
            measured.late += stream.late;
            measured.streams.push(stream.stats);
        }
    }
}

/// Waits until the run is over; what was used between the ramp-up and the last packet.
fn watch(
    plan: &Plan,
    contexts: &Contexts,
    counted: &AtomicU64,
    interrupted: &dyn Fn() -> bool,
) -> Measured {
    let start = Instant::now();
    let wanted = plan.buffers.map(|buffers| buffers * plan.streams as u64);
    let mut first_packet: Option<Instant> = None;
    let mut begin: Option<(Usage, u64)> = None;
    let mut last = (contexts.usage(), 0, start);
    loop {
        std::thread::sleep(LOOK);
        let now = Instant::now();
        let count = counted.load(Ordering::Relaxed);
        if count > last.1 {
            let first = *first_packet.get_or_insert(now);
            last = (contexts.usage(), count, now);
            if now - first >= RAMP_UP {
                begin.get_or_insert((last.0, count));
            }
        }
        let is_idle = first_packet.is_some() && now - last.2 >= plan.idle;
        let is_over = plan.at_most.is_some_and(|at_most| now - start >= at_most);
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

/// Writes streams to files, on a pool of its own because that blocks.
#[derive(Debug)]
struct Files {
    pool: Pool,
    folder: PathBuf,
    failed: mpsc::Receiver<String>,
    fails: mpsc::Sender<String>,
}

impl Files {
    fn new(folder: PathBuf) -> Result<Self, Error> {
        let made = std::fs::create_dir_all(&folder);
        made.map_err(|error| Error::Wav(WavError::Io(folder.clone(), error)))?;
        let builder = Pool::builder().workers(1).wait(Wait::Park).name("files");
        let (fails, failed) = mpsc::channel();
        Ok(Files {
            pool: builder.build()?,
            folder,
            failed,
            fails,
        })
    }

    /// Begins a stream's file, fed through the queue until its producer is dropped.
    fn begin(&mut self, number: usize) -> Result<queue::Producer<Buffer>, Error> {
        let path = self.folder.join(format!("stream-{number}.wav"));
        let mut writer = Writer::create(&path, RATE)?;
        let (producer, mut consumer) = queue::queue::<Buffer>(FILE_QUEUE, Leak::New);
        let fails = self.fails.clone();
        let task = async move {
            let mut result = Ok(());
            while let Some(buffer) = consumer.pop().await {
                result = writer.write(buffer.samples.iter().copied());
                if result.is_err() {
                    break;
                }
            }
            if let Err(error) = result.and_then(|()| writer.finish()) {
                // The receiver waits for all.
                let _ = fails.send(error.to_string());
            }
        };
        self.pool.spawn(task).detach();
        Ok(producer)
    }

    /// Waits until all files are finished; what went wrong with them.
    fn finish(self) -> Vec<String> {
        drop(self.fails);
        self.failed.iter().collect()
    }
}

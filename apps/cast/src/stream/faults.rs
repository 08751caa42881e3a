//! Tests that a fault of one stream is counted and does not disturb the other streams.

use crate::measure::reception::SequenceTracker;
use crate::net::options::Options;
use crate::net::session::Rtcp;
use crate::net::tcp::TcpSource;
use crate::net::udp::{Clients, Outbox, Reports};
use crate::stream::buffer::Buffer;
use crate::stream::flow::Stream;
use crate::stream::sink::{InPlace, Sink};
use crate::stream::source::{Blank, Paced};
use creel::time::interval;
use creel::{Pool, Wait};
use creel_media::control::{Changes, Control, Ended, Flow, Trigger};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn context() -> Pool {
    let builder = Pool::builder().workers(1).wait(Wait::Throttle(MS));
    builder.build().unwrap()
}

/// Counts the buffers that it takes, and tracks losses.
#[derive(Clone, Default)]
struct Counting {
    taken: Arc<AtomicU64>,
    sequence: Arc<Mutex<Option<SequenceTracker>>>,
}

impl Counting {
    fn taken(&self) -> u64 {
        self.taken.load(Ordering::SeqCst)
    }

    fn lost(&self) -> u64 {
        self.sequence
            .lock()
            .unwrap()
            .map_or(0, |sequence| sequence.lost())
    }

    /// Waits until `count` buffers have arrived. The test runner ends a test that waits too long.
    fn reaches(&self, count: u64) {
        while self.taken() < count {
            std::thread::sleep(MS);
        }
    }
}

impl Sink for Counting {
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow> {
        let number = buffer.sequence as u16;
        match &mut *self.sequence.lock().unwrap() {
            Some(sequence) => {
                sequence.update(number);
            }
            none => *none = Some(SequenceTracker::new(number)),
        }
        self.taken.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Starts a stream that produces a buffer every millisecond.
fn ticking(context: &Pool, sink: impl Sink + 'static) -> Arc<Control> {
    let source = Paced::new(interval(MS), Blank, 441, u64::MAX);
    let control = Arc::new(Control::started(Changes::default()));
    let running = control.run(Stream::new(source, InPlace::new(sink)));
    context.spawn(running).detach();
    control
}

/// Starts and stops streams at a high rate. Returns whether a stream that stays has lost nothing.
fn start_and_stop_a_thousand() -> bool {
    const ROUNDS: u32 = 200;
    const LOT: u64 = 10;
    let context = context();
    let stays = Counting::default();
    ticking(&context, stays.clone());
    let mut under_way = VecDeque::new();
    let stop = |(passing, controls): (Counting, Vec<Arc<Control>>)| {
        passing.reaches(LOT);
        for control in controls {
            control.trigger(Trigger::Stop).unwrap();
        }
    };
    let begin = Instant::now();
    for round in 1..=ROUNDS {
        let passing = Counting::default();
        let lot = (0..LOT).map(|_| ticking(&context, passing.clone()));
        under_way.push_back((passing.clone(), lot.collect()));
        if under_way.len() > 10 {
            under_way.pop_front().into_iter().for_each(stop);
        }
        // This is the intended rate. A slow machine falls behind it, which does not affect the
        // result.
        std::thread::sleep((begin + round * 10 * MS).saturating_duration_since(Instant::now()));
    }
    let came = u64::from(ROUNDS) * LOT;
    let rate = came as f64 / begin.elapsed().as_secs_f64();
    eprintln!("started and stopped {rate:.0} streams per second");
    under_way.into_iter().for_each(stop);
    let before = stays.taken();
    stays.reaches(before + 5);
    let is_whole = stays.lost() == 0;
    while context.stats().tasks.finished < came {
        std::thread::sleep(MS);
    }
    let tasks = context.stats().tasks;
    assert_eq!((tasks.spawned, tasks.finished), (came + 1, came));
    is_whole
}

/// A source that the OS suspends for too long skips buffers, so we repeat the test until one
/// attempt is undisturbed.
#[test]
fn starting_and_stopping_a_thousand_streams_a_second_does_not_disturb_another() {
    assert!((0..20).any(|_| start_and_stop_a_thousand()));
}

/// Writes a datagram to its clients for each buffer.
struct Writes(Arc<Outbox>, Clients);

impl Sink for Writes {
    fn take(&mut self, _: &Buffer) -> Result<(), Flow> {
        self.0.write(&[7; 900], &self.1);
        Ok(())
    }
}

fn outbox(bytes: usize) -> Arc<Outbox> {
    Outbox::open(&Options::default(), Rtcp::Off, bytes, Reports::default()).unwrap()
}

fn clients(to: SocketAddr) -> Clients {
    let clients = Clients::default();
    clients.add(to);
    clients
}

#[test]
fn a_full_outbox_drops_datagrams_and_counts_them() {
    let outbox = outbox(1 << 16);
    let mut sink = Writes(Arc::clone(&outbox), clients(([127, 0, 0, 1], 9).into()));
    let buffer = Buffer::new(8);
    for _ in 0..10_000 {
        sink.take(&buffer).unwrap();
    }
    assert!(outbox.dropped() > 0);
}

#[test]
fn a_full_socket_buffer_does_not_delay_other_streams() {
    assert!((0..20).any(|_| loses_nothing_next_to_a_full_socket()));
}

fn loses_nothing_next_to_a_full_socket() -> bool {
    let context = context();
    let receiver = std::net::UdpSocket::bind(LOCAL).unwrap();
    let to = receiver.local_addr().unwrap();
    let outbox = outbox(1);
    outbox.start(&context, false);
    let other = Counting::default();
    ticking(&context, other.clone());
    // The receiver at `to` never reads.
    for _ in 0..20 {
        ticking(&context, Writes(Arc::clone(&outbox), clients(to)));
    }
    other.reaches(200);
    other.lost() == 0
}

#[test]
fn a_stream_ends_when_its_tcp_source_ends_or_is_missing() {
    let context = context();
    let listener = std::net::TcpListener::bind(LOCAL).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, ended) = mpsc::channel();
    let start = |address| {
        let (sender, sink) = (sender.clone(), Counting::default());
        let control = Arc::new(Control::started(Changes::default()));
        let source = TcpSource::to(address, 2);
        let running = control.run(Stream::new(source, InPlace::new(sink.clone())));
        let task = async move {
            let ended = running.await;
            sender.send((ended, sink.taken())).unwrap();
        };
        context.spawn(task).detach();
    };
    start(address);
    let (mut upstream, _) = listener.accept().unwrap();
    // We send two complete buffers of two samples each, and half a sample.
    std::io::Write::write_all(&mut upstream, &[1, 0, 2, 0, 3, 0, 4, 0, 5]).unwrap();
    drop(upstream);
    assert_eq!(ended.recv().unwrap(), (Ended::Stopped, 2));
    drop(listener);
    start(address);
    assert_eq!(ended.recv().unwrap(), (Ended::Failed, 0));
}

//! What goes wrong around streams does not stop the others, and is told.

use creel::channel::ring;
use creel::net::UdpSocket;
use creel::time::interval;
use creel::{Pool, Wait};
use creel_cast::audio::BUFFER_SAMPLES;
use creel_cast::buffer::Buffer;
use creel_cast::control::{Changes, Control};
use creel_cast::framing::Framing;
use creel_cast::machine::{Flow, Trigger};
use creel_cast::rtp::Sequence;
use creel_cast::sink::{InPlace, Sink};
use creel_cast::source::{Blank, Paced};
use creel_cast::stream::Stream;
use creel_cast::tcp::TcpSource;
use creel_cast::udp::{Clients, Outbox, UdpSink, UdpSource};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn context() -> Pool {
    let builder = Pool::builder().workers(1).wait(Wait::Throttle(MS));
    builder.build().unwrap()
}

/// Counts what it gets, and what has got lost before.
#[derive(Clone, Default)]
struct Counting {
    taken: Arc<AtomicU64>,
    sequence: Arc<Mutex<Sequence>>,
}

impl Counting {
    fn taken(&self) -> u64 {
        self.taken.load(Ordering::SeqCst)
    }

    /// Waits until so many have come; a test that waits in vain is ended by its runner.
    fn reaches(&self, count: u64) {
        while self.taken() < count {
            std::thread::sleep(MS);
        }
    }
}

impl Sink for Counting {
    fn take(&mut self, buffer: &Buffer) -> Result<(), Flow> {
        self.sequence.lock().unwrap().note(buffer.sequence as u16);
        self.taken.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// A stream that makes a buffer each millisecond.
fn ticking(context: &Pool, sink: impl Sink + 'static) -> Arc<Control> {
    let source = Paced::new(interval(MS), Blank, BUFFER_SAMPLES, u64::MAX);
    let control = Arc::new(Control::started(Changes::default()));
    let running = control.run(Stream::new(source, InPlace::new(sink)));
    context.spawn(running).detach();
    control
}

#[test]
fn a_thousand_streams_a_second_come_and_go_beside_one_that_stays() {
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
        // The rate is what is asked for; a slow machine falls behind it, and the test does not mind.
        std::thread::sleep((begin + round * 10 * MS).saturating_duration_since(Instant::now()));
    }
    let came = u64::from(ROUNDS) * LOT;
    let rate = came as f64 / begin.elapsed().as_secs_f64();
    eprintln!("{rate:.0} streams a second came and went");
    under_way.into_iter().for_each(stop);
    let before = stays.taken();
    stays.reaches(before + 5);
    assert_eq!(stays.sequence.lock().unwrap().lost, 0);
    while context.stats().tasks.finished < came {
        std::thread::sleep(MS);
    }
    let tasks = context.stats().tasks;
    assert_eq!((tasks.spawned, tasks.finished), (came + 1, came));
}

#[test]
fn a_context_whose_streams_wait_for_an_upstream_sleeps() {
    let context = context();
    let sink = Counting::default();
    let socket = UdpSocket::bind(LOCAL).unwrap();
    let source = UdpSource::new(socket, Framing::default());
    let control = Arc::new(Control::started(Changes::default()));
    let running = control.run(Stream::new(source, InPlace::new(sink.clone())));
    context.spawn(running).detach();
    let (_upstream, silent) = ring::channel::<()>(1);
    context.spawn(async move { silent.recv().await }).detach();
    // All that was spawned has been polled once before this is.
    context.block_on(context.spawn(async {})).unwrap();
    std::thread::sleep(20 * MS);
    let before = context.stats().workers[0].parks;
    std::thread::sleep(300 * MS);
    // 300 quanta; one that looked at each would have slept as often.
    let parks = context.stats().workers[0].parks - before;
    assert!(parks < 30, "it woke {parks} times for nothing");
}

#[test]
fn an_outbox_that_nobody_empties_drops_and_counts() {
    let outbox = Arc::new(Outbox::default());
    let clients = Clients::new([([127, 0, 0, 1], 9).into()]);
    let mut sink = UdpSink::new(Arc::clone(&outbox), clients, Framing::default(), 1);
    let buffer = Buffer::new(8);
    for _ in 0..10_000 {
        sink.take(&buffer).unwrap();
    }
    assert!(outbox.counters.dropped() > 0);
    assert_eq!(outbox.counters.sent(), 0);
}

#[test]
fn a_socket_buffer_that_is_full_holds_nobody_back() {
    let context = context();
    let (sender, receiver) = (
        UdpSocket::bind(LOCAL).unwrap(),
        UdpSocket::bind(LOCAL).unwrap(),
    );
    sender.set_send_buffer(1).unwrap();
    receiver.set_recv_buffer(1).unwrap();
    let to = receiver.local_addr().unwrap();
    let outbox = Arc::new(Outbox::default());
    let sending = Arc::clone(&outbox);
    context
        .spawn(async move { sending.send(&sender).await.is_none() })
        .detach();
    let other = Counting::default();
    ticking(&context, other.clone());
    // Nobody reads at `to`.
    for _ in 0..20 {
        let clients = Clients::new([to]);
        ticking(
            &context,
            UdpSink::new(Arc::clone(&outbox), clients, Framing::default(), 1),
        );
    }
    other.reaches(200);
    assert_eq!(other.sequence.lock().unwrap().lost, 0);
    let counters = &outbox.counters;
    assert!(counters.sent() + counters.dropped() + counters.failed() > 0);
}

#[test]
fn a_receiver_that_stalls_for_a_second_knows_what_it_has_missed_and_goes_on() {
    let (far, near) = (context(), context());
    let socket = UdpSocket::bind(LOCAL).unwrap();
    // Some packets: less than a second's.
    socket.set_recv_buffer(64 * 1024).unwrap();
    let to = socket.local_addr().unwrap();
    let sink = Counting::default();
    let control = Arc::new(Control::started(Changes::default()));
    let source = UdpSource::new(socket, Framing::default());
    let running = control.run(Stream::new(source, InPlace::new(sink.clone())));
    near.spawn(running).detach();
    let outbox = Arc::new(Outbox::default());
    let sending = Arc::clone(&outbox);
    far.spawn(async move {
        let socket = UdpSocket::bind(LOCAL).unwrap();
        sending.send(&socket).await.is_none()
    })
    .detach();
    let clients = Clients::new([to]);
    ticking(
        &far,
        UdpSink::new(Arc::clone(&outbox), clients, Framing::default(), 1),
    );
    sink.reaches(10);
    near.run_on(0, || std::thread::sleep(1_000 * MS));
    let at_stall = sink.taken();
    sink.reaches(at_stall + 200);
    let sequence = *sink.sequence.lock().unwrap();
    assert!(sequence.lost > 0, "a small socket buffer has held a second");
    assert_eq!(sequence.received, sink.taken());
}

#[test]
fn a_tcp_source_that_ends_or_is_not_there_ends_its_stream() {
    let context = context();
    let listener = std::net::TcpListener::bind(LOCAL).unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, ended) = mpsc::channel();
    let start = |address| {
        let (tell, sink) = (tell.clone(), Counting::default());
        let control = Arc::new(Control::started(Changes::default()));
        let source = TcpSource::to(address, 2);
        let running = control.run(Stream::new(source, InPlace::new(sink.clone())));
        let task = async move {
            let ended = running.await;
            tell.send((ended, sink.taken())).unwrap();
        };
        context.spawn(task).detach();
    };
    start(address);
    let (mut upstream, _) = listener.accept().unwrap();
    // Two whole buffers of two samples, and a half.
    std::io::Write::write_all(&mut upstream, &[1, 0, 2, 0, 3, 0, 4, 0, 5]).unwrap();
    drop(upstream);
    assert_eq!(
        ended.recv().unwrap(),
        (creel_cast::control::Ended::Stopped, 2)
    );
    drop(listener);
    start(address);
    assert_eq!(
        ended.recv().unwrap(),
        (creel_cast::control::Ended::Failed, 0)
    );
}

#[cfg(unix)]
#[test]
fn too_few_descriptors_are_told_and_the_ports_that_are_open_work() {
    let first = std::net::UdpSocket::bind(LOCAL).unwrap();
    // Above it, a hundred: some may be in use, which is told in the same line.
    let base = first.local_addr().unwrap().port().min(65_000) + 1;
    let program = env!("CARGO_BIN_EXE_creel-cast");
    let line = format!(
        "ulimit -n 64 && exec {program} receive --streams 100 --on 127.0.0.1:{base} \
         --for 1500ms --buffers 1 --format csv"
    );
    let mut child = Command::new("sh");
    child.args(["-c", &line]);
    child
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = child.spawn().unwrap();
    let sender = std::net::UdpSocket::bind(LOCAL).unwrap();
    let packet = creel_cast::rtp::Header {
        payload_type: 11,
        marker: false,
        sequence: 1,
        timestamp: 0,
        ssrc: 0,
    }
    .to_bytes();
    let begin = Instant::now();
    while begin.elapsed() < 1_000 * MS {
        // Refused until the port is open.
        let _ = sender.send_to(&packet, (Ipv4Addr::LOCALHOST, base));
        std::thread::sleep(5 * MS);
    }
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("ports could not"))
        .collect();
    assert_eq!(lines.len(), 1, "{told}");
    assert!(
        lines[0].contains("of 100 ports could not be opened"),
        "{told}"
    );
    assert!(output.status.success(), "{told}");
    let rows = String::from_utf8_lossy(&output.stdout);
    let row = rows.lines().nth(1).unwrap_or_default();
    let streams: usize = row.split(',').next().unwrap_or_default().parse().unwrap();
    assert!((10..64).contains(&streams), "{rows}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_sender_tells_its_figures_and_that_it_was_interrupted() {
    let client = std::net::UdpSocket::bind(LOCAL).unwrap();
    client.set_read_timeout(Some(20_000 * MS)).unwrap();
    let to = client.local_addr().unwrap().to_string();
    let mut sender = Command::new(env!("CARGO_BIN_EXE_creel-cast"));
    sender.args(["send", "--streams", "1", "--to", &to, "--buffers", "100000"]);
    sender.args(["--ramp-up", "0s", "--format", "csv"]);
    let sender = sender.stdout(std::process::Stdio::piped()).spawn().unwrap();
    client.recv(&mut [0; 2048]).expect("it sends");
    let signal = Command::new("kill")
        .args(["-INT", &sender.id().to_string()])
        .status();
    assert!(signal.unwrap().success());
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
}

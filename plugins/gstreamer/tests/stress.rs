//! Makes random state changes, flushes and seeks on all elements while data flows, both from the
//! program and from streaming threads.
//!
//! `CREEL_GST_CHANGES` sets the number of changes per seed, and `CREEL_GST_SEED` the first seed.

mod common;

use common::{Pipeline, init, number};
use gst::prelude::*;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A generator of pseudorandom numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// The pipelines. All of them use two contexts, so that their elements share threads.
const PIPELINES: &[&str] = &[
    "creel-udpsrc name=src address=127.0.0.1 port=0 context=a ! creel-queue context=b max-size-buffers=3 \
     ! creel-clocksync ! creel-queue context=a leaky=downstream max-size-buffers=2 \
     ! fakesink name=sink sync=false async=false",
    "creel-udpsrc name=src address=127.0.0.1 port=0 context=b ! tee name=t ! creel-queue context=b \
     ! fakesink name=sink sync=false async=false t. ! creel-queue context=a ! creel-udpsink sync=true clients=127.0.0.1:9",
    "audiotestsrc samplesperbuffer=8 ! creel-queue context=a max-size-buffers=2 ! creel-clocksync \
     ! creel-queue context=a max-size-buffers=1 ! fakesink name=sink sync=false async=false",
    "creel-audiotestsrc samples-per-buffer=8 context=a ! creel-proxysink proxy-context=stress",
    "creel-proxysrc proxy-context=stress context=b max-size-buffers=4 ! tee name=t \
     ! creel-intersink inter-context=stress t. ! creel-queue context=b ! fakesink name=sink sync=false async=false",
    "creel-intersrc name=inter inter-context=stress context=a max-size-buffers=2 ! creel-blocking-adapter \
     ! fakesink name=sink async=false",
    "creel-input-selector name=s ! creel-queue context=b ! fakesink name=sink sync=false async=false \
     creel-intersrc name=inter inter-context=stress context=b ! s. \
     creel-audiotestsrc is-live=false samples-per-buffer=8 context=a ! creel-clocksync ! s. \
     creel-appsrc name=app context=b caps=audio/x-raw ! s.",
    "creel-tcpclientsrc name=tcp context=a ! fakesink name=sink sync=false async=false",
    "creel-rtpdtmfsrc name=dtmf context=b ! creel-queue context=a ! fakesink name=sink sync=false async=false",
];

const STATES: [gst::State; 4] = [
    gst::State::Null,
    gst::State::Ready,
    gst::State::Paused,
    gst::State::Playing,
];

/// Makes one random change from the calling thread.
fn change(random: &mut Random, pipeline: &gst::Pipeline) {
    match random.below(11) {
        0..5 => {
            let _ = pipeline.set_state(*random.pick(&STATES));
        }
        5 => {
            // We change the state of a sink alone, and then set it to that of the pipeline again.
            // We do this only with sinks. While a sink blocks the elements before it, they cannot
            // be stopped alone, and this is also true of GStreamer's own elements.
            let sink = |element: &gst::Element| element.src_pads().is_empty();
            let children = pipeline.children();
            let sinks: Vec<_> = children.into_iter().filter(sink).collect();
            let child = random.pick(&sinks);
            let _ = child.set_state(*random.pick(&STATES));
            let _ = child.sync_state_with_parent();
        }
        6 => {
            let _ = pipeline.send_event(gst::event::FlushStart::new());
            let _ = pipeline.send_event(gst::event::FlushStop::new(true));
        }
        7 => {
            let flags = gst::SeekFlags::FLUSH | gst::SeekFlags::KEY_UNIT;
            let _ = pipeline.seek_simple(flags, gst::ClockTime::from_mseconds(random.next() % 100));
        }
        8 => {
            let mut query = gst::query::Latency::new();
            let _ = pipeline.query(&mut query);
            let _ = pipeline.query_position::<gst::ClockTime>();
        }
        9 => {
            if let Some(app) = pipeline.by_name("app") {
                for _ in 0..random.below(20) {
                    app.emit_by_name::<bool>("push-buffer", &[&gst::Buffer::from_slice([0])]);
                }
            }
            if let Some(selector) = pipeline.by_name("s") {
                let pads = selector.sink_pads();
                selector.set_property("active-pad", random.pick(&pads));
            }
            if let Some(inter) = pipeline.by_name("inter") {
                // Nothing sends to the second connection.
                inter.set_property("inter-context", *random.pick(&["stress", "silent"]));
            }
            if let Some(dtmf) = pipeline.by_name("dtmf") {
                let key = gst::Structure::builder("dtmf-event")
                    .field("type", 1)
                    .field("number", random.below(16) as i32)
                    .field("volume", 10)
                    .field("start", random.below(2) == 0);
                dtmf.send_event(gst::event::CustomUpstream::new(key.build()));
            }
        }
        _ => std::thread::sleep(Duration::from_micros(random.next() % 3_000)),
    }
}

fn run(seed: u64, changes: u64) {
    init();
    println!("seed {seed}");
    let mut random = Random(seed);
    let pipelines: Vec<Pipeline> = PIPELINES.iter().map(|text| Pipeline::parse(text)).collect();
    // The streaming thread at the end of the first pipeline changes the other pipelines. It is the
    // thread of the context `a`, on which elements of the other pipelines run as well. Only one
    // pipeline does this, because two streaming threads that stop each other wait for ever. This is
    // also true of GStreamer's own elements.
    let others: Vec<_> = pipelines[1..]
        .iter()
        .map(|pipeline| pipeline.bin().downgrade())
        .collect();
    let from_streaming = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&from_streaming);
    let own_random = Mutex::new(Random(!seed));
    let pad = pipelines[0].get("sink").static_pad("sink").unwrap();
    pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
        let mut random = own_random.lock().unwrap();
        if let Some(other) = random.pick(&others).upgrade() {
            change(&mut random, &other);
            count.fetch_add(1, Ordering::SeqCst);
        }
        gst::PadProbeReturn::Ok
    });
    drop(pad);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let tcp_port = i32::from(server.local_addr().unwrap().port());
    for tcp in pipelines
        .iter()
        .filter_map(|pipeline| pipeline.bin().by_name("tcp"))
    {
        tcp.set_property("port", tcp_port);
    }
    let done = Arc::new(AtomicBool::new(false));
    let ports: Arc<Mutex<Vec<i32>>> = Arc::default();
    let sender = std::thread::spawn({
        let (done, ports) = (Arc::clone(&done), Arc::clone(&ports));
        move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let mut connections = Vec::new();
            while !done.load(Ordering::SeqCst) {
                if let Ok((connection, _)) = server.accept() {
                    connections.push(connection);
                }
                connections.retain_mut(|connection| connection.write(&[0; 10]).is_ok());
                for port in ports.lock().unwrap().iter() {
                    let _ = socket.send_to(&[0; 160], ("127.0.0.1", *port as u16));
                }
                std::thread::sleep(Duration::from_micros(300));
            }
        }
    });
    let begin = Instant::now();
    for _ in 0..changes {
        let pipeline = random.pick(&pipelines).bin();
        change(&mut random, pipeline);
        let mut now = ports.lock().unwrap();
        now.clear();
        let sources = pipelines
            .iter()
            .filter_map(|pipeline| pipeline.bin().by_name("src"));
        now.extend(
            sources
                .map(|source| source.property::<i32>("port"))
                .filter(|port| *port > 0),
        );
    }
    // All pipelines must still work.
    for pipeline in &pipelines {
        pipeline.set_state(gst::State::Null);
        pipeline.set_state(gst::State::Playing);
    }
    let elements: Vec<_> = pipelines
        .iter()
        .flat_map(|pipeline| pipeline.bin().children())
        .collect();
    let pads = elements.iter().flat_map(|element| element.pads());
    let weak_pads: Vec<_> = pads.map(|pad| pad.downgrade()).collect();
    let weak: Vec<_> = elements.iter().map(|element| element.downgrade()).collect();
    drop((elements, pipelines));
    // A thread of a pool may not have dropped the last objects that it used. Therefore we wait.
    common::wait_for(|| {
        weak.iter().all(|element| element.upgrade().is_none())
            && weak_pads.iter().all(|pad| pad.upgrade().is_none())
    });
    done.store(true, Ordering::SeqCst);
    sender.join().unwrap();
    let streaming = from_streaming.load(Ordering::SeqCst);
    println!(
        "{changes} changes and {streaming} from a streaming thread in {:?}",
        begin.elapsed()
    );
}

#[test]
fn random_changes_end_without_a_hang() {
    let first = number("CREEL_GST_SEED", 1);
    for seed in first..first + 3 {
        run(seed, number("CREEL_GST_CHANGES", 300));
    }
}

#[test]
fn a_stream_that_stops_itself_does_not_wait_for_itself() {
    let pipeline = Pipeline::parse(
        "creel-udpsrc name=src address=127.0.0.1 port=0 ! fakesink name=sink signal-handoffs=true sync=false async=false",
    );
    let source = pipeline.get("src").downgrade();
    let stopped = Arc::new(AtomicBool::new(false));
    let is_stopped = Arc::clone(&stopped);
    pipeline.on_buffer("sink", move |_, _| {
        source
            .upgrade()
            .unwrap()
            .set_state(gst::State::Null)
            .unwrap();
        is_stopped.store(true, Ordering::SeqCst);
    });
    for _ in 0..10 {
        stopped.store(false, Ordering::SeqCst);
        pipeline.set_state(gst::State::Playing);
        pipeline.get("src").sync_state_with_parent().unwrap();
        let port = pipeline.get("src").property::<i32>("port") as u16;
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        common::wait_for(|| {
            socket.send_to(b"x", ("127.0.0.1", port)).unwrap();
            stopped.load(Ordering::SeqCst)
        });
        pipeline.set_state(gst::State::Null);
    }
}

#[test]
fn a_streaming_thread_changes_the_state_of_others_on_its_own_thread() {
    let first = Pipeline::parse(
        "creel-udpsrc name=src address=127.0.0.1 port=0 context=one ! fakesink name=sink signal-handoffs=true sync=false async=false",
    );
    let second = Pipeline::parse(
        "creel-udpsrc address=127.0.0.1 port=0 context=one ! creel-queue context=one ! fakesink sync=false async=false",
    );
    let other = second.bin().downgrade();
    let changes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&changes);
    first.on_buffer("sink", move |_, _| {
        let Some(other) = other.upgrade() else { return };
        for state in [
            gst::State::Playing,
            gst::State::Ready,
            gst::State::Playing,
            gst::State::Null,
        ] {
            other.set_state(state).unwrap();
        }
        count.fetch_add(1, Ordering::SeqCst);
    });
    first.set_state(gst::State::Playing);
    let port = first.get("src").property::<i32>("port") as u16;
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    common::wait_for(|| {
        socket.send_to(b"x", ("127.0.0.1", port)).unwrap();
        changes.load(Ordering::SeqCst) >= 20
    });
}

//! Checks the limits of the queue, the order of its items, and flushes.

mod common;

use common::{Pipeline, init, wait_for};
use gst::prelude::*;
use gst_check::Harness;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn buffer(n: u64) -> gst::Buffer {
    let mut buffer = gst::Buffer::with_size(100).unwrap();
    let inner = buffer.get_mut().unwrap();
    inner.set_pts(n * 20 * gst::ClockTime::MSECOND);
    inner.set_duration(20 * gst::ClockTime::MSECOND);
    buffer
}

/// Returns a harness whose queue keeps everything, because a probe blocks its source pad.
fn blocked(properties: &[(&str, &str)]) -> (Harness, gst::Element, gst::PadProbeId) {
    init();
    let mut harness = Harness::new("creel-queue");
    let queue = harness.element().unwrap();
    for (name, value) in properties {
        queue.set_property_from_str(name, value);
    }
    let pad = queue.static_pad("src").unwrap();
    let blocked = Arc::new(AtomicBool::new(false));
    let is_blocked = Arc::clone(&blocked);
    let kinds = gst::PadProbeType::BLOCK | gst::PadProbeType::BUFFER;
    let probe = pad.add_probe(kinds, move |_, _| {
        is_blocked.store(true, Ordering::SeqCst);
        gst::PadProbeReturn::Ok
    });
    harness.set_src_caps_str("application/x-test");
    harness.push(buffer(0)).unwrap();
    wait_for(|| blocked.load(Ordering::SeqCst));
    (harness, queue, probe.unwrap())
}

#[test]
fn items_leave_the_queue_in_the_order_of_their_arrival() {
    init();
    let mut harness = Harness::new("creel-queue");
    harness.set_src_caps_str("application/x-test");
    for n in 0..500 {
        harness.push(buffer(n)).unwrap();
        if n % 100 == 99 {
            let event = gst::Structure::builder("mark").field("after", n).build();
            assert!(harness.push_event(gst::event::CustomDownstream::new(event)));
        }
    }
    harness.push_event(gst::event::Eos::new());
    for n in 0..500 {
        assert_eq!(
            harness.pull().unwrap().pts().unwrap(),
            n * 20 * gst::ClockTime::MSECOND
        );
    }
    let mut marks = Vec::new();
    loop {
        let event = harness.pull_event().unwrap();
        match event.view() {
            gst::EventView::CustomDownstream(event) => {
                marks.push(event.structure().unwrap().get::<u64>("after").unwrap());
            }
            gst::EventView::Eos(_) => break,
            _ => {}
        }
    }
    assert_eq!(marks, [99, 199, 299, 399, 499]);
}

#[test]
fn each_of_the_three_limits_makes_the_queue_full() {
    let none = [
        ("max-size-buffers", "0"),
        ("max-size-bytes", "0"),
        ("max-size-time", "0"),
    ];
    for (limit, value) in [
        ("max-size-buffers", "5"),
        ("max-size-bytes", "500"),
        ("max-size-time", "100000000"),
    ] {
        let mut properties = none.to_vec();
        properties.extend([(limit, value), ("leaky", "upstream")]);
        let (mut harness, queue, _) = blocked(&properties);
        for n in 1..20 {
            harness.push(buffer(n)).unwrap();
        }
        assert_eq!(queue.property::<u32>("current-level-buffers"), 5, "{limit}");
        assert_eq!(queue.property::<u32>("current-level-bytes"), 500, "{limit}");
        assert_eq!(
            queue.property::<u64>("current-level-time"),
            100_000_000,
            "{limit}"
        );
        let stats = queue.property::<gst::Structure>("stats");
        assert_eq!(stats.get::<u64>("dropped"), Ok(14), "{limit}");
    }
}

#[test]
fn a_queue_that_leaks_downstream_keeps_the_newest_buffers() {
    let (mut harness, queue, probe) =
        blocked(&[("max-size-buffers", "3"), ("leaky", "downstream")]);
    for n in 1..=10 {
        harness.push(buffer(n)).unwrap();
    }
    queue.static_pad("src").unwrap().remove_probe(probe);
    let pts = [0, 8, 9, 10].map(|n| Some(n * 20 * gst::ClockTime::MSECOND));
    assert_eq!([(); 4].map(|()| harness.pull().unwrap().pts()), pts);
}

#[test]
fn a_flush_empties_a_full_queue_and_frees_its_sender() {
    let (mut harness, queue, probe) = blocked(&[("max-size-buffers", "3")]);
    for n in 1..=3 {
        harness.push(buffer(n)).unwrap();
    }
    let sink = queue.static_pad("sink").unwrap();
    let sender = sink.peer().unwrap();
    let pushing = std::thread::spawn(move || sender.push(buffer(4)));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!pushing.is_finished());
    harness.push_event(gst::event::FlushStart::new());
    assert_eq!(pushing.join().unwrap(), Err(gst::FlowError::Flushing));
    queue.static_pad("src").unwrap().remove_probe(probe);
    harness.push_event(gst::event::FlushStop::new(true));
    assert_eq!(queue.property::<u32>("current-level-buffers"), 0);
    while harness.try_pull().is_some() {}
    let segment = gst::FormattedSegment::<gst::ClockTime>::new();
    harness.push_event(gst::event::Segment::new(&segment));
    harness.push(buffer(9)).unwrap();
    assert_eq!(
        harness.pull().unwrap().pts(),
        Some(180 * gst::ClockTime::MSECOND)
    );
}

#[test]
fn a_full_queue_pauses_a_stream_of_its_own_context_and_not_the_thread() {
    // Both queues run on one thread. If the first one blocked it, the second would never drain.
    let pipeline = Pipeline::parse(
        "audiotestsrc num-buffers=500 samplesperbuffer=8 ! creel-queue context=one max-size-buffers=4 \
         ! creel-queue name=second context=one max-size-buffers=2 \
         ! fakesink name=sink signal-handoffs=true sync=false async=false",
    );
    let second = pipeline.get("second");
    let (count, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(0)));
    let (seen, level) = (Arc::clone(&count), Arc::clone(&most));
    pipeline.on_buffer("sink", move |_, _| {
        seen.fetch_add(1, Ordering::SeqCst);
        let mut level = level.lock().unwrap();
        *level = second.property::<u32>("current-level-buffers").max(*level);
    });
    pipeline.set_state(gst::State::Playing);
    pipeline.wait_for_eos();
    assert_eq!(count.load(Ordering::SeqCst), 500);
    assert!(*most.lock().unwrap() <= 2);
}

#[test]
fn an_error_of_the_peer_reaches_the_source() {
    let pipeline = Pipeline::parse(
        "audiotestsrc ! creel-queue ! identity error-after=10 ! fakesink sync=false async=false",
    );
    pipeline.set_state(gst::State::Playing);
    let error = pipeline.wait_for_error();
    assert!(!error.is_empty());
}

/// Queues whose other side is a task or a thread, so that an error of it does not reach the sender.
const QUEUES: [&str; 2] = [
    "creel-queue name=queue",
    "creel-blocking-adapter name=queue",
];

/// A queue between two pads of the test. The second pad returns an error for each buffer.
struct Failing {
    pipeline: Pipeline,
    sender: gst::Pad,
    ended: Arc<AtomicBool>,
    _receiver: gst::Pad,
}

impl Failing {
    fn new(queue: &str, error: gst::FlowError) -> Self {
        let pipeline = Pipeline::parse(queue);
        let queue = pipeline.get("queue");
        let sender = gst::Pad::builder(gst::PadDirection::Src).build();
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let receiver = gst::Pad::builder(gst::PadDirection::Sink)
            .chain_function(move |_, _, _| Err(error))
            .event_function(move |_, _, event| {
                if event.type_() == gst::EventType::Eos {
                    seen.store(true, Ordering::SeqCst);
                }
                true
            })
            .build();
        sender.link(&queue.static_pad("sink").unwrap()).unwrap();
        queue.static_pad("src").unwrap().link(&receiver).unwrap();
        sender.set_active(true).unwrap();
        receiver.set_active(true).unwrap();
        pipeline.set_state(gst::State::Playing);
        assert!(sender.push_event(gst::event::StreamStart::new("test")));
        let segment = gst::FormattedSegment::<gst::ClockTime>::new();
        assert!(sender.push_event(gst::event::Segment::new(&segment)));
        Self {
            pipeline,
            sender,
            ended,
            _receiver: receiver,
        }
    }
}

const FAILURES: [gst::FlowError; 3] = [
    gst::FlowError::Error,
    gst::FlowError::NotLinked,
    gst::FlowError::NotNegotiated,
];

#[test]
fn a_queue_reports_an_error_that_came_before_the_end_of_the_stream() {
    for queue in QUEUES {
        for error in FAILURES {
            let test = Failing::new(queue, error);
            wait_for(|| test.sender.push(buffer(0)) == Err(error));
            assert!(!test.sender.push_event(gst::event::Eos::new()));
            let report = test.pipeline.wait_for_error();
            assert!(report.contains(&format!("{error:?}")), "{report}");
        }
        // This is not an error, but the normal end.
        let test = Failing::new(queue, gst::FlowError::Eos);
        wait_for(|| test.sender.push(buffer(0)) == Err(gst::FlowError::Eos));
        assert!(!test.sender.push_event(gst::event::Eos::new()));
        let bus = test.pipeline.bin().bus().unwrap();
        assert!(bus.pop_filtered(&[gst::MessageType::Error]).is_none());
    }
}

#[test]
fn a_queue_reports_an_error_that_came_after_the_end_of_the_stream() {
    for queue in QUEUES {
        for error in FAILURES {
            let test = Failing::new(queue, error);
            let pad = test.pipeline.get("queue").static_pad("src").unwrap();
            let kinds = gst::PadProbeType::BLOCK | gst::PadProbeType::BUFFER;
            let probe = pad.add_probe(kinds, |_, _| gst::PadProbeReturn::Ok);
            test.sender.push(buffer(0)).unwrap();
            assert!(test.sender.push_event(gst::event::Eos::new()));
            pad.remove_probe(probe.unwrap());
            let report = test.pipeline.wait_for_error();
            assert!(report.contains(&format!("{error:?}")), "{report}");
            wait_for(|| test.ended.load(Ordering::SeqCst));
        }
    }
}

#[test]
fn a_short_stream_does_not_end_before_its_error_is_reported() {
    for queue in QUEUES {
        for text in [
            format!("audiotestsrc num-buffers=3 ! {queue}"),
            format!("fakesrc num-buffers=1 ! {queue} ! audioconvert ! fakesink"),
        ] {
            for _ in 0..10 {
                let pipeline = Pipeline::parse(&text);
                // The result depends on whether the error or the state change is faster.
                let _ = pipeline.bin().set_state(gst::State::Playing);
                pipeline.wait_for_error();
            }
        }
    }
}

#[test]
fn a_queue_that_is_linked_again_continues() {
    let pipeline = Pipeline::parse(QUEUES[0]);
    let queue = pipeline.get("queue");
    pipeline.set_state(gst::State::Playing);
    let sender = gst::Pad::builder(gst::PadDirection::Src).build();
    sender.link(&queue.static_pad("sink").unwrap()).unwrap();
    sender.set_active(true).unwrap();
    assert!(sender.push_event(gst::event::StreamStart::new("test")));
    let segment = gst::FormattedSegment::<gst::ClockTime>::new();
    assert!(sender.push_event(gst::event::Segment::new(&segment)));
    wait_for(|| sender.push(buffer(0)) == Err(gst::FlowError::NotLinked));
    let sink = gst::ElementFactory::make("fakesink")
        .property("async", false)
        .build()
        .unwrap();
    pipeline.bin().add(&sink).unwrap();
    sink.sync_state_with_parent().unwrap();
    queue.link(&sink).unwrap();
    sender.push(buffer(1)).unwrap();
    assert!(sender.push_event(gst::event::Eos::new()));
    pipeline.wait_for_eos();
}

#[test]
fn a_drain_query_waits_until_the_queue_is_empty() {
    init();
    let mut harness = Harness::new("creel-queue");
    harness.set_src_caps_str("application/x-test");
    for n in 0..50 {
        harness.push(buffer(n)).unwrap();
    }
    let sink = harness.element().unwrap().static_pad("sink").unwrap();
    let mut query = gst::query::Drain::new();
    sink.peer().unwrap().peer_query(&mut query);
    assert_eq!(harness.buffers_received(), 50);
}

#[test]
fn a_buffer_from_another_thread_does_not_wait_for_the_quantum() {
    // The timer of this source makes the thread of the context sleep until the end of its quantum.
    let other = Pipeline::parse(
        "creel-audiotestsrc is-live=true context=long-quantum context-wait=1000 \
         ! fakesink sync=false async=false",
    );
    other.set_state(gst::State::Playing);
    let timers = || {
        let stats = other.element().property::<gst::Structure>("stats");
        stats.get::<u64>("context-timers").unwrap()
    };
    wait_for(|| timers() > 0);
    let queue = gst::ElementFactory::make("creel-queue")
        .property("context", "long-quantum")
        .property("context-wait", 1_000_u32)
        .build()
        .unwrap();
    let mut harness = Harness::with_element(&queue, Some("sink"), Some("src"));
    harness.play();
    harness.set_src_caps_str("application/x-test");
    let before = timers();
    for n in 0..60 {
        harness.push(buffer(n)).unwrap();
        wait_for(|| harness.buffers_received() as u64 > n);
    }
    // If each buffer waited until the end of the quantum, the timer would have fired 60 times.
    assert!(timers() - before < 30);
}

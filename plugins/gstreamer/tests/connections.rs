//! Checks the connections between pipelines, which the proxy and inter elements make.

mod common;

use common::{Pipeline, SINK, collect, wait_for};
use gst::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn a_full_proxy_pauses_its_sender_and_loses_no_buffer() {
    let sender = Pipeline::parse(
        "audiotestsrc num-buffers=200 samplesperbuffer=8 ! creel-queue context=p ! creel-proxysink proxy-context=one",
    );
    let receiver = Pipeline::parse(&format!(
        "creel-proxysrc name=src proxy-context=one context=q max-size-buffers=3 ! {SINK}"
    ));
    let got = collect(&receiver, |buffer| buffer.offset());
    receiver.set_state(gst::State::Playing);
    sender.set_state(gst::State::Playing);
    receiver.wait_for_eos();
    sender.wait_for_eos();
    let offsets: Vec<u64> = (0..200).map(|n| n * 8).collect();
    assert_eq!(*got.lock().unwrap(), offsets);
}

#[test]
fn a_second_source_of_a_proxy_is_refused() {
    let one = Pipeline::parse(&format!("creel-proxysrc proxy-context=busy ! {SINK}"));
    let two = Pipeline::parse(&format!("creel-proxysrc proxy-context=busy ! {SINK}"));
    one.set_state(gst::State::Playing);
    assert!(two.bin().set_state(gst::State::Playing).is_err());
    assert!(two.wait_for_error().contains("busy"));
}

#[test]
fn receivers_join_and_leave_a_sender() {
    let sender = Pipeline::parse(
        "creel-audiotestsrc samples-per-buffer=8 context=i ! audio/x-raw,rate=8000 ! creel-intersink inter-context=many",
    );
    sender.set_state(gst::State::Playing);
    for round in 0..5 {
        let receivers = [0, 1, 2].map(|n| {
            let receiver = Pipeline::parse(&format!(
                "creel-intersrc inter-context=many context=r{n} ! {SINK}"
            ));
            let count = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&count);
            receiver.on_buffer("sink", move |_, caps| {
                assert!(caps.unwrap().to_string().starts_with("audio/x-raw"));
                seen.fetch_add(1, Ordering::SeqCst);
            });
            receiver.set_state(gst::State::Playing);
            (receiver, count)
        });
        for (_, count) in &receivers {
            wait_for(|| count.load(Ordering::SeqCst) > 5);
        }
        if round % 2 == 0 {
            sender.set_state(gst::State::Ready);
            sender.set_state(gst::State::Playing);
        }
    }
}

#[test]
fn a_receiver_changes_its_connection_while_it_plays() {
    let senders = [("one", 1), ("two", 2)].map(|(name, channels)| {
        let sender = Pipeline::parse(&format!(
            "creel-audiotestsrc samples-per-buffer=8 context=i \
             ! audio/x-raw,rate=8000,channels={channels} ! creel-intersink inter-context={name}"
        ));
        sender.set_state(gst::State::Playing);
        sender
    });
    let receiver = Pipeline::parse(&format!(
        "creel-intersrc name=src inter-context=one context=r leaky=no ! {SINK}"
    ));
    let channels = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&channels);
    receiver.on_buffer("sink", move |_, caps| {
        let caps = caps.unwrap();
        let count: i32 = caps.structure(0).unwrap().get("channels").unwrap();
        seen.store(count as usize, Ordering::SeqCst);
    });
    receiver.set_state(gst::State::Playing);
    for round in 0..50 {
        let source = receiver.get("src");
        source.set_property("inter-context", ["one", "two"][round % 2]);
        wait_for(|| channels.load(Ordering::SeqCst) == round % 2 + 1);
    }
    drop(senders);
}

#[test]
fn receivers_of_a_sender_do_not_affect_each_other() {
    let sender = Pipeline::parse(
        "audiotestsrc is-live=true samplesperbuffer=80 ! audio/x-raw,rate=8000 \
         ! creel-intersink inter-context=apart",
    );
    let receiver = |context: &str, rest: &str| {
        let pipeline = Pipeline::parse(&format!(
            "creel-intersrc name=src inter-context=apart context={context} max-size-buffers=3 {rest}"
        ));
        pipeline.bin().set_state(gst::State::Playing).unwrap();
        pipeline
    };
    let unlinked = receiver("unlinked", "");
    // A paused sink blocks the thread of the receiver.
    let paused = receiver("paused", "! fakesink name=sink async=false");
    paused.get("sink").set_locked_state(true);
    paused.get("sink").set_state(gst::State::Paused).unwrap();
    let restless = receiver("restless", &format!("! {SINK}"));
    let healthy = receiver("healthy", &format!("! {SINK}"));
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    healthy.on_buffer("sink", move |_, _| {
        seen.fetch_add(1, Ordering::SeqCst);
    });
    sender.set_state(gst::State::Playing);
    let error = unlinked.wait_for_error();
    assert!(error.contains("NotLinked"), "{error}");
    wait_for(|| paused.element().property::<u32>("current-level-buffers") == 3);
    let pad = restless.get("sink").static_pad("sink").unwrap();
    let (with, without) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = [Arc::clone(&without), Arc::clone(&with)];
    pad.add_probe(gst::PadProbeType::BUFFER, move |pad, _| {
        let segment = pad.sticky_event::<gst::event::Segment>(0);
        seen[usize::from(segment.is_some())].fetch_add(1, Ordering::SeqCst);
        gst::PadProbeReturn::Ok
    });
    for _ in 0..5 {
        assert!(pad.push_event(gst::event::FlushStart::new()));
        assert!(pad.push_event(gst::event::FlushStop::new(true)));
        let flags = gst::SeekFlags::FLUSH;
        assert!(
            restless
                .get("sink")
                .seek_simple(flags, gst::ClockTime::ZERO)
                .is_err()
        );
        for count in [&count, &with] {
            let before = count.load(Ordering::SeqCst);
            wait_for(|| count.load(Ordering::SeqCst) >= before + 5);
        }
    }
    assert_eq!(
        without.load(Ordering::SeqCst),
        0,
        "buffers without a segment"
    );
    let bus = sender.bin().bus().unwrap();
    assert!(
        bus.pop_filtered(&[gst::MessageType::Error, gst::MessageType::Eos])
            .is_none()
    );
    paused.get("sink").set_locked_state(false);
}

#[test]
fn a_stream_that_changes_its_own_connection_keeps_its_segment() {
    let senders = ["mine", "yours"].map(|name| {
        let sender = Pipeline::parse(&format!(
            "audiotestsrc is-live=true samplesperbuffer=8 ! audio/x-raw,rate=8000 \
             ! creel-intersink inter-context={name}"
        ));
        sender.set_state(gst::State::Playing);
        sender
    });
    let receiver = Pipeline::parse(&format!(
        "creel-intersrc name=src inter-context=mine context=r ! {SINK}"
    ));
    let counts = Arc::new(Mutex::new((0, 0)));
    let source = receiver.get("src");
    let change = source.downgrade();
    let seen = Arc::clone(&counts);
    let of_source = source.static_pad("src").unwrap();
    of_source.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
        let n = seen.lock().unwrap().0;
        let source = change.upgrade().unwrap();
        source.set_property("inter-context", ["yours", "mine"][n % 2]);
        gst::PadProbeReturn::Ok
    });
    let seen = Arc::clone(&counts);
    let of_sink = receiver.get("sink").static_pad("sink").unwrap();
    of_sink.add_probe(gst::PadProbeType::BUFFER, move |pad, _| {
        let mut seen = seen.lock().unwrap();
        seen.0 += 1;
        seen.1 += usize::from(pad.sticky_event::<gst::event::Segment>(0).is_none());
        gst::PadProbeReturn::Ok
    });
    receiver.set_state(gst::State::Playing);
    wait_for(|| counts.lock().unwrap().0 >= 100);
    assert_eq!(counts.lock().unwrap().1, 0, "buffers without a segment");
    drop(senders);
}

/// The two kinds of connection, as the ends of their pipelines.
const CONNECTIONS: [(&str, &str); 2] = [
    (
        "creel-proxysink proxy-context=again",
        "creel-proxysrc name=src proxy-context=again context=r",
    ),
    (
        "creel-intersink inter-context=again",
        "creel-intersrc name=src inter-context=again context=r",
    ),
];

#[test]
fn a_receiver_without_a_peer_is_reported_although_the_stream_is_short() {
    for (sink, source) in CONNECTIONS {
        for buffers in [1, 2, 3] {
            let receiver = Pipeline::parse(source);
            let sender = Pipeline::parse(&format!("audiotestsrc num-buffers={buffers} ! {sink}"));
            receiver.set_state(gst::State::Playing);
            // The result depends on whether the error or the state change is faster.
            let _ = sender.bin().set_state(gst::State::Playing);
            let buses = [&receiver, &sender].map(|pipeline| pipeline.bin().bus().unwrap());
            let has_error = |bus: &gst::Bus| bus.pop_filtered(&[gst::MessageType::Error]).is_some();
            wait_for(|| buses.iter().any(has_error));
        }
    }
}

#[test]
fn a_receiver_that_is_linked_again_continues() {
    for (sink, source) in CONNECTIONS {
        let receiver = Pipeline::parse(source);
        let sender = Pipeline::parse(&format!(
            "appsrc name=app format=time ! identity name=id ! {sink}"
        ));
        receiver.set_state(gst::State::Playing);
        sender.set_state(gst::State::Playing);
        let pad = sender.get("id").static_pad("sink").unwrap();
        let push = || pad.chain(gst::Buffer::new());
        assert!(pad.send_event(gst::event::StreamStart::new("test")));
        let segment = gst::FormattedSegment::<gst::ClockTime>::new();
        assert!(pad.send_event(gst::event::Segment::new(&segment)));
        let bus = receiver.bin().bus().unwrap();
        // The receiver of an inter connection reports the error itself.
        wait_for(|| push().is_err() || bus.pop_filtered(&[gst::MessageType::Error]).is_some());
        let element = gst::ElementFactory::make("fakesink").property("async", false);
        let element = element.property("signal-handoffs", true).build().unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&count);
        element.connect("handoff", false, move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            None
        });
        receiver.bin().add(&element).unwrap();
        element.sync_state_with_parent().unwrap();
        receiver.get("src").link(&element).unwrap();
        push().unwrap();
        wait_for(|| count.load(Ordering::SeqCst) > 0);
    }
}

#[test]
fn a_source_that_changes_to_a_proxy_that_is_taken_reports_an_error() {
    let taken = Pipeline::parse(&format!(
        "creel-proxysrc proxy-context=taken context=r ! {SINK}"
    ));
    taken.set_state(gst::State::Playing);
    let other = Pipeline::parse(&format!(
        "creel-proxysrc name=src proxy-context=other context=r ! {SINK}"
    ));
    other.set_state(gst::State::Playing);
    other.get("src").set_property("proxy-context", "taken");
    assert!(
        other
            .wait_for_error()
            .contains("`taken` already has a source")
    );
}

#[test]
fn a_sender_stops_although_its_receiver_takes_nothing() {
    for context in ["audiotestsrc", "audiotestsrc ! creel-queue"] {
        let sender = Pipeline::parse(&format!("{context} ! creel-intersink inter-context=stuck"));
        // A paused sink blocks the thread of the receiver.
        let receiver = Pipeline::parse(
            "creel-intersrc inter-context=stuck context=stuck leaky=no max-size-buffers=2 ! fakesink name=sink async=false",
        );
        receiver.set_state(gst::State::Playing);
        receiver.get("sink").set_locked_state(true);
        receiver.get("sink").set_state(gst::State::Paused).unwrap();
        sender.set_state(gst::State::Playing);
        wait_for(|| receiver.element().property::<u32>("current-level-buffers") == 2);
        sender.set_state(gst::State::Null);
        receiver.get("sink").set_locked_state(false);
    }
}

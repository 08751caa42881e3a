//! Checks the sources, the selector, the adapter and `creel-clocksync`.

mod common;

use common::{Pipeline, SINK, collect, wait_for};
use gst::prelude::*;
use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn bytes(buffer: &gst::BufferRef) -> Vec<u8> {
    buffer.map_readable().unwrap().to_vec()
}

#[test]
fn a_program_pushes_buffers_and_ends_the_stream() {
    let pipeline = Pipeline::parse(&format!(
        "creel-appsrc name=src caps=application/x-test do-timestamp=true block=true max-buffers=3 ! {SINK}"
    ));
    let got = collect(&pipeline, bytes);
    let src = pipeline.get("src");
    let push = |n: u8| src.emit_by_name::<bool>("push-buffer", &[&gst::Buffer::from_slice([n])]);
    assert!(!push(0), "the element is in the state NULL");
    pipeline.set_state(gst::State::Playing);
    assert!((0..100).all(push));
    assert!(src.emit_by_name::<bool>("end-of-stream", &[]));
    assert!(!push(0));
    pipeline.wait_for_eos();
    let expected: Vec<_> = (0..100).map(|n| vec![n]).collect();
    assert_eq!(*got.lock().unwrap(), expected);
}

#[test]
fn a_full_source_refuses_buffers_unless_it_blocks() {
    let pipeline = Pipeline::parse(&format!("creel-appsrc name=src max-buffers=3 ! {SINK}"));
    let got = collect(&pipeline, bytes);
    let src = pipeline.get("src");
    let push = |n: u8| src.emit_by_name::<bool>("push-buffer", &[&gst::Buffer::from_slice([n])]);
    // In the state PAUSED, the source takes buffers and pushes none.
    pipeline.bin().set_state(gst::State::Paused).unwrap();
    assert_eq!([0, 1, 2, 3].map(push), [true, true, true, false]);
    pipeline.set_state(gst::State::Playing);
    wait_for(|| got.lock().unwrap().len() == 3);
    assert!(push(4));
    wait_for(|| got.lock().unwrap().len() == 4);
    assert_eq!(*got.lock().unwrap(), [[0], [1], [2], [4]]);
}

#[test]
fn a_tone_has_its_frequency_its_volume_and_its_times() {
    let pipeline = Pipeline::parse(&format!(
        "creel-audiotestsrc is-live=false num-buffers=10 samples-per-buffer=800 freq=100 volume=0.5 \
         ! audio/x-raw,rate=8000,channels=2 ! {SINK}"
    ));
    let got = collect(&pipeline, |buffer| {
        (buffer.pts(), buffer.duration(), bytes(buffer))
    });
    pipeline.set_state(gst::State::Playing);
    pipeline.wait_for_eos();
    let got = got.lock().unwrap();
    let mut samples = Vec::new();
    for (n, (pts, duration, bytes)) in got.iter().enumerate() {
        assert_eq!(*pts, Some(n as u64 * 100 * gst::ClockTime::MSECOND));
        assert_eq!(*duration, Some(100 * gst::ClockTime::MSECOND));
        let sample = |frame: &[u8]| i16::from_le_bytes([frame[0], frame[1]]);
        assert!(bytes.chunks(4).all(|frame| frame[..2] == frame[2..]));
        samples.extend(bytes.chunks(4).map(sample));
    }
    assert_eq!(samples.len(), 8_000);
    let most = samples.iter().max().unwrap();
    assert!((16_300..=16_384).contains(most), "{most}");
    let crossings = samples
        .windows(2)
        .filter(|pair| pair[0] < 0 && pair[1] >= 0)
        .count();
    assert!((98..=101).contains(&crossings), "{crossings}");
}

#[test]
fn a_live_tone_keeps_the_time_of_the_clock() {
    let pipeline = Pipeline::parse(&format!(
        "creel-audiotestsrc num-buffers=20 samples-per-buffer=80 ! audio/x-raw,rate=8000 ! {SINK}"
    ));
    let begin = Instant::now();
    pipeline.set_state(gst::State::Playing);
    pipeline.wait_for_eos();
    // The last of 20 buffers of 10 ms begins at 190 ms.
    assert!(begin.elapsed() >= Duration::from_millis(190));
}

#[test]
fn bytes_and_framed_packets_arrive_from_a_server() {
    for framing in ["none", "rfc4571"] {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let pipeline = Pipeline::parse(&format!(
            "creel-tcpclientsrc port={port} framing={framing} blocksize=50 caps=application/x-test ! {SINK}"
        ));
        let got = collect(&pipeline, bytes);
        let packets: Vec<Vec<u8>> = [3, 0, 200, 1].map(|n| vec![n; n.into()]).to_vec();
        let sent: Vec<u8> = packets
            .iter()
            .flat_map(|packet| [&(packet.len() as u16).to_be_bytes(), &packet[..]].concat())
            .collect();
        pipeline.set_state(gst::State::Playing);
        let (mut connection, _) = server.accept().unwrap();
        for part in sent.chunks(7) {
            connection.write_all(part).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(connection);
        pipeline.wait_for_eos();
        match framing {
            "none" => assert_eq!(got.lock().unwrap().concat(), sent),
            _ => assert_eq!(*got.lock().unwrap(), packets),
        }
    }
}

#[test]
fn a_missing_server_is_an_error() {
    // We bind a free port and release it at once, so that no server listens on it.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let pipeline = Pipeline::parse(&format!("creel-tcpclientsrc port={port} ! {SINK}"));
    pipeline.bin().set_state(gst::State::Playing).unwrap();
    let error = pipeline.wait_for_error();
    assert!(error.contains(&port.to_string()), "{error}");
}

#[test]
fn the_selector_refuses_a_pad_of_another_element() {
    let pipeline = Pipeline::parse(&format!(
        "fakesrc num-buffers=1 ! creel-input-selector name=sel ! {SINK}"
    ));
    let selector = pipeline.get("sel");
    let before = selector.property::<Option<gst::Pad>>("active-pad");
    selector.set_property("active-pad", pipeline.get("sink").static_pad("sink"));
    assert_eq!(selector.property::<Option<gst::Pad>>("active-pad"), before);
    pipeline.wait_for_warning();
}

#[test]
fn a_switch_to_another_stream_loses_no_buffer() {
    let pipeline = Pipeline::parse(&format!(
        "creel-input-selector name=selector ! {SINK} \
         creel-appsrc name=a context=s caps=application/x-a ! selector.sink_0 \
         creel-appsrc name=b context=s caps=application/x-b ! selector.sink_1"
    ));
    let got = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&got);
    pipeline.on_buffer("sink", move |buffer, caps| {
        seen.lock()
            .unwrap()
            .push((caps.unwrap().to_string(), bytes(buffer)));
    });
    let push = |name: &str, n: u8| {
        let buffer = gst::Buffer::from_slice([n]);
        assert!(
            pipeline
                .get(name)
                .emit_by_name::<bool>("push-buffer", &[&buffer])
        );
        let counted = || {
            let stats = pipeline.get(name).property::<gst::Structure>("stats");
            stats.get::<u64>("buffers").unwrap()
        };
        wait_for(|| counted() == u64::from(n) + 1);
    };
    pipeline.set_state(gst::State::Playing);
    let selector = pipeline.get("selector");
    let mut expected = Vec::new();
    for n in 0..40 {
        let active = if n / 10 % 2 == 0 { "a" } else { "b" };
        let pad = selector.static_pad(if active == "a" { "sink_0" } else { "sink_1" });
        selector.set_property("active-pad", pad);
        push("a", n);
        push("b", n);
        expected.push((format!("application/x-{active}"), vec![n]));
        wait_for(|| got.lock().unwrap().len() == expected.len());
    }
    assert_eq!(*got.lock().unwrap(), expected);
}

#[test]
fn an_element_that_blocks_does_not_delay_its_context() {
    let blocked = Pipeline::parse(&format!(
        "creel-appsrc name=src block=true context=shared ! creel-blocking-adapter name=adapter max-size-buffers=2 ! {SINK}"
    ));
    let free = Pipeline::parse(&format!(
        "creel-appsrc name=src block=true context=shared ! {SINK}"
    ));
    let blocks = Arc::new(AtomicBool::new(true));
    let (still, passed) = (Arc::clone(&blocks), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&passed);
    let has_arrived = Arc::new(AtomicBool::new(false));
    let arrives = Arc::clone(&has_arrived);
    blocked.on_buffer("sink", move |_, _| {
        arrives.store(true, Ordering::SeqCst);
        while still.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        seen.fetch_add(1, Ordering::SeqCst);
    });
    let got = collect(&free, bytes);
    blocked.set_state(gst::State::Playing);
    free.set_state(gst::State::Playing);
    let push = |pipeline: &Pipeline| {
        let buffer = gst::Buffer::from_slice([1]);
        assert!(
            pipeline
                .get("src")
                .emit_by_name::<bool>("push-buffer", &[&buffer])
        );
    };
    (0..10).for_each(|_| push(&blocked));
    (0..100).for_each(|_| push(&free));
    wait_for(|| got.lock().unwrap().len() == 100);
    assert_eq!(passed.load(Ordering::SeqCst), 0);
    // A push is counted as blocked if it takes longer than a millisecond.
    wait_for(|| has_arrived.load(Ordering::SeqCst));
    std::thread::sleep(Duration::from_millis(2));
    blocks.store(false, Ordering::SeqCst);
    wait_for(|| passed.load(Ordering::SeqCst) == 10);
    let stats = blocked.get("adapter").property::<gst::Structure>("stats");
    assert!(stats.get::<u64>("blocked").unwrap() >= 1);
}

/// Each kind of stream in front of `creel-clocksync`: its source, and whether it is live.
const SYNCED: [(&str, bool); 3] = [
    ("audiotestsrc samplesperbuffer=441", false),
    ("audiotestsrc samplesperbuffer=441 is-live=true", true),
    (
        "creel-audiotestsrc samples-per-buffer=441 is-live=false context=synced",
        false,
    ),
];

#[test]
fn a_stream_that_waits_for_the_clock_reaches_a_sink_that_prerolls() {
    for (source, _) in SYNCED {
        for sync in [true, false] {
            let pipeline = Pipeline::parse(&format!(
                "{source} num-buffers=5 ! creel-clocksync sync={sync} ! fakesink sync=false"
            ));
            pipeline.set_state(gst::State::Playing);
            pipeline.wait_for_eos();
        }
    }
}

#[test]
fn a_stream_prerolls_unless_it_waits_for_the_clock() {
    for (source, is_live) in SYNCED {
        for sync in [true, false] {
            let case = format!("{source} sync={sync}");
            let pipeline = Pipeline::parse(&format!(
                "{source} ! creel-clocksync sync={sync} \
                 ! fakesink name=sink signal-handoffs=true sync=false"
            ));
            let count = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&count);
            pipeline.on_buffer("sink", move |_, _| {
                seen.fetch_add(1, Ordering::SeqCst);
            });
            for _ in 0..3 {
                let changed = pipeline.bin().set_state(gst::State::Paused).unwrap();
                let no_preroll = changed == gst::StateChangeSuccess::NoPreroll;
                assert_eq!(no_preroll, is_live || sync, "{case}");
                // A sink that prerolls waits here for a buffer.
                let (result, state, _) = pipeline.bin().state(gst::ClockTime::from_seconds(60));
                assert_ne!(result, Ok(gst::StateChangeSuccess::Async), "{case}");
                assert_eq!(state, gst::State::Paused, "{case}");
                let before = count.load(Ordering::SeqCst);
                pipeline.set_state(gst::State::Playing);
                wait_for(|| count.load(Ordering::SeqCst) > before);
            }
        }
    }
}

#[test]
fn an_error_behind_the_last_early_buffer_is_reported() {
    // The buffer waits for the clock, and finds afterwards that the pad is not linked.
    let pipeline = Pipeline::parse(
        "creel-audiotestsrc is-live=false num-buffers=1 context=early \
         ! creel-clocksync ts-offset=100000000",
    );
    pipeline.set_state(gst::State::Playing);
    assert!(pipeline.wait_for_error().contains("NotLinked"));
}

#[test]
fn a_long_key_press_is_sent_in_segments() {
    // The duration of a key press has 16 bits. At this clock rate, they hold 341 ms.
    let pipeline = Pipeline::parse(&format!(
        "creel-rtpdtmfsrc name=src clock-rate=192000 pt=101 ssrc=7 seqnum-offset=65534 packet-redundancy=3 ! {SINK}"
    ));
    let got = collect(&pipeline, bytes);
    pipeline.set_state(gst::State::Playing);
    let key = |start: bool| {
        let event = gst::Structure::builder("dtmf-event")
            .field("type", 1)
            .field("number", 5)
            .field("volume", 10)
            .field("start", start);
        let event = gst::event::CustomUpstream::new(event.build());
        pipeline.get("src").send_event(event)
    };
    assert!(!key(false), "no key is pressed");
    assert!(key(true));
    assert!(!key(true), "the key is pressed already");
    wait_for(|| got.lock().unwrap().len() >= 15);
    assert!(key(false));
    let is_end = |packet: &Vec<u8>| packet[13] & 0x80 != 0;
    wait_for(|| {
        got.lock()
            .unwrap()
            .iter()
            .filter(|packet| is_end(packet))
            .count()
            == 3
    });
    let got = got.lock().unwrap();
    let of = |packet: &Vec<u8>| {
        let timestamp = u32::from_be_bytes(packet[4..8].try_into().unwrap());
        (
            timestamp,
            u32::from(u16::from_be_bytes(packet[14..16].try_into().unwrap())),
        )
    };
    let mut covered = of(&got[0]).0;
    for (n, packet) in got.iter().enumerate() {
        assert_eq!(packet.len(), 16);
        assert_eq!(packet[1] & 0x7f, 101);
        assert_eq!(
            packet[1] & 0x80 != 0,
            n < 3,
            "the marker is on the first packet"
        );
        let seqnum = u16::from_be_bytes(packet[2..4].try_into().unwrap());
        assert_eq!(seqnum, 65_534_u16.wrapping_add(n as u16));
        assert_eq!(packet[8..12], 7_u32.to_be_bytes());
        assert_eq!((packet[12], packet[13] & 0x3f), (5, 10));
        assert_eq!(is_end(packet), n >= got.len() - 3);
        // Each packet covers 40 ms more, also over the border of a segment.
        let (timestamp, duration) = of(packet);
        if !(1..3).contains(&n) && n < got.len() - 2 {
            covered = covered.wrapping_add(7_680);
        }
        assert_eq!(timestamp.wrapping_add(duration), covered, "packet {n}");
    }
    let mut timestamps: Vec<u32> = got.iter().map(|packet| of(packet).0).collect();
    timestamps.dedup();
    assert!(timestamps.len() >= 2, "there are several segments");
    let bus = pipeline.bin().bus().unwrap();
    for start in [true, false] {
        let message = bus.pop_filtered(&[gst::MessageType::Element]).unwrap();
        let structure = message.structure().unwrap();
        assert_eq!(structure.name(), "dtmf-event-processed");
        assert_eq!(structure.get::<bool>("start"), Ok(start));
        assert_eq!(structure.get::<i32>("number").ok(), start.then_some(5));
    }
}

#[test]
fn many_keys_can_be_typed_ahead() {
    let pipeline = Pipeline::parse(&format!("creel-rtpdtmfsrc name=src ! {SINK}"));
    pipeline.set_state(gst::State::Playing);
    for number in 0..40 {
        for start in [true, false] {
            let event = gst::Structure::builder("dtmf-event")
                .field("type", 1)
                .field("number", number % 10)
                .field("volume", 10)
                .field("start", start);
            let event = gst::event::CustomUpstream::new(event.build());
            assert!(pipeline.get("src").send_event(event), "key {number}");
        }
    }
}

#[test]
fn a_source_reports_a_flush_as_handled_also_if_nobody_after_it_does() {
    // Nothing is linked to the pad behind the harness, so its events are refused.
    let mut harness = gst_check::Harness::new("creel-appsrc");
    let source = harness.element().unwrap();
    source.set_property("caps", gst::Caps::new_empty_simple("test/x"));
    harness.play();
    let push = || source.emit_by_name::<bool>("push-buffer", &[&gst::Buffer::new()]);
    assert!(push());
    assert!(harness.pull().is_ok());
    assert!(harness.push_upstream_event(gst::event::FlushStart::new()));
    assert!(!push());
    assert!(harness.push_upstream_event(gst::event::FlushStop::new(true)));
    assert!(push());
    assert!(harness.pull().is_ok());
}

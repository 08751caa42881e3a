//! Checks that datagrams pass through the elements, on the loopback interface.

mod common;

use common::{Pipeline, wait_for};
use gio::prelude::*;
use gst::prelude::*;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the port of an element that receives.
fn port(element: &gst::Element) -> u16 {
    element.property::<i32>("port") as u16
}

#[test]
fn datagrams_become_buffers_in_order() {
    let pipeline = Pipeline::parse(
        "creel-udpsrc name=src address=127.0.0.1 port=0 caps=application/x-test ! creel-queue \
         ! fakesink name=sink signal-handoffs=true sync=false async=false",
    );
    let got = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&got);
    pipeline.on_buffer("sink", move |buffer, caps| {
        assert_eq!(caps.unwrap().to_string(), "application/x-test");
        assert!(buffer.pts().is_some());
        assert!(buffer.meta::<gst_net::NetAddressMeta>().is_some());
        let map = buffer.map_readable().unwrap();
        seen.lock().unwrap().push(map.as_slice().to_vec());
    });
    pipeline.set_state(gst::State::Playing);
    let to = ("127.0.0.1", port(&pipeline.get("src")));
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sent: Vec<Vec<u8>> = (0..200_usize)
        .map(|n| vec![n as u8; n * 7 % 1_492])
        .collect();
    for (n, bytes) in sent.iter().enumerate() {
        sender.send_to(bytes, to).unwrap();
        if n % 20 == 0 {
            wait_for(|| got.lock().unwrap().len() > n);
        }
    }
    wait_for(|| got.lock().unwrap().len() == sent.len());
    assert_eq!(*got.lock().unwrap(), sent);
    let stats = pipeline.get("src").property::<gst::Structure>("stats");
    assert_eq!(stats.get::<u64>("buffers"), Ok(200));
    assert_eq!(stats.get::<u64>("errors"), Ok(0));
}

#[test]
fn a_datagram_that_is_too_long_is_truncated_and_counted() {
    let pipeline = Pipeline::parse(
        "creel-udpsrc name=src address=127.0.0.1 port=0 mtu=100 retrieve-sender-address=false \
         receive-times=true ! fakesink name=sink signal-handoffs=true sync=false async=false",
    );
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sizes);
    pipeline.on_buffer("sink", move |buffer, _| {
        assert!(buffer.meta::<gst_net::NetAddressMeta>().is_none());
        assert!(buffer.meta::<gst::ReferenceTimestampMeta>().is_some());
        seen.lock().unwrap().push(buffer.size());
    });
    pipeline.set_state(gst::State::Playing);
    let to = ("127.0.0.1", port(&pipeline.get("src")));
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for size in [101, 100, 0] {
        sender.send_to(&vec![0; size], to).unwrap();
    }
    wait_for(|| sizes.lock().unwrap().len() == 3);
    assert_eq!(*sizes.lock().unwrap(), [100, 100, 0]);
    let stats = pipeline.get("src").property::<gst::Structure>("stats");
    assert_eq!(stats.get::<u64>("truncated"), Ok(1));
}

#[test]
fn an_idle_context_without_a_quantum_uses_no_cpu_time() {
    let pipeline = Pipeline::parse(
        "creel-udpsrc address=127.0.0.1 port=0 context=idle ! fakesink async=false",
    );
    pipeline.set_state(gst::State::Playing);
    let parks = || {
        let stats = pipeline.element().property::<gst::Structure>("stats");
        (
            stats.get::<u64>("context-parks").unwrap(),
            stats.get::<u64>("context-polls").unwrap(),
        )
    };
    // The pool counts a sleep when it ends, so a thread in its first sleep has no parks yet. We
    // therefore wait for its first poll instead.
    wait_for(|| parks().1 > 0);
    let before = parks();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let after = parks();
    assert!(after.0 - before.0 < 5, "{before:?} {after:?}");
    assert!(after.1 - before.1 < 5, "{before:?} {after:?}");
}

#[test]
fn elements_with_one_context_name_share_the_context_until_the_last_one_stops() {
    let one = Pipeline::parse(
        "creel-udpsrc port=0 context=shared context-wait=20 ! fakesink async=false",
    );
    let two = Pipeline::parse("creel-udpsrc port=0 context=shared ! fakesink async=false");
    one.set_state(gst::State::Playing);
    two.set_state(gst::State::Playing);
    let latency = |pipeline: &Pipeline| {
        let mut query = gst::query::Latency::new();
        assert!(pipeline.element().query(&mut query));
        query.result().1
    };
    // The first element has created the context, so its quantum also applies to the second one.
    assert_eq!(latency(&two), 20 * gst::ClockTime::MSECOND);
    two.wait_for_warning();
    drop(one);
    drop(two);
    let three = Pipeline::parse("creel-udpsrc port=0 context=shared ! fakesink async=false");
    three.set_state(gst::State::Playing);
    assert_eq!(latency(&three), gst::ClockTime::ZERO);
}

#[test]
fn the_end_of_the_stream_and_a_restart_reach_the_sink() {
    let pipeline = Pipeline::parse(
        "creel-udpsrc name=src address=127.0.0.1 port=0 ! creel-queue \
         ! fakesink name=sink signal-handoffs=true sync=false async=false",
    );
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    pipeline.on_buffer("sink", move |_, _| {
        seen.fetch_add(1, Ordering::SeqCst);
    });
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for round in 1..=3 {
        pipeline.set_state(gst::State::Playing);
        sender
            .send_to(b"x", ("127.0.0.1", port(&pipeline.get("src"))))
            .unwrap();
        wait_for(|| count.load(Ordering::SeqCst) == round);
        pipeline.bin().send_event(gst::event::Eos::new());
        pipeline.wait_for_eos();
        pipeline.set_state(gst::State::Ready);
    }
}

#[test]
fn an_address_that_cannot_be_bound_is_an_error() {
    let pipeline = Pipeline::parse("creel-udpsrc address=203.0.113.1 ! fakesink");
    assert!(pipeline.bin().set_state(gst::State::Playing).is_err());
    let error = pipeline.wait_for_error();
    assert!(error.contains("203.0.113.1"), "{error}");
}

#[test]
fn a_socket_that_cannot_be_used_is_an_error() {
    common::init();
    let socket = |kind| {
        let protocol = gio::SocketProtocol::Default;
        gio::Socket::new(gio::SocketFamily::Ipv4, kind, protocol).unwrap()
    };
    let closed = socket(gio::SocketType::Datagram);
    closed.close().unwrap();
    let stream = socket(gio::SocketType::Stream);
    for (socket, reason) in [(closed, "is closed"), (stream, "is not for datagrams")] {
        for (text, name) in [
            ("creel-udpsrc ! fakesink", "socket"),
            ("fakesrc ! creel-udpsink clients=127.0.0.1:9", "socket"),
            ("fakesrc ! creel-udpsink clients=[::1]:9", "socket-v6"),
        ] {
            let pipeline = Pipeline::parse(text);
            pipeline.element().set_property(name, &socket);
            assert!(
                pipeline.bin().set_state(gst::State::Playing).is_err(),
                "{text}"
            );
            let error = pipeline.wait_for_error();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

#[test]
fn a_sink_sends_to_all_its_clients_and_counts_those_that_fail() {
    let receivers = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let ports = receivers
        .each_ref()
        .map(|r| i32::from(r.local_addr().unwrap().port()));
    for receiver in &receivers {
        receiver
            .set_read_timeout(Some(std::time::Duration::from_secs(30)))
            .unwrap();
    }
    // A datagram to the broadcast address is refused, because the socket does not allow it.
    let pipeline = Pipeline::parse(&format!(
        "audiotestsrc num-buffers=50 samplesperbuffer=80 ! audio/x-raw,format=S16LE,rate=8000,channels=1 \
         ! creel-udpsink name=sink sync=false clients=127.0.0.1:{},255.255.255.255:9,127.0.0.1:{}",
        ports[0], ports[1]
    ));
    let sink = pipeline.get("sink");
    sink.emit_by_name::<()>("add", &[&"127.0.0.1", &ports[2]]);
    sink.emit_by_name::<()>("remove", &[&"127.0.0.1", &ports[1]]);
    pipeline.set_state(gst::State::Playing);
    pipeline.wait_for_eos();
    let mut bytes = [0; 2_000];
    for receiver in [&receivers[0], &receivers[2]] {
        for _ in 0..50 {
            assert_eq!(receiver.recv(&mut bytes).unwrap(), 160);
        }
    }
    receivers[1].set_nonblocking(true).unwrap();
    assert!(receivers[1].recv(&mut bytes).is_err());
    let stats = sink.property::<gst::Structure>("stats");
    assert_eq!(stats.get::<u64>("buffers"), Ok(50));
    assert_eq!(stats.get::<u64>("datagrams"), Ok(100));
    assert_eq!(stats.get::<u64>("failed"), Ok(50));
    sink.emit_by_name::<()>("clear", &[]);
    assert_eq!(sink.property::<String>("clients"), "");
}

#[test]
fn a_sink_sends_at_the_time_of_each_buffer() {
    for queue in ["", "! creel-queue context=timed"] {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = receiver.local_addr().unwrap().port();
        let pipeline = Pipeline::parse(&format!(
            "audiotestsrc num-buffers=10 samplesperbuffer=160 ! audio/x-raw,format=S16LE,rate=8000,channels=1 \
             {queue} ! creel-udpsink sync=true clients=127.0.0.1:{port}"
        ));
        let begin = std::time::Instant::now();
        pipeline.set_state(gst::State::Playing);
        pipeline.wait_for_eos();
        // The last of ten buffers of 20 ms is sent at 180 ms.
        assert!(
            begin.elapsed() >= std::time::Duration::from_millis(180),
            "{:?}",
            begin.elapsed()
        );
    }
}

#[test]
fn datagrams_are_relayed_within_a_context() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver
        .set_read_timeout(Some(std::time::Duration::from_secs(30)))
        .unwrap();
    let to = receiver.local_addr().unwrap().port();
    let pipeline = Pipeline::parse(&format!(
        "creel-udpsrc name=src address=127.0.0.1 port=0 context=relay context-wait=5 \
         ! creel-queue context=relay context-wait=5 \
         ! creel-udpsink context=relay context-wait=5 sync=false clients=127.0.0.1:{to}"
    ));
    pipeline.set_state(gst::State::Playing);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut bytes = [0; 100];
    for n in 0..100_usize {
        sender
            .send_to(&vec![7; n], ("127.0.0.1", port(&pipeline.get("src"))))
            .unwrap();
        assert_eq!(receiver.recv(&mut bytes).unwrap(), n);
    }
}

#[test]
fn multicast_datagrams_pass_through_the_interface_with_a_name() {
    let pipeline = Pipeline::parse(
        "creel-udpsrc name=src address=239.255.77.1 port=0 multicast-iface=lo \
         ! fakesink name=sink signal-handoffs=true sync=false async=false",
    );
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    pipeline.on_buffer("sink", move |_, _| {
        seen.fetch_add(1, Ordering::SeqCst);
    });
    pipeline.set_state(gst::State::Playing);
    let to = port(&pipeline.get("src"));
    let sender = Pipeline::parse(&format!(
        "audiotestsrc num-buffers=10 ! creel-udpsink name=sink sync=false multicast-iface=lo \
         clients=239.255.77.1:{to}"
    ));
    sender.set_state(gst::State::Playing);
    sender.wait_for_eos();
    let stats = sender.get("sink").property::<gst::Structure>("stats");
    assert_eq!(stats.get::<u64>("failed"), Ok(0));
    wait_for(|| count.load(Ordering::SeqCst) == 10);
}

#[test]
fn an_unknown_interface_is_an_error_that_names_it() {
    for name in ["eth0.4093", "../lo", "a-name-that-is-too-long-for-linux"] {
        let pipeline = Pipeline::parse(&format!(
            "creel-udpsrc address=239.255.77.2 port=0 multicast-iface={name} ! fakesink"
        ));
        assert!(pipeline.bin().set_state(gst::State::Playing).is_err());
        let error = pipeline.wait_for_error();
        assert!(error.contains(&format!("no interface `{name}`")), "{error}");
    }
}

//! Mixes RTP streams as a conference bridge does, and loses no packet.
//!
//! `CREEL_GST_MIX_STREAMS` sets the number of streams, and `CREEL_GST_MIX_SECONDS` how long they
//! send. A stream sends 50 packets per second.
//!
//! An `audiomixer` looks at all its pads whenever a buffer arrives at one of them, so that its work
//! grows with the square of its streams. One `audiomixer` uses a whole core for 350 streams.
//! Therefore several mixers take `GROUP` streams each, and one more mixes their outputs.
//!
//! A pad of an `audiomixer` takes as much audio as the latency of the mixer, and then blocks. After
//! a stall, a source reads up to 32 packets at once. If a pad could not take them, it would block
//! the thread of the context for 640 ms, and the packets of all other streams would wait. The
//! latency of the mixers is therefore longer than that.

mod common;

use common::{Pipeline, number};
use gst::prelude::*;
use std::fmt::Write;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PACKET_TIME: Duration = Duration::from_millis(20);
/// The size of an RTP header, and of 20 ms of mono 16-bit samples at 8 kHz.
const HEADER: usize = 12;
const PAYLOAD: usize = 320;
/// The number of streams that one `audiomixer` mixes.
const GROUP: u64 = 25;
/// What the mixers output, so that the last one does not have to convert.
const FORMAT: &str = "audio/x-raw,format=S16LE,rate=8000,channels=1";

/// Sends packets to all ports, which are evenly spread over a packet time. Returns their number.
fn send(ports: &[u16], time: Duration) -> u64 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (begin, streams) = (Instant::now(), ports.len() as u64);
    let total = streams * time.as_millis() as u64 / PACKET_TIME.as_millis() as u64;
    let (mut packet, mut sent) = ([0; HEADER + PAYLOAD], 0);
    while sent < total {
        let due = begin.elapsed().as_nanos() * u128::from(streams) / PACKET_TIME.as_nanos();
        while sent < total && u128::from(sent) <= due {
            let (stream, number) = ((sent % streams) as usize, (sent / streams) as u32);
            // Version 2 and payload type 96. Source: RFC 3550 section 5.1.
            packet[..2].copy_from_slice(&[0x80, 96]);
            packet[2..4].copy_from_slice(&(number as u16).to_be_bytes());
            packet[4..8].copy_from_slice(&(number * PAYLOAD as u32 / 2).to_be_bytes());
            packet[8..12].copy_from_slice(&(stream as u32).to_be_bytes());
            socket
                .send_to(&packet, ("127.0.0.1", ports[stream]))
                .unwrap();
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    sent
}

#[test]
fn no_packet_is_lost_on_the_way_to_a_mixer() {
    let streams = number("CREEL_GST_MIX_STREAMS", 20);
    let time = Duration::from_secs(number("CREEL_GST_MIX_SECONDS", 1));
    let output = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut text = format!(
        "audiomixer name=all latency=200000000 output-buffer-duration=20000000 \
         ! {FORMAT} ! audioconvert \
         ! rtpL16pay ! creel-udpsink context=net context-wait=20 sync=false clients={} ",
        output.local_addr().unwrap()
    );
    for group in 0..streams.div_ceil(GROUP) {
        write!(
            text,
            "audiomixer name=mix{group} latency=1000000000 output-buffer-duration=20000000 \
             ! {FORMAT} ! all. ",
        )
        .unwrap();
    }
    for stream in 0..streams {
        write!(
            text,
            "creel-udpsrc name=src{stream} address=127.0.0.1 port=0 context=net context-wait=20 \
             receive-times=true caps=\"application/x-rtp,media=audio,payload=96,clock-rate=8000,\
             encoding-name=L16,channels=1\" ! creel-queue name=queue{stream} context=net \
             context-wait=20 ! rtpL16depay name=depay{stream} ! mix{}. ",
            stream / GROUP
        )
        .unwrap();
    }
    let pipeline = Pipeline::parse(&text);
    let mixed = Arc::new(AtomicU64::new(0));
    for stream in 0..streams {
        let depayloader = pipeline.get(&format!("depay{stream}"));
        let mixed = Arc::clone(&mixed);
        let pad = depayloader.static_pad("src").unwrap();
        pad.add_probe(gst::PadProbeType::BUFFER, move |_, _| {
            mixed.fetch_add(1, Ordering::Relaxed);
            gst::PadProbeReturn::Ok
        });
    }
    pipeline.bin().set_state(gst::State::Playing).unwrap();
    let sources = (0..streams).map(|stream| pipeline.get(&format!("src{stream}")));
    let ports: Vec<u16> = sources
        .map(|source| source.property::<i32>("port") as u16)
        .collect();
    // A mixer drops a buffer that arrives too late, and sends a message about it if we ask for it.
    // We only print how many these are: if the threads of the test are preempted, the packets
    // themselves are late.
    let mixers = (0..streams.div_ceil(GROUP)).map(|group| pipeline.get(&format!("mix{group}")));
    for pad in mixers.flat_map(|mixer| mixer.sink_pads()) {
        pad.set_property("qos-messages", true);
    }
    let sent = send(&ports, time);
    let total = |elements: &str, field: &str| -> u64 {
        let elements = (0..streams).map(|stream| pipeline.get(&format!("{elements}{stream}")));
        let stats = elements.map(|element| element.property::<gst::Structure>("stats"));
        stats.map(|stats| stats.get::<u64>(field).unwrap()).sum()
    };
    let counts = || {
        let mixed = mixed.load(Ordering::Relaxed);
        let lost = total("src", "dropped-by-kernel") + total("queue", "dropped");
        (mixed, lost)
    };
    let explain = || {
        println!(
            "{sent} packets sent; (arrived at mixers, lost): {:?}",
            counts()
        )
    };
    common::wait_until(|| counts().0 + counts().1 >= sent, explain);
    let bus = pipeline.bin().bus().unwrap();
    let late = std::iter::from_fn(|| bus.pop_filtered(&[gst::MessageType::Qos])).count();
    println!("{sent} packets sent, and {late} arrived at a mixer too late");
    assert_eq!(counts(), (sent, 0), "packets were lost");
    // The mixer has sent packets, too.
    output.recv(&mut [0; 2_048]).unwrap();
}

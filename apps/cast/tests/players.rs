//! RTP with common players: `ffmpeg` and `gst-launch-1.0`, if they are installed.

mod folder;
mod peers;
mod ports;
#[path = "../../../crates/creel/tests/retry/mod.rs"]
mod retry;

use creel_cast::receive::{self, Receiver};
use creel_cast::send;
use creel_cast::{Format, Formats, Measured, Rtcp, RtpSession, Shape, Sound, Tone};
use folder::Folder;
use peers::{Player, free_port, player, wav};
use retry::retry;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn ffmpeg() -> Option<Command> {
    let mut ffmpeg = player("ffmpeg", "-version")?;
    ffmpeg.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"]);
    Some(ffmpeg)
}

/// Returns GStreamer with this pipeline, if all of its elements are installed.
fn gst(pipeline: &str) -> Option<Command> {
    let mut gst = player("gst-launch-1.0", "--version")?;
    for element in pipeline
        .split('!')
        .filter_map(|part| part.split_whitespace().next())
    {
        if element.contains('/') || element.contains('.') {
            continue;
        }
        let mut look = Command::new("gst-inspect-1.0");
        let found = look
            .arg(element)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !found.is_ok_and(|status| status.success()) {
            eprintln!("skipped, because GStreamer has no {element}");
            return None;
        }
    }
    gst.arg("-q").args(pipeline.split_whitespace());
    Some(gst)
}

/// Returns noise in which no part repeats.
fn noise(samples: usize) -> Vec<i16> {
    let mut noise = vec![0; samples];
    Tone::new(Shape::Noise, 1.0, 8_000).fill(&mut noise);
    noise
}

/// Receives into `folder` while `player` plays.
fn received(
    folder: &Folder,
    on: SocketAddr,
    formats: &[(u8, &str)],
    mut player: Command,
) -> Measured {
    let named = formats
        .iter()
        .map(|(number, text)| (*number, text.parse().unwrap()));
    let sessions =
        receive::Plan::sessions(on, 1, &Formats::new(named.collect()), Rtcp::Off).unwrap();
    let plan = receive::Plan {
        wait: MS,
        idle: 2_000 * MS,
        time_limit: Some(60_000 * MS),
        wav: Some(folder.0.clone()),
        ..receive::Plan::new(sessions)
    };
    let receiver = Receiver::open(&plan).unwrap();
    let player = Player::start(&mut player);
    let measured = receiver.run(&|| false);
    drop(player);
    measured
}

#[test]
fn audio_from_ffmpeg_is_received_sample_by_sample() {
    for (codec, payload_type, format) in [
        ("pcm_s16be", 97, "L16/8000"),
        ("pcm_s16be", 97, "L16/8000/2"),
        ("pcm_s16be", 97, "L16/48000"),
        ("pcm_s16be", 97, "L16/48000/2"),
        ("pcm_s16be", 10, "L16/44100/2"),
        ("pcm_s16be", 11, "L16/44100"),
        ("pcm_mulaw", 0, "PCMU"),
        ("pcm_alaw", 8, "PCMA"),
    ] {
        let Some(mut ffmpeg) = ffmpeg() else { return };
        let (folder, on) = (Folder::new("from-ffmpeg"), free_port());
        let parsed: Format = format.parse().unwrap();
        let channels = u16::from(parsed.channels);
        let samples = noise(parsed.rate() as usize * usize::from(channels));
        let file = folder.0.join("sent.wav");
        wav(&file, &samples, parsed.rate(), channels);
        ffmpeg
            .args(["-re", "-i"])
            .arg(&file)
            .args(["-acodec", codec, "-f", "rtp"]);
        ffmpeg
            .args(["-payload_type", &payload_type.to_string()])
            .arg(format!("rtp://{on}"));
        let measured = received(&folder, on, &[(payload_type, format)], ffmpeg);
        let source = &measured.sources[0];
        assert_eq!(
            (source.lost, source.duplicates, source.restarts),
            (0, 0, 0),
            "{format}"
        );
        assert_eq!(measured.warnings, Vec::<String>::new(), "{format}");
        // The player sends its report to the next port, or none at all. The report never counts as
        // a packet.
        assert!(source.jitter_ms.unwrap() < 100.0);
        let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
        assert_eq!(
            (recorded.rate, recorded.channels),
            (parsed.rate(), usize::from(channels))
        );
        assert!(
            recorded.samples.len() >= samples.len() * 9 / 10,
            "{format}: {}",
            recorded.samples.len()
        );
        let compared = recorded.samples.len().min(samples.len());
        let lossless = format.starts_with("L16");
        let step = |sample: i16| {
            if lossless {
                0
            } else {
                (i32::from(sample).abs() / 16).max(16)
            }
        };
        let pairs = recorded.samples[..compared]
            .iter()
            .zip(&samples[..compared]);
        let close = |(&recorded, &sent): (&i16, &i16)| {
            (i32::from(recorded) - i32::from(sent)).abs() <= step(sent)
        };
        assert!(
            pairs.into_iter().all(close),
            "{format}: the recording differs from what was played"
        );
    }
}

#[test]
fn audio_from_gstreamer_is_received_with_its_reports() {
    for (encoder, format, payload_type) in [
        (
            "audio/x-raw,format=S16BE,rate=48000,channels=2 ! rtpL16pay pt=97",
            "L16/48000/2",
            97,
        ),
        (
            "audio/x-raw,format=S16BE,rate=44100,channels=1 ! rtpL16pay pt=11",
            "L16/44100",
            11,
        ),
        (
            "audio/x-raw,rate=8000,channels=1 ! mulawenc ! rtppcmupay",
            "PCMU",
            0,
        ),
        (
            "audio/x-raw,rate=8000,channels=1 ! alawenc ! rtppcmapay",
            "PCMA",
            8,
        ),
    ] {
        let (folder, on) = (Folder::new("from-gst"), free_port());
        let (port, next) = (on.port(), on.port() + 1);
        let parsed: Format = format.parse().unwrap();
        // The pipeline plays one and a half seconds.
        let buffers = parsed.rate() / 320;
        let pipeline = format!(
            "rtpbin name=bin audiotestsrc wave=saw num-buffers={buffers} samplesperbuffer=480 is-live=true ! \
             audioconvert ! audioresample ! {encoder} ! bin.send_rtp_sink_0 \
             bin.send_rtp_src_0 ! udpsink host=127.0.0.1 port={port} \
             bin.send_rtcp_src_0 ! udpsink host=127.0.0.1 port={next} sync=false async=false"
        );
        let Some(gst) = gst(&pipeline) else { return };
        let named = Formats::new(vec![(payload_type, format.parse().unwrap())]);
        let plan = receive::Plan {
            wait: MS,
            idle: 2_000 * MS,
            time_limit: Some(60_000 * MS),
            wav: Some(folder.0.clone()),
            ..receive::Plan::new(receive::Plan::sessions(on, 1, &named, Rtcp::Own).unwrap())
        };
        let receiver = Receiver::open(&plan).unwrap();
        let mut gst = gst;
        let player = Player::start(&mut gst);
        let measured = receiver.run(&|| false);
        drop(player);
        assert_eq!(
            measured.sources.len(),
            1,
            "{format}: a report must not count as a stream"
        );
        let source = &measured.sources[0];
        assert_eq!(
            (source.lost, source.duplicates, source.restarts),
            (0, 0, 0),
            "{format}"
        );
        assert_eq!(source.format, Some(format.parse().unwrap()));
        assert!(
            measured.unrecognized.rtcp > 0 && source.left,
            "{format}: {:?}",
            measured.unrecognized
        );
        let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
        let seconds =
            recorded.samples.len() as f64 / f64::from(recorded.rate) / recorded.channels as f64;
        assert!((1.2..2.0).contains(&seconds), "{format}: {seconds} s");
        assert!(recorded.samples.iter().any(|&sample| sample > 15_000));
    }
}

#[test]
fn ffmpeg_plays_our_stream_from_our_description() {
    for (format, payload_type, lossless) in [
        ("L16/8000", 96, true),
        ("L16/44100", 11, true),
        ("L16/44100/2", 10, true),
        ("L16/48000/2", 96, true),
        ("PCMU", 0, false),
        ("PCMA", 8, false),
    ] {
        let Some(mut ffmpeg) = ffmpeg() else { return };
        let (folder, to) = (Folder::new("to-ffmpeg"), free_port());
        let format: Format = format.parse().unwrap();
        let mut session = RtpSession::new(to, payload_type, format);
        session.packet_time = 10 * MS;
        let (sdp, recorded) = (folder.0.join("stream.sdp"), folder.0.join("heard.wav"));
        std::fs::write(&sdp, RtpSession::describe(std::slice::from_ref(&session))).unwrap();
        ffmpeg
            .args(["-protocol_whitelist", "file,udp,rtp", "-i"])
            .arg(&sdp);
        ffmpeg.args(["-t", "0.5"]).arg(&recorded);
        let mut player = Player(ffmpeg.spawn().unwrap());
        let plan = send::Plan {
            sessions: vec![session],
            wait: MS,
            buffers: 6_000,
            ramp_up: Duration::ZERO,
            content: send::Content::Tone(Shape::Sine, 441.0),
            ..send::Plan::new(to, 1)
        };
        let ended = std::cell::RefCell::new(&mut player.0);
        // The sender runs until the player has recorded enough.
        send::run(&plan, &|| ended.borrow_mut().try_wait().unwrap().is_some()).unwrap();
        let sound = Sound::read(&recorded).unwrap();
        assert_eq!(
            (sound.rate, sound.channels),
            (format.rate(), usize::from(format.channels))
        );
        let samples: Vec<i16> = sound
            .samples
            .chunks_exact(sound.channels)
            .map(|frame| frame[0])
            .collect();
        assert!(
            samples.len() >= format.rate() as usize * 9 / 20,
            "only {} samples",
            samples.len()
        );
        // The recording must be a part of the generated tone that begins at one of the packets.
        let mut tone = vec![0; samples.len() + format.rate() as usize * 20];
        Tone::new(Shape::Sine, 441.0, format.rate()).fill(&mut tone);
        let frames = format.rate() as usize / 100;
        let allowed = if lossless { 1 } else { 1_100 };
        let close = |from: usize| {
            let mut pairs = samples.iter().zip(&tone[from..]);
            pairs.all(|(a, b)| (i32::from(*a) - i32::from(*b)).abs() <= allowed)
        };
        assert!(
            (0..2_000).any(|packet| close(packet * frames)),
            "{format}: the recording differs from the tone"
        );
    }
}

/// Starts GStreamer, which receives on `to` and sends reports to `back`. Returns `None` if it is
/// not installed.
fn reporter(to: SocketAddr, back: SocketAddr, name: &str, number: u8) -> Option<Player> {
    let (port, next) = (to.port(), to.port() + 1);
    let depay = name.to_lowercase();
    let pipeline = format!(
        "rtpbin name=bin udpsrc address=127.0.0.1 port={port} \
         caps=application/x-rtp,media=audio,clock-rate=8000,encoding-name={name},payload={number} \
         ! bin.recv_rtp_sink_0 bin. ! rtp{depay}depay ! fakesink sync=false \
         udpsrc address=127.0.0.1 port={next} ! bin.recv_rtcp_sink_0 \
         bin.send_rtcp_src_0 ! udpsink host=127.0.0.1 port={} sync=false async=false",
        back.port()
    );
    let mut gst = gst(&pipeline)?;
    Some(Player::start(&mut gst))
}

/// Returns a plan for a stream with reports on a port of their own, which runs until it is
/// interrupted.
fn reported(to: SocketAddr, name: &str, number: u8, ssrc: u32) -> send::Plan {
    let mut session = RtpSession::new(to, number, name.parse().unwrap());
    session.rtcp = Rtcp::Own;
    send::Plan {
        sessions: vec![session],
        wait: MS,
        buffers: 100_000,
        ramp_up: Duration::ZERO,
        ssrc: Some(ssrc),
        ..send::Plan::new(to, 1)
    }
}

/// The report block about the source with this SSRC. Source: RFC 3550 section 6.4.
struct Block {
    fraction: u8,
    lost: i32,
    jitter: u32,
}

impl Block {
    fn of(report: &[u8], ssrc: u32) -> Option<Self> {
        if !matches!(report.get(1), Some(200 | 201)) {
            return None;
        }
        let is_name = |four: &[u8]| four == ssrc.to_be_bytes();
        let at = 8 + report.windows(4).skip(8).position(is_name)?;
        let block = report.get(at..at + 24)?;
        Some(Block {
            fraction: block[4],
            lost: i32::from_be_bytes([block[5], block[6], block[7], 0]) >> 8,
            jitter: u32::from_be_bytes(block[12..16].try_into().unwrap()),
        })
    }
}

#[test]
fn gstreamer_sends_receiver_reports_to_us() {
    let (to, back) = (free_port(), free_port());
    let Some(_player) = reporter(to, back, "PCMU", 0) else {
        return;
    };
    // The reports of the player go to a port of the test, so that we can compare them with what was
    // sent.
    let reports = UdpSocket::bind(back).unwrap();
    reports.set_read_timeout(Some(20_000 * MS)).unwrap();
    let plan = reported(to, "PCMU", 0, 0x0102_0304);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send::run(&plan, &|| over.load(Ordering::Relaxed)));
        let mut bytes = [0; 2_048];
        let block = loop {
            let len = retry(|| reports.recv(&mut bytes)).expect("the player must send a report");
            if let Some(block) = Block::of(&bytes[..len], 0x0102_0304) {
                break block;
            }
        };
        over.store(true, Ordering::Relaxed);
        sending.join().unwrap().unwrap();
        // The player starts to count after its probation. Packets of the probation can therefore
        // make the loss negative.
        let lost = block.lost;
        assert!(
            block.fraction == 0 && (-2..=0).contains(&lost),
            "the player reports a loss of {lost}"
        );
        assert!(block.jitter < 8_000 / 10, "{} ticks", block.jitter);
    });
}

/// Returns the frequency of the first channel. It counts how often the samples cross zero upwards
/// in the middle half of the sound.
#[cfg(feature = "opus")]
fn hertz(sound: &Sound) -> f64 {
    let first: Vec<i16> = sound
        .samples
        .chunks_exact(sound.channels)
        .map(|frame| frame[0])
        .collect();
    let middle = &first[first.len() / 4..first.len() * 3 / 4];
    let rises = middle.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0);
    rises.count() as f64 * f64::from(sound.rate) / middle.len() as f64
}

#[cfg(feature = "opus")]
#[test]
fn opus_audio_from_and_to_ffmpeg_keeps_its_pitch() {
    let Some(mut from) = ffmpeg() else { return };
    let (folder, on) = (Folder::new("opus"), free_port());
    from.args(["-re", "-f", "lavfi", "-i"])
        .arg("sine=frequency=440:sample_rate=48000:duration=1.5")
        .args([
            "-ac",
            "2",
            "-acodec",
            "libopus",
            "-f",
            "rtp",
            "-payload_type",
            "97",
        ])
        .arg(format!("rtp://{on}"));
    let measured = received(&folder, on, &[(97, "opus/48000/2")], from);
    assert_eq!((measured.lost, measured.warnings), (0, Vec::new()));
    let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
    assert_eq!((recorded.rate, recorded.channels), (48_000, 2));
    assert!(
        (hertz(&recorded) - 440.0).abs() < 5.0,
        "{} Hz",
        hertz(&recorded)
    );

    let Some(mut back) = ffmpeg() else { return };
    let to = free_port();
    let mut session = RtpSession::new(to, 96, "opus/48000/2".parse().unwrap());
    session.packet_time = 20 * MS;
    let (sdp, wav) = (folder.0.join("ours.sdp"), folder.0.join("back.wav"));
    std::fs::write(&sdp, RtpSession::describe(std::slice::from_ref(&session))).unwrap();
    back.args(["-protocol_whitelist", "file,udp,rtp", "-i"])
        .arg(&sdp)
        .args(["-t", "1"])
        .arg(&wav);
    let mut player = Player(back.spawn().unwrap());
    let plan = send::Plan {
        sessions: vec![session],
        wait: MS,
        buffers: 3_000,
        ramp_up: Duration::ZERO,
        content: send::Content::Tone(Shape::Sine, 330.0),
        ..send::Plan::new(to, 1)
    };
    let ended = std::cell::RefCell::new(&mut player.0);
    send::run(&plan, &|| ended.borrow_mut().try_wait().unwrap().is_some()).unwrap();
    let recorded = Sound::read(&wav).unwrap();
    assert!(
        (hertz(&recorded) - 330.0).abs() < 5.0,
        "{} Hz",
        hertz(&recorded)
    );
}

/// A network that loses packets. It forwards all other datagrams between the sender and the
/// receiver.
struct Lossy {
    /// Packets and reports of the sender arrive on the first two sockets, reports of the receiver
    /// on the third.
    packets: UdpSocket,
    reports: UdpSocket,
    back: UdpSocket,
}

impl Lossy {
    /// Forwards the datagrams that have arrived, and counts packets in `count`. After the first 20
    /// packets, every tenth is lost, up to `lost_max` of them. Returns the reports of the receiver.
    fn pass(&self, to: SocketAddr, count: &mut u32, lost_max: u32) -> Vec<Vec<u8>> {
        let mut bytes = [0; 2_048];
        let mut next = to;
        next.set_port(to.port() + 1);
        while let Ok(len) = self.packets.recv(&mut bytes) {
            *count += 1;
            let is_lost = *count > 20 && count.is_multiple_of(10) && (*count - 20) / 10 <= lost_max;
            if !is_lost {
                // The player may end before the test, so we ignore the error.
                let _ = self.packets.send_to(&bytes[..len], to);
            }
        }
        let mut reports = Vec::new();
        while let Ok((len, from)) = self.reports.recv_from(&mut bytes) {
            let _ = self.reports.send_to(&bytes[..len], next);
            self.reports.connect(from).unwrap();
        }
        while let Ok(len) = self.back.recv(&mut bytes) {
            // We know the sender's address from its first report on.
            let _ = self.reports.send(&bytes[..len]);
            reports.push(bytes[..len].to_vec());
        }
        reports
    }
}

#[test]
fn gstreamer_and_the_sender_agree_on_the_loss() {
    const LOST: u32 = 30;
    let (through, to, back) = (free_port(), free_port(), free_port());
    let bound = |port: u16| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let lossy = Lossy {
        packets: bound(through.port()),
        reports: bound(through.port() + 1),
        back: bound(back.port()),
    };
    // The player starts to listen when it sends its first report, before any packet has arrived.
    let Some(_player) = reporter(to, back, "PCMA", 8) else {
        return;
    };
    let plan = reported(through, "PCMA", 8, 0x0506_0708);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send::run(&plan, &|| over.load(Ordering::Relaxed)));
        let (begin, mut count, mut reported_lost) = (std::time::Instant::now(), 0, 0);
        // The player starts to count when it is ready, so the loss that it reports may differ a
        // little.
        while reported_lost + 20 < LOST as i32 || (reported_lost - LOST as i32).abs() > 2 {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "the player reports {reported_lost} of {LOST} lost packets"
            );
            for report in lossy.pass(to, &mut count, LOST) {
                if let Some(block) = Block::of(&report, 0x0506_0708) {
                    reported_lost = block.lost;
                }
            }
            std::thread::sleep(MS);
        }
        // The report needs time to reach the sender before it ends.
        std::thread::sleep(300 * MS);
        over.store(true, Ordering::Relaxed);
        let sent = sending.join().unwrap().unwrap();
        let receivers = &sent.sent[0].receivers;
        assert_eq!(receivers.len(), 1, "{receivers:?}");
        assert_eq!(receivers[0].lost as i32, reported_lost);
    });
}

//! RTP as an ordinary player speaks it: `ffmpeg`, where it is installed.

mod folder;

use creel_cast::audio::RATE;
use creel_cast::framing::Framing;
use creel_cast::receive;
use creel_cast::rtp;
use creel_cast::send::{self, Program};
use creel_cast::tone::{Shape, Tone};
use creel_cast::wav::Sound;
use folder::Folder;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn ffmpeg() -> Option<Command> {
    let mut look = Command::new("ffmpeg");
    look.arg("-version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if look.status().is_err() {
        eprintln!("skipped: ffmpeg is not installed");
        return None;
    }
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y"]);
    Some(ffmpeg)
}

/// A port that is free, and so is the next one, which players take for RTCP.
fn free_port() -> SocketAddr {
    loop {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let next = UdpSocket::bind((Ipv4Addr::LOCALHOST, port.saturating_add(1)));
        if port.is_multiple_of(2) && next.is_ok() {
            return (Ipv4Addr::LOCALHOST, port).into();
        }
    }
}

/// Ends the player when a test fails before it does.
struct Player(Child);

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ffmpeg_hears_what_is_sent() {
    let Some(mut ffmpeg) = ffmpeg() else { return };
    let (folder, to) = (Folder::new("to-ffmpeg"), free_port());
    let (sdp, heard) = (folder.0.join("stream.sdp"), folder.0.join("heard.wav"));
    std::fs::write(&sdp, rtp::sdp(to, rtp::L16_MONO, RATE)).unwrap();
    ffmpeg
        .args(["-protocol_whitelist", "file,udp,rtp", "-i"])
        .arg(&sdp);
    ffmpeg.args(["-t", "0.5"]).arg(&heard);
    let mut player = Player(ffmpeg.spawn().unwrap());
    let plan = send::Plan {
        streams: 1,
        to: vec![to],
        shared_port: false,
        groups: 1,
        wait: MS,
        buffers: 6_000,
        ramp_up: Duration::ZERO,
        framing: Framing::default(),
        program: Program::Tone(Shape::Sine, 441.0),
    };
    let ended = std::cell::RefCell::new(&mut player.0);
    // It sends until the player has had enough.
    send::run(&plan, &|| ended.borrow_mut().try_wait().unwrap().is_some()).unwrap();
    let samples = Sound::read(&heard).unwrap().samples;
    assert!(samples.len() >= 20_000, "only {} samples", samples.len());
    // A period is 100 samples: the tone as it is made, from one of 100 places on.
    let mut tone = vec![0; samples.len() + 100];
    Tone::new(Shape::Sine, 441.0, RATE).fill(&mut tone);
    let close = |from: usize| {
        let pairs = samples.iter().zip(&tone[from..]);
        pairs
            .into_iter()
            .all(|(a, b)| (i32::from(*a) - i32::from(*b)).abs() <= 1)
    };
    assert!((0..100).any(close), "it heard something else");
}

#[test]
fn what_ffmpeg_sends_is_heard() {
    let Some(mut ffmpeg) = ffmpeg() else { return };
    let (folder, on) = (Folder::new("from-ffmpeg"), free_port());
    let plan = receive::Plan {
        streams: 1,
        on,
        shared_port: false,
        groups: 1,
        wait: MS,
        framing: Framing::default(),
        buffers: None,
        idle: 500 * MS,
        at_most: Some(60_000 * MS),
        wav: Some(folder.0.clone()),
    };
    let receiver = receive::Receiver::open(&plan).unwrap();
    let source = format!("sine=frequency=441:sample_rate={RATE}:duration=1");
    ffmpeg.args([
        "-re", "-f", "lavfi", "-i", &source, "-ac", "1", "-ar", "44100",
    ]);
    ffmpeg
        .args(["-acodec", "pcm_s16be", "-f", "rtp"])
        .arg(format!("rtp://{on}"));
    ffmpeg.stdout(Stdio::null());
    let player = Player(ffmpeg.spawn().unwrap());
    let received = receiver.run(&|| false);
    drop(player);
    assert_eq!(received.lost, 0);
    let samples = Sound::read(&folder.0.join("stream-0.wav")).unwrap().samples;
    assert!(samples.len() >= 40_000, "only {} samples", samples.len());
    // A sine of 441 Hz repeats after 100 samples.
    let repeats = samples
        .windows(101)
        .filter(|w| (i32::from(w[0]) - i32::from(w[100])).abs() <= 2);
    assert!(repeats.count() > samples.len() * 9 / 10);
    assert!(samples.iter().any(|&sample| sample > 3_000));
}

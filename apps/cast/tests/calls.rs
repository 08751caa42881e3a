//! Phone calls with `sipp` and `baresip`, if they are installed. The test answers the calls and
//! names our port. The audio then goes directly between the phones and us.

mod folder;
mod packets;
mod peers;
mod ports;
#[path = "../../../crates/creel/tests/retry/mod.rs"]
mod retry;
mod running;
mod sip;
mod telephone;

use creel_cast::receive::{self, Receiver};
use creel_cast::{Formats, Rtcp, Shape, Sound, Tone, rooms};
use folder::Folder;
use peers::{Player, free_port, player};
use rooms::LegReport;
use running::run_rooms_while;
use sip::{Codec, Exchange};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use telephone::{Telephone, amplitude};

const MS: Duration = Duration::from_millis(1);
/// A tone that is quieter than this is not heard.
const AUDIBLE: f64 = 300.0;

/// Answers calls while `talk` runs, whose audio goes to `media`.
fn while_answering<R>(media: SocketAddr, talk: impl FnOnce(&Exchange) -> R) -> R {
    let (exchange, over) = (Exchange::new(media), AtomicBool::new(false));
    let end = End(&over);
    std::thread::scope(|scope| {
        scope.spawn(|| exchange.run(&over));
        // The exchange ends even if the test panics.
        let _end = end;
        talk(&exchange)
    })
}

/// Sets its flag when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `is_so` until it returns true.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < 60_000 * MS, "{what} takes too long");
        std::thread::sleep(20 * MS);
    }
}

/// Returns a plan for one room that knows keys and comfort noise, and that removes silent legs
/// after five seconds.
fn plan(on: SocketAddr) -> rooms::Plan {
    rooms::Plan {
        wait: MS,
        rtcp: Rtcp::Own,
        silence: 5_000 * MS,
        formats: Formats::new(vec![(101, "telephone-event/8000".parse().unwrap())]),
        ..rooms::Plan::new(on, 1)
    }
}

/// Decodes a µ-law byte. Source: ITU-T G.711.
fn sample(byte: u8) -> i16 {
    let byte = !byte;
    let magnitude = ((i16::from(byte & 0x0f) << 3) + 0x84) << ((byte & 0x70) >> 4);
    if byte & 0x80 != 0 {
        0x84 - magnitude
    } else {
        magnitude - 0x84
    }
}

/// Decodes an A-law byte. Source: ITU-T G.711.
fn a_law(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (exponent, mantissa) = ((byte & 0x70) >> 4, i16::from(byte & 0x0f) << 4);
    let magnitude = match exponent {
        0 => mantissa + 8,
        _ => (mantissa + 0x108) << (exponent - 1),
    };
    if byte & 0x80 != 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// Encodes a tone with the code whose values `decode` returns.
fn encoded(hertz: f64, samples: usize, decode: fn(u8) -> i16) -> Vec<u8> {
    let mut tone = vec![0; samples];
    Tone::new(Shape::Sine, hertz, 8_000).fill(&mut tone);
    let distance = |byte: u8, sample: i16| i32::from(decode(byte)).abs_diff(sample.into());
    let nearest = |sample: i16| {
        (0..=255)
            .min_by_key(|&byte| distance(byte, sample))
            .unwrap()
    };
    tone.into_iter().map(nearest).collect()
}

/// Returns a scenario for `sipp`: a call in which `sipp` executes the given steps and then hangs
/// up.
fn scenario(actions: &str) -> String {
    // A file of a codec and a capture are played from different ports.
    let port = match actions.contains("play_pcap_audio") {
        true => "[media_port]",
        false => "[rtpstream_audio_port]",
    };
    let request = |method: &str, number: u32, tag: &str, body: &str| {
        format!(
            "{method} sip:test@[remote_ip]:[remote_port] SIP/2.0\n\
             Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]\n\
             From: <sip:sipp@[local_ip]:[local_port]>;tag=[call_number]\n\
             To: <sip:test@[remote_ip]:[remote_port]>{tag}\n\
             Call-ID: [call_id]\nCSeq: {number} {method}\n\
             Contact: <sip:sipp@[local_ip]:[local_port]>\nMax-Forwards: 70\n\
             Content-Type: application/sdp\nContent-Length: [len]\n\n{body}"
        )
    };
    let body = format!(
        "v=0\no=- 1 1 IN IP4 [local_ip]\ns=-\nc=IN IP4 [media_ip]\nt=0 0\n\
         m=audio {port} RTP/AVP 0\na=rtpmap:0 PCMU/8000\n"
    );
    let tag = "[peer_tag_param]";
    format!(
        "<?xml version=\"1.0\"?>\n<scenario name=\"a call\">\n\
         <send retrans=\"500\"><![CDATA[\n{}]]></send><recv response=\"200\"/>\n\
         <send><![CDATA[\n{}]]></send>\n\
         {actions}\n\
         <send retrans=\"500\"><![CDATA[\n{}]]></send><recv response=\"200\"/>\n</scenario>\n",
        request("INVITE", 1, "", &body),
        request("ACK", 1, tag, ""),
        request("BYE", 2, tag, "")
    )
}

/// Returns the part of a scenario that plays a file for some time.
fn playing(sound: &str, codec: &str, time: Duration) -> String {
    format!(
        "<nop><action><exec rtp_stream=\"{sound},1,{codec}/8000\"/></action></nop>\n\
         <pause milliseconds=\"{}\"/>",
        time.as_millis()
    )
}

/// Makes `sipp` call the exchange with a scenario.
fn call_by(sipp: &mut Command, folder: &Path, actions: &str, exchange: SocketAddr) -> Player {
    std::fs::write(folder.join("call.xml"), scenario(actions)).unwrap();
    sipp.current_dir(folder)
        .env("TERM", "dumb")
        .args(["-sf", "call.xml", "-i", "127.0.0.1", "-m", "1", "-nostdin"])
        .arg(exchange.to_string());
    Player::start(sipp)
}

#[test]
fn audio_from_sipp_is_received_sample_by_sample() {
    let Some(mut sipp) = player("sipp", "-v") else {
        return;
    };
    let (folder, media) = (Folder::new("sipp"), free_port());
    // One second with all byte values, in an order that does not repeat within a packet.
    let played: Vec<u8> = (0..8_000_u32).map(|n| (n * n / 7 + n) as u8).collect();
    std::fs::write(folder.0.join("sound"), &played).unwrap();
    let actions = playing("sound", "0,PCMU", 1_500 * MS);
    let sessions = receive::Plan::sessions(media, 1, &Formats::default(), Rtcp::Off).unwrap();
    let plan = receive::Plan {
        wait: MS,
        idle: 1_000 * MS,
        time_limit: Some(30_000 * MS),
        wav: Some(folder.0.clone()),
        ..receive::Plan::new(sessions)
    };
    let receiver = Receiver::open(&plan).unwrap();
    let measured = while_answering(media, |exchange| {
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receiver.run(&|| false));
            let _player = call_by(&mut sipp, &folder.0, &actions, exchange.address());
            until("the call", || exchange.count() == (1, 1));
            receiving.join().unwrap()
        })
    });
    let source = &measured.sources[0];
    assert_eq!((source.packets, source.lost), (50, 0));
    let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap();
    let expected: Vec<i16> = played.iter().copied().map(sample).collect();
    assert!(
        recorded.rate == 8_000 && recorded.samples == expected,
        "the recording differs from what was played"
    );
}

/// Runs a room whose calls are answered while `talk` runs, and returns the reports of its legs.
fn in_a_room(talk: impl FnOnce(&Exchange)) -> Vec<LegReport> {
    let media = free_port();
    run_rooms_while(&plan(media), || while_answering(media, talk))
}

#[test]
fn two_telephones_hear_each_other_after_a_hold_and_a_change_of_codec() {
    let (Some(program), Some(other)) = (player("baresip", "-h"), player("baresip", "-h")) else {
        return;
    };
    let folder = Folder::new("two-telephones");
    let (of_a, of_b) = (440.0, 660.0);
    let legs = in_a_room(|exchange| {
        let call = |program, user, hertz| {
            Telephone::call(program, &folder.0, user, hertz, exchange.address())
        };
        let mut a = call(program, "a", of_a);
        let mut b = call(other, "b", of_b);
        // Each telephone hears the other one, and not itself.
        let talk = |a: &Telephone, b: &Telephone, what: &str| {
            until(what, || {
                a.hears(of_b) > AUDIBLE
                    && b.hears(of_a) > AUDIBLE
                    && a.hears(of_a) < AUDIBLE
                    && b.hears(of_b) < AUDIBLE
            });
        };
        talk(&a, &b, "the connection");
        exchange.offer("a", Codec::Pcma);
        until("the offer", || exchange.accepted("a") == 1);
        // We wait for another 500 ms of sound.
        let before = (a.samples(), b.samples());
        until("the sound", || {
            a.samples() > before.0 + 4_000 && b.samples() > before.1 + 4_000
        });
        talk(&a, &b, "the other codec");
        for key in ["1", "5", "#"] {
            a.command("sndcode", key);
            std::thread::sleep(300 * MS);
        }
        b.command("hold", "");
        until("the hold", || a.hears(of_b) < AUDIBLE);
        // After a hold, this telephone does not write to its file any more.
        b.command("resume", "");
        until("the end of the hold", || a.hears(of_b) > AUDIBLE);
        // The telephone dies without a goodbye.
        drop(b);
        until("the silence", || a.hears(of_b) < AUDIBLE);
        let before = a.samples();
        until("the sound after it", || a.samples() > before + 48_000);
        a.command("hangup", "");
        until("the end", || exchange.count() == (2, 1));
    });
    assert_eq!(legs.len(), 2, "{legs:?}");
    let mut keys: Vec<(&str, String)> = legs
        .iter()
        .map(|leg| (&leg.keys[..], leg.format.to_string()))
        .collect();
    keys.sort_unstable();
    let expected = [("", "PCMU/8000"), ("15#", "PCMA/8000")];
    assert_eq!(keys, expected.map(|(keys, format)| (keys, format.into())));
}

/// A leg that this test plays itself: it sends a tone and returns what it hears.
struct OwnLeg {
    socket: UdpSocket,
    room: SocketAddr,
    tone: Vec<u8>,
    number: u32,
    begin: Instant,
    heard: Vec<i16>,
}

impl OwnLeg {
    fn new(room: SocketAddr, hertz: f64) -> Self {
        let socket = UdpSocket::bind(free_port()).unwrap();
        socket.set_nonblocking(true).unwrap();
        OwnLeg {
            socket,
            room,
            tone: encoded(hertz, 8_000, sample),
            number: 0,
            begin: Instant::now(),
            heard: Vec::new(),
        }
    }

    /// Sends the packets that are due, and returns whether the tones of the last 200 ms are those
    /// of `wanted` and of no other telephone.
    fn hears(&mut self, wanted: &[f64], all: &[f64]) -> bool {
        while self.begin + 20 * MS * self.number < Instant::now() {
            let mut packet = vec![0x80, 0];
            packet.extend((self.number as u16).to_be_bytes());
            packet.extend((self.number * 160).to_be_bytes());
            packet.extend([0, 0, 0, 1]);
            packet.extend(&self.tone[self.number as usize % 50 * 160..][..160]);
            // The system refuses packets until the room is open.
            let _ = self.socket.send_to(&packet, self.room);
            self.number += 1;
        }
        let mut bytes = [0; 2_048];
        while let Ok(len) = self.socket.recv(&mut bytes) {
            self.heard
                .extend(bytes[12..len].iter().copied().map(sample));
        }
        let last = &self.heard[self.heard.len().saturating_sub(1_600)..];
        all.iter()
            .all(|tone| (amplitude(last, *tone) > AUDIBLE) == wanted.contains(tone))
    }
}

impl OwnLeg {
    /// Returns the effective value of the last 200 ms that the leg has heard.
    fn loudness(&self) -> f64 {
        let last = &self.heard[self.heard.len().saturating_sub(1_600)..];
        let squares: f64 = last.iter().map(|&it| f64::from(it).powi(2)).sum();
        (squares / last.len().max(1) as f64).sqrt()
    }
}

#[test]
fn five_telephones_hear_exactly_those_that_have_not_left() {
    let (Some(mut sipp), Some(_)) = (player("sipp", "-v"), player("baresip", "-h")) else {
        return;
    };
    let folder = Folder::new("five-telephones");
    // The sum of the tones is too loud for a sample, so it is clipped. This adds tones whose
    // frequencies are sums and differences of multiples. For example, 400 + 1,000 - 600 Hz would
    // sound like a telephone with 800 Hz, depending on the phases. Here, no such sum of up to nine
    // frequencies is the tone of a telephone that has left.
    let tones = [310.0, 540.0, 735.0, 1_225.0];
    let own_tone = 1_300.0;
    let of_sipp = tones[3];
    std::fs::write(folder.0.join("first"), encoded(of_sipp, 24_000, sample)).unwrap();
    std::fs::write(folder.0.join("second"), encoded(of_sipp, 240_000, a_law)).unwrap();
    let first = playing("first", "0,PCMU", 3_000 * MS);
    let actions = first + &playing("second", "8,PCMA", 60_000 * MS);
    let media = free_port();
    let legs = run_rooms_while(&plan(media), || {
        while_answering(media, |exchange| {
            let call = |(user, &hertz)| {
                let baresip = Command::new("baresip");
                Telephone::call(baresip, &folder.0, user, hertz, exchange.address())
            };
            let users = ["a", "b", "c"].into_iter().zip(&tones);
            let mut telephones: Vec<Telephone> = users.map(call).collect();
            let sipp = call_by(&mut sipp, &folder.0, &actions, exchange.address());
            let mut own = OwnLeg::new(media, own_tone);
            until("the conference", || own.hears(&tones, &tones));
            until("all others", || {
                own.hears(&tones, &tones);
                let hears_all = |(index, telephone): (usize, &Telephone)| {
                    let others = tones.iter().enumerate().filter(|(of, _)| *of != index);
                    let mut others = others.map(|(_, tone)| tone).chain([&own_tone]);
                    others.all(|&tone| telephone.hears(tone) > AUDIBLE)
                };
                telephones.iter().enumerate().all(hears_all)
            });
            // The third telephone hangs up, the second one dies, and the fourth one changes its
            // codec.
            telephones[2].command("hangup", "");
            until("the hang-up", || {
                own.hears(&[310.0, 540.0, 1_225.0], &tones)
            });
            drop(telephones.remove(1));
            until("the death", || own.hears(&[310.0, 1_225.0], &tones));
            until("the other codec", || {
                own.hears(&[310.0, 1_225.0], &tones) && own.begin.elapsed() > 5_000 * MS
            });
            drop(sipp);
            until("the second death", || own.hears(&[310.0], &tones));
        });
    });
    assert_eq!(legs.len(), 5, "{legs:?}");
}

#[test]
fn comfort_noise_of_a_telephone_keeps_its_leg_and_is_heard() {
    let Some(mut sipp) = player("sipp", "-v") else {
        return;
    };
    let (folder, media, hertz) = (Folder::new("comfort-noise"), free_port(), 500.0);
    // A second of voice, three seconds of comfort noise in few packets, and two seconds of voice.
    let tone = encoded(hertz, 8_000, sample);
    let mut datagrams = Vec::new();
    let mut sequence = 0_u16;
    for n in 0..300_u32 {
        let is_voice = !(50..200).contains(&n);
        if !is_voice && n % 10 != 0 {
            continue;
        }
        let payload = match is_voice {
            true => tone[n as usize % 50 * 160..][..160].to_vec(),
            false => vec![30],
        };
        let packet = packets::Packet {
            payload_type: if is_voice { 0 } else { 13 },
            sequence,
            timestamp: n * 160,
            ssrc: 9,
            payload,
        };
        sequence += 1;
        datagrams.push((20 * MS * n, 5_004, packet.bytes()));
    }
    packets::capture(&folder.0.join("call.pcap"), &datagrams);
    let actions = "<nop><action><exec play_pcap_audio=\"call.pcap\"/></action></nop>\n\
                   <pause milliseconds=\"6500\"/>";
    let legs = run_rooms_while(&plan(media), || {
        while_answering(media, |exchange| {
            let mut own = OwnLeg::new(media, 900.0);
            let _player = call_by(&mut sipp, &folder.0, actions, exchange.address());
            until("the voice", || own.hears(&[hertz], &[hertz]));
            until("the noise", || {
                own.hears(&[], &[hertz]) && own.loudness() > 300.0
            });
            until("the voice after the noise", || {
                own.hears(&[hertz], &[hertz])
            });
        });
    });
    assert_eq!(legs.len(), 2, "{legs:?}");
}

//! Phone calls with `sipp` and `baresip`, if they are installed. The test answers the call and
//! names our port. The audio then goes directly between the phone and us.

mod folder;
mod peers;
mod ports;
#[path = "../../../crates/creel/tests/retry/mod.rs"]
mod retry;

use creel_cast::receive::{self, Receiver};
use creel_cast::{Formats, Rtcp, Shape, Sound, Tone, rooms};
use folder::Folder;
use peers::{Player, free_port, player, wav};
use retry::retry;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// Answers one call, whose audio goes to `media` as µ-law. Returns when the call is over.
fn answer(socket: &UdpSocket, media: SocketAddr) {
    socket.set_read_timeout(Some(20_000 * MS)).unwrap();
    let mut bytes = [0; 4_096];
    loop {
        let (len, from) =
            retry(|| socket.recv_from(&mut bytes)).expect("the phone must call and hang up");
        let request = String::from_utf8_lossy(&bytes[..len]);
        let method = request.split(' ').next().unwrap_or("");
        if !["INVITE", "BYE"].contains(&method) {
            continue;
        }
        let mut reply = String::from("SIP/2.0 200 OK\r\n");
        for line in request.lines().take_while(|line| !line.is_empty()) {
            let name = line.split(':').next().unwrap_or("").to_lowercase();
            if ["via", "from", "call-id", "cseq"].contains(&name.as_str()) {
                reply += &format!("{line}\r\n");
            } else if name == "to" {
                let tag = if line.contains("tag=") { "" } else { ";tag=1" };
                reply += &format!("{line}{tag}\r\n");
            }
        }
        let (ip, port) = (media.ip(), media.port());
        let body = match method {
            "INVITE" => format!(
                "v=0\r\no=- 1 1 IN IP4 {ip}\r\ns=-\r\nc=IN IP4 {ip}\r\nt=0 0\r\n\
                 m=audio {port} RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
            ),
            _ => String::new(),
        };
        let on = socket.local_addr().unwrap();
        reply += &format!("Contact: <sip:test@{on}>\r\nContent-Type: application/sdp\r\n");
        reply += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        socket.send_to(reply.as_bytes(), from).unwrap();
        if method == "BYE" {
            return;
        }
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

/// Returns a scenario for `sipp` that plays a file of µ-law and hangs up.
fn scenario(sound: &str, playing: Duration) -> String {
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
    let body = "v=0\no=- 1 1 IN IP4 [local_ip]\ns=-\nc=IN IP4 [media_ip]\nt=0 0\n\
                m=audio [rtpstream_audio_port] RTP/AVP 0\na=rtpmap:0 PCMU/8000\n";
    let tag = "[peer_tag_param]";
    format!(
        "<?xml version=\"1.0\"?>\n<scenario name=\"a call\">\n\
         <send retrans=\"500\"><![CDATA[\n{}]]></send><recv response=\"200\"/>\n\
         <send><![CDATA[\n{}]]></send>\n\
         <nop><action><exec rtp_stream=\"{sound},1,0,PCMU/8000\"/></action></nop>\n\
         <pause milliseconds=\"{}\"/>\n\
         <send retrans=\"500\"><![CDATA[\n{}]]></send><recv response=\"200\"/>\n</scenario>\n",
        request("INVITE", 1, "", body),
        request("ACK", 1, tag, ""),
        playing.as_millis(),
        request("BYE", 2, tag, "")
    )
}

#[test]
fn audio_from_sipp_is_received_sample_by_sample() {
    let Some(mut sipp) = player("sipp", "-v") else {
        return;
    };
    let (folder, media) = (Folder::new("sipp"), free_port());
    let sip = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The sound lasts one second. It has all byte values, in an order that does not repeat within a
    // packet.
    let played: Vec<u8> = (0..8_000_u32).map(|n| (n * n / 7 + n) as u8).collect();
    let (sound, calls) = (folder.0.join("sound"), folder.0.join("call.xml"));
    std::fs::write(&sound, &played).unwrap();
    std::fs::write(&calls, scenario(sound.to_str().unwrap(), 1_500 * MS)).unwrap();
    let sessions = receive::Plan::sessions(media, 1, &Formats::default(), Rtcp::Off).unwrap();
    let plan = receive::Plan {
        wait: MS,
        idle: 1_000 * MS,
        time_limit: Some(30_000 * MS),
        wav: Some(folder.0.clone()),
        ..receive::Plan::new(sessions)
    };
    let receiver = Receiver::open(&plan).unwrap();
    sipp.current_dir(&folder.0)
        .env("TERM", "dumb")
        .args(["-sf", "call.xml", "-i", "127.0.0.1", "-m", "1", "-nostdin"])
        .arg(sip.local_addr().unwrap().to_string());
    let measured = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&|| false));
        let _player = Player::start(&mut sipp);
        answer(&sip, media);
        receiving.join().unwrap()
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

#[test]
fn a_sip_phone_joins_a_room() {
    let Some(mut baresip) = player("baresip", "-h") else {
        return;
    };
    let (folder, media) = (Folder::new("baresip"), free_port());
    let sip = UdpSocket::bind("127.0.0.1:0").unwrap();
    // The phone plays two seconds of a tone and then hangs up.
    let mut tone = vec![0; 16_000];
    Tone::new(Shape::Sine, 440.0, 8_000).fill(&mut tone);
    let sound = folder.0.join("tone.wav");
    wav(&sound, &tone, 8_000, 1);
    let config = format!(
        "module_path /usr/lib/baresip/modules\nmodule stdio.so\nmodule g711.so\n\
         module aufile.so\nmodule account.so\nmodule menu.so\nmodule uuid.so\n\
         net_interface 127.0.0.1\nsip_listen 127.0.0.1:0\naudio_srate 8000-8000\n\
         audio_channels 1-1\naudio_source aufile,{}\n",
        sound.display()
    );
    std::fs::write(folder.0.join("config"), config).unwrap();
    let account = "<sip:test@127.0.0.1>;regint=0;audio_codecs=pcmu\n";
    std::fs::write(folder.0.join("accounts"), account).unwrap();
    std::fs::write(folder.0.join("contacts"), "").unwrap();
    let dial = format!("/dial sip:room@{}", sip.local_addr().unwrap());
    baresip
        .arg("-f")
        .arg(&folder.0)
        .args(["-e", &dial, "-t", "8"]);
    let plan = rooms::Plan {
        wait: MS,
        ..rooms::Plan::new(media, 1)
    };
    let over = AtomicBool::new(false);
    let (legs, loudest) = std::thread::scope(|scope| {
        let running = scope.spawn(|| rooms::run(&plan, &|| over.load(Ordering::Relaxed)));
        let calling = scope.spawn(|| {
            let _player = Player::start(&mut baresip);
            answer(&sip, media);
        });
        // The other leg of the room sends silence.
        let leg = UdpSocket::bind("127.0.0.1:0").unwrap();
        leg.set_nonblocking(true).unwrap();
        let (begin, mut loudest, mut bytes) = (Instant::now(), 0, [0; 2_048]);
        for n in 0..u16::MAX {
            if calling.is_finished() {
                break;
            }
            let due = begin + 20 * MS * u32::from(n);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let mut packet = vec![0x80, 0];
            packet.extend(n.to_be_bytes());
            packet.extend((u32::from(n) * 160).to_be_bytes());
            packet.extend([0, 0, 0, 1]);
            packet.extend([0xff; 160]);
            // The system refuses packets until the room is open.
            let _ = leg.send_to(&packet, media);
            while let Ok(len) = leg.recv(&mut bytes) {
                let samples = bytes[12.min(len)..len].iter().copied().map(sample);
                loudest = samples
                    .map(i16::unsigned_abs)
                    .max()
                    .unwrap_or(0)
                    .max(loudest);
            }
        }
        calling.join().unwrap();
        over.store(true, Ordering::Relaxed);
        (running.join().unwrap().unwrap().1, loudest)
    });
    assert_eq!(legs.len(), 2, "{legs:?}");
    assert!(
        legs.iter().all(|leg| leg.packets > 50 && leg.sent > 50),
        "{legs:?}"
    );
    assert!(loudest > 1_000, "the tone is too quiet: {loudest}");
}

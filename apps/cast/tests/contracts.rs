//! Documented behaviour of the commands: exit codes, JSON documents, session descriptions, reports.
#![cfg(unix)]

mod folder;
mod packets;
mod ports;
#[path = "../../../crates/creel/tests/retry/mod.rs"]
mod retry;

use folder::Folder;
use packets::{Packet, counting};
use ports::free_ports;
use retry::retry;
use std::io::Read as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn creel_cast(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_creel-cast"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Sends these packets to a program. We repeat the first packet until the program has opened its
/// port.
fn send(child: &mut Child, to: SocketAddr, packets: impl Iterator<Item = Packet>) -> UdpSocket {
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(to).unwrap();
    let begin = Instant::now();
    for packet in packets {
        // The error belongs to this packet or to the previous one, which was not received.
        while sender.send(&packet.bytes()).is_err() || sender.take_error().unwrap().is_some() {
            if let Some(status) = child.try_wait().unwrap() {
                let mut stderr = String::new();
                let _ = child.stderr.take().unwrap().read_to_string(&mut stderr);
                panic!("the program has ended, {status}: {stderr}");
            }
            assert!(begin.elapsed() < 60_000 * MS, "the program does not listen");
            std::thread::sleep(MS);
        }
        std::thread::sleep(2 * MS);
    }
    sender
}

fn kill(child: &Child, signal: &str) {
    let id = child.id().to_string();
    let status = Command::new("kill").args([signal, &id]).status();
    assert!(status.unwrap().success());
}

#[test]
fn an_interrupted_run_prints_its_figures_and_exits_with_130() {
    for program in ["receive --streams 1 --buffers 1000", "rooms", "relay"] {
        for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
            let on = free_ports(1);
            let line = format!("{program} --on {on} --format json");
            let mut child = creel_cast(&line).spawn().unwrap();
            send(&mut child, on, (0..20).map(|n| counting(8, n, 80, 1)));
            kill(&child, signal);
            let output = child.wait_with_output().unwrap();
            assert_eq!(
                output.status.code(),
                Some(code),
                "{line}: {}",
                stderr_of(&output)
            );
            assert!(printed(&output).contains(r#""buffers""#), "{line}");
        }
    }
}

/// Waits until a program handles SIGTERM.
fn wait_for_handler(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    let begin = Instant::now();
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if mask.is_some_and(|mask| mask >> 14 & 1 == 1) {
            return;
        }
        assert!(
            begin.elapsed() < 60_000 * MS,
            "the program installs no handler"
        );
        std::thread::sleep(MS);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminated_evaluation_exits_with_143() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let mut command = creel_cast("evaluate --streams 10 --runs 1000");
        let child = command.spawn().unwrap();
        wait_for_handler(&child);
        kill(&child, signal);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr_of(&output));
    }
}

#[test]
fn json_documents_have_the_fields_of_the_schema() {
    for (program, fields) in [
        ("relay", &["packets", "rtcp", "overflowed", "ports"][..]),
        ("rooms", &["packets", "overflowed", "legs"][..]),
        (
            "receive --streams 1",
            &["packets", "bytes", "expected", "jitter_ms", "malformed"][..],
        ),
    ] {
        let on = free_ports(1);
        let line = format!("{program} --on {on} --format json");
        let mut child = creel_cast(&line).spawn().unwrap();
        send(&mut child, on, (0..20).map(|n| counting(8, n, 80, 1)));
        kill(&child, "-INT");
        let document = printed(&child.wait_with_output().unwrap());
        for field in fields {
            let field = format!("\n  \"{field}\": ");
            assert!(document.contains(&field), "{line}: {field} in {document}");
        }
    }
}

#[test]
fn a_run_with_only_unvalidated_packets_ends_with_a_warning() {
    let on = free_ports(1);
    let line = format!("receive --streams 1 --on {on} --idle 3s --for 600s");
    let mut child = creel_cast(&line).spawn().unwrap();
    send(&mut child, on, (0..50).map(|n| counting(8, 2 * n, 80, 1)));
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        let is_late = begin.elapsed() > 60_000 * MS;
        if is_late {
            child.kill().unwrap();
        }
        assert!(!is_late, "the program waits for the end of --for");
        std::thread::sleep(MS);
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = stderr_of(&output);
    assert!(stderr.contains("received no stream"), "{stderr}");
}

#[test]
fn the_printed_description_matches_the_sent_packets() {
    let output =
        creel_cast("send --to 239.1.1.1:5004 --ttl 5 --codec PCMA --keys 12 --streams 1 --sdp");
    let text = printed(&{ output }.output().unwrap());
    for line in [
        "c=IN IP4 239.1.1.1/5",
        "m=audio 5004 RTP/AVP 8 101",
        "a=rtpmap:101 telephone-event/8000",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} in {text}");
    }
}

#[test]
fn an_unsupported_description_is_bad_data_and_sends_nothing() {
    let folder = Folder::new("described");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_nonblocking(true).unwrap();
    let port = client.local_addr().unwrap().port();
    let path = folder.0.join("a.sdp");
    for media in [
        format!("m=audio {port} RTP/SAVP 0\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:AA\n"),
        format!("m=audio {port} RTP/AVP 96\n"),
    ] {
        let text =
            format!("v=0\no=- 0 0 IN IP4 127.0.0.1\ns=-\nc=IN IP4 127.0.0.1\nt=0 0\n{media}");
        std::fs::write(&path, text).unwrap();
        for program in ["send --buffers 5 --ramp-up 0s", "receive --for 100ms"] {
            let line = format!("{program} --from-sdp {}", path.display());
            let output = creel_cast(&line).output().unwrap();
            assert_eq!(
                output.status.code(),
                Some(65),
                "{line}: {}",
                stderr_of(&output)
            );
        }
    }
    assert!(
        client.recv(&mut [0; 2_048]).is_err(),
        "the client must not receive anything"
    );
}

#[test]
fn an_unsupported_room_rate_is_rejected() {
    for rate in [0, 7, 4_294_967_295_u32] {
        let output = creel_cast(&format!("rooms --rate {rate} --for 100ms")).output();
        assert_eq!(output.unwrap().status.code(), Some(2), "{rate}");
    }
}

/// Returns a sender report, with a BYE if `ends` is set.
fn report(ssrc: u32, packets: u32, ends: bool) -> Vec<u8> {
    let mut bytes = vec![0x80, 200, 0, 6];
    bytes.extend(ssrc.to_be_bytes());
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(packets.to_be_bytes());
    bytes.extend((packets * 160).to_be_bytes());
    if ends {
        bytes.extend([0x81, 203, 0, 1]);
        bytes.extend(ssrc.to_be_bytes());
    }
    bytes
}

fn sender_packets(rows: &str) -> (bool, bool) {
    (
        rows.contains(r#""sender_packets":600,"#),
        rows.contains(r#""left":true"#),
    )
}

/// Reports arrive on the next port. The figures are those of the last report, although a BYE comes
/// with it. The receiver's reports leave from the same port.
#[test]
fn the_last_sender_report_on_the_rtcp_port_counts() {
    let on = free_ports(2);
    let next = SocketAddr::new(on.ip(), on.port() + 1);
    let line = format!("receive --streams 1 --on {on} --rtcp own --idle 3s --streams-format json");
    let mut child = creel_cast(&line).spawn().unwrap();
    let (sender, reporter) = loop {
        // The sender needs two ports in a row.
        let own = free_ports(2);
        let first = UdpSocket::bind(own);
        if let (Ok(first), Ok(second)) = (first, UdpSocket::bind((own.ip(), own.port() + 1))) {
            break (first, second);
        }
    };
    // This packet opens the port. It is not the beginning of a stream, because no packet follows it
    // in sequence.
    send(&mut child, on, (0..1).map(|n| counting(8, n, 80, 1)));
    let ssrc = 0xabad_cafe;
    for n in 10..40 {
        sender.send_to(&counting(8, n, 80, 1).bytes(), on).unwrap();
        if n == 20 {
            reporter.send_to(&report(ssrc, 20, false), next).unwrap();
        }
        std::thread::sleep(2 * MS);
    }
    reporter.send_to(&report(ssrc, 600, true), next).unwrap();
    reporter.set_read_timeout(Some(60_000 * MS)).unwrap();
    let (_, from) =
        retry(|| reporter.recv_from(&mut [0; 2_048])).expect("the receiver must send a report");
    assert_eq!(from, next, "reports must leave from the RTCP port");
    let rows = printed(&child.wait_with_output().unwrap());
    assert_eq!(sender_packets(&rows), (true, true), "{rows}");
}

/// Checks the same as the test above with a capture.
#[test]
fn the_last_sender_report_in_a_capture_counts() {
    let folder = Folder::new("reports");
    let path = folder.0.join("a.pcap");
    let mut datagrams: Vec<_> = (0..50)
        .map(|n| (20 * MS * n, 5_004, counting(8, n, 80, 1).bytes()))
        .collect();
    datagrams.push((1_001 * MS, 5_005, report(0xabad_cafe, 600, true)));
    packets::capture(&path, &datagrams);
    let line = format!("receive --pcap {} --streams-format json", path.display());
    let rows = printed(&creel_cast(&line).output().unwrap());
    assert_eq!(sender_packets(&rows), (true, true), "{rows}");
}

/// Runs in a network namespace in which the route to the group does not use the named interface.
#[test]
#[cfg(target_os = "linux")]
fn a_source_specific_join_uses_the_named_interface() {
    const NETWORK: &str = "ip link add v0 type veth peer name v1 && ip addr add 10.99.0.2/24 dev v1 \
        && ip link set v0 up && ip link set v1 up && ip link set lo up \
        && ip route add 232.0.0.0/8 dev lo";
    let may = Command::new("unshare")
        .args(["-rn", "sh", "-c", NETWORK])
        .output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped, because this user cannot create a network namespace");
        return;
    }
    let program = env!("CARGO_BIN_EXE_creel-cast");
    assert!(Path::new(program).exists());
    let script = format!(
        "{NETWORK}; {program} receive --on 232.1.2.3:5004 --streams 1 --interface v1 \
         --source 10.99.0.1 --for 90s & for n in $(seq 6000); do \
         if grep -q 0xe8010203 /proc/net/mcfilter; then break; fi; sleep 0.01; done; \
         cat /proc/net/mcfilter; kill $!; wait"
    );
    let output = Command::new("unshare")
        .args(["-rn", "sh", "-c", &script])
        .output()
        .unwrap();
    let joined = printed(&output);
    let row = joined.lines().find(|line| line.contains("0xe8010203"));
    let row = row.unwrap_or_else(|| panic!("{joined}{}", stderr_of(&output)));
    assert!(
        row.split_whitespace().nth(1) == Some("v1") && row.contains("0x0a630001"),
        "{row}"
    );
}

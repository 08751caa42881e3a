//! Faults around the program: each of them is reported, and none of them stops the program.
#![cfg(unix)]

mod folder;
mod packets;
mod ports;
#[path = "../../../crates/creel/tests/retry/mod.rs"]
mod retry;

use creel_cast::Sound;
use folder::Folder;
use packets::counting;
use ports::{free_ports, wait_until_read};
use retry::retry;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

#[test]
fn too_few_descriptors_give_one_warning_and_the_open_ports_work() {
    let on = free_ports(1);
    let program = env!("CARGO_BIN_EXE_creel-cast");
    let line = format!(
        "ulimit -n 64 && exec {program} receive --streams 100 --on {on} --idle 3s \
         --format csv"
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &line])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (receiving, n) = Receiving::start(command, on);
    receiving.send(n..n + 10);
    let output = receiving.end();
    let stderr = stderr_of(&output);
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| line.contains("cannot open"))
        .collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(lines[0].contains("of 100 ports"), "{stderr}");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let rows = String::from_utf8_lossy(&output.stdout);
    assert!(rows.lines().nth(1).unwrap().starts_with("1,"), "{rows}");
}

#[test]
fn an_interrupted_sender_prints_its_figures_and_exits_with_130() {
    let client = UdpSocket::bind(LOCAL).unwrap();
    client.set_read_timeout(Some(60_000 * MS)).unwrap();
    let to = client.local_addr().unwrap().to_string();
    let mut sender = Command::new(env!("CARGO_BIN_EXE_creel-cast"));
    sender.args(["send", "--streams", "1", "--to", &to, "--buffers", "100000"]);
    sender.args(["--ramp-up", "0s", "--format", "csv"]);
    let sender = sender.stdout(Stdio::piped()).spawn().unwrap();
    retry(|| client.recv(&mut [0; 2048])).expect("the sender must send a packet");
    let signal = Command::new("kill")
        .args(["-INT", &sender.id().to_string()])
        .status();
    assert!(signal.unwrap().success());
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
}

fn creel_cast(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_creel-cast"));
    command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A receiver process on this port, and a socket that sends to it once the port is open.
struct Receiving {
    child: Child,
    sender: UdpSocket,
}

impl Receiving {
    /// Starts the receiver, and sends packets until its port is open. The recording therefore
    /// begins with one of these packets. Returns the number of the next packet.
    fn start(mut command: Command, to: SocketAddr) -> (Self, u32) {
        let sender = UdpSocket::bind(LOCAL).unwrap();
        let mut child = command.spawn().unwrap();
        sender.connect(to).unwrap();
        let mut n = 0;
        let mut delivered = 0;
        while delivered < 4 {
            assert!(
                child.try_wait().unwrap().is_none(),
                "the receiver has ended"
            );
            // An error means that no one received the previous packet.
            delivered = if sender.send(&counting(11, n, 441, 1).bytes()).is_ok() {
                delivered + 1
            } else {
                0
            };
            n += 1;
            std::thread::sleep(2 * MS);
        }
        (Receiving { child, sender }, n)
    }

    fn send(&self, numbers: std::ops::Range<u32>) {
        for n in numbers {
            self.sender.send(&counting(11, n, 441, 1).bytes()).unwrap();
            std::thread::sleep(2 * MS);
        }
    }

    fn end(self) -> Output {
        self.child.wait_with_output().unwrap()
    }
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_killed_receiver_leaves_valid_recordings() {
    let (folder, on) = (Folder::new("killed"), free_ports(1));
    let wav = folder.0.join("stream-0.wav");
    let mut command = creel_cast(&["receive", "--shared-port", "--streams", "1"]);
    command
        .args(["--on", &on.to_string(), "--wav"])
        .arg(&folder.0);
    let (receiving, n) = Receiving::start(command, on);
    let mut n = n;
    // 2 * 88,200 bytes are two seconds of sound.
    let bytes = || wav.metadata().map_or(0, |found| found.len());
    while bytes() < 2 * 88_200 {
        receiving.send(n..n + 10);
        n += 10;
    }
    let Receiving { mut child, .. } = receiving;
    child.kill().unwrap();
    child.wait().unwrap();
    let recorded = Sound::read(&wav).unwrap().samples;
    assert!(recorded.len() >= 44_100, "{} samples", recorded.len());
    let first = recorded[0];
    let expected = (0..recorded.len()).map(|n| first.wrapping_add(n as u16 as i16));
    assert!(
        recorded.iter().copied().eq(expected),
        "the recording differs from what was sent"
    );
}

#[test]
fn a_full_disk_ends_the_recording_but_not_the_stream() {
    let (folder, on) = (Folder::new("full"), free_ports(1));
    let program = env!("CARGO_BIN_EXE_creel-cast");
    let wav = folder.0.join("stream-0.wav");
    // The shell limits files to 64 blocks of 512 or 1,024 bytes. Writing more is an error.
    let line = format!(
        "trap '' XFSZ; ulimit -f 64; exec {program} receive --shared-port --streams 1 --on {on} \
         --wav {} --idle 3s --streams-format csv",
        folder.0.display()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &line])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (receiving, n) = Receiving::start(command, on);
    receiving.send(n..n + 300);
    let output = receiving.end();
    let stderr = stderr_of(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("stream-0.wav") && stderr.contains("ends there"),
        "{stderr}"
    );
    let recorded = Sound::read(&wav).unwrap().samples;
    assert!(
        (8_000..40_000).contains(&recorded.len()),
        "{} samples",
        recorded.len()
    );
    assert!(recorded[20_000 / 2..].iter().any(|&sample| sample != 0));
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    let row: Vec<&str> = rows.lines().nth(1).unwrap().split(',').collect();
    let packets: u32 = row[6].parse().unwrap();
    // The disk is full after 74 packets at most. On a busy machine some packets overflow the
    // socket.
    assert!(packets >= 150, "{rows}");
}

#[test]
fn receiving_nothing_is_a_failure_with_a_warning() {
    let on = free_ports(1).to_string();
    let output = creel_cast(&["receive", "--streams", "1", "--on", &on, "--for", "200ms"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr_of(&output).contains("received no packets"),
        "{}",
        stderr_of(&output)
    );
}

#[test]
fn a_receiver_with_a_port_in_use_runs_and_exits_with_1() {
    let on = free_ports(2);
    let _taken = UdpSocket::bind((on.ip(), on.port() + 1)).unwrap();
    let mut command = creel_cast(&[
        "receive",
        "--streams",
        "2",
        "--idle",
        "3s",
        "--format",
        "json",
    ]);
    command.args(["--on", &on.to_string()]);
    let (receiving, n) = Receiving::start(command, on);
    receiving.send(n..n + 20);
    let output = receiving.end();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr_of(&output).contains("cannot open 1 of 2 ports"),
        "{}",
        stderr_of(&output)
    );
    let document = String::from_utf8_lossy(&output.stdout).into_owned();
    for field in [
        "\"packets\"",
        "\"lost\"",
        "\"duplicates\"",
        "\"jitter_ms\"",
        "\"payload_types\"",
    ] {
        assert!(document.contains(field), "{field} in {document}");
    }
}

#[test]
fn packets_of_any_size_are_received_whole() {
    let (folder, on) = (Folder::new("large"), free_ports(1));
    let mut command = creel_cast(&["receive", "--streams", "1", "--idle", "2s", "--wav"]);
    command.arg(&folder.0).args(["--on", &on.to_string()]);
    command.args(["--format", "csv"]);
    let sender = UdpSocket::bind(LOCAL).unwrap();
    sender.connect(on).unwrap();
    let mut child = command.spawn().unwrap();
    let (mut n, mut delivered) = (0, 0);
    // Each packet lasts a quarter of a second and has 22,050 bytes.
    while delivered < 20 {
        assert!(
            child.try_wait().unwrap().is_none(),
            "the receiver has ended"
        );
        let packet = counting(11, n, 11_025, 1);
        delivered = if sender.send(&packet.bytes()).is_ok() {
            delivered + 1
        } else {
            0
        };
        n += 1;
        // A socket's buffer holds few packets of this size.
        wait_until_read(on);
        std::thread::sleep(5 * MS);
    }
    let output = child.wait_with_output().unwrap();
    let stderr = stderr_of(&output);
    assert!(output.status.success(), "{stderr}");
    assert!(!stderr.contains("faster than we read them"), "{stderr}");
    let recorded = Sound::read(&folder.0.join("stream-0.wav")).unwrap().samples;
    assert!(recorded.len() >= 19 * 11_025);
    let first = recorded[0];
    assert!(
        recorded
            .iter()
            .copied()
            .eq((0..recorded.len()).map(|n| first.wrapping_add(n as u16 as i16)))
    );
}

#[test]
fn a_stopped_sender_does_not_send_a_burst_afterwards() {
    let client = UdpSocket::bind(LOCAL).unwrap();
    client.set_read_timeout(Some(60_000 * MS)).unwrap();
    let to = client.local_addr().unwrap().to_string();
    let mut sender = creel_cast(&["send", "--streams", "1", "--to", &to, "--buffers", "600"]);
    sender.args(["--ramp-up", "0s", "--streams-format", "json"]);
    let sender = sender.spawn().unwrap();
    let signal = |name: &str| {
        let status = Command::new("kill")
            .args([name, &sender.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    };
    let mut bytes = [0; 2_048];
    for _ in 0..20 {
        retry(|| client.recv(&mut bytes)).unwrap();
    }
    signal("-STOP");
    std::thread::sleep(1_500 * MS);
    // Count the packets that were sent before the stop.
    client.set_nonblocking(true).unwrap();
    let mut before = 20;
    while retry(|| client.recv(&mut bytes)).is_ok() {
        before += 1;
    }
    let numbers = |bytes: &[u8]| {
        let sequence = u16::from_be_bytes([bytes[2], bytes[3]]);
        (
            sequence,
            u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        )
    };
    let last = numbers(&bytes);
    client.set_nonblocking(false).unwrap();
    signal("-CONT");
    retry(|| client.recv(&mut bytes)).unwrap();
    let next = numbers(&bytes);
    let mut after = 1;
    client.set_read_timeout(Some(1_000 * MS)).unwrap();
    while retry(|| client.recv(&mut bytes)).is_ok() {
        after += 1;
    }
    let output = sender.wait_with_output().unwrap();
    let stderr = stderr_of(&output);
    // About 150 packets were due while the sender was stopped.
    assert!(before + after < 500, "{before} and {after} of 600");
    assert!(stderr.contains("were not sent"), "{stderr}");
    assert_eq!(output.status.code(), Some(1));
    // The sequence continues, and the timestamp skips the time of the stop.
    assert_eq!(next.0.wrapping_sub(last.0), 1);
    assert!(next.1.wrapping_sub(last.1) > 100 * 441, "{last:?} {next:?}");
}

#[test]
fn an_ipv6_client_receives_from_an_ipv4_sender() {
    let Ok(six) = UdpSocket::bind("[::1]:0") else {
        eprintln!("skipped, because this machine has no IPv6");
        return;
    };
    let four = UdpSocket::bind(LOCAL).unwrap();
    let to = [&four, &six].map(|socket| socket.local_addr().unwrap().to_string());
    let mut sender = creel_cast(&["send", "--streams", "1", "--to", &to[0], &to[1]]);
    sender.args(["--buffers", "20", "--ramp-up", "0s"]);
    let output = sender.output().unwrap();
    // A sender that the OS suspends skips packets.
    let is_halted = stderr_of(&output).contains("were not sent");
    assert!(
        output.status.success() || is_halted,
        "{}",
        stderr_of(&output)
    );
    let came = [four, six].map(|socket| {
        socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 2_048];
        std::iter::from_fn(|| socket.recv(&mut bytes).ok()).count()
    });
    assert!(came[0] > 0 && came[0] == came[1], "{came:?}");
    assert!(came[0] == 20 || is_halted, "{came:?}");
}

#[test]
fn initial_numbers_are_random_unless_given() {
    let client = UdpSocket::bind(LOCAL).unwrap();
    client.set_read_timeout(Some(60_000 * MS)).unwrap();
    let to = client.local_addr().unwrap().to_string();
    let first = |more: &[&str]| {
        let mut sender = creel_cast(&["send", "--streams", "1", "--to", &to, "--buffers", "1"]);
        let output = sender
            .args(["--ramp-up", "0s"])
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr_of(&output));
        let mut bytes = [0; 2_048];
        retry(|| client.recv(&mut bytes)).unwrap();
        bytes[2..12].to_vec()
    };
    let (a, b) = (first(&[]), first(&[]));
    for (part, zeros) in [(2..6, [0; 4]), (6..10, [0; 4])] {
        assert_ne!(a[part.clone()], b[part.clone()]);
        assert_ne!(a[part], zeros);
    }
    assert_eq!(first(&["--seed", "5"]), first(&["--seed", "5"]));
    let given = first(&[
        "--ssrc",
        "0x01020304",
        "--sequence",
        "7",
        "--timestamp",
        "9",
    ]);
    assert_eq!(given, [0, 7, 0, 0, 0, 9, 1, 2, 3, 4]);
}

/// Returns whether a process has opened this port, on any address.
#[cfg(target_os = "linux")]
fn is_open(port: u16) -> bool {
    let port = format!(":{port:04X}");
    let tables = ["/proc/net/udp", "/proc/net/udp6"];
    let tables = tables.map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let mut lines = tables.iter().flat_map(|table| table.lines());
    lines.any(|line| {
        line.split_whitespace()
            .nth(1)
            .is_some_and(|on| on.ends_with(&port))
    })
}

#[cfg(target_os = "linux")]
#[test]
fn a_multicast_group_is_joined_and_filtered_by_source() {
    // The groups are administratively scoped (RFC 2365), interface-local and link-local (RFC 4291).
    for group in ["239.255.77.1", "[ff01::77]", "[ff12::77]"] {
        let port = free_ports(1).port();
        let to = format!("{group}:{port}");
        let delivered = |source: Option<&str>, is_heard: bool| {
            let on = [
                "receive",
                "--streams",
                "1",
                "--interface",
                "lo",
                "--on",
                &to,
            ];
            let mut receiver = creel_cast(&on);
            receiver.args(["--buffers", "10", "--streams-format", "csv"]);
            // A receiver that receives nothing waits until the end of `--for`.
            let time = if is_heard { "60s" } else { "1500ms" };
            receiver.args(["--for", time, "--idle", "10s"]);
            receiver.args(source.iter().flat_map(|source| ["--source", source]));
            let mut receiver = receiver.spawn().unwrap();
            while !is_open(port) && receiver.try_wait().unwrap().is_none() {
                std::thread::sleep(MS);
            }
            // The receiver joins the group during the ramp-up.
            let mut sender = creel_cast(&["send", "--streams", "1", "--interface", "lo"]);
            sender.args(["--to", &to, "--buffers", "60", "--ramp-up", "500ms"]);
            let sent = sender.output().unwrap();
            let is_refused = stderr_of(&sent).contains("the system refused");
            if is_refused {
                // No packet will arrive.
                receiver.kill().unwrap();
            }
            let output = receiver.wait_with_output().unwrap();
            assert!(
                !stderr_of(&output).contains("os error"),
                "{}",
                stderr_of(&output)
            );
            if is_refused {
                eprintln!("skipped, because there is no route to {to} on the loopback interface");
                return None;
            }
            // A sender that the OS suspends skips packets.
            let is_halted = stderr_of(&sent).contains("were not sent");
            assert!(sent.status.success() || is_halted, "{}", stderr_of(&sent));
            let rows = String::from_utf8_lossy(&output.stdout).into_owned();
            let row = rows
                .lines()
                .nth(1)?
                .split(',')
                .nth(3)?
                .parse::<SocketAddr>();
            Some(row.unwrap().ip().to_string())
        };
        let Some(source) = delivered(None, true) else {
            assert!(group.starts_with('['), "no packets from {to}");
            continue;
        };
        assert_eq!(delivered(Some(&source), true), Some(source.clone()), "{to}");
        let other = if group.starts_with('2') {
            "192.0.2.1"
        } else {
            "2001:db8::1"
        };
        assert_eq!(delivered(Some(other), false), None, "{to}");
    }
}

#[test]
fn a_missing_tcp_client_is_reported() {
    let to = free_ports(1).to_string();
    let mut sender = creel_cast(&["send", "--streams", "1", "--over-tcp", "--to", &to]);
    let output = sender
        .args(["--buffers", "20", "--ramp-up", "0s"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr_of(&output).contains("1 of 1 streams failed"),
        "{}",
        stderr_of(&output)
    );
}

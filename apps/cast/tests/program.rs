//! Tests of `creel-cast`, called from the command line.

mod folder;
mod packets;
mod ports;
#[path = "../../../crates/creel/tests/retry/mod.rs"]
mod retry;

use creel_cast::receive::{self, Receiver};
use creel_cast::{Formats, Rtcp, Sound};
use folder::Folder;
use packets::counting;
use ports::{free_ports, wait_until_read};
use retry::retry;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const BUFFER_SAMPLES: usize = 441;

fn creel_cast(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_creel-cast"));
    command.args(args);
    command
}

/// With `--observe look`, each context listens on an abstract Unix socket. With `off`, there is
/// none.
#[test]
#[cfg(target_os = "linux")]
fn observe_look_shows_the_contexts() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    let sockets = |pid: u32| {
        let of = format!("@creel/{pid}/");
        let all = std::fs::read_to_string("/proc/net/unix").unwrap();
        let names = all.split_whitespace().filter(|word| word.starts_with(&of));
        names.map(|name| name[1..].to_owned()).collect::<Vec<_>>()
    };
    let start = |observe: &str| {
        let words = [
            "standalone",
            "--streams",
            "10",
            "--contexts",
            "2",
            "-q",
            "--observe",
            observe,
        ];
        let endless = ["--ramp-up", "0s", "--period", "20ms", "--buffers", "3000"];
        let mut command = creel_cast(&words);
        command.args(endless).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let (mut seen, mut unseen) = (start("look"), start("off"));
    while sockets(seen.id()).len() < 2 {
        assert!(seen.try_wait().unwrap().is_none(), "the program has ended");
        std::thread::sleep(MS);
    }
    let mut names = sockets(seen.id());
    names.sort_unstable();
    for (number, name) in names.iter().enumerate() {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        stream.write_all(b"stats\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.contains(&format!("context-{number}")), "{line}");
    }
    assert!(sockets(unseen.id()).is_empty());
    for child in [&mut seen, &mut unseen] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let refused = creel_cast(&["standalone", "--observe", "resize"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn the_help_of_each_command_exits_with_0() {
    for command in [
        "standalone",
        "send",
        "receive",
        "relay",
        "rooms",
        "evaluate",
    ] {
        for flag in ["-h", "--help"] {
            let output = creel_cast(&[command, flag]).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{command} {flag}");
            let help = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                help.contains(&format!("Usage: creel-cast {command}")),
                "{help}"
            );
            assert!(help.contains("Examples:"), "{help}");
        }
    }
}

#[test]
fn raw_framing_sends_and_receives_bare_samples() {
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    client.set_read_timeout(Some(60_000 * MS)).unwrap();
    let to = client.local_addr().unwrap().to_string();
    let mut sender = creel_cast(&["send", "--framing", "raw", "--to", &to, "--streams", "1"]);
    sender.args([
        "--tone",
        "silence",
        "--buffers",
        "1",
        "--ramp-up",
        "0s",
        "-q",
    ]);
    let output = sender.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let mut bytes = [1; 2_048];
    assert_eq!(
        retry(|| client.recv(&mut bytes)).unwrap(),
        2 * BUFFER_SAMPLES
    );
    assert!(bytes[..2 * BUFFER_SAMPLES].iter().all(|&byte| byte == 0));
    let on = free_ports(1).to_string();
    let mut receiver = creel_cast(&["receive", "--framing", "raw", "--on", &on]);
    receiver.args(["--streams", "1", "--idle", "3s", "--for", "60s"]);
    receiver.args(["--streams-format", "csv"]);
    let receiver = receiver.stdout(Stdio::piped()).spawn().unwrap();
    opened(&on);
    let rows = receiver.wait_with_output().unwrap().stdout;
    assert!(packets(&rows) >= 3, "{}", String::from_utf8_lossy(&rows));
}

#[test]
fn samples_from_tcp_are_sent_over_udp() {
    const BUFFERS: usize = 20;
    let folder = Folder::new("tcp");
    let on = free_ports(1);
    let sessions = receive::Plan::sessions(on, 1, &Formats::default(), Rtcp::Off).unwrap();
    let plan = receive::Plan {
        streams: Some(2),
        wait: MS,
        buffers: Some(BUFFERS as u64),
        time_limit: Some(60_000 * MS),
        wav: Some(folder.0.clone()),
        ..receive::Plan::new(sessions)
    };
    let receiver = Receiver::open(&plan).unwrap();
    let to = on.to_string();
    let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let from = upstream.local_addr().unwrap().to_string();
    let mut sender = creel_cast(&["send", "--tcp", &from, "--to", &to, "--shared-port"]);
    sender.args(["--streams", "2", "--buffers", "50", "--ramp-up", "0s", "-q"]);
    let mut sender = sender.stdout(Stdio::null()).spawn().unwrap();
    let sounds = [1_i16, -3].map(|step| -> Vec<i16> {
        let samples = (0..BUFFERS * BUFFER_SAMPLES).map(|n| (n as i16).wrapping_mul(step));
        samples.collect()
    });
    for sound in &sounds {
        let (mut connection, _) = upstream.accept().unwrap();
        let bytes: Vec<u8> = sound.iter().flat_map(|s| s.to_le_bytes()).collect();
        connection.write_all(&bytes).unwrap();
    }
    let received = receiver.run(&|| false);
    assert!(sender.wait().unwrap().success());
    assert_eq!((received.lost, received.streams.len()), (0, 2));
    let heard = [0, 1].map(|stream| {
        let path = folder.0.join(format!("stream-{stream}.wav"));
        Sound::read(&path).unwrap().samples
    });
    // The sender decides which connection belongs to which stream.
    assert!(sounds.iter().all(|sound| heard.contains(sound)));
}

#[test]
fn clients_are_added_and_removed_while_sending() {
    let clients = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let [first, second] = [0, 1].map(|n| clients[n].local_addr().unwrap());
    let mut sender = creel_cast(&["send", "--control", "--streams", "1", "--shared-port"]);
    sender.args(["--buffers", "100000", "--ramp-up", "0s", "-q"]);
    sender.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut sender = sender.stdout(Stdio::null()).spawn().unwrap();
    let mut commands = sender.stdin.take().unwrap();
    let mut answers = BufReader::new(sender.stderr.take().unwrap()).lines();
    let mut execute = |command: String| {
        writeln!(commands, "{command}").unwrap();
        answers.next().unwrap().unwrap()
    };
    let receives = |client: &UdpSocket, after: SocketAddr| {
        client.set_read_timeout(Some(60_000 * MS)).unwrap();
        retry(|| client.recv(&mut [0; 2048])).unwrap_or_else(|e| panic!("{after}: {e}"));
    };
    execute(format!("add {first}"));
    receives(&clients[0], first);
    execute(format!("add {second}"));
    receives(&clients[1], second);
    let listed = execute("list".into());
    assert!(listed.contains(&first.to_string()) && listed.contains(&second.to_string()));
    execute(format!("remove {first}"));
    let listed = execute("list".into());
    assert!(!listed.contains(&first.to_string()), "{listed}");
    execute("clear".into());
    let listed = execute("list".into());
    assert!(!listed.contains(&second.to_string()), "{listed}");
    assert!(execute("shout".into()).contains("shout"));
    sender.kill().unwrap();
    sender.wait().unwrap();
}

#[test]
fn an_interrupted_evaluation_resumes() {
    let folder = Folder::new("evaluate");
    let runs = folder.0.join("runs.csv");
    let evaluate = || {
        let mut command = creel_cast(&["evaluate", "--streams", "2", "--runs", "1"]);
        command.args(["--buffers", "1", "--wait", "1ms", "--period", "2ms"]);
        command.args(["--format", "csv", "--resume"]).arg(&runs);
        command
    };
    let mut first = evaluate().stdout(Stdio::null()).spawn().unwrap();
    let lines = || {
        std::fs::read_to_string(&runs)
            .unwrap_or_default()
            .lines()
            .count()
    };
    // We kill the program after the header and two runs. If it ends before, the file is shorter,
    // and the test fails below.
    while lines() < 3 && first.try_wait().unwrap().is_none() {
        std::thread::sleep(MS);
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let before = std::fs::read_to_string(&runs).unwrap();
    let finished = before.lines().count() - 1;
    assert!(finished >= 2, "{before}");
    let second = evaluate().output().unwrap();
    let stderr = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.success(), "{stderr}");
    let expected = format!("skipping {finished} of 4 runs");
    assert!(stderr.contains(&expected), "{stderr}");
    let after = std::fs::read_to_string(&runs).unwrap();
    assert!(after.starts_with(&before));
    assert_eq!(after.lines().count(), 5);
    // The table contains the stored values.
    let table = String::from_utf8_lossy(&second.stdout).into_owned();
    let kept: Vec<&str> = before.lines().nth(1).unwrap().split(',').collect();
    let cpu = kept[6].parse::<f64>().unwrap();
    let row: Vec<&str> = table.lines().nth(1).unwrap().split(',').collect();
    assert_eq!(row[5].parse::<f64>().unwrap(), cpu, "{table}");
}

#[test]
fn an_evaluation_over_udp_writes_one_page() {
    let folder = Folder::new("page");
    let page = folder.0.join("page.html");
    let mut evaluate = creel_cast(&[
        "evaluate",
        "--udp",
        "--only-udp",
        "--streams",
        "2,4",
        "--runs",
        "1",
    ]);
    evaluate
        .args([
            "--buffers",
            "5",
            "--wait",
            "1ms",
            "--format",
            "csv",
            "--page",
        ])
        .arg(&page);
    let output = evaluate.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    // The table has a header, and one row for each combination of a side, a way to assign ports,
    // and a number of streams.
    assert_eq!(table.lines().count(), 1 + 2 * 2 * 2, "{table}");
    let page = std::fs::read_to_string(&page).unwrap();
    assert_eq!(
        (page.matches("<svg").count(), page.matches("<tr>").count()),
        (3, 9)
    );
}

#[test]
fn streams_pass_through_tcp_and_a_capture() {
    let folder = Folder::new("tcp-pcap");
    let on = free_ports(1).to_string();
    // The first run is over TCP. The sender connects once the receiver listens.
    let mut receiver = creel_cast(&[
        "receive", "--tcp", "--on", &on, "--idle", "3s", "--for", "60s",
    ]);
    receiver
        .args(["--codec", "PCMA", "--streams-format", "csv"])
        .stdout(Stdio::piped());
    let receiver = receiver.stderr(Stdio::null()).spawn().unwrap();
    let send = |more: &[&str]| {
        let mut sender = creel_cast(&["send", "--streams", "1", "--to", &on, "--codec", "PCMA"]);
        sender
            .args([
                "--buffers",
                "40",
                "--ramp-up",
                "0s",
                "--packet-time",
                "20ms",
                "--streams-format",
                "csv",
            ])
            .args(more);
        let output = sender.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        // If the OS suspends the sender for a while, it skips packets and may exit with an error.
        // The test accepts that.
        assert!(
            output.status.success() || stderr.contains("were not sent"),
            "{stderr}"
        );
        packets(&output.stdout)
    };
    while std::net::TcpStream::connect(&on).is_err() {
        std::thread::sleep(MS);
    }
    let sent = send(&["--over-tcp"]);
    let rows = receiver.wait_with_output().unwrap();
    assert_eq!(
        packets(&rows.stdout),
        sent,
        "{}",
        String::from_utf8_lossy(&rows.stdout)
    );
    // The second run is over UDP, and the receiver writes a capture.
    let capture = folder.0.join("a.pcap");
    let receive = |more: &[&str]| {
        let mut receiver =
            creel_cast(&["receive", "--streams", "1", "--idle", "3s", "--for", "60s"]);
        receiver
            .args(["--streams-format", "csv"])
            .args(more)
            .stdout(Stdio::piped());
        receiver
    };
    let path = capture.to_str().unwrap();
    let receiver = receive(&["--on", &on, "--write-pcap", path])
        .spawn()
        .unwrap();
    opened(&on);
    let sent = send(&[]);
    let heard = packets(&receiver.wait_with_output().unwrap().stdout);
    assert_eq!(heard, sent);
    // We analyse the capture, and replay it.
    assert_eq!(
        packets(&receive(&["--pcap", path]).output().unwrap().stdout),
        heard
    );
    let receiver = receive(&["--on", &on]).spawn().unwrap();
    opened(&on);
    let replayed = creel_cast(&["send", "--pcap", path, "--to", &on])
        .output()
        .unwrap();
    assert!(
        replayed.status.success(),
        "{}",
        String::from_utf8_lossy(&replayed.stderr)
    );
    assert_eq!(packets(&receiver.wait_with_output().unwrap().stdout), heard);
}

/// A flag that the replay or the analysis of a capture would ignore is an error.
#[test]
fn captures_refuse_flags_that_need_another_source() {
    let send = "send --to 127.0.0.1:5004 --pcap no.pcap";
    let receive = "receive --pcap no.pcap";
    for (line, flag) in [
        (send, "--sdp"),
        (send, "--keys 1"),
        (send, "--ssrc 1"),
        (send, "--framing raw"),
        (receive, "--rtcp-xr"),
        (receive, "--tcp"),
        (receive, "--source 127.0.0.1"),
    ] {
        let words: Vec<&str> = line.split(' ').chain(flag.split(' ')).collect();
        let output = creel_cast(&words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("cannot be used with"), "{flag}: {message}");
        assert_eq!(output.status.code(), Some(2), "{flag}");
    }
}

/// Opens three connections at once, to a shared port and to three ports. No stream waits for
/// another.
#[test]
fn concurrent_tcp_connections_are_received() {
    const PACKETS: u32 = 40;
    for shared in [true, false] {
        let on = free_ports(3);
        let mut receiver = creel_cast(&["receive", "--tcp", "--on", &on.to_string()]);
        receiver.args(["--streams", "3", "--idle", "5s", "--for", "60s"]);
        receiver.args(["--codec", "0=PCMU", "--streams-format", "csv"]);
        receiver.args(shared.then_some("--shared-port"));
        let receiver = receiver.stdout(Stdio::piped()).stderr(Stdio::null());
        let receiver = receiver.spawn().unwrap();
        let begin = std::time::Instant::now();
        let connect = |n: u16| loop {
            assert!(
                begin.elapsed() < 60_000 * MS,
                "the receiver does not listen on port + {n}"
            );
            let port = on.port() + if shared { 0 } else { n };
            if let Ok(connection) = TcpStream::connect((on.ip(), port)) {
                break connection;
            }
            std::thread::sleep(MS);
        };
        let mut connections = [0, 1, 2].map(connect);
        for n in 0..PACKETS {
            for (ssrc, connection) in connections.iter_mut().enumerate() {
                let mut packet = counting(0, n, 80, 1);
                packet.ssrc = ssrc as u32;
                let packet = packet.bytes();
                let framed = [&(packet.len() as u16).to_be_bytes(), &packet[..]].concat();
                connection.write_all(&framed).unwrap();
            }
            // The packets arrive at the pace at which they are sent, even if the receiver starts
            // late or is suspended by the OS.
            wait_until_read(on);
            (1..3).for_each(|n| wait_until_read(SocketAddr::new(on.ip(), on.port() + n)));
            std::thread::sleep(10 * MS);
        }
        drop(connections);
        let rows = receiver.wait_with_output().unwrap().stdout;
        let seconds: Vec<f64> = column(&rows, "seconds")
            .map(|s| s.parse().unwrap())
            .collect();
        assert_eq!(column(&rows, "packets").collect::<Vec<_>>(), ["40"; 3]);
        let least = (PACKETS - 1) as f64 * 0.01 * 0.8;
        assert!(seconds.iter().all(|&time| time > least), "{seconds:?}");
    }
}

/// Returns a column of all rows.
fn column(rows: &[u8], name: &str) -> std::vec::IntoIter<String> {
    let rows = String::from_utf8_lossy(rows).into_owned();
    let at = rows
        .lines()
        .next()
        .unwrap_or_default()
        .split(',')
        .position(|n| n == name)
        .unwrap();
    let cells = rows
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(at).unwrap().to_owned());
    cells.collect::<Vec<_>>().into_iter()
}

/// Waits until a program listens on the address `on`, by sending datagrams that are neither RTP nor
/// RTCP.
fn opened(on: &str) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(on).unwrap();
    let mut heard = 0;
    while heard < 3 {
        // An error means that no one received the previous datagram.
        heard = if socket.send(b"?").is_ok() {
            heard + 1
        } else {
            0
        };
        std::thread::sleep(MS);
    }
}

/// Returns the number of packets in the first row.
fn packets(rows: &[u8]) -> u64 {
    let rows = String::from_utf8_lossy(rows).into_owned();
    let mut lines = rows
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = header.iter().position(|name| name == "packets").unwrap();
    lines.next().map_or(0, |row| row[column].parse().unwrap())
}

/// Returns the value of a field in a line of JSON.
fn number(line: &str, field: &str) -> u64 {
    let (_, value) = line.split_once(&format!("\"{field}\":")).unwrap();
    value.split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn both_sides_accept_a_printed_description_and_their_reports_agree() {
    let folder = Folder::new("sdp");
    let on = free_ports(2);
    let sdp = folder.0.join("session.sdp");
    let mut print = creel_cast(&["send", "--streams", "2", "--to", &on.to_string(), "--sdp"]);
    print.args([
        "--codec",
        "97=L16/16000/2",
        "--packet-time",
        "5ms",
        "--rtcp",
        "mux",
    ]);
    std::fs::write(&sdp, print.output().unwrap().stdout).unwrap();
    let mut receiver = creel_cast(&["receive", "--idle", "3s", "--for", "60s", "--from-sdp"]);
    receiver
        .arg(&sdp)
        .args(["--streams-format", "json"])
        .stdout(Stdio::piped());
    let receiver = receiver.spawn().unwrap();
    opened(&on.to_string());
    let mut sender = creel_cast(&["send", "--ramp-up", "0s", "--buffers", "400", "--from-sdp"]);
    let sent = sender
        .arg(&sdp)
        .args(["--streams-format", "json"])
        .output()
        .unwrap();
    let came = receiver.wait_with_output().unwrap();
    // If the OS has suspended the sender for a while, the sender skips periods. It then ends with
    // an error and reports on stderr that packets "were not sent".
    let stderr = String::from_utf8_lossy(&sent.stderr);
    assert!(
        sent.status.success() || stderr.contains("were not sent"),
        "{stderr}"
    );
    let [came, sent] = [came, sent].map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    assert_eq!(
        (came.lines().count(), sent.lines().count()),
        (2, 2),
        "{came}{sent}"
    );
    for line in came.lines() {
        assert!(
            line.contains(r#""format":"L16/16000/2""#) && line.contains(r#""lost":0,"#),
            "{line}"
        );
        assert!(!line.contains(r#""sender_packets":null"#), "{line}");
    }
    // The receiver has sent a report at the beginning.
    for line in sent.lines() {
        assert!(
            line.contains(r#""receiver_lost":0,"#)
                && number(line, "packets") + number(line, "skipped") == 400,
            "{line}"
        );
        assert!(!line.contains(r#""round_trip_ms":null"#), "{line}");
    }
}

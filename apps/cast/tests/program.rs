//! The program, as one calls it.

mod folder;

use creel_cast::receive::{self, Receiver};
use creel_cast::{Formats, Rtcp, Sound};
use folder::Folder;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const BUFFER_SAMPLES: usize = 441;

fn creel_cast(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_creel-cast"));
    command.args(args);
    command
}

#[test]
fn what_comes_over_tcp_is_heard_over_udp() {
    const BUFFERS: usize = 20;
    let folder = Folder::new("tcp");
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let on = port.local_addr().unwrap();
    drop(port);
    let sessions = receive::Plan::sessions(on, 1, &Formats::default(), Rtcp::Off).unwrap();
    let plan = receive::Plan {
        streams: Some(2),
        wait: MS,
        buffers: Some(BUFFERS as u64),
        at_most: Some(20_000 * MS),
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
    // Which connection was which stream's is the sender's business.
    assert!(sounds.iter().all(|sound| heard.contains(sound)));
}

#[test]
fn clients_come_and_go_while_it_sends() {
    let clients = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let [first, second] = [0, 1].map(|n| clients[n].local_addr().unwrap());
    let mut sender = creel_cast(&["send", "--control", "--streams", "1", "--shared-port"]);
    sender.args(["--buffers", "100000", "--ramp-up", "0s", "-q"]);
    sender.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut sender = sender.stdout(Stdio::null()).spawn().unwrap();
    let mut commands = sender.stdin.take().unwrap();
    let mut answers = BufReader::new(sender.stderr.take().unwrap()).lines();
    let mut tell = |command: String| {
        writeln!(commands, "{command}").unwrap();
        answers.next().unwrap().unwrap()
    };
    let hears = |client: &UdpSocket, after: SocketAddr| {
        client.set_read_timeout(Some(20_000 * MS)).unwrap();
        client
            .recv(&mut [0; 2048])
            .unwrap_or_else(|e| panic!("{after}: {e}"));
    };
    tell(format!("add {first}"));
    hears(&clients[0], first);
    tell(format!("add {second}"));
    hears(&clients[1], second);
    let listed = tell("list".into());
    assert!(listed.contains(&first.to_string()) && listed.contains(&second.to_string()));
    tell(format!("remove {first}"));
    let listed = tell("list".into());
    assert!(!listed.contains(&first.to_string()), "{listed}");
    tell("clear".into());
    let listed = tell("list".into());
    assert!(!listed.contains(&second.to_string()), "{listed}");
    assert!(tell("shout".into()).contains("shout"));
    sender.kill().unwrap();
    sender.wait().unwrap();
}

#[test]
fn an_interrupted_evaluation_goes_on_where_it_stopped() {
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
    // A header and two runs; then it is not asked kindly. If it ends before, there is no file of
    // so many lines, and the test fails below.
    while lines() < 3 && first.try_wait().unwrap().is_none() {
        std::thread::sleep(MS);
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let before = std::fs::read_to_string(&runs).unwrap();
    let there = before.lines().count() - 1;
    assert!(there >= 2, "{before}");
    let second = evaluate().output().unwrap();
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.success(), "{told}");
    let told_of = format!("{there} of 4 runs are there already");
    assert!(told.contains(&told_of), "{told}");
    let after = std::fs::read_to_string(&runs).unwrap();
    assert!(after.starts_with(&before));
    assert_eq!(after.lines().count(), 5);
    // The table holds what was kept.
    let table = String::from_utf8_lossy(&second.stdout).into_owned();
    let kept: Vec<&str> = before.lines().nth(1).unwrap().split(',').collect();
    let cpu = kept[6].parse::<f64>().unwrap();
    let row: Vec<&str> = table.lines().nth(1).unwrap().split(',').collect();
    assert_eq!(row[3].parse::<f64>().unwrap(), cpu, "{table}");
}

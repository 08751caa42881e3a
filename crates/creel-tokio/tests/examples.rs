//! Runs the examples as users do, each in a process of its own.
#![cfg(unix)]

mod common;
#[path = "../examples/fetch.rs"]
mod fetch;
#[path = "../examples/visits.rs"]
mod visits;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use common::{Folder, Redis};

/// The timeout of all waits. It is long, because only a test that hangs should reach it.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// The environment variable with the name of the example that this process runs.
const EXAMPLE: &str = "CREEL_TOKIO_EXAMPLE";

/// Runs the example that the variable names. The other tests start this one in a child process.
/// Without the variable it does nothing.
#[test]
fn example() {
    let ended = match std::env::var(EXAMPLE).as_deref() {
        Ok("fetch") => fetch::main(),
        Ok("visits") => visits::main(),
        _ => Ok(()),
    };
    ended.unwrap();
}

/// Returns a command that runs an example.
fn run(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "example", "--nocapture"]);
    command.env(EXAMPLE, name).stdout(Stdio::piped());
    command
}

/// Accepts one connection and reads the head of a request. Sends a response with this body after
/// all other servers have got a request too.
fn answer_once(listener: &TcpListener, body: &str, all_asked: &Barrier) {
    let (stream, _) = listener.accept().unwrap();
    let lines = BufReader::new(&stream).lines();
    let head = lines.take_while(|line| !line.as_ref().unwrap().is_empty());
    assert!(head.count() > 0);
    all_asked.wait();
    let length = body.len();
    write!(
        &stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
}

#[test]
fn fetch_prints_the_sizes_of_all_pages() {
    let servers = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let pages = servers.each_ref().map(|server| {
        let address = server.local_addr().unwrap();
        format!("http://{address}/")
    });
    let all_asked = Barrier::new(servers.len());
    let output = thread::scope(|scope| {
        for (size, server) in servers.iter().enumerate() {
            let all_asked = &all_asked;
            scope.spawn(move || answer_once(server, &"x".repeat(size), all_asked));
        }
        run("fetch").env("PAGES", pages.join(" ")).output().unwrap()
    });
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for (size, page) in pages.iter().enumerate() {
        assert!(
            text.contains(&format!("{page} has {size} bytes\n")),
            "{text}"
        );
    }
}

/// A server in a process of its own, which is killed on drop.
struct Running {
    process: Child,
    stdout: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let mut process = command.env("LISTEN", "127.0.0.1:0").spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut lines = stdout.by_ref().lines().map(Result::unwrap);
        let address = lines.find_map(|line| line.rsplit_once("://")?.1.parse().ok());
        Running {
            process,
            stdout,
            address: address.expect("the example printed no address"),
        }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn visits_are_counted_in_redis() {
    let folder = Folder::new("visits");
    let socket = folder.path().join("socket");
    let Some(_redis) = Redis::start(&socket) else {
        return;
    };
    let mut command = run("visits");
    command.env("REDIS", format!("unix:{}", socket.display()));
    let mut server = Running::start(command);
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert!(server.get("/page").starts_with("HTTP/1.0 200")));
        }
    });
    assert!(server.get("/page").ends_with("visit 21 of /page\n"));
    assert!(server.get("/").ends_with("visit 1 of /\n"));
    let id = server.process.id().to_string();
    let interrupted = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(interrupted.success());
    let mut rest = String::new();
    server.stdout.read_to_string(&mut rest).unwrap();
    assert!(server.process.wait().unwrap().success(), "{rest}");
}

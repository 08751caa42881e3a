//! A service for each test on a free port, and a client that can send any bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The timeout of all waits. Only a hang takes this long.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(60);

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_creel-serve");

/// A temporary folder that is deleted on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("creel-serve-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The process of a service. It is killed on drop.
pub struct Service {
    child: Child,
    pub address: SocketAddr,
}

impl Service {
    /// Starts a service with its key in a folder.
    ///
    /// Unless the arguments say otherwise, records are in memory, passwords are cheap, and the
    /// deadline is long.
    pub fn start(folder: &Folder, arguments: &[&str]) -> Service {
        let mut command = Command::new(PROGRAM);
        command.args([
            "-q",
            "--listen",
            "127.0.0.1:0",
            "--data",
            folder.0.to_str().unwrap(),
        ]);
        if !arguments.contains(&"--store") {
            command.args(["--store", "memory"]);
        }
        if !arguments.contains(&"--password-cost") {
            command.args(["--password-cost", "m=64,t=1,p=1"]);
        }
        if !arguments.contains(&"--deadline") {
            command.args(["--deadline", "60s"]);
        }
        let mut child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let (_, address) = line
            .trim()
            .split_once("://")
            .expect("the first line is not a URL");
        let address = address.parse().unwrap();
        Service { child, address }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream
    }

    pub fn post(&self, path: &str, body: &str) -> Answer {
        self.request("POST", path, "", body.as_bytes())
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, "", b"")
    }

    pub fn request(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        // The service may reject the request and close the connection before we have sent all of
        // it.
        let _ = stream.write_all(&[head.as_bytes(), body].concat());
        Answer::read(&mut stream)
    }

    /// Returns a number from `/metrics`, or 0 if it is missing.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for the end of the process and returns its exit code.
    pub fn ended(mut self) -> Option<i32> {
        let mut code = None;
        eventually("the service ends", || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process.
pub fn signal(process: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// Runs the program until it ends.
pub fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// An answer of the service. Its head is in lower case.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn read(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        // A reset after the answer also ends it.
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..read]);
        }
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0);
        Answer {
            status,
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}: {}", self.head, self.body))
    }
}

/// Polls a condition until it is true. Panics after [`HANG_TIMEOUT`].
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < HANG_TIMEOUT,
            "timed out after {HANG_TIMEOUT:?}, waiting until {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().exists()
}

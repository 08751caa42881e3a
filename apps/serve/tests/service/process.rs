//! A service for each test on a free port, and a client that can send any bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::retry::retry;

/// The timeout of all waits. Only a hang takes this long.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(60);

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_creel-serve");

/// A private temporary folder with a random name. It is deleted on drop.
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let prefix = format!("creel-serve-{name}-");
        Folder(tempfile::Builder::new().prefix(&prefix).tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

/// The process of a service. It is killed on drop.
pub struct Service {
    child: Child,
    pub address: SocketAddr,
    stderr: Arc<Mutex<String>>,
}

impl Service {
    /// Starts a service with its key in a folder.
    ///
    /// Unless the arguments say otherwise, records are in memory, passwords are cheap, and the
    /// deadline is long.
    pub fn start(folder: &Folder, arguments: &[&str]) -> Service {
        Service::start_in(folder, arguments, &[])
    }

    /// Starts a service with additional variables in its environment.
    pub fn start_in(folder: &Folder, arguments: &[&str], variables: &[(&str, &str)]) -> Service {
        let memory = ["--store", "memory"];
        let has_store = arguments.contains(&"--store");
        let store = if has_store { &[][..] } else { &memory[..] };
        Service::start_default(folder, &[store, arguments].concat(), variables)
    }

    /// Starts a service with its data in a folder. The store is the default one, unless the
    /// arguments name another.
    pub fn start_default(
        folder: &Folder,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Service {
        let data = folder.path("");
        Service::start_alone(&[&["--data", data.as_str()], arguments].concat(), variables)
    }

    /// Starts a service with its default store and data folder, unless the arguments name others.
    pub fn start_alone(arguments: &[&str], variables: &[(&str, &str)]) -> Service {
        let mut command = Command::new(PROGRAM);
        command.envs(variables.iter().copied());
        command.args(["--listen", "127.0.0.1:0"]);
        if !arguments.contains(&"--password-cost") {
            command.args(["--password-cost", "m=64,t=1,p=1"]);
        }
        if !arguments.contains(&"--deadline") {
            command.args(["--deadline", "60s"]);
        }
        let mut child = command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let (lines, seen) = (
            BufReader::new(child.stderr.take().unwrap()),
            Arc::clone(&stderr),
        );
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                *seen.lock().unwrap() += &format!("{line}\n");
            }
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let (_, address) = line
            .trim()
            .split_once("://")
            .expect("the first line is not a URL");
        let address = address.parse().unwrap();
        Service {
            child,
            address,
            stderr,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the lines on stderr that contain a text.
    pub fn lines(&self, text: &str) -> Vec<String> {
        let stderr = self.stderr.lock().unwrap();
        let lines = stderr.lines().filter(|line| line.contains(text));
        lines.map(str::to_owned).collect()
    }

    /// Returns how often the store was reported as lost and as working again.
    pub fn reports(&self) -> (usize, usize) {
        let lost = self.lines("accepts no records");
        (lost.len(), self.lines("accepts records again").len())
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

/// Writes the bytes of a request to a connection. It does not wait for the response.
pub fn send(mut stream: &TcpStream, request: &str) {
    stream.write_all(request.as_bytes()).unwrap();
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

/// A response of the service. Its head is in lower case.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Reads one response with a `Content-Length`. The connection stays open.
    pub fn read_one(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        let mut byte = [0];
        let is_whole = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).to_lowercase();
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                return false;
            };
            let length = head
                .lines()
                .find_map(|l| l.strip_prefix("content-length: "));
            length.is_some_and(|length| length.parse() == Ok(body.len()))
        };
        while !is_whole(&bytes) {
            let read = retry(|| stream.read(&mut byte)).unwrap();
            assert_eq!(read, 1, "the connection ends after {bytes:?}");
            bytes.push(byte[0]);
        }
        Answer::parse(bytes)
    }

    pub fn read(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        // We read until the connection ends. A reset of the connection ends the response, too,
        // because the service may reset it after the last byte.
        let mut chunk = [0; 4096];
        while let Ok(read @ 1..) = retry(|| stream.read(&mut chunk)) {
            bytes.extend_from_slice(&chunk[..read]);
        }
        Answer::parse(bytes)
    }

    fn parse(bytes: Vec<u8>) -> Answer {
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

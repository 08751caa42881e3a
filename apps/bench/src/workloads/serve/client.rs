//! The client: one thread with many connections, and one request in flight on each.
//!
//! It parses only the first response of a server, and expects all others to have the same length.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
/// The longest time that the client waits for any answer. After that, the sample fails.
const TIMEOUT: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// The answers that the client received in a run.
pub struct Answers {
    /// The latencies in nanoseconds, sorted.
    pub waits: Vec<u32>,
    /// The duration of the run.
    pub took: Duration,
}

impl Answers {
    /// Returns a quantile of the latencies in microseconds.
    pub fn wait_us(&self, quantile: f64) -> f64 {
        let last = self.waits.len().saturating_sub(1);
        let index = (last as f64 * quantile) as usize;
        self.waits
            .get(index)
            .map_or(f64::NAN, |&ns| f64::from(ns) / 1e3)
    }
}

/// The connections to a server.
pub struct Client {
    epoll: rustix::fd::OwnedFd,
    connections: Vec<Connection>,
    /// The length of a response in bytes.
    length: usize,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    asked: Instant,
    /// The number of bytes that are still missing, or 0 if no request is in flight.
    left: usize,
}

impl Client {
    /// Opens `count` connections. It uses the first one to find the length of a response.
    pub fn connect(to: SocketAddr, count: usize) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(count);
        let mut length = 0;
        for key in 0..count {
            let stream =
                TcpStream::connect(to).with_context(|| format!("cannot open connection {key}"))?;
            stream.set_nodelay(true)?;
            // With a linger time of zero, closing resets the connection and leaves no port in
            // TIME_WAIT. Otherwise many samples would use up the ports.
            socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
            if key == 0 {
                length = response_length(&stream)?;
            }
            stream.set_nonblocking(true)?;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(
                &epoll,
                &stream,
                epoll::EventData::new_u64(key as u64),
                flags,
            )?;
            connections.push(Connection {
                stream,
                asked: Instant::now(),
                left: 0,
            });
        }
        Ok(Client {
            epoll,
            connections,
            length,
            buffer: vec![0; 256 << 10],
        })
    }

    /// Sends requests for `time`, and then waits for the answers that are still missing.
    pub fn run(&mut self, time: Duration) -> anyhow::Result<Answers> {
        let begin = Instant::now();
        self.run_until(|| begin.elapsed() >= time)
    }

    /// Sends one request on each connection and waits for the answers.
    pub fn run_once(&mut self) -> anyhow::Result<Answers> {
        self.run_until(|| true)
    }

    fn run_until(&mut self, mut is_over: impl FnMut() -> bool) -> anyhow::Result<Answers> {
        let begin = Instant::now();
        let mut waits = Vec::new();
        for connection in &mut self.connections {
            connection.ask(self.length)?;
        }
        let mut under_way = self.connections.len();
        let mut events = Vec::with_capacity(256);
        let mut over = false;
        while under_way > 0 {
            events.clear();
            epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&TIMEOUT))?;
            if events.is_empty() {
                bail!(
                    "the server has not answered {under_way} requests for {} s",
                    TIMEOUT.tv_sec
                );
            }
            over = over || is_over();
            for event in &events {
                let data = event.data;
                let connection = &mut self.connections[data.u64() as usize];
                if !connection.take(&mut self.buffer)? {
                    continue;
                }
                waits.push(connection.asked.elapsed().as_nanos() as u32);
                match over {
                    true => under_way -= 1,
                    false => connection.ask(self.length)?,
                }
            }
        }
        waits.sort_unstable();
        Ok(Answers {
            waits,
            took: begin.elapsed(),
        })
    }
}

impl Connection {
    fn ask(&mut self, length: usize) -> io::Result<()> {
        self.left = length;
        self.asked = Instant::now();
        self.stream.write_all(REQUEST)
    }

    /// Reads the available bytes. Returns whether the response is complete.
    fn take(&mut self, buffer: &mut [u8]) -> anyhow::Result<bool> {
        while self.left > 0 {
            match self.stream.read(buffer) {
                Ok(0) => bail!("the server closed a connection before its response was complete"),
                Ok(read) => {
                    ensure!(
                        read <= self.left,
                        "a response is longer than the first one, which gives the length of all"
                    );
                    self.left -= read;
                    if self.left == 0 {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }
}

/// Sends a request, and returns the length of the response including its head.
fn response_length(mut stream: &TcpStream) -> anyhow::Result<usize> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(REQUEST)?;
    let mut response = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece)?;
        ensure!(
            read > 0,
            "the server closed the connection before it answered"
        );
        response.extend_from_slice(&piece[..read]);
        if let Some(length) = whole_length(&response)? {
            while response.len() < length {
                let read = stream.read(&mut piece)?;
                ensure!(
                    read > 0,
                    "the server closed the connection in the middle of an answer"
                );
                response.extend_from_slice(&piece[..read]);
            }
            ensure!(
                response.len() == length,
                "the server sent more bytes than one response has"
            );
            return Ok(length);
        }
    }
}

/// Returns the length of head and body, or `None` if the head is not complete.
fn whole_length(response: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(end) = response.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&response[..end])?;
    ensure!(
        head.starts_with("HTTP/1.1 200 "),
        "expected a response with status 200: {head}"
    );
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse::<usize>())
    });
    let length =
        length.context("cannot find the end of a response: it has no content-length")??;
    Ok(Some(end + 4 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_response_includes_its_head() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nx: y\r\n\r\n";
        assert_eq!(whole_length(head.as_bytes()).unwrap(), Some(head.len() + 5));
        assert_eq!(whole_length(b"HTTP/1.1 200 OK\r\n").unwrap(), None);
        assert!(whole_length(b"HTTP/1.1 500 No\r\n\r\n").is_err());
        assert!(whole_length(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }

    #[test]
    fn quantiles_cover_all_connections() {
        let answers = Answers {
            waits: (1..=101).map(|us| us * 1_000).collect(),
            took: Duration::ZERO,
        };
        assert_eq!((answers.wait_us(0.5), answers.wait_us(0.99)), (51.0, 100.0));
    }
}

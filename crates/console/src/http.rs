//! A minimal HTTP server, with which a program shows a page in a browser on the same machine.
//!
//! - The resources are bounded: a request has 8 KiB and five seconds, and there are at most 16
//!   requests at the same time.
//! - The server rejects a request with another host name. Otherwise a page from another site could
//!   read this one through a name that resolves to this machine.
//! - The server rejects a request that another page has sent, if the browser reports that.
//!
//! We left out request bodies, persistent connections and TLS on purpose.
//!
//! Source: RFC 9112; the `Sec-Fetch-Site` header: W3C, "Fetch Metadata Request Headers".

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::exit::{Exit, Failure};

const REQUEST_BYTES_MAX: usize = 8 << 10;
const CONNECTIONS_MAX: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(5);

/// A request of a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method, GET or POST. For a HEAD request, this field is GET.
    pub method: String,
    /// The path without the query.
    pub path: String,
    query: String,
    range: Option<String>,
}

impl Request {
    /// Returns the value of a name in the query, with escapes decoded.
    ///
    /// ```
    /// let request = creel_console::http::Request::get("/songs?q=a%20b+c&n=3");
    /// assert_eq!(request.path, "/songs");
    /// assert_eq!(request.value("q").as_deref(), Some("a b c"));
    /// assert_eq!(request.number("n"), Some(3));
    /// assert_eq!(request.value("x"), None);
    /// ```
    pub fn value(&self, name: &str) -> Option<String> {
        let pairs = self
            .query
            .split('&')
            .filter_map(|pair| pair.split_once('='));
        let value = pairs
            .filter(|pair| pair.0 == name)
            .map(|pair| pair.1)
            .next();
        value.map(percent_decode)
    }

    /// Returns the value of a name in the query as a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    /// Returns the range of bytes that the request asks for, if it has a `Range` header. The result
    /// is the first byte and the one after the last. `length` is the length of the body. We support
    /// one range only.
    pub fn range(&self, length: u64) -> Option<(u64, u64)> {
        let (first, last) = self
            .range
            .as_deref()?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        let (first, end) = match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) => (first, last.saturating_add(1).min(length)),
            (Ok(first), Err(_)) if last.is_empty() => (first, length),
            (Err(_), Ok(count)) if first.is_empty() => (length.saturating_sub(count), length),
            _ => return None,
        };
        (first < end).then_some((first, end))
    }

    /// Creates a GET request for a path, as a browser does.
    pub fn get(path: &str) -> Request {
        Request::new("GET", path, None)
    }

    fn new(method: &str, target: &str, range: Option<String>) -> Request {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Request {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            range,
        }
    }
}

/// Decodes percent escapes and plus signs. Other text stays as it is.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes
            .get(at + 1..at + 3)
            .and_then(|two| std::str::from_utf8(two).ok());
        match (
            bytes[at],
            hex.and_then(|two| u8::from_str_radix(two, 16).ok()),
        ) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The answer to a request.
pub struct Answer {
    status: &'static str,
    kind: &'static str,
    more: Vec<String>,
    length: u64,
    body: Body,
}

/// A function that writes the body of an answer. It may call `write` as often as it likes.
pub type Body = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()>>;

impl Answer {
    /// Creates an answer with status 200, this body and the content type `kind`.
    pub fn ok(kind: &'static str, body: Vec<u8>) -> Answer {
        Answer::whole("200 OK", kind, body)
    }

    /// Creates an answer with a value as JSON.
    pub fn json(value: &impl serde::Serialize) -> Answer {
        match serde_json::to_vec(value) {
            Ok(body) => Answer::ok("application/json", body),
            Err(_) => Answer::refused("500 Internal Server Error"),
        }
    }

    /// Creates an error answer, for example "404 Not Found". The body is the text of the status.
    pub fn refused(status: &'static str) -> Answer {
        Answer::whole(status, "text/plain", status.as_bytes().to_vec())
    }

    /// Creates an answer with a body of a known length. With a range, it sends the bytes from
    /// `range.0` up to `range.1`, exclusive.
    pub fn stream(
        kind: &'static str,
        length: u64,
        range: Option<(u64, u64)>,
        body: Body,
    ) -> Answer {
        let accepts = "Accept-Ranges: bytes\r\n".to_owned();
        let (status, more, length) = match range {
            None => ("200 OK", vec![accepts], length),
            Some((first, end)) => {
                let part = format!("Content-Range: bytes {first}-{}/{length}\r\n", end - 1);
                ("206 Partial Content", vec![accepts, part], end - first)
            }
        };
        Answer {
            status,
            kind,
            more,
            length,
            body,
        }
    }

    fn whole(status: &'static str, kind: &'static str, body: Vec<u8>) -> Answer {
        Answer {
            status,
            kind,
            more: Vec::new(),
            length: body.len() as u64,
            body: Box::new(move |out| out.write_all(&body)),
        }
    }

    /// Sends the answer. For a HEAD request, sends the head only.
    fn send(self, stream: &mut dyn Write, is_head: bool) -> io::Result<()> {
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'self' 'unsafe-inline'\r\n\
             Connection: close\r\n\r\n",
            self.status,
            self.kind,
            self.length,
            self.more.concat()
        );
        stream.write_all(head.as_bytes())?;
        if is_head {
            return Ok(());
        }
        (self.body)(stream)
    }
}

/// Opens a port that only this machine can reach. The port 0 means any free port.
///
/// # Errors
///
/// Returns a [`Failure`] with [`Exit::TryAgain`] if the port is in use, or the error of the system.
pub fn listen(port: u16) -> anyhow::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Failure::new(
            Exit::TryAgain,
            format!("cannot listen on port {port}: it is in use, so choose another port"),
        )
        .into(),
        _ => anyhow::Error::from(error).context(format!("cannot listen on port {port}")),
    })
}

/// Answers requests until the process ends, each on a thread of its own. Rejects a request while
/// [`CONNECTIONS_MAX`] others are open.
pub fn serve(listener: &TcpListener, answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) {
    let answer = Arc::new(answer);
    // The number of open connections. Relaxed is enough for the accesses, because this count
    // protects no data.
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Accepting fails, for example, if the process has no free file descriptors. We wait a
            // moment, because some will be closed soon.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            // We ignore an error of the rejection, because the browser may have closed the
            // connection.
            let _ = refuse(&stream);
            continue;
        }
        let (answer, counted) = (Arc::clone(&answer), Arc::clone(&open));
        let spawned = std::thread::Builder::new()
            .name("request".into())
            .spawn(move || {
                // We ignore the error, because it means that the browser has closed the connection.
                let _ = respond(&stream, answer.as_ref());
                counted.fetch_sub(1, Ordering::Relaxed);
            });
        if spawned.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Rejects a connection because too many others are open. Does not wait for its request.
fn refuse(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    // We read what has arrived, because closing a connection with unread bytes would reset it, and
    // the browser might lose our answer.
    let _ = stream.read(&mut [0; REQUEST_BYTES_MAX]);
    Answer::refused("503 Service Unavailable").send(&mut stream, false)
}

fn respond(mut stream: &TcpStream, answer: &dyn Fn(&Request) -> Answer) -> io::Result<()> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = read(stream)?;
    let is_head = request
        .as_ref()
        .is_ok_and(|request| request.method == "HEAD");
    let answer = match request {
        Ok(request) if !matches!(request.method.as_str(), "GET" | "HEAD" | "POST") => {
            Answer::refused("405 Method Not Allowed")
        }
        Ok(mut request) => {
            if is_head {
                request.method = "GET".into();
            }
            answer(&request)
        }
        Err(status) => Answer::refused(status),
    };
    answer.send(&mut stream, is_head)
}

fn read(mut stream: &TcpStream) -> io::Result<Result<Request, &'static str>> {
    let begun = Instant::now();
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = TIMEOUT
            .checked_sub(begun.elapsed())
            .ok_or(io::ErrorKind::TimedOut)?;
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let read = stream.read(&mut piece)?;
        bytes.extend(&piece[..read]);
        if read == 0 || bytes.len() > REQUEST_BYTES_MAX {
            return Ok(Err("400 Bad Request"));
        }
    }
    Ok(String::from_utf8(bytes).map_or(Err("400 Bad Request"), |text| parse(&text)))
}

fn parse(text: &str) -> Result<Request, &'static str> {
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err("400 Bad Request");
    };
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let header = |name: &str| {
        let found = headers
            .iter()
            .find(|header| header.0.eq_ignore_ascii_case(name));
        found.map(|header| header.1.trim())
    };
    let host = header("host");
    let name = host.map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name));
    let from_here = |origin: &str| origin.strip_prefix("http://") == host;
    let is_own = header("origin").is_none_or(from_here)
        && matches!(
            header("sec-fetch-site"),
            None | Some("same-origin" | "none")
        );
    let is_here = |name: &str| name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost");
    match name {
        Some(name) if is_here(name) && is_own => Ok(Request::new(
            method,
            target,
            header("range").map(str::to_owned),
        )),
        _ => Err("403 Forbidden"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_hosts_and_origins_are_rejected() {
        let ask = |headers: &str| parse(&format!("GET /a?b=1 HTTP/1.1\r\n{headers}\r\n\r\n"));
        let own = ask("Host: 127.0.0.1:7881\r\nRange: bytes=5-9").unwrap();
        assert_eq!((own.path.as_str(), own.number("b")), ("/a", Some(1)));
        assert_eq!(own.range(100), Some((5, 10)));
        assert!(ask("host: localhost\r\nSec-Fetch-Site: same-origin").is_ok());
        assert!(ask("host: LOCALHOST").is_ok());
        assert!(ask("host: localhost:1\r\nOrigin: http://localhost:1").is_ok());
        for headers in [
            "Host: elsewhere.example",
            "",
            "Host: localhost\r\nSec-Fetch-Site: cross-site",
            "Host: localhost:1\r\nOrigin: http://elsewhere.example",
            "Host: localhost:1\r\nOrigin: http://localhost:2",
            "Host: localhost:1\r\nOrigin: null",
        ] {
            assert_eq!(ask(headers), Err("403 Forbidden"), "{headers}");
        }
        assert_eq!(parse("GET"), Err("400 Bad Request"));
    }

    #[test]
    fn ranges_are_clamped_to_the_body() {
        let range = |text: &str| Request::new("GET", "/", Some(text.to_owned())).range(100);
        assert_eq!(range("bytes=90-"), Some((90, 100)));
        assert_eq!(range("bytes=-10"), Some((90, 100)));
        assert_eq!(range("bytes=0-500"), Some((0, 100)));
        for bad in [
            "bytes=100-",
            "bytes=9-5",
            "bytes=-",
            "lines=1-2",
            "bytes=a-b",
        ] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}

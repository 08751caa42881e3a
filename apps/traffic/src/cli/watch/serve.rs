//! The little of HTTP that the page needs, for browsers on this machine.
//!
//! Bounded: a request has 8 KiB and five seconds, and there are at most 16 at once. A request that
//! names another host is refused, so that no page from elsewhere reads this one through a name.
//!
//! Source: RFC 9112.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Shown;

const REQUEST_BYTES_MAX: usize = 8 << 10;
const AT_ONCE_MAX: usize = 16;
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers for as long as the process lives.
pub fn serve(listener: &TcpListener, shown: &Arc<Shown>) {
    // A count, and no data with it.
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, say: some will be closed.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= AT_ONCE_MAX {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (shown, counted) = (Arc::clone(shown), Arc::clone(&open));
        let spawned = std::thread::Builder::new()
            .name("request".into())
            .spawn(move || {
                // A browser that went away is its own business.
                let _ = answer(&stream, &shown);
                counted.fetch_sub(1, Ordering::Relaxed);
            });
        if spawned.is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A request's method and path.
fn request(mut stream: &TcpStream) -> io::Result<Result<(String, String), &'static str>> {
    let begun = Instant::now();
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = PATIENCE
            .checked_sub(begun.elapsed())
            .ok_or(io::ErrorKind::TimedOut)?;
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let read = stream.read(&mut piece)?;
        bytes.extend(&piece[..read]);
        if read == 0 || bytes.len() > REQUEST_BYTES_MAX {
            return Ok(Err("400 Bad Request"));
        }
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return Ok(Err("400 Bad Request"));
    };
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Ok(Err("400 Bad Request"));
    };
    let fields: Vec<(&str, &str)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim()))
        .collect();
    let field = |name: &str| {
        let found = fields
            .iter()
            .find(|field| field.0.eq_ignore_ascii_case(name));
        found.map(|field| field.1)
    };
    let Some(host) = field("host") else {
        return Ok(Err("403 Forbidden"));
    };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    // A browser tells which page asks; others than this one have nothing to say here.
    let ours = field("origin").is_none_or(|origin| origin.strip_prefix("http://") == Some(host));
    Ok(match name {
        "127.0.0.1" | "localhost" if ours => Ok((method.into(), path.into())),
        _ => Err("403 Forbidden"),
    })
}

fn answer(stream: &TcpStream, shown: &Shown) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (method, path) = match request(stream)? {
        Ok(request) => request,
        Err(status) => return send(stream, status, "text/plain", status.as_bytes()),
    };
    let (path, query) = path.split_once('?').unwrap_or((&path, ""));
    let number = |name: &str| {
        let pair = query
            .split('&')
            .find_map(|pair| pair.split_once('=').filter(|pair| pair.0 == name));
        pair.and_then(|(_, value)| value.parse::<u32>().ok())
    };
    match (method.as_str(), path) {
        ("GET", "/") => send(
            stream,
            "200 OK",
            "text/html; charset=utf-8",
            include_bytes!("page.html"),
        ),
        ("GET", "/roads") => send(stream, "200 OK", "application/octet-stream", &shown.roads),
        ("GET", "/frame") => {
            let frame = Arc::clone(&shown.frame.lock().unwrap_or_else(PoisonError::into_inner));
            send(stream, "200 OK", "application/octet-stream", &frame)
        }
        ("GET", "/road") => match number("id").and_then(|id| shown.details.get(id as usize)) {
            Some(detail) => {
                let super::Detail {
                    name,
                    length_m,
                    speed_kmh,
                    lanes,
                    storage,
                } = detail;
                let name = serde_json::to_string(name)?;
                let body = format!(
                    "{{\"name\":{name},\"length_m\":{length_m},\"speed_kmh\":{speed_kmh},\"lanes\":{lanes},\"storage\":{storage}}}"
                );
                send(stream, "200 OK", "application/json", body.as_bytes())
            }
            None => send(stream, "404 Not Found", "text/plain", b"no such road"),
        },
        ("GET", "/control") => {
            let control = *shown.control.lock().unwrap_or_else(PoisonError::into_inner);
            let body = format!(
                "{{\"playing\":{},\"speed\":{}}}",
                control.playing, control.speed
            );
            send(stream, "200 OK", "application/json", body.as_bytes())
        }
        ("POST", "/control") => {
            let mut control = shown.control.lock().unwrap_or_else(PoisonError::into_inner);
            control.playing = number("playing").map_or(control.playing, |playing| playing > 0);
            control.speed = number("speed").map_or(control.speed, |speed| speed.min(1_000_000));
            control.steps = number("steps").unwrap_or(0).min(3600);
            shown.changed.notify_all();
            drop(control);
            send(stream, "204 No Content", "text/plain", b"")
        }
        ("GET" | "POST", _) => send(stream, "404 Not Found", "text/plain", b"not found"),
        _ => send(
            stream,
            "405 Method Not Allowed",
            "text/plain",
            b"GET or POST",
        ),
    }
}

fn send(mut stream: &TcpStream, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'self' 'unsafe-inline'\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}

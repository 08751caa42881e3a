//! What the client sends on a connection, and how it recognizes the end of a response.

use anyhow::{Context, ensure};

/// One request after the other on a connection.
pub trait Exchange {
    /// Appends the bytes of the next request to `out`.
    fn ask(&mut self, out: &mut Vec<u8>) -> anyhow::Result<()>;

    /// Takes bytes that the server has sent. Returns whether the response is complete. Appends
    /// bytes that the client must send now to `out`, for example a part of a handshake.
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool>;
}

/// Requests that are always the same, with responses that all have the same length.
#[derive(Clone)]
pub struct Plain {
    request: Vec<u8>,
    /// The length of a response, or `None` until it is known.
    length: Option<usize>,
    /// The response so far, while its length is not known.
    first: Vec<u8>,
    /// The number of bytes of the response that are still missing.
    left: usize,
}

impl Plain {
    /// Requests over HTTP/1. The length of a response is that of the first one.
    pub fn http() -> Self {
        Plain {
            request: b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n".to_vec(),
            length: None,
            first: Vec::new(),
            left: 0,
        }
    }

    /// Requests with responses of a known length.
    pub fn fixed(request: Vec<u8>, length: usize) -> Self {
        Plain {
            request,
            length: Some(length),
            first: Vec::new(),
            left: 0,
        }
    }
}

impl Exchange for Plain {
    fn ask(&mut self, out: &mut Vec<u8>) -> anyhow::Result<()> {
        out.extend_from_slice(&self.request);
        self.left = self.length.unwrap_or(0);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], _: &mut Vec<u8>) -> anyhow::Result<bool> {
        if self.length.is_some() {
            ensure!(
                bytes.len() <= self.left,
                "a response is longer than the first one, which gives the length of all"
            );
            self.left -= bytes.len();
            return Ok(self.left == 0);
        }
        self.first.extend_from_slice(bytes);
        let Some(length) = whole_length(&self.first)? else {
            return Ok(false);
        };
        ensure!(
            self.first.len() <= length,
            "the server sent more bytes than one response has"
        );
        if self.first.len() < length {
            return Ok(false);
        }
        self.length = Some(length);
        self.first = Vec::new();
        Ok(true)
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

/// Requests over HTTP/2, with one stream after the other.
///
/// This is only as much of HTTP/2 as a client with one kind of request needs. Source: RFC 9113,
/// sections 3.4 (preface), 4.1 (frames) and 6 (kinds of frames), and RFC 7541, appendix A (header
/// fields with an index).
#[cfg(feature = "servers")]
#[derive(Default)]
pub struct Http2 {
    /// The number of the last stream, or 0 before the first request.
    stream: u32,
    /// The beginning of a frame that is not complete.
    rest: Vec<u8>,
}

#[cfg(feature = "servers")]
mod frame {
    pub const HEAD: usize = 9;
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    /// Flags: the last frame of a stream, the reply to settings, and the last part of the headers.
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;

    /// Appends a frame.
    pub fn push(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = (payload.len() as u32).to_be_bytes();
        out.extend_from_slice(&length[1..]);
        out.extend_from_slice(&[kind, flags]);
        out.extend_from_slice(&stream.to_be_bytes());
        out.extend_from_slice(payload);
    }
}

#[cfg(feature = "servers")]
impl Exchange for Http2 {
    fn ask(&mut self, out: &mut Vec<u8>) -> anyhow::Result<()> {
        if self.stream == 0 {
            out.extend_from_slice(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            frame::push(out, frame::SETTINGS, 0, 0, &[]);
            // The server may send a gibibyte before it has to wait for us. No sample gets that far.
            frame::push(
                out,
                frame::WINDOW_UPDATE,
                0,
                0,
                &(1_u32 << 30).to_be_bytes(),
            );
            self.stream = 1;
        } else {
            self.stream += 2;
        }
        // GET, http and / have an index. The authority is a name with an index and a literal value.
        let headers = b"\x82\x86\x84\x01\x09localhost";
        let flags = frame::END_STREAM | frame::END_HEADERS;
        frame::push(out, frame::HEADERS, flags, self.stream, headers);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        self.rest.extend_from_slice(bytes);
        let (mut taken, mut is_complete) = (0, false);
        while let Some(head) = self.rest[taken..].first_chunk::<{ frame::HEAD }>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let end = taken + frame::HEAD + length;
            if end > self.rest.len() {
                break;
            }
            match kind {
                frame::SETTINGS if flags & frame::ACK == 0 => {
                    frame::push(out, frame::SETTINGS, frame::ACK, 0, &[]);
                }
                frame::HEADERS | frame::DATA => is_complete |= flags & frame::END_STREAM != 0,
                frame::RST_STREAM | frame::GOAWAY => anyhow::bail!("the server ended a stream"),
                _ => {}
            }
            taken = end;
        }
        self.rest.drain(..taken);
        Ok(is_complete)
    }
}

/// An exchange inside TLS.
#[cfg(feature = "servers")]
pub struct Tls {
    session: rustls::ClientConnection,
    inside: Plain,
    buffer: Vec<u8>,
}

#[cfg(feature = "servers")]
impl Tls {
    /// Begins a connection. The handshake is a part of the first exchange.
    pub fn new(config: &std::sync::Arc<rustls::ClientConfig>) -> anyhow::Result<Self> {
        let name = "localhost".try_into()?;
        Ok(Tls {
            session: rustls::ClientConnection::new(config.clone(), name)?,
            inside: Plain::http(),
            buffer: vec![0; 64 << 10],
        })
    }
}

#[cfg(feature = "servers")]
impl Exchange for Tls {
    fn ask(&mut self, out: &mut Vec<u8>) -> anyhow::Result<()> {
        let mut request = Vec::new();
        self.inside.ask(&mut request)?;
        std::io::Write::write_all(&mut self.session.writer(), &request)?;
        while self.session.wants_write() {
            self.session.write_tls(out)?;
        }
        Ok(())
    }

    fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let mut is_complete = false;
        while !bytes.is_empty() {
            self.session.read_tls(&mut bytes)?;
            let mut left = self
                .session
                .process_new_packets()?
                .plaintext_bytes_to_read();
            while left > 0 {
                let read = std::io::Read::read(&mut self.session.reader(), &mut self.buffer)?;
                left -= read;
                is_complete = self.inside.take(&self.buffer[..read], &mut Vec::new())?;
            }
        }
        while self.session.wants_write() {
            self.session.write_tls(out)?;
        }
        Ok(is_complete)
    }
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
    fn a_response_in_pieces_is_complete_after_its_last_byte() {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let mut http = Plain::http();
        for _ in 0..2 {
            http.ask(&mut Vec::new()).unwrap();
            let (last, pieces) = response.split_last().unwrap();
            for byte in pieces {
                assert!(!http.take(&[*byte], &mut Vec::new()).unwrap());
            }
            assert!(http.take(&[*last], &mut Vec::new()).unwrap());
        }
        assert!(http.take(b"more", &mut Vec::new()).is_err());
    }

    #[cfg(feature = "servers")]
    #[test]
    fn a_stream_of_http2_ends_with_its_flag() {
        let mut bytes = Vec::new();
        frame::push(&mut bytes, frame::SETTINGS, 0, 0, &[]);
        frame::push(&mut bytes, frame::HEADERS, frame::END_HEADERS, 1, b"head");
        frame::push(&mut bytes, frame::DATA, frame::END_STREAM, 1, b"body");
        let (mut http2, mut out) = (Http2::default(), Vec::new());
        http2.ask(&mut out).unwrap();
        assert!(out.starts_with(b"PRI * HTTP/2.0"));
        out.clear();
        let (last, pieces) = bytes.split_last().unwrap();
        for byte in pieces {
            assert!(!http2.take(&[*byte], &mut out).unwrap());
        }
        assert!(http2.take(&[*last], &mut out).unwrap());
        assert_eq!(out[3..5], [frame::SETTINGS, frame::ACK]);
    }
}

//! An HTTP/1.1 client that does as little work as possible, because it shares the machine with the
//! service.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use creel::net::TcpStream;

/// The maximum size of a response in bytes.
const ANSWER_MAX: usize = 1 << 20;

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
    /// Whether the connection can be used for another request.
    pub(super) keep_alive: bool,
}

/// A connection to the service.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(to: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Client {
            stream,
            bytes: Vec::new(),
        })
    }

    /// Sends a request and reads its response.
    ///
    /// # Errors
    ///
    /// Returns [`ConnectionReset`](ErrorKind::ConnectionReset) if the connection was reset, or if
    /// it ended before the first byte of the response. Returns another error if the response is
    /// invalid, incomplete or too long.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> io::Result<Response> {
        let nothing = |error: io::Error| match error.kind() {
            ErrorKind::BrokenPipe => ErrorKind::ConnectionReset.into(),
            _ => error,
        };
        self.stream.write_all(request).await.map_err(nothing)?;
        self.bytes.clear();
        let mut buffer = [0; 4096];
        loop {
            let read = self.stream.read(&mut buffer).await?;
            if read == 0 && self.bytes.is_empty() {
                return Err(ErrorKind::ConnectionReset.into());
            }
            if read == 0 || self.bytes.len() > ANSWER_MAX {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.bytes.extend_from_slice(&buffer[..read]);
            if let Some(response) = parse(&self.bytes)? {
                return Ok(response);
            }
        }
    }
}

/// Parses a response, or returns `None` if it is not complete yet. The response must have a
/// Content-Length.
fn parse(bytes: &[u8]) -> io::Result<Option<Response>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head
        .parse(bytes)
        .map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
    let (httparse::Status::Complete(start), Some(status)) = (parsed, head.code) else {
        return Ok(None);
    };
    let (mut length, mut keep_alive) = (None, true);
    for header in head.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            length = std::str::from_utf8(header.value)
                .ok()
                .and_then(|text| text.parse().ok());
        } else if header.name.eq_ignore_ascii_case("connection") {
            keep_alive = !header.value.eq_ignore_ascii_case(b"close");
        }
    }
    let length: usize = length.ok_or(ErrorKind::InvalidData)?;
    let body = bytes.get(start..start.saturating_add(length));
    Ok(body.map(|body| Response {
        status,
        body: body.to_vec(),
        keep_alive,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_complete_with_its_last_byte() {
        let all = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 4\r\nConnection: close\r\n\r\nbusy";
        for end in 0..all.len() {
            assert!(parse(&all[..end]).unwrap().is_none(), "{end}");
        }
        let response = parse(all).unwrap().unwrap();
        assert_eq!(
            (response.status, &response.body[..], response.keep_alive),
            (503, &b"busy"[..], false)
        );
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(parse(b"garbage\r\n\r\n").is_err());
    }
}

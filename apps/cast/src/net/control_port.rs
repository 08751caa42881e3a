//! The control port. It accepts commands to add and remove clients over TCP, either one command per
//! line or as HTTP requests.
//!
//! | a line | HTTP | effect |
//! |---|---|---|
//! | `list` | `GET /clients` | lists the clients |
//! | `add HOST:PORT` | `PUT /clients/HOST:PORT` | adds a client |
//! | `remove HOST:PORT` | `DELETE /clients/HOST:PORT` | removes a client |
//! | `clear` | `DELETE /clients` | removes all clients |
//! | `metrics` | `GET /metrics` | prints the figures, for Prometheus |
//!
//! We listen on loopback addresses only, because everyone that can connect can direct streams
//! anywhere.
//!
//! Each connection has a thread of its own, up to [`CONNECTIONS_MAX`] of them. A connection must
//! complete a line or a request within [`REQUEST_TIMEOUT`], and must accept an answer within the
//! same time. Otherwise we close it.

use super::client_registry::{ClientRegistry, Command};
use crate::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum length of a line in bytes.
const LINE_BYTES: u64 = 1_024;
/// The maximum number of lines in the head of an HTTP request.
const HEAD_LINES: usize = 64;
/// The time that a connection has to send a line or a request, and to accept an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of connections at a time. We close further connections immediately.
const CONNECTIONS_MAX: usize = 64;

/// Listens on `address` until the process ends. `metrics` returns the figures to print. Returns the
/// address that was bound.
///
/// # Errors
///
/// Returns an error if the address is not a loopback address, or is in use.
pub fn serve(
    address: SocketAddr,
    registry: Arc<ClientRegistry>,
    metrics: impl Fn() -> String + Send + Sync + 'static,
) -> Result<SocketAddr, Error> {
    if !address.ip().is_loopback() {
        return Err(Error::Plan(format!(
            "cannot accept commands on {address}: use a loopback address such as 127.0.0.1"
        )));
    }
    let error = |error| Error::Socket(format!("cannot accept commands on {address}"), error);
    let listener = TcpListener::bind(address).map_err(error)?;
    let bound = listener.local_addr().map_err(error)?;
    let metrics = Arc::new(metrics);
    let thread = || std::thread::Builder::new().name("commands".into());
    let serving = move || {
        // The thread of each connection holds a clone, so the number of clones is the number of
        // connections.
        let connections = Arc::new(());
        for connection in listener.incoming() {
            let Ok(connection) = connection else {
                // The process may have run out of file descriptors. We try again after a while,
                // because connections that end free their descriptors.
                std::thread::sleep(Duration::from_millis(10));
                continue;
            };
            if Arc::strong_count(&connections) > CONNECTIONS_MAX {
                continue;
            }
            let guard = Arc::clone(&connections);
            let (registry, metrics) = (Arc::clone(&registry), Arc::clone(&metrics));
            let handler = move || {
                // We ignore errors. A connection that breaks off has no further commands.
                let _ = handle_connection(connection, &registry, &*metrics);
                drop(guard);
            };
            // If the system cannot start a thread, this drops the handler, which closes the
            // connection.
            let _ = thread().spawn(handler);
        }
    };
    thread().spawn(serving).map_err(error)?;
    Ok(bound)
}

/// A connection that we read until a deadline.
struct DeadlineReader {
    connection: TcpStream,
    deadline: Instant,
}

impl Read for DeadlineReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.connection.set_read_timeout(Some(left))?;
        self.connection.read(bytes)
    }
}

fn handle_connection(
    connection: TcpStream,
    registry: &ClientRegistry,
    metrics: &dyn Fn() -> String,
) -> io::Result<()> {
    connection.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let mut answers = connection.try_clone()?;
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let mut lines = BufReader::new(DeadlineReader {
        connection,
        deadline,
    });
    while let Some(line) = read_line(&mut lines)? {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [method, path, version] = words[..]
            && version.starts_with("HTTP/")
        {
            for _ in 0..HEAD_LINES {
                if read_line(&mut lines)?.is_none_or(|line| line.is_empty()) {
                    break;
                }
            }
            let (status, body) = answer(method, path, registry, metrics);
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            return answers.write_all((head + &body).as_bytes());
        }
        let reply = match words[..] {
            ["metrics"] => metrics(),
            _ => {
                line.parse()
                    .map_or_else(|why| why, |command| registry.execute(command))
                    + "\n"
            }
        };
        answers.write_all(reply.as_bytes())?;
        lines.get_mut().deadline = Instant::now() + REQUEST_TIMEOUT;
    }
    Ok(())
}

/// Returns the next line without its line break, or `None` at the end of the stream.
fn read_line(lines: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if lines.by_ref().take(LINE_BYTES).read_line(&mut line)? == 0 {
        return Ok(None);
    }
    if !line.ends_with('\n') && line.len() as u64 >= LINE_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Some(line.trim_end().to_owned()))
}

fn answer(
    method: &str,
    path: &str,
    registry: &ClientRegistry,
    metrics: &dyn Fn() -> String,
) -> (&'static str, String) {
    let command = |line: String| match line.parse::<Command>() {
        Ok(command) => ("200 OK", registry.execute(command) + "\n"),
        Err(why) => ("400 Bad Request", why + "\n"),
    };
    match (method, path, path.strip_prefix("/clients/")) {
        ("GET", "/metrics", _) => ("200 OK", metrics()),
        ("GET", "/clients", _) => command("list".into()),
        ("DELETE", "/clients", _) => command("clear".into()),
        ("PUT" | "POST", _, Some(client)) => command(format!("add {client}")),
        ("DELETE", _, Some(client)) => command(format!("remove {client}")),
        (_, "/metrics" | "/clients", _) | (_, _, Some(_)) => {
            ("405 Method Not Allowed", String::new())
        }
        _ => ("404 Not Found", String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::session::Rtcp;

    fn exchange(address: SocketAddr, text: &str) -> String {
        let mut connection = TcpStream::connect(address).unwrap();
        connection.write_all(text.as_bytes()).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn clients_are_changed_by_line_commands_and_by_http() {
        let registry = Arc::new(ClientRegistry::new(2, false, Rtcp::Off));
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = serve(local, Arc::clone(&registry), || "figures 1\n".into()).unwrap();
        let reply = exchange(address, "add 127.0.0.1:5004\nlist\nshout\nmetrics\n");
        let lines: Vec<&str> = reply.lines().collect();
        assert_eq!(
            lines[..2],
            ["added 127.0.0.1:5004", "1 client: 127.0.0.1:5004"]
        );
        assert!(
            lines[2].contains("shout") && lines[3] == "figures 1",
            "{reply}"
        );
        let http =
            |request: &str| exchange(address, &format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(http("PUT /clients/127.0.0.1:6000").starts_with("HTTP/1.1 200"));
        assert_eq!(registry.list().len(), 2);
        assert!(http("DELETE /clients/127.0.0.1:5004").contains("removed"));
        assert!(http("GET /clients").ends_with("1 client: 127.0.0.1:6000\n"));
        assert!(http("GET /metrics").ends_with("figures 1\n"));
        assert!(http("GET /secrets").starts_with("HTTP/1.1 404"));
        assert!(http("PUT /clients/nowhere").starts_with("HTTP/1.1 400"));
        assert!(http("PATCH /clients").starts_with("HTTP/1.1 405"));
        exchange(address, &"x".repeat(5_000));
        assert!(http("DELETE /clients").starts_with("HTTP/1.1 200"));
        assert!(registry.list().is_empty());
    }

    #[test]
    fn silent_connections_do_not_block_others() {
        let registry = Arc::new(ClientRegistry::new(1, false, Rtcp::Off));
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = serve(local, registry, || "figures 1\n".into()).unwrap();
        let begin = Instant::now();
        let silent: Vec<_> = (0..8)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        assert_eq!(exchange(address, "metrics\n"), "figures 1\n");
        assert!(
            begin.elapsed() < REQUEST_TIMEOUT,
            "the request waited for the silent connections"
        );
        // The silent connections are closed in the end. Sending single bytes does not extend their
        // time.
        let mut one = &silent[0];
        while one.write_all(b"x").is_ok() {
            assert!(
                begin.elapsed() < 4 * REQUEST_TIMEOUT,
                "the silent connection is still open"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    #[test]
    fn only_loopback_addresses_are_accepted() {
        let registry = Arc::new(ClientRegistry::new(1, false, Rtcp::Off));
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        assert!(serve(any, registry, String::new).is_err());
    }
}

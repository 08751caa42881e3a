//! Tests of the events of a server's connections, and of handshakes.

use std::convert::Infallible;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use creel::net::TcpListener;
use creel_hyper::{End, Event, Io, Serve, serve};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::{Request, Response};

mod driven;
use driven::{Driven, HANG_TIMEOUT};
#[path = "../../creel/tests/retry/mod.rs"]
mod retry;
use retry::retry;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
/// The size of a response that does not fit into the system's buffers of a connection.
const LARGE: usize = 64 << 20;

type Server = Serve<std::net::TcpListener, Answers>;

/// A server on its own thread, with a clock that the test drives.
struct Running {
    address: SocketAddr,
    clock: Driven,
    stop: creel::channel::oneshot::Sender<()>,
    asked: mpsc::Receiver<()>,
    events: mpsc::Receiver<Event>,
}

/// A service that reports each of its requests.
struct Answers(mpsc::Sender<()>);

impl Service<Request<Incoming>> for Answers {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let _ = self.0.send(());
        Box::pin(async move {
            let body = match request.uri().path() {
                "/large" => "x".repeat(LARGE),
                "/panic" => panic!("on purpose"),
                "/never" => std::future::pending().await,
                _ => "plain".to_owned(),
            };
            Ok(Response::new(body))
        })
    }
}

fn start<F, U>(run: F) -> Running
where
    F: FnOnce(Server, creel::channel::oneshot::Receiver<()>) -> U + Send + 'static,
    U: Future<Output = ()>,
{
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = creel::channel::oneshot::channel();
    let (sender, events) = mpsc::channel();
    let (ask, asked) = mpsc::channel();
    let clock = Driven::start(move |pool| {
        let server = serve(listener, Answers(ask));
        let server = server.on_event(move |event| drop(sender.send(event)));
        pool.block_on(run(server, stopped));
    });
    Running {
        address,
        clock,
        stop,
        asked,
        events,
    }
}

impl Running {
    fn ask(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream.write_all(bytes).unwrap();
        assert!(matches!(self.next(), Event::Accepted));
        stream
    }

    fn next(&self) -> Event {
        self.events
            .recv_timeout(HANG_TIMEOUT)
            .expect("there was no event")
    }

    /// Drives the clock until the next connection ends. Returns how it ended, and after how many
    /// seconds.
    fn end_after_seconds(&self) -> (End, u64) {
        let (begin, mut seconds) = (Instant::now(), 0);
        loop {
            // The server's clock advances only when we drive it, so no timeout expires while we
            // wait here.
            match self.events.recv_timeout(Duration::from_millis(20)) {
                Ok(Event::Ended(end)) => return (end, seconds),
                Ok(other) => panic!("{other:?}"),
                Err(_) => {}
            }
            assert!(
                begin.elapsed() < HANG_TIMEOUT,
                "no event after {seconds} s of the clock"
            );
            self.clock.second();
            seconds += 1;
        }
    }
}

fn plain(stream: &mut TcpStream) -> String {
    let (mut answer, mut some) = (Vec::new(), [0; 512]);
    while !answer.ends_with(b"plain") {
        match retry(|| stream.read(&mut some)).unwrap() {
            0 => break,
            read => answer.extend_from_slice(&some[..read]),
        }
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn each_way_in_which_a_connection_ends_has_its_own_event() {
    let server = start(|server, stopped| server.grace(Duration::from_secs(3)).until(stopped));
    let mut stream = server.ask(REQUEST);
    assert!(plain(&mut stream).ends_with("plain"));
    drop(stream);
    assert!(matches!(server.next(), Event::Ended(End::Done)));

    // The client of this connection stays idle first and disconnects then.
    let mut stream = server.ask(REQUEST);
    plain(&mut stream);
    (0..5).for_each(|_| server.clock.second());
    drop(stream);
    assert!(matches!(server.next(), Event::Ended(End::Done)));

    let _garbage = server.ask(b"\0\x01 this is none of it\r\n\r\n");
    match server.next() {
        Event::Ended(End::Failed(error)) => assert!(error.is_parse(), "{error}"),
        other => panic!("{other:?}"),
    }
    let _panicking = server.ask(b"GET /panic HTTP/1.1\r\n\r\n");
    assert!(matches!(server.next(), Event::Ended(End::Panicked)));

    let _silent = server.ask(b"GET / HT");
    let (end, seconds) = server.end_after_seconds();
    assert!(matches!(end, End::Silent), "{end:?}");
    assert!((30..60).contains(&seconds), "{seconds} s");

    while server.asked.try_recv().is_ok() {}
    let _never = server.ask(b"GET /never HTTP/1.1\r\n\r\n");
    server.asked.recv_timeout(HANG_TIMEOUT).unwrap();
    let Running { stop, .. } = server;
    stop.send(()).unwrap();
    let server = Running {
        stop: creel::channel::oneshot::channel().0,
        ..server
    };
    let (end, seconds) = server.end_after_seconds();
    assert!(matches!(end, End::Cut), "{end:?}");
    assert!((3..30).contains(&seconds), "{seconds} s");
}

#[test]
fn a_client_that_does_not_read_its_response_is_closed_after_the_write_timeout() {
    let server = start_with_limits();
    let mut stream = server.ask(b"GET /large HTTP/1.1\r\n\r\n");
    // The client reads the beginning of its response and then stops.
    stream.read_exact(&mut [0; 1024]).unwrap();
    let (end, seconds) = server.end_after_seconds();
    assert!(matches!(end, End::NotRead), "{end:?}");
    assert!((5..30).contains(&seconds), "{seconds} s");
}

#[test]
fn a_client_that_sends_requests_and_reads_nothing_is_closed() {
    let server = start_with_limits();
    let mut stream = server.ask(b"GET /large HTTP/1.1\r\n\r\n");
    stream
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let requests = REQUEST.repeat(1000);
    while stream.write_all(&requests).is_ok() {}
    assert!(matches!(server.end_after_seconds().0, End::NotRead));
}

#[test]
fn a_slow_reader_gets_its_whole_response() {
    let server = start_with_limits();
    let mut stream = server.ask(b"GET /large HTTP/1.0\r\n\r\n");
    // In three seconds, the client reads more than the system's buffers hold. The server can
    // therefore write, and its write timeout does not expire.
    let mut piece = vec![0; LARGE / 16];
    for _ in 0..16 {
        stream.read_exact(&mut piece).unwrap();
        server.clock.second();
    }
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(!rest.is_empty(), "the answer must have a head");
    assert!(matches!(server.next(), Event::Ended(End::Done)));
}

/// Starts a server in which a client has 5 s for a head, and for reading a part of a response.
fn start_with_limits() -> Running {
    start(|server, stopped| {
        let limit = Duration::from_secs(5);
        let server = server.head_timeout(limit).write_timeout(limit);
        server.until(stopped)
    })
}

/// Sends one byte after another, one per second of the clock, until the server closes the
/// connection. Returns how it ended, and after how many seconds.
fn trickle(server: &Running, stream: &mut TcpStream, mut byte: impl FnMut() -> u8) -> (End, u64) {
    for seconds in 0..60 {
        if let Ok(Event::Ended(end)) = server.events.recv_timeout(Duration::from_millis(20)) {
            return (end, seconds);
        }
        // This fails if the server has just closed the connection.
        let _ = stream.write_all(&[byte()]);
        server.clock.second();
    }
    panic!("the server did not close the connection");
}

#[test]
fn a_head_that_comes_byte_by_byte_is_limited_after_every_kind_of_request() {
    let server = start_with_limits();
    let requests = [
        &b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nhost: a\r\nupgrade: foo\r\nconnection: upgrade\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ];
    for request in requests {
        let mut stream = server.ask(request);
        assert!(plain(&mut stream).ends_with("plain"));
        let mut head = b"GET /".iter().copied().chain(std::iter::repeat(b'x'));
        let (end, seconds) = trickle(&server, &mut stream, || head.next().unwrap());
        assert!(matches!(end, End::Silent), "{end:?}");
        assert!((5..10).contains(&seconds), "{seconds} s");
    }
}

#[test]
fn the_time_for_a_head_begins_when_the_client_connects() {
    let server = start(|server, stopped| {
        let limit = Duration::from_secs(20);
        server.head_timeout(limit).until(stopped)
    });
    let mut stream = server.ask(b"");
    (0..16).for_each(|_| server.clock.second());
    let mut head = b"GET /".iter().copied().chain(std::iter::repeat(b'x'));
    let (end, seconds) = trickle(&server, &mut stream, || head.next().unwrap());
    assert!(matches!(end, End::Silent), "{end:?}");
    // With a clock that makes steps of a second, the first checks of a connection come late.
    assert!((2..12).contains(&seconds), "{seconds} s more");
}

/// On other systems, the server does not notice such a client.
#[cfg(target_os = "linux")]
#[test]
fn a_client_that_reads_all_the_time_but_slowly_is_not_closed() {
    const PIECE: usize = 64 << 10;
    let server = start_with_limits();
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    // With a small buffer, the client accepts more as soon as it has read a little.
    socket.set_recv_buffer_size(PIECE).unwrap();
    socket.connect(&server.address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    assert!(matches!(server.next(), Event::Accepted));
    stream.write_all(b"GET /large HTTP/1.1\r\n\r\n").unwrap();
    let mut piece = vec![0; PIECE];
    for second in 0..60 {
        stream.read_exact(&mut piece).unwrap();
        server.clock.second();
        let ended = server.events.try_recv();
        assert!(ended.is_err(), "after {second} s: {ended:?}");
    }
}

#[test]
fn a_handshake_can_return_any_stream() {
    let server = start(|server, stopped| {
        let greet = async |stream: creel::net::TcpStream| {
            let mut greeting = [0; 1];
            while stream.read(&mut greeting).await? == 1 {
                match greeting[0] {
                    b'+' => return Ok(Io(stream)),
                    b'-' => return Err(io::Error::from(ErrorKind::PermissionDenied)),
                    _ => {}
                }
            }
            Err(ErrorKind::UnexpectedEof.into())
        };
        async move { server.handshake(greet).until(stopped).await }
    });
    let greeted = [b"knock +", REQUEST].concat();
    let mut stream = server.ask(&greeted);
    assert!(plain(&mut stream).starts_with("HTTP/1.1 200"));
    drop(stream);
    assert!(matches!(server.next(), Event::Ended(End::Done)));

    let _refused = server.ask(b"knock -");
    match server.next() {
        Event::Ended(End::Handshake(error)) => {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        }
        other => panic!("{other:?}"),
    }
    let _silent = server.ask(b"knock");
    let (end, seconds) = server.end_after_seconds();
    assert!(matches!(end, End::Silent), "{end:?}");
    assert!((30..60).contains(&seconds), "{seconds} s");
}

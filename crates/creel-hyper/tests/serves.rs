//! Tests of the server with real clients: responses, streams, resets, half-closed connections,
//! floods, shutdown.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use axum::{Json, Router, extract::Path, routing::get, routing::post};
use creel::Pool;
use creel::net::TcpListener;
use creel::time::Clock;
use creel_hyper::{Tower, serve};
use hyper::body::Incoming;
use hyper::{Request, Response, service::service_fn};

#[path = "../../creel/tests/retry/mod.rs"]
mod retry;
use retry::retry;

/// The timeout of all waits. It is long, because only a test that hangs should reach it.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);

/// A server on its own thread, which is stopped on drop.
struct Running {
    address: SocketAddr,
    stop: Option<creel::channel::oneshot::Sender<()>>,
    ended: mpsc::Receiver<()>,
}

/// Whether a request for `/slow` has arrived.
static SLOW_IS_ASKED: AtomicBool = AtomicBool::new(false);

fn app() -> Router {
    Router::new()
        .route("/", get(async || "hello"))
        .route(
            "/square/{number}",
            get(async |Path(number): Path<u32>| Json(u64::from(number).pow(2))),
        )
        .route(
            "/slow",
            get(async || {
                SLOW_IS_ASKED.store(true, Ordering::SeqCst);
                creel::time::sleep(Duration::from_millis(200)).await;
                "slow"
            }),
        )
        .route("/large", get(async || vec![b'x'; 3 << 20]))
        .route("/length", post(async |body: String| body.len().to_string()))
}

fn start(workers: usize) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = creel::channel::oneshot::channel();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        let pool = Pool::builder().workers(workers).build().unwrap();
        // The limits of the server are longer than any test waits, so that no test passes because
        // of a limit.
        let (long, server) = (10 * HANG_TIMEOUT, serve(listener, Tower(app())));
        let server = server.grace(long).head_timeout(long).write_timeout(long);
        pool.block_on(server.until(stopped));
        let _ = sender.send(());
    });
    let stop = Some(stop);
    Running {
        address,
        stop,
        ended,
    }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream
    }

    /// Sends one request on a new connection and returns the response.
    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.0\r\n\r\n"))
    }

    /// Stops the server and waits until it has ended, which must be before any of its time limits.
    fn end(mut self) {
        let _ = self.stop.take().unwrap().send(());
        self.ended
            .recv_timeout(HANG_TIMEOUT)
            .expect("the server did not end");
    }
}

/// Waits until a condition is true.
fn until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(
            begin.elapsed() < HANG_TIMEOUT,
            "timed out while waiting for a condition"
        );
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_axum_application_answers() {
    for workers in [1, 2] {
        let server = start(workers);
        assert!(server.get("/").ends_with("\r\n\r\nhello"));
        assert!(server.get("/square/12").ends_with("\r\n\r\n144"));
        assert!(server.get("/nothing").starts_with("HTTP/1.0 404"));
        let large = server.get("/large");
        assert!(large.len() > 3 << 20 && large.ends_with("xxx"));
        let body = "y".repeat(1 << 20);
        let post = format!(
            "POST /length HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        assert!(server.ask(&post).ends_with("\r\n\r\n1048576"));
        server.end();
    }
}

#[test]
fn connections_support_keep_alive_and_pipelining() {
    let server = start(2);
    let mut stream = server.connect();
    for connection in ["keep-alive", "keep-alive", "close"] {
        let requests = format!(
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n\
             GET /square/3 HTTP/1.1\r\nhost: a\r\nconnection: {connection}\r\n\r\n"
        );
        stream.write_all(requests.as_bytes()).unwrap();
    }
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    assert_eq!(all.matches("HTTP/1.1 200").count(), 6);
    assert_eq!(all.matches("hello").count(), 3);
    server.end();
}

#[test]
fn resets_garbage_and_silence_affect_one_connection_only() {
    let server = start(2);
    let mut silent = Vec::new();
    for number in 0..200 {
        let mut stream = server.connect();
        match number % 4 {
            0 => {
                let _ = stream.write_all(b"\0\x01\x02 nothing of HTTP\r\n\r\n");
            }
            1 => {
                stream
                    .write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
                    .unwrap();
                // The client resets the connection in the middle of a response.
                socket2::SockRef::from(&stream)
                    .set_linger(Some(Duration::ZERO))
                    .unwrap();
            }
            2 => stream.write_all(b"GET / HTTP/1.1\r\nho").unwrap(),
            _ => silent.push(stream),
        }
    }
    assert!(server.get("/").ends_with("hello"));
    drop(silent);
    server.end();
}

/// A value that counts how often it was dropped.
struct Counted(&'static AtomicUsize);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn the_response_to_a_disconnected_client_is_dropped() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let never = service_fn(async |_| {
        let _counted = Counted(&DROPPED);
        BEGUN.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<()>().await;
        plain_answer()
    });
    thread::spawn(move || {
        let pool = Pool::builder().workers(1).build().unwrap();
        pool.block_on(serve(listener, never).until(std::future::pending::<()>()));
    });
    let wait_for = |count: &AtomicUsize, number| until(|| count.load(Ordering::SeqCst) >= number);
    for (number, linger) in [(1, None), (2, Some(Duration::ZERO))] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            .unwrap();
        wait_for(&BEGUN, number);
        socket2::SockRef::from(&stream).set_linger(linger).unwrap();
        drop(stream);
        wait_for(&DROPPED, number);
    }
}

#[test]
fn an_incomplete_head_does_not_delay_the_shutdown() {
    let server = start(1);
    let mut later = server.connect();
    later
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HT")
        .unwrap();
    let mut first = server.connect();
    first.write_all(b"GET / HTTP/1.1\r\nho").unwrap();
    let mut some = [0; 512];
    assert!(retry(|| later.read(&mut some)).unwrap() > 0);
    // After the response to this request, we know that the server has also read the incomplete
    // head.
    assert!(server.get("/").ends_with("hello"));
    server.end();
}

#[test]
fn a_client_that_sends_a_head_slowly_is_closed_after_the_head_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let clock = Clock::manual();
    let driven = clock.clone();
    thread::spawn(move || {
        let pool = Pool::builder().workers(1).clock(clock).build().unwrap();
        pool.block_on(serve(listener, service_fn(plain)).until(std::future::pending::<()>()));
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    let mut some = [0; 512];
    assert!(retry(|| stream.read(&mut some)).unwrap() > 0);
    stream.write_all(b"GET / HTTP/1.1\r\nlong: ").unwrap();
    stream
        .set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    let (begin, mut seconds) = (Instant::now(), 0);
    let ends = loop {
        match retry(|| stream.read(&mut some)) {
            Ok(0) => break true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break true,
            Err(_) if begin.elapsed() > HANG_TIMEOUT => break false,
            Err(_) => {}
        }
        let _ = stream.write_all(b"x");
        driven.advance(Duration::from_secs(1));
        seconds += 1;
    };
    assert!(ends && seconds > 25, "closed after {seconds} s: {ends}");
}

#[test]
fn shutdown_answers_requests_in_progress_and_closes_idle_connections() {
    let server = start(2);
    let mut idle = server.connect();
    idle.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    let mut some = [0; 512];
    assert!(retry(|| idle.read(&mut some)).unwrap() > 0);
    let mut asks = server.connect();
    asks.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    until(|| SLOW_IS_ASKED.load(Ordering::SeqCst));
    let address = server.address;
    server.end();
    let mut answer = String::new();
    asks.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("slow"), "{answer}");
    assert_eq!(retry(|| idle.read(&mut some)).unwrap(), 0);
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn stalled_readers_use_bounded_memory_and_do_not_block_others() {
    let server = start(1);
    let stalled: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = server.connect();
            let request = b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n";
            (0..20).for_each(|_| stream.write_all(request).unwrap());
            stream
        })
        .collect();
    for _ in 0..20 {
        assert!(server.get("/square/5").ends_with("25"));
    }
    drop(stalled);
    server.end();
}

/// Sends frames without a request as fast as the server reads them.
#[cfg(feature = "http2")]
#[test]
fn a_client_that_sends_without_pause_does_not_block_others() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    let server = start(1);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut flood = server.connect();
        flood
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .unwrap();
        // We send empty settings, and then window updates of one byte without pause.
        flood.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
        let more = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1].repeat(1_000);
        let over = &over;
        let flooding = scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                flood.write_all(&more).unwrap();
            }
        });
        let answers: Vec<_> = (0..20)
            .map(|_| catch_unwind(AssertUnwindSafe(|| server.get("/"))))
            .collect();
        over.store(true, Ordering::SeqCst);
        flooding.join().unwrap();
        for answer in answers {
            assert!(
                answer
                    .expect("other clients must get answers")
                    .ends_with("hello")
            );
        }
    });
    server.end();
}

async fn plain(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    plain_answer()
}

fn plain_answer() -> Result<Response<String>, Infallible> {
    Ok(Response::new("plain".to_owned()))
}

/// The limit of open files applies to a process, so the test runs itself in a child process.
#[test]
fn a_server_without_free_descriptors_recovers_when_some_are_closed() {
    const CHILD: &str = "CREEL_HYPER_FEW_FILES";
    if std::env::var_os(CHILD).is_none() {
        let own = std::env::current_exe().unwrap();
        let name = "a_server_without_free_descriptors_recovers_when_some_are_closed";
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(format!(
                "ulimit -n 64; exec '{}' --exact {name}",
                own.display()
            ))
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}");
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let pool = Pool::builder().workers(1).build().unwrap();
        pool.block_on(serve(listener, service_fn(plain)).until(std::future::pending::<()>()));
    });
    // Each connection takes two descriptors of this process, one for the client and one for the
    // server. In the end, no descriptor is left for the server to accept with.
    let mut clients = Vec::new();
    while let Ok(client) = TcpStream::connect(address) {
        clients.push(client);
    }
    assert!(clients.len() > 10);
    thread::sleep(Duration::from_millis(100));
    clients.truncate(5);
    // Until the server notices that the clients have disconnected, it may hold all free
    // descriptors.
    let begin = Instant::now();
    let mut last = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) => assert!(begin.elapsed() < HANG_TIMEOUT, "{error}"),
        }
    };
    last.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    last.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("plain"));
}

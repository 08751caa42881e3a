//! Tests of the server's settings, and of requests during shutdown.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use creel::Pool;
use creel::net::TcpListener;
use creel_hyper::{Serve, serve};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response, service::service_fn};

mod driven;
use driven::{Driven, HANG_TIMEOUT};
#[path = "../../creel/tests/retry/mod.rs"]
mod retry;
use retry::retry;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// A server on its own thread, with a clock that the test drives. It is stopped on drop.
struct Running {
    address: SocketAddr,
    clock: Driven,
    stop: Option<creel::channel::oneshot::Sender<()>>,
    ended: mpsc::Receiver<()>,
}

impl Running {
    /// Stops the server without waiting for its end.
    fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Drives the clock until a condition is true. Returns the number of seconds.
    fn drive_until(&self, mut is_so: impl FnMut() -> bool) -> u64 {
        let (begin, mut seconds) = (Instant::now(), 0);
        while !is_so() {
            assert!(
                begin.elapsed() < HANG_TIMEOUT,
                "timed out after {seconds} s of the clock"
            );
            self.clock.second();
            seconds += 1;
        }
        seconds
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream
    }

    /// Returns a connection that has got one response.
    fn asked(&self) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(REQUEST).unwrap();
        read_answer(&mut stream);
        stream
    }
}

fn read_answer(stream: &mut TcpStream) -> String {
    let (mut answer, mut some) = (Vec::new(), [0; 512]);
    while !answer.ends_with(b"plain") {
        match retry(|| stream.read(&mut some)).unwrap() {
            0 => break,
            read => answer.extend_from_slice(&some[..read]),
        }
    }
    String::from_utf8(answer).unwrap()
}

/// Returns whether the server has closed the connection. Waits a few milliseconds for that.
fn is_closed(stream: &mut TcpStream) -> bool {
    let short = Some(Duration::from_millis(5));
    stream.set_read_timeout(short).unwrap();
    match retry(|| stream.read(&mut [0; 512])) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn start<S, F>(service: S, with: F) -> Running
where
    S: Service<Request<Incoming>, Response = Response<String>, Error = Infallible>,
    S: Send + Sync + 'static,
    S::Future: Send,
    F: FnOnce(Serve<std::net::TcpListener, S>) -> Serve<std::net::TcpListener, S> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = creel::channel::oneshot::channel();
    let (sender, ended) = mpsc::channel();
    let clock = Driven::start(move |pool| {
        pool.block_on(with(serve(listener, service)).until(stopped));
        let _ = sender.send(());
    });
    Running {
        address,
        clock,
        stop: Some(stop),
        ended,
    }
}

async fn plain(_: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new("plain".to_owned()))
}

#[test]
fn a_connection_beyond_the_limit_waits_until_another_ends() {
    let server = start(service_fn(plain), |it| it.max_connections(2));
    let (first, _second) = (server.asked(), server.asked());
    let mut third = server.connect();
    third.write_all(REQUEST).unwrap();
    third
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let early = retry(|| third.read(&mut [0; 512]));
    assert!(
        early.is_err(),
        "{early:?} bytes while two other connections are open"
    );
    drop(first);
    third.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    assert!(read_answer(&mut third).starts_with("HTTP/1.1 200"));
}

#[test]
fn a_client_that_sends_no_head_is_closed_after_the_head_timeout() {
    for (limit, most) in [(5, 9), (60, 64)] {
        let server = start(service_fn(plain), move |it| {
            it.head_timeout(Duration::from_secs(limit))
        });
        let (mut silent, mut idle, mut begun) = (server.connect(), server.asked(), server.asked());
        begun.write_all(&REQUEST[..9]).unwrap();
        // We must not advance the clock before the server has accepted all connections. The last of
        // them has received a response, so all are accepted.
        drop(server.asked());
        for stream in [&mut silent, &mut idle, &mut begun] {
            assert!(!is_closed(stream));
        }
        let seconds = server.drive_until(|| is_closed(&mut silent));
        assert!((limit..=most).contains(&seconds), "{seconds} s");
        server.drive_until(|| is_closed(&mut idle));
        server.drive_until(|| is_closed(&mut begun));
    }
}

#[test]
fn settings_of_hyper_apply() {
    let later = service_fn(async |request| {
        creel::task::yield_now().await;
        plain(request).await
    });
    let server = start(later, |it| {
        let mut settings = http1::Builder::new();
        settings.max_headers(4).half_close(true);
        it.http1(settings)
    });
    let mut many = server.connect();
    let headers: String = (0..10).map(|n| format!("x-{n}: y\r\n")).collect();
    let head = format!("GET / HTTP/1.1\r\n{headers}\r\n");
    many.write_all(head.as_bytes()).unwrap();
    assert!(read_answer(&mut many).starts_with("HTTP/1.1 431"));
    let mut half = server.connect();
    half.write_all(REQUEST).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    assert!(read_answer(&mut half).ends_with("plain"));
}

#[test]
fn a_request_during_shutdown_gets_a_complete_response_or_none() {
    for round in 0..40_u32 {
        let mut server = start(service_fn(plain), |it| it);
        let mut stream = server.asked();
        // In every second round, we let a few seconds pass, so that the server has usually freed
        // hyper's state of the idle connection by now.
        for _ in 0..round % 2 * 4 {
            server.clock.second();
            drop(server.asked());
        }
        let mut asks = stream.try_clone().unwrap();
        let asking = thread::spawn(move || asks.write_all(REQUEST));
        server.stop();
        let _ = asking.join().unwrap();
        server.drive_until(|| server.ended.try_recv().is_ok());
        let mut answer = String::new();
        match stream.read_to_string(&mut answer) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        assert!(answer.is_empty() || answer.ends_with("plain"), "{answer}");
    }
}

/// A program may do something with the state of its service after the server has ended, for example
/// write it to a file.
#[test]
fn the_service_is_dropped_before_the_server_has_ended() {
    let state = Arc::new(());
    let clone = Arc::clone(&state);
    let pool = Pool::builder().workers(1).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let service = service_fn(move |_| {
        let _ = &clone;
        std::future::ready(Ok::<_, Infallible>(Response::new("plain".to_owned())))
    });
    let (stop, stopped) = creel::channel::oneshot::channel::<()>();
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream.write_all(REQUEST).unwrap();
        let answer = read_answer(&mut stream);
        stop.send(()).unwrap();
        answer
    });
    pool.block_on(async {
        serve(listener, service).until(stopped).await;
        assert_eq!(Arc::strong_count(&state), 1);
    });
    assert!(client.join().unwrap().ends_with("plain"));
}

#[test]
fn a_handler_that_blocks_does_not_keep_the_server_from_accepting() {
    for _ in 0..10 {
        let pool = Pool::builder().workers(2).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (begun, begins) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let service = service_fn(move |request: Request<Incoming>| {
            if request.uri().path() == "/block" {
                begun.send(()).unwrap();
                let _ = released.lock().unwrap().recv();
            }
            std::future::ready(Ok::<_, Infallible>(Response::new("plain".to_owned())))
        });
        let (stop, stopped) = creel::channel::oneshot::channel::<()>();
        let client = thread::spawn(move || {
            let connect = || {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
                stream
            };
            let mut blocked = connect();
            blocked
                .write_all(b"GET /block HTTP/1.1\r\nhost: a\r\n\r\n")
                .unwrap();
            begins.recv_timeout(HANG_TIMEOUT).unwrap();
            let mut other = connect();
            other.write_all(REQUEST).unwrap();
            assert!(read_answer(&mut other).ends_with("plain"));
            release.send(()).unwrap();
            assert!(read_answer(&mut blocked).ends_with("plain"));
            stop.send(()).unwrap();
        });
        pool.block_on(serve(listener, service).until(stopped));
        client.join().unwrap();
    }
}

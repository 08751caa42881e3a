//! What a server's user sets, as its clients meet it; and requests that meet its end.

use std::convert::Infallible;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use creel::net::TcpListener;
use creel_hyper::{Serve, serve};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::{Request, Response, service::service_fn};

mod driven;
use driven::{Driven, PATIENCE};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// A server on a thread and a driven clock of its own, which ends with this.
struct Running {
    address: SocketAddr,
    clock: Driven,
    stop: Option<creel::channel::oneshot::Sender<()>>,
    ended: mpsc::Receiver<()>,
}

impl Running {
    /// Tells it to end, without waiting for that.
    fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Drives the clock by seconds until something is so; how many these were.
    fn drive_until(&self, mut is_so: impl FnMut() -> bool) -> u64 {
        let (begin, mut seconds) = (Instant::now(), 0);
        while !is_so() {
            assert!(begin.elapsed() < PATIENCE, "after {seconds} s of the clock");
            self.clock.second();
            seconds += 1;
        }
        seconds
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A connection that has been answered once.
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
        match stream.read(&mut some).unwrap() {
            0 => break,
            read => answer.extend_from_slice(&some[..read]),
        }
    }
    String::from_utf8(answer).unwrap()
}

/// Whether it has been closed; or, for a few milliseconds, not.
fn is_closed(stream: &mut TcpStream) -> bool {
    let short = Some(Duration::from_millis(5));
    stream.set_read_timeout(short).unwrap();
    match stream.read(&mut [0; 512]) {
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
    let (tell, ended) = mpsc::channel();
    let clock = Driven::start(move |pool| {
        pool.block_on(with(serve(listener, service)).until(stopped));
        let _ = tell.send(());
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
fn who_comes_beyond_the_limit_waits_until_another_has_left() {
    let server = start(service_fn(plain), |it| it.most_connections(2));
    let (first, _second) = (server.asked(), server.asked());
    let mut third = server.connect();
    third.write_all(REQUEST).unwrap();
    third
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let early = third.read(&mut [0; 512]);
    assert!(early.is_err(), "{early:?} bytes while two are served");
    drop(first);
    third.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(read_answer(&mut third).starts_with("HTTP/1.1 200"));
}

#[test]
fn who_sends_no_head_is_closed_when_it_was_said() {
    for (limit, most) in [(5, 9), (60, 64)] {
        let server = start(service_fn(plain), move |it| {
            it.head_timeout(Duration::from_secs(limit))
        });
        let (mut silent, mut idle, mut begun) = (server.connect(), server.asked(), server.asked());
        begun.write_all(&REQUEST[..9]).unwrap();
        // The clock goes on when they are known to the server, of which this one is the last.
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
fn settings_of_hyper_are_kept() {
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
fn a_request_that_meets_the_end_is_answered_in_whole_or_not_at_all() {
    for round in 0..40_u32 {
        let mut server = start(service_fn(plain), |it| it);
        let mut stream = server.asked();
        // In every second round it is at rest by then, most of the time.
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

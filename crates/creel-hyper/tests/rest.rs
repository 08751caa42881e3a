//! Tests of idle connections. They take little memory, and the next request works as usual.

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use creel::Pool;
use creel::net::TcpListener;
use creel::time::Clock;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Request, Response, service::service_fn};

#[path = "../../creel/tests/retry/mod.rs"]
mod retry;
use retry::retry;

/// The timeout of all waits. It is long, because only a test that hangs should reach it.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// After this time, the server has noticed that a connection without a request is idle.
const LONGER_THAN_IDLE: Duration = Duration::from_millis(2_500);
const SHORTER_THAN_IDLE: Duration = Duration::from_millis(150);
const CONNECTIONS: usize = 200;
/// The maximum memory of an idle connection in bytes: its task, its socket, and its share of
/// tables.
const IDLE_BYTES_MAX: usize = 2_500;

/// The system's allocator, which also counts the allocated bytes.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: Each call is passed unchanged to the system's allocator, which fulfils the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: The caller fulfils the contract of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: The caller fulfils the contract of the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of bytes of request bodies that arrived after their responses.
static LATE: AtomicUsize = AtomicUsize::new(0);

async fn length(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = async move {
        let body = request.into_body().collect().await;
        body.map_or(0, |it| it.to_bytes().len())
    };
    let length = match path.as_str() {
        "/early" => {
            creel::task::spawn(async { LATE.fetch_add(body.await, Relaxed) });
            0
        }
        "/slow" => {
            creel::time::sleep(LONGER_THAN_IDLE).await;
            0
        }
        _ => body.await,
    };
    Ok(Response::new(format!("{path} {length};")))
}

fn start(max_idle_buffers: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let pool = Pool::builder().workers(1).build().unwrap();
        let serving =
            creel_hyper::serve(listener, service_fn(length)).max_idle_buffers(max_idle_buffers);
        pool.block_on(serving.until(std::future::pending::<()>()));
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    stream
}

/// Reads until `last` has arrived, and checks that nothing follows.
fn read_to(stream: &mut TcpStream, last: &str) -> String {
    let (mut all, mut some) = (String::new(), [0; 1024]);
    while !all.contains(last) {
        let read = retry(|| stream.read(&mut some)).expect(last);
        assert!(read > 0, "closed before {last}: {all}");
        all.push_str(std::str::from_utf8(&some[..read]).unwrap());
    }
    assert!(all.ends_with(last), "{all}");
    all
}

fn ask(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    read_to(stream, &format!("{path} 0;"));
}

/// Returns whether a condition becomes true before the timeout.
fn becomes_true(is_so: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > HANG_TIMEOUT {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}

/// This is one test, because the count of allocated bytes covers the whole process.
#[test]
fn an_idle_connection_takes_little_memory_and_still_works() {
    let address = start(usize::MAX);
    ask(&mut connect(address), "/warm");
    let before = ALLOCATED.load(Relaxed);
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(address)).collect();
    for round in 0..2 {
        let begin = Instant::now();
        for stream in &mut streams {
            ask(stream, &format!("/{round}"));
        }
        let busy = (ALLOCATED.load(Relaxed) - before) / CONNECTIONS;
        // On a slow machine, the first connections may be idle again. We then skip this check.
        if begin.elapsed() < SHORTER_THAN_IDLE {
            assert!(
                busy > 2 * IDLE_BYTES_MAX,
                "{busy} bytes per busy connection"
            );
        }
        let most = before + CONNECTIONS * IDLE_BYTES_MAX;
        let rests = becomes_true(|| ALLOCATED.load(Relaxed) <= most);
        let each = ALLOCATED.load(Relaxed).saturating_sub(before) / CONNECTIONS;
        assert!(rests, "{each} bytes per idle connection");
    }
    let stream = &mut streams[0];
    // An idle connection gets a request head in parts, and then an incomplete one.
    stream.write_all(b"G").unwrap();
    thread::sleep(Duration::from_millis(20));
    let requests = b"ET /a HTTP/1.1\r\nhost: a\r\n\r\nGET /b HTTP/1.1\r\nhost: a\r\n\r\nGET /c";
    stream.write_all(requests).unwrap();
    read_to(stream, "/b 0;");
    thread::sleep(LONGER_THAN_IDLE);
    stream.write_all(b" HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    read_to(stream, "/c 0;");
    // No bytes are sent in either direction, but these connections are not idle, because their
    // requests are not complete or not answered.
    ask(stream, "/slow");
    let head = b"POST /d HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n12";
    stream.write_all(head).unwrap();
    thread::sleep(LONGER_THAN_IDLE);
    stream.write_all(b"345").unwrap();
    read_to(stream, "/d 5;");
    let stream = &mut streams[1];
    let head = b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n12";
    stream.write_all(head).unwrap();
    read_to(stream, "/early 0;");
    thread::sleep(LONGER_THAN_IDLE);
    stream.write_all(b"345").unwrap();
    ask(stream, "/after");
    assert!(becomes_true(|| LATE.load(Relaxed) == 5), "{LATE:?}");
    drop(streams);
    few_connections_keep_their_buffers();
    clients_with_regular_requests_keep_their_buffers();
}

/// Checks that the server does not free the buffers of connections between two requests of a client
/// that asks every 500 ms. The test moves the clock of the server.
fn clients_with_regular_requests_keep_their_buffers() {
    let clock = Clock::manual();
    let pool = Pool::builder().workers(1).clock(clock.clone());
    let pool = pool.build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = creel_hyper::serve(listener, service_fn(length));
    let server = pool.spawn(serving.until(std::future::pending::<()>()));
    // Moves the clock by 501 ms, and after each of them waits until the server has run everything
    // that is due. Therefore two requests are not further apart if the server is slow.
    let pass = || {
        for _ in 0..=500 {
            // Between two of these calls, the worker checks its tasks and timers.
            (0..3).for_each(|_| pool.run_on(0, || ()).unwrap());
            clock.advance(Duration::from_millis(1));
        }
    };
    ask(&mut connect(address), "/warm");
    let before = ALLOCATED.load(Relaxed);
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(address)).collect();
    let mut each = Vec::new();
    for round in 0..3 {
        for stream in &mut streams {
            ask(stream, &format!("/{round}"));
        }
        pass();
        each.push(ALLOCATED.load(Relaxed).saturating_sub(before) / CONNECTIONS);
    }
    // The first request alone does not show that the client asks regularly.
    assert!(each[0] <= IDLE_BYTES_MAX, "{each:?} bytes per connection");
    assert!(
        each[1..].iter().all(|bytes| *bytes > 2 * IDLE_BYTES_MAX),
        "{each:?} bytes per connection"
    );
    server.abort();
}

/// Checks the setting `max_idle_buffers`, which limits the number of connections that keep hyper's
/// buffers. Even if many connections have just had a request, only a few of them keep their
/// buffers.
fn few_connections_keep_their_buffers() {
    let address = start(10);
    ask(&mut connect(address), "/warm");
    let before = ALLOCATED.load(Relaxed);
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(address)).collect();
    let begin = Instant::now();
    for round in 0..3 {
        for stream in &mut streams {
            ask(stream, &format!("/{round}"));
        }
    }
    let most = CONNECTIONS * IDLE_BYTES_MAX + 20 * 11_000;
    let each = ALLOCATED.load(Relaxed).saturating_sub(before);
    // We check the memory early, because after a second or two all connections would have freed
    // their buffers in any case.
    if begin.elapsed() < SHORTER_THAN_IDLE {
        assert!(each <= most, "{} bytes per connection", each / CONNECTIONS);
    }
}

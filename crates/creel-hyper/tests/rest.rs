//! Connections at rest, between two requests: they cost little, and go on as if nothing had been.

use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use creel::Pool;
use creel::net::TcpListener;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Request, Response, service::service_fn};

/// For what must come: only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// After so long a connection that has nothing to do is at rest.
const LONGER_THAN_REST: Duration = Duration::from_millis(2_500);
const SHORTER_THAN_REST: Duration = Duration::from_millis(150);
const CONNECTIONS: usize = 200;
/// What a connection may take that is at rest: its task, its socket's place, its share of tables.
const AT_REST_BYTES: usize = 2_500;

/// The system's allocator, and how much is allocated.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator, to which each call is passed on as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of bodies that came after their answers.
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
            creel::time::sleep(LONGER_THAN_REST).await;
            0
        }
        _ => body.await,
    };
    Ok(Response::new(format!("{path} {length};")))
}

fn start(most_awake: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let pool = Pool::builder().workers(1).build().unwrap();
        let serving = creel_hyper::serve(listener, service_fn(length)).most_awake(most_awake);
        pool.block_on(serving.until(std::future::pending::<()>()));
    });
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads until `last` has come, and nothing beyond it.
fn read_to(stream: &mut TcpStream, last: &str) -> String {
    let (mut all, mut some) = (String::new(), [0; 1024]);
    while !all.contains(last) {
        let read = stream.read(&mut some).expect(last);
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

/// Whether something comes to be, within a bounded time.
fn comes(is_so: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}

/// One test, since what is allocated is the process's.
#[test]
fn a_connection_at_rest_costs_little_and_goes_on() {
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
        // On a machine that took longer, the first are at rest again.
        if begin.elapsed() < SHORTER_THAN_REST {
            assert!(busy > 2 * AT_REST_BYTES, "{busy} bytes a connection");
        }
        let most = before + CONNECTIONS * AT_REST_BYTES;
        let rests = comes(|| ALLOCATED.load(Relaxed) <= most);
        let each = ALLOCATED.load(Relaxed).saturating_sub(before) / CONNECTIONS;
        assert!(rests, "{each} bytes a connection");
    }
    let stream = &mut streams[0];
    // From rest: a head in pieces, and another that comes in part.
    stream.write_all(b"G").unwrap();
    thread::sleep(Duration::from_millis(20));
    let requests = b"ET /a HTTP/1.1\r\nhost: a\r\n\r\nGET /b HTTP/1.1\r\nhost: a\r\n\r\nGET /c";
    stream.write_all(requests).unwrap();
    read_to(stream, "/b 0;");
    thread::sleep(LONGER_THAN_REST);
    stream.write_all(b" HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    read_to(stream, "/c 0;");
    // Nothing goes to and fro, and yet it is not at rest.
    ask(stream, "/slow");
    let head = b"POST /d HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n12";
    stream.write_all(head).unwrap();
    thread::sleep(LONGER_THAN_REST);
    stream.write_all(b"345").unwrap();
    read_to(stream, "/d 5;");
    let stream = &mut streams[1];
    let head = b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n12";
    stream.write_all(head).unwrap();
    read_to(stream, "/early 0;");
    thread::sleep(LONGER_THAN_REST);
    stream.write_all(b"345").unwrap();
    ask(stream, "/after");
    assert!(comes(|| LATE.load(Relaxed) == 5), "{LATE:?}");
    drop(streams);
    few_are_awake();
}

/// Of many that ask at the same time, few hold buffers at the same time.
fn few_are_awake() {
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
    let most = CONNECTIONS * AT_REST_BYTES + 20 * 11_000;
    let each = ALLOCATED.load(Relaxed).saturating_sub(before);
    // Later all are at rest anyhow.
    if begin.elapsed() < SHORTER_THAN_REST {
        assert!(each <= most, "{} bytes a connection", each / CONNECTIONS);
    }
}

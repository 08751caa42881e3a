//! Runs the examples as users do. Each example runs in a process of its own and prints its address.
//! We send Ctrl-C to the examples that handle it, and kill the others.

use std::fs;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use async_tungstenite::tungstenite::Message;
use creel::Pool;
use creel::net::TcpStream;
use creel_hyper::Io;
use futures_rustls::TlsConnector;
use futures_rustls::rustls::{ClientConfig, RootCertStore, pki_types::ServerName};
use futures_util::{AsyncReadExt, AsyncWriteExt, StreamExt};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::{Request, Response};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

#[path = "../examples/axum.rs"]
mod axum_app;
#[path = "../examples/axum_websocket.rs"]
mod axum_websocket;
#[path = "../examples/grpc.rs"]
mod grpc;
#[path = "../examples/per_core.rs"]
mod per_core;
#[path = "../../creel/tests/retry/mod.rs"]
mod retry;
#[path = "../examples/server.rs"]
mod server;
#[path = "../examples/tls_proxy.rs"]
mod tls_proxy;
#[path = "../examples/websocket.rs"]
mod websocket;
use retry::retry;

/// The timeout of all waits. It is long, because only a test that hangs should reach it.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// The environment variable with the name of the example that this process runs.
const EXAMPLE: &str = "CREEL_HYPER_EXAMPLE";

/// Runs the example that the variable names. The other tests start this one in a child process.
/// Without the variable it does nothing.
#[test]
fn example() {
    let name = std::env::var(EXAMPLE).unwrap_or_default();
    let ended = match name.as_str() {
        "axum" => axum_app::main(),
        "axum_websocket" => axum_websocket::main(),
        "grpc" => grpc::main(),
        "per_core" => per_core::main(),
        "server" => server::main(),
        "tls_proxy" => tls_proxy::main(),
        "websocket" => websocket::main(),
        _ => Ok(()),
    };
    ended.unwrap();
}

/// An example in a process of its own, which is killed on drop.
struct Running {
    process: Child,
    /// We keep the pipe open, because the process would otherwise fail when it prints.
    stdout: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Running {
    fn start(name: &str) -> Self {
        Self::start_in(name, Path::new("."), "")
    }

    fn start_in(name: &str, folder: &Path, server: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "example", "--nocapture"])
            .env(EXAMPLE, name)
            .env("LISTEN", "127.0.0.1:0")
            .env("SERVER", server)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let address = stdout
            .by_ref()
            .lines()
            .map(Result::unwrap)
            .find_map(|line| line.rsplit_once("://")?.1.parse().ok());
        Running {
            process,
            stdout,
            address: address.expect("the example printed no address"),
        }
    }

    fn connect(&self) -> std::net::TcpStream {
        let stream = std::net::TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends Ctrl-C and checks that the process ends successfully.
    fn interrupt(mut self) {
        let id = self.process.id().to_string();
        let killed = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(killed.success());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert!(self.process.wait().unwrap().success(), "{rest}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs a client on its own pool, with a timeout.
fn on_a_pool<T>(client: impl Future<Output = T>) -> T {
    let pool = Pool::builder().workers(2).build().unwrap();
    let bounded = async { creel::time::timeout(HANG_TIMEOUT, client).await };
    pool.block_on(bounded)
        .expect("the example did not answer in time")
}

#[test]
fn a_server_answers_and_shuts_down() {
    for example in ["server", "per_core"] {
        answers_and_shuts_down(example);
    }
}

fn answers_and_shuts_down(example: &str) {
    let server = Running::start(example);
    assert!(server.get("/there").ends_with("\r\n\r\nhello, /there\n"));
    let mut kept = server.connect();
    kept.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        .unwrap();
    let mut some = [0; 512];
    assert!(retry(|| kept.read(&mut some)).unwrap() > 0);
    server.interrupt();
    assert_eq!(
        retry(|| kept.read(&mut some)).unwrap(),
        0,
        "an idle connection must be closed"
    );
}

/// Acts as a client that misbehaves in one of several ways: a reset, half a request, silence, a
/// half-closed connection, or a flood of requests whose responses it does not read.
#[cfg(target_os = "linux")]
fn misbehave(server: &Running, way: usize) {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    let mut stream = server.connect();
    match way {
        0 => {
            stream.write_all(REQUEST).unwrap();
            let reset = socket2::SockRef::from(&stream);
            reset.set_linger(Some(Duration::ZERO)).unwrap();
        }
        1 => stream.write_all(&REQUEST[..9]).unwrap(),
        2 => {}
        3 => {
            stream.write_all(REQUEST).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        }
        _ => {
            let small = socket2::SockRef::from(&stream);
            small.set_recv_buffer_size(4_096).unwrap();
            small.set_send_buffer_size(4_096).unwrap();
            stream.set_nonblocking(true).unwrap();
            let flood = REQUEST.repeat(1_000);
            while stream.write(&flood).is_ok() {}
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn bad_clients_leak_neither_files_nor_memory() {
    let server = Running::start("server");
    let process = PathBuf::from(format!("/proc/{}", server.process.id()));
    let files = || fs::read_dir(process.join("fd")).unwrap().count();
    let pages = || {
        let statm = fs::read_to_string(process.join("statm")).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
    };
    let settle = |open: usize| {
        let begin = std::time::Instant::now();
        while files() > open {
            assert!(begin.elapsed() < HANG_TIMEOUT, "{} for {open}", files());
            thread::sleep(Duration::from_millis(5));
        }
    };
    assert!(server.get("/").ends_with("hello, /\n"));
    let open = files();
    let bad = |count: usize| {
        (0..count).for_each(|number| misbehave(&server, number % 4));
        (0..5).for_each(|_| misbehave(&server, 4));
    };
    bad(200);
    settle(open);
    // We allow 8 MB, because the amount of free memory that the heap keeps varies. For example, the
    // heap keeps more if the server was slow and many connections were open at once. A leak would
    // grow with each thousand connections.
    let keeps_no_more = |_| {
        let held = pages();
        bad(1_000);
        settle(open);
        eprintln!("{held} pages before, {} pages now", pages());
        pages() < held + 2_048
    };
    assert!((0..10).any(keeps_no_more));
    assert!(server.get("/").ends_with("hello, /\n"));
    server.interrupt();
}

#[test]
fn an_axum_application_answers_and_shuts_down() {
    let server = Running::start("axum");
    assert!(server.get("/square/12").ends_with("\r\n\r\n144"));
    assert!(server.get("/square/x").starts_with("HTTP/1.0 400"));
    server.interrupt();
}

/// Sends some messages to a WebSocket that echoes them, and closes it.
fn talk_to_an_echo(server: &Running, path: &str) {
    on_a_pool(async {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let url = format!("ws://localhost{path}");
        let opened = async_tungstenite::client_async(url, stream).await;
        let (mut socket, _) = opened.unwrap();
        let messages = [
            Message::text("hello"),
            Message::binary(vec![7; 1 << 20]),
            Message::text(""),
        ];
        for message in messages {
            socket.send(message.clone()).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), message);
        }
        socket.close(None).await.unwrap();
        while let Some(message) = socket.next().await {
            assert!(message.unwrap().is_close());
        }
    });
}

#[test]
fn websockets_are_echoed() {
    talk_to_an_echo(&Running::start("websocket"), "/");
}

#[test]
fn an_axum_route_can_upgrade_to_a_websocket() {
    let server = Running::start("axum_websocket");
    talk_to_an_echo(&server, "/echo");
    assert!(server.get("/echo").starts_with("HTTP/1.0 400"));
    assert!(server.get("/").ends_with("hello"));
    server.interrupt();
}

/// A temporary folder with a new certificate. It is deleted on drop.
struct Certified {
    folder: PathBuf,
    roots: RootCertStore,
}

impl Certified {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("creel-hyper-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
        fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        Certified { folder, roots }
    }
}

impl Drop for Certified {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Reads a connection to its end and then sends all bytes back twice.
fn twice(mut stream: std::net::TcpStream) -> io::Result<()> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all)?;
    stream.write_all(&all)?;
    stream.write_all(&all)?;
    stream.shutdown(Shutdown::Write)
}

#[test]
fn a_tls_proxy_forwards_data_and_both_ends_of_a_stream() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    let behind = backend.local_addr().unwrap().to_string();
    thread::spawn(move || backend.incoming().try_for_each(|stream| twice(stream?)));
    let certified = Certified::new();
    let proxy = Running::start_in("tls_proxy", &certified.folder, &behind);
    // A client that does not use TLS is disconnected, and the others are served.
    let mut plain = proxy.connect();
    plain.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let _ = plain.read_to_end(&mut Vec::new());
    let config = ClientConfig::builder()
        .with_root_certificates(certified.roots.clone())
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let said: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    on_a_pool(async {
        for _ in 0..2 {
            let stream = TcpStream::connect(proxy.address).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let mut stream = connector.connect(name, stream).await.unwrap();
            stream.write_all(&said).await.unwrap();
            stream.close().await.unwrap();
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard).await.unwrap();
            assert!(heard == said.repeat(2), "{} bytes", heard.len());
        }
    });
}

/// An HTTP/2 connection with the interface that tonic's clients need.
#[derive(Clone)]
struct Channel(http2::SendRequest<tonic::body::Body>);

impl tower_service::Service<Request<tonic::body::Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = hyper::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

#[test]
fn grpc_and_http_1_are_served_on_the_same_port() {
    let server = Running::start("grpc");
    on_a_pool(async {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let opened = http2::handshake(creel_hyper::Executor, Io(stream)).await;
        let (sender, connection) = opened.unwrap();
        creel::task::spawn(connection);
        let origin = format!("http://{}", server.address).parse().unwrap();
        let client = HealthClient::with_origin(Channel(sender), origin);
        let mut calls = creel::task::JoinSet::new();
        for number in 0..100 {
            let mut client = client.clone();
            let service = ["songs", "films"][number % 2].to_owned();
            calls.spawn(async move {
                let answer = client.check(HealthCheckRequest { service }).await;
                match number % 2 {
                    0 => assert_eq!(answer.unwrap().get_ref().status, 1),
                    _ => assert_eq!(answer.unwrap_err().code(), tonic::Code::NotFound),
                }
            });
        }
        while let Some(call) = calls.join_next().await {
            call.unwrap();
        }
    });
    assert!(server.get("/").starts_with("HTTP/1.0 "));
    // A request that only begins like the preface of HTTP/2 is not HTTP/2.
    for begun in [
        "PRI * HTTP/1.1\r\nconnection: close\r\n\r\n",
        "PROPFIND / HTTP/1.0\r\n\r\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1."), "{begun}: {answer}");
    }
    // A connection that has used HTTP/1 cannot change to HTTP/2, even after its state was freed
    // because it was idle.
    let mut stream = server.connect();
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut some = [0; 1024];
    assert!(retry(|| stream.read(&mut some)).unwrap() > 0);
    std::thread::sleep(Duration::from_millis(2_500));
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    stream.write_all(preface.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"));
    server.interrupt();
}

/// Returns the number of lines that are neither empty nor comments.
fn lines(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    text.lines().filter(is_code).count()
}

#[test]
fn examples_are_at_most_a_tenth_longer_than_those_on_tokio() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for name in ["server.rs", "axum.rs", "websocket.rs", "tls_proxy.rs"] {
        let (own, tokios) = (
            lines(&folder.join(name)),
            lines(&folder.join("tokio").join(name)),
        );
        assert!(
            own * 10 <= tokios * 11,
            "{name} has {own} lines, and {tokios} lines on tokio"
        );
    }
}

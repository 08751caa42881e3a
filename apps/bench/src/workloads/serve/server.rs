//! The server in a process of its own, which is this program, started with [`SERVER`] and a
//! request.
//!
//! It prints its address, and then its usage for each line that it reads. It ends when its input
//! ends.

use std::convert::Infallible;
use std::ffi::OsString;
use std::future::IntoFuture;
use std::io::{BufRead, BufReader, Lines, Write, stdin, stdout};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, anyhow};
use creel_console::Exit;
use creel_hyper::Io;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request as Asked, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde::{Deserialize, Serialize};

use crate::clock::process_cpu_s;
use crate::memory::{give_back, rss_bytes};

/// The first argument of a server process. The second one is the request in JSON.
pub const SERVER: &str = "serve-server";

/// The runtime of a server.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Runtime {
    /// A pool with `creel_hyper::serve`, which has timeouts and a graceful shutdown.
    Creel,
    /// One pool per worker, each with a listener and a `creel_hyper::serve` of its own.
    CreelPerCore,
    /// A pool with hyper's connection alone.
    CreelBare,
    /// tokio with hyper's connection alone. With one worker, it is the current-thread runtime.
    Tokio,
    /// tokio with hyper's timeout for heads and hyper-util's graceful shutdown.
    TokioGraceful,
}

/// The parameters of a server, which we pass to its process as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The runtime.
    pub runtime: Runtime,
    /// The number of workers.
    pub workers: usize,
    /// The size of a response's body in bytes.
    pub bytes: usize,
}

/// The resources that a server has used.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// The CPU time since the start, without the time for returning memory to the system.
    pub cpu_s: f64,
    /// The memory after the server has returned free memory to the system.
    pub rss_bytes: f64,
}

/// A running server. Dropping it ends the process.
pub struct Server {
    child: Child,
    /// The input of the server. `drop` takes it, which closes it.
    ask: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    /// The address of the server.
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server.
    pub fn start(request: &Request) -> anyhow::Result<Self> {
        let program = creel_console::system::own_program()
            .context("cannot find the program file of creel-bench, which starts itself again")?;
        let mut child = Command::new(program)
            .arg(SERVER)
            .arg(serde_json::to_string(request)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the server process")?;
        let ask = child.stdin.take();
        let stdout = child
            .stdout
            .take()
            .context("cannot read the output of the server: it is not piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let address = lines
            .next()
            .context("the server ended before it printed its address")??;
        Ok(Server {
            child,
            ask,
            lines,
            address: address.parse()?,
        })
    }

    /// Returns the resources that the server has used so far.
    pub fn usage(&mut self) -> anyhow::Result<Usage> {
        let ask = self.ask.as_mut().context("the server has ended")?;
        ask.write_all(b"\n")?;
        let line = self.lines.next().context("the server has ended")??;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.ask.take());
        let _ = self.child.wait();
    }
}

/// Runs in the server process: serves until the input ends, and prints the usage for each line of
/// input.
pub fn answer(request: Option<OsString>) -> anyhow::Result<Exit> {
    let request = request
        .and_then(|request| request.into_string().ok())
        .unwrap_or_default();
    let request: Request =
        serde_json::from_str(&request).context("cannot parse the request for a server")?;
    std::thread::spawn(move || {
        let mut giving_back_s = 0.0;
        for _ in stdin().lines() {
            let cpu_s = process_cpu_s();
            give_back();
            let usage = Usage {
                cpu_s: cpu_s - giving_back_s,
                rss_bytes: rss_bytes(),
            };
            giving_back_s += process_cpu_s() - cpu_s;
            let line = serde_json::to_string(&usage).unwrap_or_default();
            println!("{line}");
        }
        std::process::exit(0);
    });
    let body = Bytes::from(vec![b'x'; request.bytes]);
    match request.runtime {
        Runtime::Creel => creel(request.workers, body)?,
        Runtime::CreelPerCore => creel_per_core(request.workers, body)?,
        Runtime::CreelBare => creel_bare(request.workers, body)?,
        Runtime::Tokio => tokio(request.workers, body, false)?,
        Runtime::TokioGraceful => tokio(request.workers, body, true)?,
    }
    Ok(Exit::Done)
}

fn print_address(address: SocketAddr) -> anyhow::Result<()> {
    let mut out = stdout();
    writeln!(out, "{address}")?;
    Ok(out.flush()?)
}

/// Answers a request. All runtimes use this service.
async fn respond(_: Asked<Incoming>, body: Bytes) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(body)))
}

fn creel(workers: usize, body: Bytes) -> anyhow::Result<()> {
    let pool = creel::Pool::builder().workers(workers).build()?;
    let listener = creel::net::TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    print_address(listener.local_addr()?)?;
    let service = service_fn(move |asked| respond(asked, body.clone()));
    pool.block_on(pool.spawn(creel_hyper::serve(listener, service).into_future()))
        .map_err(|error| anyhow!("{error}"))
}

fn creel_per_core(workers: usize, body: Bytes) -> anyhow::Result<()> {
    let pools = creel_hyper::PerCore::pools(workers)?;
    let servers = creel_hyper::PerCore::bind(([127, 0, 0, 1], 0).into(), &pools)?;
    print_address(servers.local_addr()?)?;
    let service = service_fn(move |asked| respond(asked, body.clone()));
    // Each pool has a copy of the service, so that they share no counter.
    let server = move |listener| creel_hyper::serve(listener, service.clone());
    // The main thread only waits, because it belongs to none of the pools that serve.
    let main = creel::Pool::builder().workers(1).build()?;
    main.block_on(servers.until(std::future::pending::<()>(), server));
    Ok(())
}

fn creel_bare(workers: usize, body: Bytes) -> anyhow::Result<()> {
    let pool = creel::Pool::builder().workers(workers).build()?;
    let listener = creel::net::TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    print_address(listener.local_addr()?)?;
    let serve = async move {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let body = body.clone();
            let service = service_fn(move |asked| respond(asked, body.clone()));
            let connection = http1::Builder::new().serve_connection(Io(stream), service);
            creel::task::spawn(connection).detach();
        }
    };
    pool.block_on(pool.spawn(serve))
        .map_err(|error| anyhow!("{error}"))?
}

fn tokio(workers: usize, body: Bytes, is_graceful: bool) -> anyhow::Result<()> {
    let mut builder = match workers {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.worker_threads(workers).enable_all().build()?;
    let serve = async move {
        // We use the same backlog as Creel's listener. tokio's own bind uses 128, and a client that
        // finds the backlog full waits a second before it tries again.
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, 1], 0).into())?;
        let listener = socket.listen(1024)?;
        print_address(listener.local_addr()?)?;
        let graceful = GracefulShutdown::new();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let body = body.clone();
            let service = service_fn(move |asked| respond(asked, body.clone()));
            let mut http = http1::Builder::new();
            if is_graceful {
                let http = http.timer(TokioTimer::new());
                let serve = http.serve_connection(TokioIo::new(stream), service);
                tokio::spawn(graceful.watch(serve));
            } else {
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        }
    };
    runtime.block_on(async { tokio::spawn(serve).await? })
}

//! The server that the workload `serve` measures. It is a process of its own: this program, started
//! with [`SERVER`] and a request.
//!
//! It prints its address, and then its usage for each line that it reads. It ends when its input
//! ends. `http.rs` has the servers with hyper, and `raw.rs` and `peers.rs` those without a library.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Lines, Write, stdin, stdout};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context;
use creel_console::Exit;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::protocol::Protocol;
use super::{http, raw};
use crate::clock::process_cpu_s;
use crate::memory::{give_back, rss_bytes};

/// The first argument of a server process. The second one is the request in JSON.
pub const SERVER: &str = "serve-server";
/// The number of connections that may wait for a server to accept them, for all runtimes that let
/// us choose it. tokio's own `bind` uses 128, and a client that finds the queue full waits a second
/// before it tries again.
const BACKLOG: i32 = 1024;

/// The runtime of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Runtime {
    /// A pool. With hyper, it uses `creel_hyper::serve`, which has timeouts and a graceful shutdown.
    Creel,
    /// One pool per worker, each with a listener of its own.
    CreelPerCore,
    /// A pool with hyper's connections alone, without timeouts and a graceful shutdown.
    CreelBare,
    /// tokio. With hyper, it uses hyper's connections alone. With one worker, it is the
    /// current-thread runtime.
    Tokio,
    /// tokio with hyper's timeout for heads and hyper-util's graceful shutdown.
    TokioGraceful,
    /// One current-thread runtime of tokio per worker, each with a listener of its own.
    TokioPerCore,
    /// A loop around epoll per worker, without a runtime.
    Epoll,
    #[cfg(feature = "servers")]
    Smol,
    #[cfg(feature = "servers")]
    MonoioEpoll,
    #[cfg(feature = "servers")]
    MonoioUring,
    #[cfg(feature = "servers")]
    Compio,
    #[cfg(feature = "servers")]
    Glommio,
    #[cfg(feature = "servers")]
    May,
}

/// The service of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Service {
    /// A body of this many bytes over HTTP/1, with hyper.
    Http(usize),
    /// A message that is serialized for each request, over HTTP/1 with hyper.
    Json,
    /// A small body over HTTP/1 with hyper. One request in a hundred computes for a millisecond.
    Uneven,
    /// A body of this many bytes over HTTP/1 and TLS, with hyper.
    #[cfg(feature = "servers")]
    Https(usize, super::tls::Certificate),
    /// A body of this many bytes over HTTP/2, with hyper.
    #[cfg(feature = "servers")]
    Http2(usize),
    /// A protocol without a library.
    Raw(Protocol),
}

/// The parameters of a server, which we pass to its process as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The runtime.
    pub runtime: Runtime,
    /// The number of workers.
    pub workers: usize,
    /// What the server does.
    pub service: Service,
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
    let workers = request.workers;
    match request.service {
        Service::Raw(protocol) => match request.runtime {
            Runtime::Creel | Runtime::CreelBare => raw::creel(workers, protocol)?,
            Runtime::CreelPerCore => raw::creel_per_core(workers, protocol)?,
            Runtime::Tokio | Runtime::TokioGraceful => raw::tokio(workers, protocol)?,
            Runtime::TokioPerCore => raw::tokio_per_core(workers, protocol)?,
            Runtime::Epoll => raw::without_runtime(workers, protocol)?,
            #[cfg(feature = "servers")]
            Runtime::Smol => super::peers::smol(workers, protocol)?,
            #[cfg(feature = "servers")]
            Runtime::MonoioEpoll => super::peers::monoio_epoll(workers, protocol)?,
            #[cfg(feature = "servers")]
            Runtime::MonoioUring => super::peers::monoio_uring(workers, protocol)?,
            #[cfg(feature = "servers")]
            Runtime::Compio => super::peers::compio(workers, protocol)?,
            #[cfg(feature = "servers")]
            Runtime::Glommio => super::peers::glommio(workers, protocol)?,
            #[cfg(feature = "servers")]
            Runtime::May => super::peers::may(workers, protocol)?,
        },
        service => http::serve(request.runtime, workers, service)?,
    }
    Ok(Exit::Done)
}

/// Prints the address of the server, which accepts connections from now on.
pub fn print_address(address: SocketAddr) -> anyhow::Result<()> {
    let mut out = stdout();
    writeln!(out, "{address}")?;
    Ok(out.flush()?)
}

/// Returns sockets that listen on the same port, each with a queue of its own.
pub fn listeners(count: usize) -> io::Result<Vec<TcpListener>> {
    let mut address: SocketAddr = ([127, 0, 0, 1], 0).into();
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = bound(address)?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        let listener = TcpListener::from(socket);
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Returns a socket with this address, which others of this process may share.
pub fn bound(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Returns a runtime of tokio. With one worker, it is the current-thread runtime.
pub fn tokio_runtime(workers: usize) -> io::Result<tokio::runtime::Runtime> {
    let mut builder = match workers {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    builder.worker_threads(workers).enable_all().build()
}

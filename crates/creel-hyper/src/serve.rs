//! The server: accepts connections, spawns a task for each, and shuts down gracefully.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture, Ready, poll_fn, ready};
use std::io;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use creel::WorkerError;
use creel::net::{Connection, Listen, Listener, Stream};
use creel::task::{CancellationToken, JoinError, JoinSet};
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
#[cfg(feature = "http2")]
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper::{Request, Response};

use crate::Io;
use crate::connection::{self, Server, Settings};
use crate::event::{End, Event};
use crate::peer::Peer;
#[cfg(feature = "http2")]
use crate::{Executor, Timer};

/// The pause after an accept error that may last, for example because of too many open files.
const PAUSE: Duration = Duration::from_millis(20);
/// The default time to wait for connections during shutdown.
const GRACE: Duration = Duration::from_secs(30);
/// The default time in which a client must send the head of a request.
const HEAD: Duration = Duration::from_secs(30);
/// The default time after which we close a connection if its client reads nothing of a response.
const WRITE: Duration = Duration::from_secs(60);

/// The maximum number of bytes that the system accepts for a connection before it has sent them. The
/// system reports a connection as writable again when half of them are sent. Without this limit, its
/// buffer grows to some megabytes, and it reports the connection only after a third of them was
/// read. We would then take a client that reads all the time, but slowly, for one that reads nothing.
const UNSENT_BYTES: u32 = 128 << 10;

/// Creates a server for HTTP/1. It serves all connections of a listener with one shared service.
///
/// The server runs until its future is dropped, or until the future of [`until`](Serve::until) is
/// ready. With the feature `http2` it also serves clients that begin with HTTP/2.
///
/// The server and each of its connections are tasks of the pool on which you await the server. If a
/// handler blocks a worker, the other workers go on with them. An error of a connection ends only
/// that connection. If no more files can be opened, the server waits until some are closed. You can
/// set limits with the methods of [`Serve`].
///
/// The server closes an HTTP/1 connection in these cases:
///
/// - The client sends no complete request head within about 30 s, either after it connects or after
///   a response.
/// - The client reads nothing of its response for 60 s. See [`write_timeout`](Serve::write_timeout).
///
/// These limits do not apply to HTTP/2. To close an HTTP/2 connection whose client does not respond,
/// set hyper's `keep_alive_interval` in its settings for HTTP/2.
///
/// The service itself must limit the time that it waits for the body of a request.
///
/// If a client disconnects, the response in progress is dropped, as in hyper's own servers. The
/// same happens if a client closes its sending side early.
///
/// # Bodies that the service does not read
///
/// If a service responds before it has read the whole body of an HTTP/1 request, hyper reads only
/// what has already arrived. If that is not all, it closes the connection after the response. The
/// client does not know that, and may lose its next request. Therefore read the body to its end
/// first, or set the header `connection: close` in the response.
///
/// # Memory
///
/// An idle HTTP/1 connection takes about 1.7 KB instead of 16 KB. The exception is a connection whose
/// last request had a body, for example a `POST`: it keeps hyper's buffers, because we cannot find
/// out whether hyper has read the whole body. In all other cases, after a second or two without a
/// request we free hyper's buffers, and allocate them again when the client sends something. The
/// allocator decides whether this memory returns to the OS. With glibc, `malloc_trim(0)` returns
/// it.
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
///
/// use creel::net::{TcpListener, TcpStream};
/// use hyper::{Response, service::service_fn};
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
/// let address = listener.local_addr()?;
/// let service = service_fn(async |_| Ok::<_, Infallible>(Response::new("hello".to_owned())));
/// let answer = pool.block_on(async {
///     let client = async move {
///         let stream = TcpStream::connect(address).await?;
///         stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
///         let (mut answer, mut read) = (vec![0; 1024], 0);
///         loop {
///             match stream.read(&mut answer[read..]).await? {
///                 0 => break Ok::<_, std::io::Error>(answer[..read].to_vec()),
///                 more => read += more,
///             }
///         }
///     };
///     let (sender, done) = creel::channel::oneshot::channel();
///     creel::task::spawn(async move { sender.send(client.await) });
///     let mut answer = None;
///     creel_hyper::serve(listener, service)
///         .until(async { answer = Some(done.await) })
///         .await;
///     answer
/// });
/// assert!(answer.unwrap()??.ends_with(b"hello"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve<L: Listen, S>(listener: Listener<L>, service: S) -> Serve<L, S> {
    Serve {
        listener,
        handshake: |stream| ready(Ok(Io(stream))),
        max: usize::MAX,
        grace: GRACE,
        with_peer: false,
        on_event: Box::new(|_| {}),
        settings: Settings {
            service: Arc::new(service),
            head: HEAD,
            write: WRITE,
            max_idle_buffers: usize::MAX,
            http1: http1::Builder::new(),
            #[cfg(feature = "http2")]
            http2: http2_settings(),
        },
    }
}

/// A server that you can configure and await. [`serve()`] creates it.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use std::time::Duration;
///
/// use creel::net::TcpListener;
/// use hyper::server::conn::http1;
/// # use hyper::{Request, Response, body::Incoming, service::service_fn};
/// # let service = service_fn(async |_: Request<Incoming>| {
/// #     Ok::<_, std::io::Error>(Response::new(String::new()))
/// # });
///
/// let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
/// let mut settings = http1::Builder::new();
/// settings.max_headers(32).max_buf_size(16 << 10);
/// let server = creel_hyper::serve(listener, service)
///     .max_connections(20_000)
///     .head_timeout(Duration::from_secs(10))
///     .grace(Duration::from_secs(5))
///     .http1(settings);
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[must_use = "a server does nothing unless it is awaited"]
pub struct Serve<L: Listen, S, H = NoHandshake<<L as Listen>::Connection>> {
    listener: Listener<L>,
    handshake: H,
    max: usize,
    grace: Duration,
    with_peer: bool,
    on_event: Box<dyn FnMut(Event) + Send>,
    settings: Settings<S>,
}

/// The type of the default [handshake](Serve::handshake), which does nothing.
pub type NoHandshake<C> = fn(Stream<C>) -> Ready<io::Result<Io<C>>>;

/// Returns the default settings of HTTP/2.
#[cfg(feature = "http2")]
fn http2_settings() -> http2::Builder<Executor> {
    let mut settings = http2::Builder::new(Executor);
    settings.timer(Timer);
    settings
}

impl<L: Listen, S, H> Serve<L, S, H> {
    /// Sets a handshake that begins each connection, for example TLS.
    ///
    /// The server calls the function, and the task of the connection awaits the future that it
    /// returns. The server then serves the stream that the future returns. If the function panics,
    /// the server panics, and if the future panics, only its connection ends. The handshake and the
    /// first request head together must be complete within the [time](Self::head_timeout) for a
    /// head.
    ///
    /// `FuturesIo` in this example needs the feature `futures-io` of `creel`.
    ///
    /// ```no_run
    /// # use std::{convert::Infallible, io, sync::Arc};
    /// # use creel::net::{TcpListener, TcpStream};
    /// # use hyper::{Request, Response, body::Incoming, service::service_fn};
    /// # #[derive(Clone)]
    /// # struct TlsAcceptor;
    /// # impl TlsAcceptor { async fn accept(&self, stream: TcpStream) -> io::Result<TcpStream> { Ok(stream) } }
    /// # fn main() -> io::Result<()> {
    /// # let acceptor = TlsAcceptor;
    /// # let service = service_fn(async |_: Request<Incoming>| Ok::<_, Infallible>(Response::new(String::new())));
    /// let listener = TcpListener::bind("127.0.0.1:8443".parse().unwrap())?;
    /// // `acceptor` is a `TlsAcceptor` of the crate futures-rustls.
    /// let server = creel_hyper::serve(listener, service).handshake(move |stream| {
    ///     let acceptor = acceptor.clone();
    ///     async move { Ok(creel_hyper::FuturesIo(acceptor.accept(stream).await?)) }
    /// });
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn handshake<G, F, T>(self, handshake: G) -> Serve<L, S, G>
    where
        G: Fn(Stream<L::Connection>) -> F,
        F: Future<Output = io::Result<T>> + Send + 'static,
        T: Read + Write + Unpin + Send + 'static,
    {
        Serve {
            listener: self.listener,
            handshake,
            max: self.max,
            grace: self.grace,
            with_peer: self.with_peer,
            on_event: self.on_event,
            settings: self.settings,
        }
    }

    /// Sets a function that receives the events of connections, for example to count or log them.
    ///
    /// An event says that a connection was accepted or could not be accepted, or how a connection
    /// has ended. The server calls the function for one event after the other. While the function
    /// runs, the server accepts no connections. If the function panics, the server panics. If you
    /// drop the server's future, the function is dropped soon after that, without further events.
    ///
    /// If the server has too many open files, it tries again every 20 ms and reports each attempt, so
    /// do not log all of them.
    ///
    /// ```
    /// # fn main() -> std::io::Result<()> {
    /// # use hyper::{Request, Response, body::Incoming, service::service_fn};
    /// # let service = service_fn(async |_: Request<Incoming>| {
    /// #     Ok::<_, std::io::Error>(Response::new(String::new()))
    /// # });
    /// use creel_hyper::{End, Event};
    ///
    /// let listener = creel::net::TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    /// let mut open = 0;
    /// let server = creel_hyper::serve(listener, service).on_event(move |event| match event {
    ///     Event::Accepted => open += 1,
    ///     Event::NotAccepted(error) => eprintln!("{error}; {open} connections are open"),
    ///     Event::Ended(end) => {
    ///         open -= 1;
    ///         if let End::Failed(error) = end {
    ///             eprintln!("{error}");
    ///         }
    ///     }
    ///     _ => {}
    /// });
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_event(mut self, on_event: impl FnMut(Event) + Send + 'static) -> Self {
        self.on_event = Box::new(on_event);
        self
    }

    /// Limits the number of connections, including idle ones. A connection that was upgraded, for
    /// example to WebSocket, belongs to your code and does not count any more.
    ///
    /// Further clients wait in the listener's queue until a connection ends. By default, only the
    /// limit of open files applies.
    pub fn max_connections(mut self, max: usize) -> Self {
        self.max = max;
        self
    }

    /// Limits the number of HTTP/1 connections that keep hyper's buffers while they have no
    /// request.
    ///
    /// These buffers take at least 16 KB per connection. A connection beyond the limit frees its
    /// buffers after each response to a request without a body, which costs one or two microseconds
    /// per request. By default,
    /// all connections keep their buffers for up to two seconds.
    pub fn max_idle_buffers(mut self, max: usize) -> Self {
        self.settings.max_idle_buffers = max;
        self
    }

    /// Limits the time in which a client must send the head of a request.
    ///
    /// The time starts when the client connects and after each response. It is accurate to a second
    /// or two. The default is 30 s. The limit applies to an HTTP/2 connection only until its first
    /// bytes have arrived.
    ///
    /// After a request with a body, the time starts again whenever the client has sent another 64 KB,
    /// because these bytes may still belong to the body.
    pub fn head_timeout(mut self, limit: Duration) -> Self {
        self.settings.head = limit;
        self
    }

    /// Limits the time for which a client may read nothing of an HTTP/1 response.
    ///
    /// The time is accurate to a second or two. The default is 60 s.
    ///
    /// The server does not see what the client reads. It only sees that the system accepts more bytes.
    /// On Linux, this is so whenever the client has read between 64 and 400 KB of a TCP connection,
    /// depending on its own buffer. With the default, a client that reads 7 KB/s is therefore never
    /// closed. On other systems the server notices less, because their buffers may have some
    /// megabytes, of which a large part must be read.
    pub fn write_timeout(mut self, limit: Duration) -> Self {
        self.settings.write = limit;
        self
    }

    /// Sets how long a shutdown waits for responses in progress. After this time, the server drops
    /// them. The default is 30 s.
    ///
    /// ```
    /// # use hyper::{Request, Response, body::Incoming, service::service_fn};
    /// # fn main() -> std::io::Result<()> {
    /// # let service = service_fn(async |_: Request<Incoming>| {
    /// #     Ok::<_, std::io::Error>(Response::new(String::new()))
    /// # });
    /// use std::time::Duration;
    ///
    /// let listener = creel::net::TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    /// let server = creel_hyper::serve(listener, service).grace(Duration::from_secs(5));
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn grace(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }

    /// Adds the address of the client to the extensions of each request, as a
    /// [`Peer`]. Without this method, the service does not see it.
    ///
    /// ```no_run
    /// # use std::{convert::Infallible, io, net::SocketAddr};
    /// # use hyper::{Request, Response, body::Incoming, service::service_fn};
    /// # fn main() -> io::Result<()> {
    /// let listener = creel::net::TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    /// let service = service_fn(async |request: Request<Incoming>| {
    ///     let peer = request.extensions().get::<creel_hyper::Peer<SocketAddr>>();
    ///     let addr = peer.map(creel_hyper::Peer::addr);
    ///     Ok::<_, Infallible>(Response::new(format!("you are {addr:?}")))
    /// });
    /// let server = creel_hyper::serve(listener, service).with_peer();
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_peer(mut self) -> Self {
        self.with_peer = true;
        self
    }

    /// Sets hyper's own settings for HTTP/1, for example sizes, half-closed connections and
    /// keep-alive.
    ///
    /// If you set one of hyper's timeouts, you must also set the timer with
    /// `settings.timer(creel_hyper::Timer)`.
    ///
    /// ```
    /// # use hyper::{Request, Response, body::Incoming, service::service_fn};
    /// # fn main() -> std::io::Result<()> {
    /// # let service = service_fn(async |_: Request<Incoming>| {
    /// #     Ok::<_, std::io::Error>(Response::new(String::new()))
    /// # });
    /// use hyper::server::conn::http1;
    ///
    /// let mut settings = http1::Builder::new();
    /// settings.max_buf_size(64 << 10).keep_alive(false);
    /// let listener = creel::net::TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    /// let server = creel_hyper::serve(listener, service).http1(settings);
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    pub fn http1(mut self, settings: http1::Builder) -> Self {
        self.settings.http1 = settings;
        self
    }

    /// Sets hyper's own settings for HTTP/2, for example windows, the number of streams and pings.
    ///
    /// ```
    /// # use hyper::{Request, Response, body::Incoming, service::service_fn};
    /// # fn main() -> std::io::Result<()> {
    /// # let service = service_fn(async |_: Request<Incoming>| {
    /// #     Ok::<_, std::io::Error>(Response::new(String::new()))
    /// # });
    /// use hyper::server::conn::http2;
    ///
    /// let mut settings = http2::Builder::new(creel_hyper::Executor);
    /// settings.max_concurrent_streams(50);
    /// let listener = creel::net::TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
    /// let server = creel_hyper::serve(listener, service).http2(settings);
    /// # drop(server);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "http2")]
    pub fn http2(mut self, mut settings: http2::Builder<Executor>) -> Self {
        settings.timer(Timer);
        self.settings.http2 = settings;
        self
    }
}

impl<L: Listen, S, H> fmt::Debug for Serve<L, S, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

impl<L, S, B, H, F, T> Serve<L, S, H>
where
    L: Listen,
    H: Fn(Stream<L::Connection>) -> F + Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
    T: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Serves until `stop` is ready, and then shuts down gracefully.
    ///
    /// During shutdown the server accepts no connections. It waits for responses in progress, up to
    /// the [grace](Serve::grace) time, and returns. It responds only to the first of several
    /// requests that a client has sent without waiting. It does not wait longer than a second or two
    /// for HTTP/1 connections without a complete request head, and not at all for upgraded
    /// connections such as WebSockets. For an HTTP/2 client that does not react, it waits for the
    /// whole grace time.
    ///
    /// If you drop the future, all connections end soon after that, with their requests.
    ///
    /// Only the thread that awaits this future polls `stop`. A caller of `block_on` also runs tasks
    /// of the pool, so if one of them blocks this thread, the server notices `stop` later. To avoid
    /// this, spawn the future: `pool.block_on(pool.spawn(server.until(stop)))`.
    ///
    /// # Panics
    ///
    /// Panics if a function that you passed to [`on_event`](Serve::on_event) or
    /// [`handshake`](Serve::handshake) panics, or if the operating system refuses a thread for the
    /// server.
    pub async fn until(self, stop: impl Future) {
        let stopping = CancellationToken::new();
        // The server is a task of its own. Otherwise, if a caller of `block_on` awaits it, only that
        // thread could accept connections, and it may be stuck in a handler.
        let serving = creel::task::spawn(self.run(stopping.clone())).abort_on_drop();
        let (mut serving, mut stop) = (pin!(serving), pin!(stop));
        let ended = poll_fn(|cx| {
            // A server that ends before `stop` is ready has panicked, or its pool has ended.
            if let Poll::Ready(ended) = serving.as_mut().poll(cx) {
                return Poll::Ready(Some(ended));
            }
            stop.as_mut().poll(cx).map(|_| None)
        });
        let ended = match ended.await {
            Some(ended) => ended,
            None => {
                stopping.cancel();
                serving.await
            }
        };
        check(ended);
    }

    /// Serves until `stopping` is cancelled, and then shuts down gracefully.
    async fn run(self, stopping: CancellationToken) {
        let Serve {
            listener,
            handshake,
            max,
            grace,
            with_peer,
            mut on_event,
            settings,
        } = self;
        let server = Arc::new(Server::new(settings));
        // The task must not keep the service alive, because it may end after this function returns.
        let sweep = Arc::clone(&server.sweep);
        let _sweep = creel::task::spawn(async move { sweep.run().await }).abort_on_drop();
        let mut connections = JoinSet::new();
        let mut stop = stopping.cancelled();
        loop {
            let accepted = poll_fn(|cx| {
                if Pin::new(&mut stop).poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                while let Poll::Ready(Some(ended)) = connections.poll_join_next(cx) {
                    on_event(Event::Ended(how(ended)));
                }
                if connections.len() >= max {
                    return Poll::Pending;
                }
                listener.poll_accept(cx).map(Some)
            });
            match accepted.await {
                None => break,
                Some(Ok((stream, address))) => {
                    on_event(Event::Accepted);
                    // We ignore errors of these settings, because they probably mean that the
                    // connection is broken. The first read will report that.
                    let _ = stream.as_std().without_delay();
                    let _ = stream.as_std().limit_unsent(UNSENT_BYTES);
                    let begin = handshake(stream);
                    let peer = with_peer.then(|| Peer::new(address));
                    let server = Arc::clone(&server);
                    connections.spawn(connection::serve(begin, server, peer));
                }
                Some(Err(error)) => {
                    let is_over = is_of_one_connection(&error);
                    on_event(Event::NotAccepted(error));
                    if !is_over {
                        creel::time::sleep(PAUSE).await;
                    }
                }
            }
        }
        drop(listener);
        server.stopping.cancel();
        let ended = async {
            while let Some(ended) = connections.join_next().await {
                on_event(Event::Ended(how(ended)));
            }
        };
        if creel::time::timeout(grace, ended).await.is_err() {
            // Dropping the set at the end of this function cancels the remaining connections.
            for _ in 0..connections.len() {
                on_event(Event::Ended(End::Cut));
            }
        }
    }
}

/// Checks how the task of a server has ended. We accept that its pool has ended, because the program
/// may end pools at any time.
///
/// # Panics
///
/// Panics if the task has panicked, or if the operating system refused a thread for it.
pub(crate) fn check(ended: Result<(), JoinError>) {
    match ended {
        Err(JoinError::Panicked(panic)) => resume_unwind(panic.into_payload()),
        Err(JoinError::Spawn(error @ WorkerError::NoThread(_))) => {
            panic!("cannot start the server: {error}")
        }
        _ => {}
    }
}

/// Returns how a connection has ended, from the result of its task.
fn how(ended: Result<End, JoinError>) -> End {
    match ended {
        Ok(end) => end,
        Err(JoinError::Panicked(_)) => End::Panicked,
        Err(_) => End::Cut,
    }
}

impl<L, S, B, H, F, T> IntoFuture for Serve<L, S, H>
where
    L: Listen,
    H: Fn(Stream<L::Connection>) -> F + Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
    T: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.until(std::future::pending::<()>()))
    }
}

/// Returns whether an accept error concerns one connection only, so that the next accept may
/// succeed.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

//! A server: takes connections, gives each a task, and comes to an end when it is told.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture, Ready, poll_fn, ready};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;
use std::time::Duration;

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
use crate::connection::{self, Shared};
use crate::event::{End, Event};
#[cfg(feature = "http2")]
use crate::{Executor, Timer};

/// After an error that will not be gone at once, such as too many open files.
const PAUSE: Duration = Duration::from_millis(20);
/// For which those who are still connected are waited for in the end.
const GRACE: Duration = Duration::from_secs(30);
/// Who has not sent the head of a request by then is not waited for.
const HEAD: Duration = Duration::from_secs(30);
/// Nor is one that has taken nothing of its answer for so long.
const WRITE: Duration = Duration::from_secs(60);

/// Serves HTTP/1 to all who connect, with a service that all share; until the future is dropped, or
/// [told](Serve::until). With the feature `http2` it serves that, too, to those who begin with it.
///
/// Each connection is a task of the pool that awaits this. One that sends no head of a request for
/// some 30 s, or asks nothing for that long after an answer, is closed, and so is one that takes
/// nothing of its answer for 60 s; a body that the client does not send on is the service's to give
/// up on. When a client leaves, the answer that is being made is dropped, as it is
/// by hyper's servers elsewhere; so is one to a client that closes its sending side early. An error of
/// a connection ends that one. When no more files may be opened, it waits until some are closed.
/// Limits are set by the methods of [`Serve`].
///
/// A connection of HTTP/1 that has asked nothing for a second or two costs some 1.7 KB instead of
/// 16, since hyper's buffers are freed until it sends something. Whether the process gives that
/// memory back to the system is its allocator's affair; with glibc's, `malloc_trim(0)` does.
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
        most: usize::MAX,
        grace: GRACE,
        on_event: Box::new(|_| {}),
        shared: Shared {
            service: Arc::new(service),
            head: HEAD,
            write: WRITE,
            awake: AtomicUsize::new(0),
            most_awake: usize::MAX,
            http1: http1::Builder::new(),
            #[cfg(feature = "http2")]
            http2: http2_settings(),
        },
    }
}

/// A server to be awaited; see [`serve()`].
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
///     .most_connections(20_000)
///     .head_timeout(Duration::from_secs(10))
///     .grace(Duration::from_secs(5))
///     .http1(settings);
/// # drop(server);
/// # Ok(())
/// # }
/// ```
#[must_use = "it serves while it is awaited"]
pub struct Serve<L: Listen, S, H = NoHandshake<<L as Listen>::Connection>> {
    listener: Listener<L>,
    handshake: H,
    most: usize,
    grace: Duration,
    on_event: Box<dyn FnMut(Event) + Send>,
    shared: Shared<S>,
}

/// What a server does before HTTP unless it is [told](Serve::handshake): nothing.
pub type NoHandshake<C> = fn(Stream<C>) -> Ready<io::Result<Io<C>>>;

#[cfg(feature = "http2")]
fn http2_settings() -> http2::Builder<Executor> {
    let mut settings = http2::Builder::new(Executor);
    settings.timer(Timer);
    settings
}

impl<L: Listen, S, H> Serve<L, S, H> {
    /// Begins each connection by this, such as TLS, in a task of its own; what it gives is served.
    /// It has the [time](Self::head_timeout) that a head has.
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
    /// // `acceptor` is one of the crate futures-rustls.
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
            most: self.most,
            grace: self.grace,
            on_event: self.on_event,
            shared: self.shared,
        }
    }

    /// Tells what happens to connections, to be counted or logged: that one was taken, that one could
    /// not be, that one has ended and how. It is called by the task that awaits the server, one event
    /// after the other, and keeps that from taking connections while it runs; if it panics, so does
    /// the server. Nothing is told any more when the server's future is dropped.
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

    /// At most so many connections at once, those at rest among them; who comes then waits in the
    /// listener's queue until one has ended. Unless set, there is no limit but that of open files.
    pub fn most_connections(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// At most so many connections of HTTP/1 keep hyper's buffers, 16 KB and more each, while nothing
    /// is asked of them; of those beyond, each gives them back with its answer, which costs a
    /// microsecond or two a request. Unless set, all keep them for up to two seconds.
    pub fn most_awake(mut self, most: usize) -> Self {
        self.shared.most_awake = most;
        self
    }

    /// Closes who has not sent the head of a request for so long, from connecting or from its last
    /// answer on, to within a second or two. Unless set, 30 s.
    pub fn head_timeout(mut self, limit: Duration) -> Self {
        self.shared.head = limit;
        self
    }

    /// Closes who takes nothing of an answer of HTTP/1 for so long, to within a second or two. Unless
    /// set, 60 s.
    pub fn write_timeout(mut self, limit: Duration) -> Self {
        self.shared.write = limit;
        self
    }

    /// In the end, waits this long for answers that are being made or read, then drops them. Unless
    /// set, 30 s.
    pub fn grace(mut self, limit: Duration) -> Self {
        self.grace = limit;
        self
    }

    /// hyper's own settings for HTTP/1: sizes, half-closed connections, keep-alive. With a time-out
    /// of hyper's, they need its timer: `settings.timer(creel_hyper::Timer)`.
    pub fn http1(mut self, settings: http1::Builder) -> Self {
        self.shared.http1 = settings;
        self
    }

    /// hyper's own settings for HTTP/2: windows, streams at once, pings.
    #[cfg(feature = "http2")]
    pub fn http2(mut self, mut settings: http2::Builder<Executor>) -> Self {
        settings.timer(Timer);
        self.shared.http2 = settings;
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
    H: Fn(Stream<L::Connection>) -> F,
    F: Future<Output = io::Result<T>> + Send + 'static,
    T: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Serves until `stop` is ready, then takes no more connections, lets those that there are
    /// answer what they have been asked, within the [grace](Serve::grace), and returns. Who has
    /// asked nothing, or sent a part of a head, is not waited for longer than a second or two; nor
    /// are connections that were upgraded, such as WebSockets.
    pub async fn until(self, stop: impl Future) {
        let Serve {
            listener,
            handshake,
            most,
            grace,
            mut on_event,
            shared,
        } = self;
        let shared = Arc::new(shared);
        let stopping = CancellationToken::new();
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            let accepted = poll_fn(|cx| {
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                while let Poll::Ready(Some(ended)) = connections.poll_join_next(cx) {
                    on_event(Event::Ended(how(ended)));
                }
                if connections.len() >= most {
                    return Poll::Pending;
                }
                listener.poll_accept(cx).map(Some)
            });
            match accepted.await {
                None => break,
                Some(Ok((stream, _))) => {
                    on_event(Event::Accepted);
                    // Where that cannot be, it is as good as broken, which reading will tell.
                    let _ = stream.as_std().without_delay();
                    let begin = handshake(stream);
                    let (shared, stopping) = (Arc::clone(&shared), stopping.clone());
                    connections.spawn(async move {
                        let begin = creel::time::timeout(shared.head, begin);
                        match stopping.run_until(begin).await {
                            Some(Ok(Ok(io))) => connection::serve(io, shared, stopping).await,
                            Some(Ok(Err(error))) => End::Handshake(error),
                            Some(Err(_)) => End::Silent,
                            None => End::Done,
                        }
                    });
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
        stopping.cancel();
        let ended = async {
            while let Some(ended) = connections.join_next().await {
                on_event(Event::Ended(how(ended)));
            }
        };
        if creel::time::timeout(grace, ended).await.is_err() {
            // Who takes longer is cut off.
            for _ in 0..connections.len() {
                on_event(Event::Ended(End::Cut));
            }
        }
    }
}

/// How a connection's task has ended.
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

/// An error of the one who wanted to connect: the next may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

//! A server: takes connections, gives each a task, and comes to an end when it is told.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use creel::net::{Connection, Listen, Listener, Stream};
use creel::task::{CancellationToken, JoinSet};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
#[cfg(feature = "http2")]
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper::{Request, Response};

use crate::activity::{Activity, Seen, State, Watched};
use crate::begun::Begun;
#[cfg(feature = "http2")]
use crate::{Executor, Timer};

/// After an error that will not be gone at once, such as too many open files.
const PAUSE: Duration = Duration::from_millis(20);
/// For which those who are still connected are waited for in the end.
const GRACE: Duration = Duration::from_secs(30);
/// Who has asked nothing for this long, or twice this, needs no buffers.
const REST: Duration = Duration::from_secs(1);
/// Who has not sent the head of a request by then is not waited for.
const HEAD: Duration = Duration::from_secs(30);

/// Serves HTTP/1 to all who connect, with a service that all share; until the future is dropped, or
/// [told](Serve::until). With the feature `http2` it serves that, too, to those who begin with it.
///
/// Each connection is a task of the pool that awaits this. One that sends no head of a request for
/// some 30 s, or asks nothing for that long after an answer, is closed; a body that stalls is the
/// service's to give up on. When a client leaves, the answer that is being made is dropped, as it is
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
        most: usize::MAX,
        grace: GRACE,
        shared: Shared {
            service: Arc::new(service),
            head: HEAD,
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
pub struct Serve<L: Listen, S> {
    listener: Listener<L>,
    most: usize,
    grace: Duration,
    shared: Shared<S>,
}

/// What all connections share.
struct Shared<S> {
    service: Arc<S>,
    head: Duration,
    http1: http1::Builder,
    #[cfg(feature = "http2")]
    http2: http2::Builder<Executor>,
}

#[cfg(feature = "http2")]
fn http2_settings() -> http2::Builder<Executor> {
    let mut settings = http2::Builder::new(Executor);
    settings.timer(Timer);
    settings
}

impl<L: Listen, S> Serve<L, S> {
    /// At most so many connections at once, those at rest among them; who comes then waits in the
    /// listener's queue until one has ended. Unless set, there is no limit but that of open files.
    pub fn most_connections(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Closes who has not sent the head of a request for so long, from connecting or from its last
    /// answer on, to within a second or two. Unless set, 30 s.
    pub fn head_timeout(mut self, limit: Duration) -> Self {
        self.shared.head = limit;
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

impl<L: Listen, S> fmt::Debug for Serve<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

impl<L, S, B> Serve<L, S>
where
    L: Listen,
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
            most,
            grace,
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
                while let Poll::Ready(Some(_)) = connections.poll_join_next(cx) {}
                if connections.len() >= most {
                    return Poll::Pending;
                }
                listener.poll_accept(cx).map(Some)
            });
            match accepted.await {
                None => break,
                Some(Ok((stream, _))) => {
                    let (shared, stopping) = (Arc::clone(&shared), stopping.clone());
                    connections.spawn(connection(stream, shared, stopping));
                }
                Some(Err(error)) if is_of_one_connection(&error) => {}
                Some(Err(_)) => creel::time::sleep(PAUSE).await,
            }
        }
        drop(listener);
        stopping.cancel();
        let ended = async { while connections.join_next().await.is_some() {} };
        // Who takes longer is cut off.
        let _ = creel::time::timeout(grace, ended).await;
    }
}

impl<L, S, B> IntoFuture for Serve<L, S>
where
    L: Listen,
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
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::Interrupted
    )
}

/// Serves one connection, to its end.
async fn connection<C, S, B>(stream: Stream<C>, shared: Arc<Shared<S>>, stopping: CancellationToken)
where
    C: Connection,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Where that cannot be, it is as good as broken, which reading will tell.
    let _ = stream.as_std().without_delay();
    let activity = Arc::new(Activity::default());
    // hyper's own time-out would arm a timer for each request.
    let waits = shared.head.as_secs_f64() / REST.as_secs_f64();
    let waits = waits.ceil() as u32;
    let mut rest = Some((stream, Vec::new()));
    while let Some((stream, first)) = rest.take() {
        let mut begun = Begun::new(stream, first, Arc::clone(&activity));
        let begin = poll_fn(|cx| begun.poll_begin(cx));
        let begin = creel::time::timeout(shared.head, begin);
        let Some(Ok(Ok(()))) = stopping.run_until(begin).await else {
            return;
        };
        // Who has spoken HTTP/1 goes on with it.
        #[cfg(feature = "http2")]
        if activity.is_new() && begun.is_http2() {
            let serving = shared
                .http2
                .serve_connection(begun, Arc::clone(&shared.service));
            // In a place of its own: others need not hold room for it.
            let mut serving = Box::pin(serving);
            let end = |it: &mut Pin<Box<Http2<C, S>>>| it.as_mut().graceful_shutdown();
            until(&mut serving, end, &stopping, None).await;
            return;
        }
        let (service, watch) = (Arc::clone(&shared.service), Arc::clone(&activity));
        let watched = Watched {
            service,
            activity: watch,
        };
        // hyper's state has memory of its own, which a connection at rest does without.
        let serving = shared.http1.serve_connection(begun, watched);
        let mut serving = Box::new(serving.with_upgrades());
        let end = |it: &mut Box<Http1<C, S>>| Pin::new(&mut **it).graceful_shutdown();
        let watch = Some((&*activity, waits));
        if until(&mut serving, end, &stopping, watch).await {
            let parts = serving.into_parts();
            rest = parts.map(|parts| (parts.io.into_stream(), parts.read_buf.to_vec()));
        }
    }
}

type Http1<C, S> = http1::UpgradeableConnection<Begun<C>, Watched<S>>;
#[cfg(feature = "http2")]
type Http2<C, S> = http2::Connection<Begun<C>, Arc<S>, Executor>;

/// Serves one, and tells it when all are to end; cuts it off if it waits for a head too long. True:
/// it is at rest and may be taken back.
async fn until<F: Future + Unpin>(
    serving: &mut F,
    end: impl Fn(&mut F),
    stopping: &CancellationToken,
    watch: Option<(&Activity, u32)>,
) -> bool {
    let mut told = stopping.cancelled();
    let mut is_told = false;
    let mut look = creel::time::sleep(REST);
    let (mut seen, mut waited) = (Seen::default(), 0);
    poll_fn(|cx| {
        if !is_told && Pin::new(&mut told).poll(cx).is_ready() {
            is_told = true;
            end(serving);
        }
        // What went wrong was between the two: the other side has heard of it, or is gone.
        if Pin::new(&mut *serving).poll(cx).is_ready() {
            return Poll::Ready(false);
        }
        let Some((activity, waits)) = watch else {
            return Poll::Pending;
        };
        while Pin::new(&mut look).poll(cx).is_ready() {
            match activity.look(&mut seen) {
                State::Rests if !is_told => return Poll::Ready(true),
                // Nobody has asked anything.
                State::Rests | State::Waits if is_told => return Poll::Ready(false),
                State::Waits if waited == waits => return Poll::Ready(false),
                State::Busy => waited = 0,
                _ => waited += 1,
            }
            look = creel::time::sleep(REST);
        }
        Poll::Pending
    })
    .await
}

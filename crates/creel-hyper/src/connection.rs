//! Serves one connection from its first byte to its end.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use creel::task::CancellationToken;
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, Write};
use hyper::server::conn::http1;
#[cfg(feature = "http2")]
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper::{Request, Response};

#[cfg(feature = "http2")]
use crate::Executor;
use crate::activity::{Activity, Seen, State, Tracked};
use crate::event::End;
use crate::peer::{Peer, WithPeer};
use crate::server_io::ServerIo;

/// The interval after which we check a connection for activity. A connection without activity needs
/// no buffers.
///
/// The first checks come early. If many clients send a single request each, only a few of them
/// therefore hold buffers at the same time. The interval doubles up to [`CHECK_INTERVAL_MAX`], so
/// we check a busy connection once per second. A connection that was idle for a shorter time than
/// that starts with the longest interval. Otherwise a client with a request every 500 ms would make
/// us free and allocate hyper's state for each of them.
const CHECK_INTERVAL_MIN: Duration = Duration::from_millis(62);
/// The longest interval between two checks.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// The state that all connections of a server share: the service, the limits and hyper's settings.
pub(crate) struct Shared<S> {
    pub(crate) service: Arc<S>,
    pub(crate) head: Duration,
    pub(crate) write: Duration,
    /// The number of HTTP/1 connections that hold hyper's state (with its buffers). It is a hint
    /// and needs no memory ordering.
    pub(crate) awake: AtomicUsize,
    /// The number of connections in `awake` above which a connection frees hyper's state as soon as
    /// it is idle.
    pub(crate) max_idle_buffers: usize,
    pub(crate) http1: http1::Builder,
    #[cfg(feature = "http2")]
    pub(crate) http2: http2::Builder<Executor>,
}

/// A guard that counts a connection as holding hyper's state until it is dropped.
struct Awake<'a>(&'a AtomicUsize);

impl<'a> Awake<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Awake(count)
    }
}

impl Drop for Awake<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The limits that apply to an HTTP/1 connection while it shows no activity.
struct Watch<'a> {
    awake: &'a AtomicUsize,
    max_idle_buffers: usize,
    silent: Duration,
    stuck: Duration,
    /// The time until the first check.
    first_check: Duration,
}

/// Serves one connection until it ends. Its requests get the address of the client, if `peer` has
/// one.
pub(crate) async fn serve<T, S, B, A>(
    io: T,
    shared: Arc<Shared<S>>,
    peer: Option<Peer<A>>,
    stopping: CancellationToken,
) -> End
where
    A: Send + Sync + 'static,
    T: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let activity = Arc::new(Activity::default());
    let service = WithPeer {
        service: Arc::clone(&shared.service),
        peer,
    };
    let mut rest = Some((io, Vec::new()));
    let mut idle_since = None;
    while let Some((io, first)) = rest.take() {
        let mut server_io = ServerIo::new(io, first, Arc::clone(&activity));
        let begin = poll_fn(|cx| server_io.poll_begin(cx));
        let begin = creel::time::timeout(shared.head, begin);
        match stopping.run_until(begin).await {
            Some(Ok(Ok(()))) => {}
            // Reading failed before a request, for example because the client has reset the
            // connection. If the client has only ended the stream, hyper ends the connection below.
            Some(Ok(Err(_))) => return End::Done,
            Some(Err(_)) => return End::Silent,
            None => return End::Done,
        }
        // A client that has used HTTP/1 on this connection cannot change to HTTP/2.
        #[cfg(feature = "http2")]
        if activity.is_new() && server_io.is_http2() {
            let serving = shared.http2.serve_connection(server_io, service);
            // We box the state of HTTP/2, because otherwise the futures of HTTP/1 connections would
            // reserve space for it.
            let mut serving = Box::pin(serving);
            let end = |it: &mut Pin<Box<Http2<T, S, A>>>| it.as_mut().graceful_shutdown();
            let ended = until(&mut serving, end, &stopping, &activity, None).await;
            return ended.unwrap_or(End::Done);
        }
        let tracked = Tracked {
            service: service.clone(),
            activity: Arc::clone(&activity),
        };
        // We box hyper's state and drop it when the connection is idle. Otherwise the future of the
        // connection would reserve memory for it all the time.
        let _awake = Awake::new(&shared.awake);
        let serving = shared.http1.serve_connection(server_io, tracked);
        let mut serving = Box::new(serving.with_upgrades());
        let end = |it: &mut Box<Http1<T, S, A>>| Pin::new(&mut **it).graceful_shutdown();
        let was_short = |since| creel::time::now() - since < CHECK_INTERVAL_MAX;
        // We check the limits ourselves once per interval, because hyper's own timeout would arm a
        // timer for each request.
        let watch = Watch {
            awake: &shared.awake,
            max_idle_buffers: shared.max_idle_buffers,
            silent: shared.head,
            stuck: shared.write,
            first_check: match idle_since.is_some_and(was_short) {
                true => CHECK_INTERVAL_MAX,
                false => CHECK_INTERVAL_MIN,
            },
        };
        if let Some(ended) = until(&mut serving, end, &stopping, &activity, Some(watch)).await {
            return ended;
        }
        idle_since = Some(creel::time::now());
        let parts = serving.into_parts();
        rest = parts.map(|parts| (parts.io.into_io(), parts.read_buf.to_vec()));
    }
    End::Done
}

type Http1<T, S, A> = http1::UpgradeableConnection<ServerIo<T>, Tracked<WithPeer<S, A>>>;
#[cfg(feature = "http2")]
type Http2<T, S, A> = http2::Connection<ServerIo<T>, WithPeer<S, A>, Executor>;

/// Serves a connection until it ends, and returns how it ended. Returns `None` if it is idle and
/// the stream can be taken back from hyper.
///
/// This starts the graceful shutdown of the connection when `stopping` is cancelled, and ends a
/// connection that exceeds a limit of `watch`.
async fn until<F: Future<Output = hyper::Result<()>> + Unpin>(
    serving: &mut F,
    end: impl Fn(&mut F),
    stopping: &CancellationToken,
    activity: &Activity,
    watch: Option<Watch<'_>>,
) -> Option<End> {
    let mut stop_signal = stopping.cancelled();
    let mut is_stopping = false;
    let mut pause = watch
        .as_ref()
        .map_or(CHECK_INTERVAL_MIN, |watch| watch.first_check);
    let mut check = creel::time::sleep(pause);
    let (mut seen, mut waited) = (Seen::default(), Duration::ZERO);
    poll_fn(|cx| {
        activity.start_turn();
        if !is_stopping && Pin::new(&mut stop_signal).poll(cx).is_ready() {
            is_stopping = true;
            end(serving);
        }
        if let Poll::Ready(done) = Pin::new(&mut *serving).poll(cx) {
            return Poll::Ready(Some(done.map_or_else(End::Failed, |()| End::Done)));
        }
        let Some(watch) = &watch else {
            return Poll::Pending;
        };
        if !is_stopping && watch.awake.load(Relaxed) > watch.max_idle_buffers && activity.is_idle()
        {
            return Poll::Ready(None);
        }
        while Pin::new(&mut check).poll(cx).is_ready() {
            match activity.check(&mut seen) {
                State::Idle if !is_stopping => return Poll::Ready(None),
                // During the shutdown, we end a connection that has no request in progress.
                State::Idle | State::Waiting if is_stopping => return Poll::Ready(Some(End::Done)),
                State::Waiting if waited >= watch.silent => return Poll::Ready(Some(End::Silent)),
                State::Stuck if waited >= watch.stuck => return Poll::Ready(Some(End::NotRead)),
                State::Busy => waited = Duration::ZERO,
                _ => waited += pause,
            }
            pause = (2 * pause).min(CHECK_INTERVAL_MAX);
            check = creel::time::sleep(pause);
        }
        Poll::Pending
    })
    .await
}

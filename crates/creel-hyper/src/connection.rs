//! Serves one connection from its first byte to its end.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::time::{Duration, Instant};

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
use crate::activity::{Activity, State, Tracked};
use crate::event::End;
use crate::peer::{Peer, WithPeer};
use crate::server_io::ServerIo;
use crate::sweep::{self, FirstPause, Sweep};

/// The settings of a server, which all of its connections share.
pub(crate) struct Settings<S> {
    pub(crate) service: Arc<S>,
    pub(crate) head: Duration,
    pub(crate) write: Duration,
    /// The number of connections with hyper's state above which a connection frees it as soon as it
    /// is idle.
    pub(crate) max_idle_buffers: usize,
    pub(crate) http1: http1::Builder,
    #[cfg(feature = "http2")]
    pub(crate) http2: http2::Builder<Executor>,
}

/// The state that all connections of a server share.
pub(crate) struct Server<S> {
    settings: Settings<S>,
    /// Cancelled when the server shuts down.
    pub(crate) stopping: CancellationToken,
    pub(crate) sweep: Arc<Sweep>,
    /// The number of HTTP/1 connections that hold hyper's state (with its buffers). It is a hint
    /// and needs no memory ordering.
    awake: AtomicUsize,
}

impl<S> Server<S> {
    pub(crate) fn new(settings: Settings<S>) -> Self {
        Server {
            settings,
            stopping: CancellationToken::new(),
            sweep: Arc::default(),
            awake: AtomicUsize::new(0),
        }
    }
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
struct Limits<'a> {
    awake: &'a AtomicUsize,
    max_idle_buffers: usize,
    /// The limits for the heads of the first request of hyper's state and of the following ones.
    first_head: Duration,
    head: Duration,
    stuck: Duration,
    /// Checks the connection from time to time. hyper's own timeout would arm a timer for each
    /// request.
    sweep: &'a Sweep,
    first_pause: FirstPause,
}

impl Limits<'_> {
    /// Returns the limit for the head of the next request.
    fn head(&self, activity: &Activity) -> Duration {
        match activity.has_request() {
            true => self.head,
            false => self.first_head,
        }
    }
}

/// Serves one connection until it ends, after a handshake. Its requests get the address of the
/// client, if `peer` has one.
pub(crate) async fn serve<T, S, B, A>(
    handshake: impl Future<Output = io::Result<T>>,
    server: Arc<Server<S>>,
    peer: Option<Peer<A>>,
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
    let Server {
        settings,
        stopping,
        sweep,
        awake,
    } = &*server;
    // The client has connected, or has got its last response, at this time.
    let mut quiet_since = creel::time::now();
    let handshake = creel::time::timeout(settings.head, handshake);
    let io = match stopping.run_until(handshake).await {
        Some(Ok(Ok(io))) => io,
        Some(Ok(Err(error))) => return End::Handshake(error),
        Some(Err(_)) => return End::Silent,
        None => return End::Done,
    };
    let service = WithPeer {
        service: Arc::clone(&settings.service),
        peer,
    };
    let activity = Arc::new(Activity::default());
    let mut rest = Some((io, Vec::new()));
    let mut is_first = true;
    while let Some((io, first)) = rest.take() {
        let mut server_io = ServerIo::new(io, first, Arc::clone(&activity));
        let begin = poll_fn(|cx| server_io.poll_begin(cx));
        let begin = creel::time::timeout(left(settings.head, quiet_since), begin);
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
        if is_first && server_io.is_http2() {
            let serving = settings.http2.serve_connection(server_io, service);
            // We box the state of HTTP/2, because otherwise the futures of HTTP/1 connections would
            // reserve space for it.
            let mut serving = Box::pin(serving);
            let end = |it: &mut Pin<Box<Http2<T, S, A>>>| it.as_mut().graceful_shutdown();
            let ended = until(&mut serving, end, stopping, &activity, None).await;
            return ended.unwrap_or(End::Done);
        }
        let tracked = Tracked {
            service: service.clone(),
            activity: Arc::clone(&activity),
        };
        // We box hyper's state and drop it when the connection is idle. Otherwise the future of the
        // connection would reserve memory for it all the time.
        let _awake = Awake::new(awake);
        let serving = settings.http1.serve_connection(server_io, tracked);
        let mut serving = Box::new(serving.with_upgrades());
        let end = |it: &mut Box<Http1<T, S, A>>| Pin::new(&mut **it).graceful_shutdown();
        let idle = creel::time::now() - quiet_since;
        let first_pause = match !is_first && sweep::was_idle_briefly(idle) {
            true => FirstPause::Long,
            false => FirstPause::Short,
        };
        let limits = Limits {
            awake,
            max_idle_buffers: settings.max_idle_buffers,
            first_head: left(settings.head, quiet_since),
            head: settings.head,
            stuck: settings.write,
            sweep,
            first_pause,
        };
        let ended = until(&mut serving, end, stopping, &activity, Some(limits));
        if let Some(ended) = ended.await {
            return ended;
        }
        (quiet_since, is_first) = (creel::time::now(), false);
        let parts = serving.into_parts();
        rest = parts.map(|parts| (parts.io.into_io(), parts.read_buf.to_vec()));
    }
    End::Done
}

/// Returns the part of `limit` that is left since a time.
fn left(limit: Duration, since: Instant) -> Duration {
    limit.saturating_sub(creel::time::now() - since)
}

type Http1<T, S, A> = http1::UpgradeableConnection<ServerIo<T>, Tracked<WithPeer<S, A>>>;
#[cfg(feature = "http2")]
type Http2<T, S, A> = http2::Connection<ServerIo<T>, WithPeer<S, A>, Executor>;

/// Serves a connection until it ends, and returns how it ended. Returns `None` if it is idle and
/// the stream can be taken back from hyper.
///
/// This starts the graceful shutdown of the connection when `stopping` is cancelled, and ends a
/// connection that exceeds one of the `limits`.
async fn until<F: Future<Output = hyper::Result<()>> + Unpin>(
    serving: &mut F,
    end: impl Fn(&mut F),
    stopping: &CancellationToken,
    activity: &Arc<Activity>,
    limits: Option<Limits<'_>>,
) -> Option<End> {
    let mut stop_signal = stopping.cancelled();
    let mut is_stopping = false;
    let mut registration = None;
    activity.expect_first_request();
    poll_fn(|cx| {
        activity.start_turn();
        if !is_stopping && Pin::new(&mut stop_signal).poll(cx).is_ready() {
            is_stopping = true;
            end(serving);
        }
        if let Poll::Ready(done) = Pin::new(&mut *serving).poll(cx) {
            return Poll::Ready(Some(done.map_or_else(End::Failed, |()| End::Done)));
        }
        let Some(limits) = &limits else {
            return Poll::Pending;
        };
        if !is_stopping
            && limits.awake.load(Relaxed) > limits.max_idle_buffers
            && activity.is_idle()
        {
            return Poll::Ready(None);
        }
        // Most connections beyond `max_idle_buffers` do not get here.
        registration.get_or_insert_with(|| {
            let sweep = limits.sweep;
            sweep.register(activity, cx.waker(), limits.first_pause)
        });
        match activity.take_quiet() {
            Some((State::Idle, _)) if !is_stopping => Poll::Ready(None),
            // During the shutdown, we end a connection that has no request in progress.
            Some((State::Idle | State::Waiting, _)) if is_stopping => Poll::Ready(Some(End::Done)),
            Some((State::Waiting, time)) if time >= limits.head(activity) => {
                Poll::Ready(Some(End::Silent))
            }
            Some((State::Stuck, time)) if time >= limits.stuck => Poll::Ready(Some(End::NotRead)),
            _ => Poll::Pending,
        }
    })
    .await
}

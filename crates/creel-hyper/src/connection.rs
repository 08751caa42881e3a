//! One connection of a server, from its first byte to its end.

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
use crate::activity::{Activity, Seen, State, Watched};
use crate::begun::Begun;
use crate::event::End;

/// Who has asked nothing from one look to the next needs no buffers. The first looks come soon, so that
/// of many that ask once few have theirs at the same time; who keeps asking is looked at once a second.
const FIRST_LOOK: Duration = Duration::from_millis(62);
const LOOK: Duration = Duration::from_secs(1);

/// What all connections share.
pub(crate) struct Shared<S> {
    pub(crate) service: Arc<S>,
    pub(crate) head: Duration,
    pub(crate) write: Duration,
    /// Connections that hold hyper's state of HTTP/1, and how many may while nothing is asked of them.
    /// A hint, which orders nothing.
    pub(crate) awake: AtomicUsize,
    pub(crate) most_awake: usize,
    pub(crate) http1: http1::Builder,
    #[cfg(feature = "http2")]
    pub(crate) http2: http2::Builder<Executor>,
}

/// Counted as long as a connection holds hyper's state.
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

/// How long one connection may do nothing.
struct Watch<'a> {
    awake: &'a AtomicUsize,
    most_awake: usize,
    silent: Duration,
    stuck: Duration,
}

/// Serves one connection, to its end.
pub(crate) async fn serve<T, S, B>(
    io: T,
    shared: Arc<Shared<S>>,
    stopping: CancellationToken,
) -> End
where
    T: Read + Write + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let activity = Arc::new(Activity::default());
    let mut rest = Some((io, Vec::new()));
    while let Some((io, first)) = rest.take() {
        let mut begun = Begun::new(io, first, Arc::clone(&activity));
        let begin = poll_fn(|cx| begun.poll_begin(cx));
        let begin = creel::time::timeout(shared.head, begin);
        match stopping.run_until(begin).await {
            Some(Ok(Ok(()))) => {}
            // It left between two requests, in one way or the other.
            Some(Ok(Err(_))) => return End::Done,
            Some(Err(_)) => return End::Silent,
            None => return End::Done,
        }
        // Who has spoken HTTP/1 goes on with it.
        #[cfg(feature = "http2")]
        if activity.is_new() && begun.is_http2() {
            let serving = shared
                .http2
                .serve_connection(begun, Arc::clone(&shared.service));
            // In a place of its own: others need not hold room for it.
            let mut serving = Box::pin(serving);
            let end = |it: &mut Pin<Box<Http2<T, S>>>| it.as_mut().graceful_shutdown();
            let ended = until(&mut serving, end, &stopping, &activity, None).await;
            return ended.unwrap_or(End::Done);
        }
        let (service, watched) = (Arc::clone(&shared.service), Arc::clone(&activity));
        let watched = Watched {
            service,
            activity: watched,
        };
        // hyper's state has memory of its own, which a connection at rest does without.
        let _awake = Awake::new(&shared.awake);
        let serving = shared.http1.serve_connection(begun, watched);
        let mut serving = Box::new(serving.with_upgrades());
        let end = |it: &mut Box<Http1<T, S>>| Pin::new(&mut **it).graceful_shutdown();
        // hyper's own time-out would arm a timer for each request.
        let watch = Watch {
            awake: &shared.awake,
            most_awake: shared.most_awake,
            silent: shared.head,
            stuck: shared.write,
        };
        if let Some(ended) = until(&mut serving, end, &stopping, &activity, Some(watch)).await {
            return ended;
        }
        let parts = serving.into_parts();
        rest = parts.map(|parts| (parts.io.into_io(), parts.read_buf.to_vec()));
    }
    End::Done
}

type Http1<T, S> = http1::UpgradeableConnection<Begun<T>, Watched<S>>;
#[cfg(feature = "http2")]
type Http2<T, S> = http2::Connection<Begun<T>, Arc<S>, Executor>;

/// Serves one, and tells it when all are to end; cuts it off if it does nothing for too long. How it
/// ended; nothing, if it is at rest and may be taken back.
async fn until<F: Future<Output = hyper::Result<()>> + Unpin>(
    serving: &mut F,
    end: impl Fn(&mut F),
    stopping: &CancellationToken,
    activity: &Activity,
    watch: Option<Watch<'_>>,
) -> Option<End> {
    let mut told = stopping.cancelled();
    let mut is_told = false;
    let mut pause = FIRST_LOOK;
    let mut look = creel::time::sleep(pause);
    let (mut seen, mut waited) = (Seen::default(), Duration::ZERO);
    poll_fn(|cx| {
        activity.has_turn();
        if !is_told && Pin::new(&mut told).poll(cx).is_ready() {
            is_told = true;
            end(serving);
        }
        if let Poll::Ready(done) = Pin::new(&mut *serving).poll(cx) {
            return Poll::Ready(Some(done.map_or_else(End::Failed, |()| End::Done)));
        }
        let Some(watch) = &watch else {
            return Poll::Pending;
        };
        if !is_told && watch.awake.load(Relaxed) > watch.most_awake && activity.rests() {
            return Poll::Ready(None);
        }
        while Pin::new(&mut look).poll(cx).is_ready() {
            match activity.look(&mut seen) {
                State::Rests if !is_told => return Poll::Ready(None),
                // Nobody has asked anything.
                State::Rests | State::Waits if is_told => return Poll::Ready(Some(End::Done)),
                State::Waits if waited >= watch.silent => return Poll::Ready(Some(End::Silent)),
                State::Stuck if waited >= watch.stuck => return Poll::Ready(Some(End::NotRead)),
                State::Busy => waited = Duration::ZERO,
                _ => waited += pause,
            }
            pause = (2 * pause).min(LOOK);
            look = creel::time::sleep(pause);
        }
        Poll::Pending
    })
    .await
}

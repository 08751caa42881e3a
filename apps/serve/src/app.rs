//! Answers the requests of all connections.
//!
//! Invariants:
//!
//! - Every request whose head was read is answered by its deadline, unless its client disconnects
//!   before.
//! - Each of them is counted once.
//! - An HTTP/1 connection stays usable after a reply, or the reply has `connection: close`. hyper
//!   closes a connection silently if the service drops a body before its end, and the client would
//!   lose its next request. We therefore read the rest of such a body before the reply.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use creel::time::timeout;
use creel_hyper::Peer;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{
    ALLOW, CONNECTION, CONTENT_TYPE, EXPECT, HOST, HeaderValue, RETRY_AFTER, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use serde_json::json;

use crate::admission::Shed;
use crate::crypto::{Crypto, Done};
use crate::crypto_pool::{CryptoPool, JobError};
use crate::log::{AccessLog, LogEntry};
use crate::metrics::Metrics;
use crate::routes::{self, Route};
use crate::settings::Settings;
use crate::store::{Store, StoreError};

/// The maximum number of bytes that we read and discard of a body that we do not need.
const DRAIN_MAX: u64 = 16 << 20;

/// The reason why a request gets an error reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// 400: the request is invalid. The text says why.
    Bad(String),
    /// 404: there is no such path or record.
    NotFound,
    /// 405: the route needs another method.
    Method(Route),
    /// 501: the body has a transfer coding that we do not support.
    Coding,
    /// 408: the request body did not arrive in time.
    Slow,
    /// 413: the request body is too large.
    TooLarge,
    /// 503: admission control rejected the request.
    Shed(Shed),
    /// 503: the request was not done by its deadline.
    Late,
    /// 503: the store did not execute the request.
    Store(StoreError),
    /// 503: the reply to `/ready`.
    NotReady(String),
    /// 500: the service has a bug.
    Broken,
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        Refusal::Store(error)
    }
}

impl From<JobError> for Refusal {
    fn from(fault: JobError) -> Refusal {
        match fault {
            JobError::Shed(shed) => Refusal::Shed(shed),
            JobError::Panicked => Refusal::Broken,
        }
    }
}

/// A reply in the form that hyper sends.
pub type Reply = Response<Full<Bytes>>;

/// The service without its connections: it turns requests into replies.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) crypto_pool: CryptoPool,
    pub(crate) store: Store,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) log: Option<AccessLog>,
    pub(crate) deadline: Duration,
    pub(crate) deadline_max: Duration,
    pub(crate) body_max: usize,
    /// Whether the service is shutting down and asks clients to use another server. It is a hint
    /// that needs no memory ordering.
    pub(crate) is_draining: AtomicBool,
}

impl App {
    pub(crate) fn new(
        settings: &Settings,
        crypto_pool: CryptoPool,
        store: Store,
        metrics: Arc<Metrics>,
    ) -> App {
        App {
            crypto_pool,
            store,
            metrics,
            log: None,
            deadline: settings.deadline,
            deadline_max: settings.deadline_max,
            body_max: settings.body_max,
            is_draining: AtomicBool::new(false),
        }
    }

    /// Returns whether clients should use another server.
    fn is_draining(&self) -> bool {
        self.is_draining.load(Relaxed)
    }

    /// Answers a request and counts the reply.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Reply
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let started = Instant::now();
        let route = Route::of(request.uri().path());
        let in_flight = InFlight::new(&self.metrics, route, started);
        // HTTP/2 closes a connection with a frame of its own (GOAWAY), so its responses need no
        // header for that.
        let can_close = request.version() < Version::HTTP_2;
        let line = self.log.is_some().then(|| {
            let peer = request.extensions().get::<Peer<SocketAddr>>();
            (
                peer.map(|peer| *peer.addr()),
                request.method().to_string(),
                request.uri().path().to_owned(),
            )
        });
        let (head, body) = request.into_parts();
        let limit = routes::request_timeout(&head.headers, self.deadline, self.deadline_max);
        let deadline = started + *limit.as_ref().unwrap_or(&self.deadline);
        // A client that expects the status 100 sends its body only if we ask for it.
        let is_awaited = !head.headers.contains_key(EXPECT);
        let mut body = pin!(body);
        let mut rest = (!body.is_end_stream()).then_some(body.as_mut());
        let reply = self.outcome(route, &head, &mut rest, limit, deadline).await;
        let is_late = matches!(reply, Err(Refusal::Slow | Refusal::Late));
        let is_unread = match rest {
            Some(rest) if is_awaited && !is_late => {
                let drained = timeout(time_to_read(deadline), drain(rest)).await;
                !drained.unwrap_or(false)
            }
            Some(_) => true,
            None => false,
        };
        let mut reply = reply.unwrap_or_else(|refusal| self.error_reply(&refusal));
        if can_close && is_unread {
            self.metrics.unread.fetch_add(1, Relaxed);
        }
        if can_close && (is_unread || self.is_draining()) {
            let close = HeaderValue::from_static("close");
            reply.headers_mut().insert(CONNECTION, close);
        }
        in_flight.answered(reply.status());
        if let (Some(log), Some((client, method, path))) = (&self.log, line) {
            let bytes = reply.body().size_hint().exact().unwrap_or(0) as usize;
            log.line(LogEntry::new(
                client,
                &method,
                &path,
                reply.status().as_u16(),
                started.elapsed(),
                bytes,
            ));
        }
        reply
    }

    /// Validates a request and answers it within its timeout.
    ///
    /// Sets `body` to `None` when nothing of it is left to read.
    async fn outcome<B>(
        &self,
        route: Route,
        head: &Parts,
        body: &mut Option<Pin<&mut B>>,
        limit: Result<Duration, &'static str>,
        deadline: Instant,
    ) -> Result<Reply, Refusal>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        validate(head)?;
        if route == Route::Unknown {
            return Err(Refusal::NotFound);
        }
        let is_known = match &head.method {
            &Method::HEAD => route.method() == Method::GET,
            method => *method == route.method(),
        };
        if !is_known {
            return Err(Refusal::Method(route));
        }
        // Admission control must not reject the requests of monitoring.
        match route {
            Route::Health => return Ok(reply(json!({"status": "alive"}))),
            Route::Ready => return self.ready(),
            Route::Metrics => return Ok(self.metrics()),
            Route::Key => {
                return Ok(reply(
                    json!({"key": hex::encode(self.crypto_pool.crypto.key())}),
                ));
            }
            _ => {}
        }
        limit.map_err(|why| Refusal::Bad(why.to_owned()))?;
        let work = self.work(route, &head.uri, body, deadline);
        let left = deadline.saturating_duration_since(Instant::now());
        timeout(left, work).await.unwrap_or_else(|_| {
            self.metrics.late.fetch_add(1, Relaxed);
            Err(Refusal::Late)
        })
    }

    /// Does the work of a request that needs the store or the cryptography.
    async fn work<B>(
        &self,
        route: Route,
        uri: &Uri,
        body: &mut Option<Pin<&mut B>>,
        deadline: Instant,
    ) -> Result<Reply, Refusal>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match route {
            Route::Record => {
                let id = routes::record(uri.path()).ok_or(Refusal::NotFound)?;
                let record = self.store.get(id).await?.ok_or(Refusal::NotFound)?;
                let (key, signature) = record.split_at_checked(32).ok_or(Refusal::Broken)?;
                return Ok(reply(json!({
                    "id": hex::encode(id),
                    "key": hex::encode(key),
                    "signature": hex::encode(signature),
                })));
            }
            Route::Counters => return Ok(reply(json!({"signed": self.store.count().await?}))),
            // Signing is useless without a store, because the record could not be kept.
            Route::Sign => self.store.ready()?,
            _ => {}
        }
        let body = self.body(body, deadline).await?;
        let job = routes::job(route, uri, body).map_err(|why| Refusal::Bad(why.to_owned()))?;
        let done = self.crypto_pool.perform(job, deadline).await?;
        respond(done, &self.crypto_pool.crypto, &self.store).await
    }

    /// Reads the body of a request, if it is not too long and arrives before the deadline. Sets
    /// `rest` to `None` if nothing is left of it.
    async fn body<B>(
        &self,
        rest: &mut Option<Pin<&mut B>>,
        deadline: Instant,
    ) -> Result<Bytes, Refusal>
    where
        B: Body,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Some(body) = rest else {
            return Ok(Bytes::new());
        };
        if body.size_hint().lower() > self.body_max as u64 {
            return Err(Refusal::TooLarge);
        }
        let limited = Limited::new(body.as_mut(), self.body_max);
        let Ok(collected) = timeout(time_to_read(deadline), limited.collect()).await else {
            return Err(Refusal::Slow);
        };
        match &collected {
            Err(error) if error.is::<LengthLimitError>() => return Err(Refusal::TooLarge),
            _ => *rest = None,
        }
        collected
            .map(|body| body.to_bytes())
            .map_err(|error| Refusal::Bad(format!("cannot read the request body: {error}")))
    }

    /// Answers whether the service accepts work. If the store accepts no records, the reply
    /// contains its error message, because only operators read this reply.
    fn ready(&self) -> Result<Reply, Refusal> {
        match self.store.trouble() {
            _ if self.is_draining() => {
                Err(Refusal::NotReady("the service is shutting down".into()))
            }
            Some(error) => Err(Refusal::NotReady(format!(
                "the store accepts no records ({}): {}",
                error.reason.name(),
                error.words
            ))),
            None => Ok(reply(json!({"status": "ready"}))),
        }
    }

    /// Returns the reply with all metrics.
    fn metrics(&self) -> Reply {
        let text = self
            .metrics
            .text(&self.crypto_pool.admission, self.store.is_ready());
        let mut reply = Response::new(Full::from(text));
        let kind = HeaderValue::from_static("text/plain; version=0.0.4");
        reply.headers_mut().insert(CONTENT_TYPE, kind);
        reply
    }

    /// Returns the reply that reports a refusal, and counts it if admission control rejected the
    /// request.
    fn error_reply(&self, refusal: &Refusal) -> Reply {
        if let Refusal::Shed(shed) = refusal {
            self.metrics.refused(*shed);
        }
        error_reply(refusal)
    }
}

/// Returns how long to read a body. We stop a little before the deadline, so that there is time to
/// send the reply.
fn time_to_read(deadline: Instant) -> Duration {
    deadline
        .saturating_duration_since(Instant::now())
        .mul_f64(0.9)
}

/// Reads and discards a body, up to [`DRAIN_MAX`]. Returns whether nothing is left of it.
async fn drain<B: Body>(mut body: Pin<&mut B>) -> bool {
    let mut read = 0;
    while body.size_hint().lower() + read <= DRAIN_MAX {
        match body.frame().await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Buf::remaining) as u64,
            Some(Err(_)) => return false,
            None => return true,
        }
    }
    false
}

/// Validates the parts of a request that hyper leaves to us.
///
/// hyper itself rejects a request whose last coding is not `chunked`, because its body would have
/// no end.
///
/// Source: RFC 9112, sections 3.2, 6.1 and 7.1. RFC 9110, section 5.6.1.
fn validate(request: &Parts) -> Result<(), Refusal> {
    if request.version != Version::HTTP_11 {
        return Ok(());
    }
    if request.headers.get_all(HOST).iter().count() != 1 {
        return Err(Refusal::Bad("expected exactly one Host header".to_owned()));
    }
    // A list may be split over several fields, and may have empty elements, which do not count.
    let fields = request.headers.get_all(TRANSFER_ENCODING).iter();
    let codings = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b','));
    let codings = codings.map(<[u8]>::trim_ascii);
    let codings = codings.filter(|coding| !coding.is_empty());
    let (chunked, others): (Vec<_>, Vec<_>) =
        codings.partition(|coding| coding.eq_ignore_ascii_case(b"chunked"));
    match (chunked.len(), others.len()) {
        (0 | 1, 0) => Ok(()),
        (2.., _) => Err(Refusal::Bad(
            "the request body has the transfer coding chunked more than once".to_owned(),
        )),
        _ => Err(Refusal::Coding),
    }
}

/// Returns the reply for a finished job. A record is stored before its reply is returned.
pub async fn respond(done: Done, crypto: &Crypto, store: &Store) -> Result<Reply, Refusal> {
    let value = match done {
        Done::Signed(id, signature) => {
            let key = crypto.key();
            let record = [&key[..], &signature].concat();
            store.put(id, record.into()).await?;
            let (id, key) = (hex::encode(id), hex::encode(key));
            json!({"id": id, "key": key, "signature": hex::encode(signature)})
        }
        Done::Verified(right) => json!({"valid": right}),
        Done::Digest(digest) => json!({"digest": hex::encode(digest)}),
        Done::Hash(hash) => json!({"stored_hash": hash}),
        Done::Rejected(why) => return Err(Refusal::Bad(why.to_owned())),
    };
    Ok(reply(value))
}

/// Returns a reply with status 200 and a JSON body.
pub fn reply(value: serde_json::Value) -> Reply {
    let mut reply = Response::new(Full::from(value.to_string()));
    let kind = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}

/// Returns the reply that reports a refusal to the client.
pub fn error_reply(refusal: &Refusal) -> Reply {
    let (status, why) = match refusal {
        Refusal::Bad(why) => (StatusCode::BAD_REQUEST, why.clone()),
        Refusal::NotFound => (StatusCode::NOT_FOUND, "not found".into()),
        Refusal::Method(route) => (
            StatusCode::METHOD_NOT_ALLOWED,
            format!(
                "this path does not accept the method: use {}",
                allowed_methods(*route)
            ),
        ),
        Refusal::Coding => (
            StatusCode::NOT_IMPLEMENTED,
            "unsupported transfer coding: only chunked is supported".into(),
        ),
        Refusal::Slow => (
            StatusCode::REQUEST_TIMEOUT,
            "the request body did not arrive in time".into(),
        ),
        Refusal::TooLarge => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request body is too large".into(),
        ),
        Refusal::Shed(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the service is overloaded: try again later".into(),
        ),
        Refusal::Late => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the service could not finish the request by its deadline: try again later".into(),
        ),
        // We do not send the error message of the store to clients. Operators find it on stderr and
        // in the reply to `/ready`.
        Refusal::Store(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the store is not available: try again later".into(),
        ),
        Refusal::NotReady(why) => (StatusCode::SERVICE_UNAVAILABLE, why.clone()),
        Refusal::Broken => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal error: the job of this request failed".into(),
        ),
    };
    let mut reply = reply(json!({"error": why}));
    *reply.status_mut() = status;
    if status == StatusCode::SERVICE_UNAVAILABLE {
        reply
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if let Refusal::Method(route) = refusal {
        let methods = HeaderValue::from_static(allowed_methods(*route));
        reply.headers_mut().insert(ALLOW, methods);
    }
    reply
}

/// Returns the methods that a route allows, as the header `Allow` lists them.
fn allowed_methods(route: Route) -> &'static str {
    match route.method() {
        Method::GET => "GET, HEAD",
        _ => "POST",
    }
}

/// A request that is being answered. If it is dropped before the answer, its client has
/// disconnected.
struct InFlight<'a> {
    metrics: &'a Metrics,
    route: Route,
    started: Instant,
    is_answered: bool,
}

impl<'a> InFlight<'a> {
    fn new(metrics: &'a Metrics, route: Route, started: Instant) -> Self {
        metrics.started.fetch_add(1, Relaxed);
        metrics.in_flight.fetch_add(1, Relaxed);
        InFlight {
            metrics,
            route,
            started,
            is_answered: false,
        }
    }

    /// Counts the reply.
    fn answered(mut self, status: StatusCode) {
        self.is_answered = true;
        self.metrics
            .answered(self.route, status.as_u16(), self.started.elapsed());
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Relaxed);
        if !self.is_answered {
            self.metrics.left.fetch_add(1, Relaxed);
            self.metrics
                .answered(self.route, 499, self.started.elapsed());
        }
    }
}

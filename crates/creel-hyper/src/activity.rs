//! Tracks whether an HTTP/1 connection is idle, which means that it is between two requests and has
//! nothing in progress.
//!
//! hyper keeps two buffers of 8 KB while a connection is open, and most connections of most servers
//! are open without a request. We therefore take the stream of an idle connection back from hyper
//! and drop hyper's state. When the next bytes arrive, we pass the stream to hyper again.
//!
//! A connection is idle if hyper has written all of its output, no response is in progress, and
//! nothing was read after the last request. hyper's output buffer is then empty. The bytes that are
//! in its input buffer or still to come begin with the head of the next request. When we take the
//! stream back, we keep the bytes of that buffer.
//!
//! After some requests we cannot know whether the next bytes begin a new request. A request with a
//! body may have a part of the body still to come, and a request for an upgrade may change the
//! protocol. Such a connection is *opaque* and never counts as idle again.
//!
//! A response is in progress until its body is dropped. hyper drops the body when all of it is in
//! hyper's buffer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper::{Method, Request, Response, header};
use pin_project_lite::pin_project;

/// The activity of one connection. Only the task of the connection accesses it, so relaxed accesses
/// are in program order.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// The number of requests so far.
    requests: AtomicUsize,
    /// The number of responses that are not completely in hyper's buffer yet.
    answering: AtomicUsize,
    /// The number of reads so far, and what this number was at the last request.
    reads: AtomicUsize,
    reads_at_request: AtomicUsize,
    /// Whether hyper still has to write a part of a response. It is set by a request, and cleared
    /// when hyper's output buffer is empty and no response is in progress.
    unsent: AtomicBool,
    /// The number of bytes that were read in the current turn of the task.
    bytes: AtomicUsize,
    /// The number of writes that the system accepted, and whether the system rejected the last
    /// write because its buffer is full.
    writes: AtomicUsize,
    is_stuck: AtomicBool,
    /// Whether the connection is opaque: the next bytes may be something other than a request head.
    /// This is never reset.
    is_opaque: AtomicBool,
}

/// The maximum number of bytes that a task reads in one turn. Without it, a client that sends small
/// frames without pause would occupy the worker.
pub(crate) const BYTES_PER_TURN: usize = 64 << 10;

impl Activity {
    /// Starts a turn of the connection's task.
    pub(crate) fn start_turn(&self) {
        self.bytes.store(0, Relaxed);
    }

    /// Returns whether the task has read enough for one turn. If so, this also starts the next
    /// turn, because an upgraded connection has no other place to do it.
    pub(crate) fn end_turn_if_over(&self) -> bool {
        let is_over = self.bytes.load(Relaxed) >= BYTES_PER_TURN;
        if is_over {
            self.start_turn();
        }
        is_over
    }

    /// Records that bytes were read.
    pub(crate) fn record_read(&self, bytes: usize) {
        count(&self.reads, 1);
        count(&self.bytes, bytes);
    }

    /// Records that the system accepted a part of a response, or that it rejected a write because
    /// its buffer is full.
    pub(crate) fn record_write(&self, is_taken: bool) {
        self.is_stuck.store(!is_taken, Relaxed);
        if is_taken {
            count(&self.writes, 1);
        }
    }

    /// Records that hyper's output buffer is empty.
    pub(crate) fn record_flush(&self) {
        if self.answering.load(Relaxed) == 0 {
            self.unsent.store(false, Relaxed);
        }
    }

    /// Records that a request was read.
    fn record_request(&self, request: &Request<Incoming>) {
        let upgrades = request.headers().contains_key(header::UPGRADE);
        if upgrades || request.method() == Method::CONNECT || !request.body().is_end_stream() {
            self.is_opaque.store(true, Relaxed);
        }
        count(&self.requests, 1);
        count(&self.answering, 1);
        self.reads_at_request
            .store(self.reads.load(Relaxed), Relaxed);
        self.unsent.store(true, Relaxed);
    }

    /// Returns whether the connection has not received a request yet.
    #[cfg(feature = "http2")]
    pub(crate) fn is_new(&self) -> bool {
        self.requests.load(Relaxed) == 0
    }

    /// Returns whether the connection is idle now. This means that all requests are answered, all
    /// output is written, and nothing was read after the last request.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_opaque.load(Relaxed)
            && !self.is_stuck.load(Relaxed)
            && !self.unsent.load(Relaxed)
            && self.reads.load(Relaxed) == self.reads_at_request.load(Relaxed)
    }

    /// Returns what the connection has done since the last call, whose counters are in `before`.
    /// Updates these counters. Call it when the task of the connection has nothing else to do.
    pub(crate) fn check(&self, before: &mut Seen) -> State {
        let now = Seen {
            requests: self.requests.load(Relaxed),
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
        };
        let before = std::mem::replace(before, now);
        let is_opaque = self.is_opaque.load(Relaxed);
        if now.requests != before.requests || now.writes != before.writes {
            State::Busy
        } else if self.is_stuck.load(Relaxed) {
            State::Stuck
        } else if self.unsent.load(Relaxed) {
            State::Busy
        } else if is_opaque {
            // Bytes that were read may be part of a request's body, so a read counts as activity.
            match now.reads == before.reads {
                true => State::Waiting,
                false => State::Busy,
            }
        } else if now.reads == self.reads_at_request.load(Relaxed) {
            State::Idle
        } else {
            State::Waiting
        }
    }
}

/// The counters of a connection at one time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    requests: usize,
    reads: usize,
    writes: usize,
}

/// The activity of a connection during a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A request was read, a response is in progress, or a part of one was written. On an opaque
    /// connection, a read counts as well.
    Busy,
    /// During the period, the client read nothing of its response.
    Stuck,
    /// During the period, no complete request head arrived. On an opaque connection, nothing
    /// arrived.
    Waiting,
    /// During the period, nothing happened, and the connection is between two requests. hyper's
    /// buffers can be freed.
    Idle,
}

/// Adds to a counter. A load and a store are enough, and cheaper than an atomic addition, because
/// only the task of the connection writes the counter.
fn count(counter: &AtomicUsize, more: usize) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// A guard that counts a response as in progress until it is dropped.
struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        count(&self.0.answering, 1_usize.wrapping_neg());
    }
}

/// A service that records its requests and responses in the [`Activity`] of one connection.
pub(crate) struct Tracked<S> {
    pub(crate) service: S,
    pub(crate) activity: Arc<Activity>,
}

impl<S, B> Service<Request<Incoming>> for Tracked<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<Answer<B>>;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.activity.record_request(&request);
        let answering = Some(Answering(Arc::clone(&self.activity)));
        let of = self.service.call(request);
        Answer { of, answering }
    }
}

pin_project! {
    /// The future of a response, and then its body.
    pub(crate) struct Answer<T> {
        #[pin]
        of: T,
        answering: Option<Answering>,
    }
}

impl<F, B, E> Future for Answer<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Answer<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.of.poll(cx))?;
        let answering = this.answering.take();
        Poll::Ready(Ok(response.map(|of| Answer { of, answering })))
    }
}

impl<B: Body> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().of.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.of.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.of.size_hint()
    }
}

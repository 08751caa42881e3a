//! Whether a connection of HTTP/1 is at rest: between two requests, with nothing under way.
//!
//! hyper keeps two buffers of 8 KB for as long as a connection is open, and most connections of
//! most servers are open and ask nothing. So one at rest is taken back from hyper, whose state is
//! dropped, and given to it anew with its next bytes.
//!
//! It is at rest if, since all that hyper had to write was written, nothing was read and nobody
//! answers. So hyper's buffers are empty, and what comes next is the head of a request. Where that
//! cannot be told, it is never at rest: after a request with a body, of which a part may yet come,
//! or that asks for another protocol. An answer counts until its body is dropped; hyper does that
//! when all of it lies in its buffer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper::{Method, Request, Response, header};
use pin_project_lite::pin_project;

/// What is known of one connection. It is told by that one's task only, in whose order relaxed
/// accesses are.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Requests so far.
    requests: AtomicUsize,
    /// Of these, those whose answers are not in hyper's buffer in whole.
    answering: AtomicUsize,
    /// How often something was read, and of that, before the last request.
    reads: AtomicUsize,
    reads_asked: AtomicUsize,
    /// An answer is being made, or of the last one something may still lie in hyper's buffer.
    unsent: AtomicBool,
    /// Bytes that were read in the task's turn.
    bytes: AtomicUsize,
    /// How often something of an answer was taken; and that nothing more is for now.
    writes: AtomicUsize,
    is_stuck: AtomicBool,
    /// What is read next may be no head: never at rest again.
    is_opaque: AtomicBool,
}

/// Bytes that are read in a turn of a connection's task, at most: a client that sends as fast as it is
/// read, say small frames that ask for nothing, would have the worker to itself.
pub(crate) const BYTES_A_TURN: usize = 64 << 10;

impl Activity {
    /// The connection's task begins a turn.
    pub(crate) fn has_turn(&self) {
        self.bytes.store(0, Relaxed);
    }

    /// Whether it has read enough for one turn. If so the next begins: what was upgraded has no other
    /// sign of it.
    pub(crate) fn has_had_its_turn(&self) -> bool {
        let is_over = self.bytes.load(Relaxed) >= BYTES_A_TURN;
        if is_over {
            self.has_turn();
        }
        is_over
    }

    pub(crate) fn has_read(&self, bytes: usize) {
        count(&self.reads, 1);
        count(&self.bytes, bytes);
    }

    /// The system has taken something of an answer, or will not for now.
    pub(crate) fn has_written(&self, is_taken: bool) {
        self.is_stuck.store(!is_taken, Relaxed);
        if is_taken {
            count(&self.writes, 1);
        }
    }

    /// All that lay in hyper's buffer is out.
    pub(crate) fn has_sent(&self) {
        if self.answering.load(Relaxed) == 0 {
            self.unsent.store(false, Relaxed);
        }
    }

    fn is_asked(&self, request: &Request<Incoming>) {
        let upgrades = request.headers().contains_key(header::UPGRADE);
        if upgrades || request.method() == Method::CONNECT || !request.body().is_end_stream() {
            self.is_opaque.store(true, Relaxed);
        }
        count(&self.requests, 1);
        count(&self.answering, 1);
        self.reads_asked.store(self.reads.load(Relaxed), Relaxed);
        self.unsent.store(true, Relaxed);
    }

    /// Whether nothing was asked yet.
    #[cfg(feature = "http2")]
    pub(crate) fn is_new(&self) -> bool {
        self.requests.load(Relaxed) == 0
    }

    /// Whether it is at rest now: what was asked is answered, all that was written is out.
    pub(crate) fn rests(&self) -> bool {
        !self.is_opaque.load(Relaxed)
            && !self.is_stuck.load(Relaxed)
            && !self.unsent.load(Relaxed)
            && self.reads.load(Relaxed) == self.reads_asked.load(Relaxed)
    }

    /// Looks, after a while in which there was nothing else to do, what there was since `before`.
    pub(crate) fn look(&self, before: &mut Seen) -> State {
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
            // What is read may belong to a request.
            match now.reads == before.reads {
                true => State::Waits,
                false => State::Busy,
            }
        } else if now.reads == self.reads_asked.load(Relaxed) {
            State::Rests
        } else {
            State::Waits
        }
    }
}

/// What was seen of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    requests: usize,
    reads: usize,
    writes: usize,
}

/// What a connection did for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Requests were read or answered.
    Busy,
    /// Nothing was taken of an answer.
    Stuck,
    /// No request came, or no more than a part of its head.
    Waits,
    /// Nothing, and it is at rest.
    Rests,
}

/// Adds to what one task only writes, without the cost of doing it atomically.
fn count(counter: &AtomicUsize, more: usize) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// A request that is being answered, until this is dropped.
struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        count(&self.0.answering, 1_usize.wrapping_neg());
    }
}

/// A service, and what is asked of it on one connection.
pub(crate) struct Watched<S> {
    pub(crate) service: Arc<S>,
    pub(crate) activity: Arc<Activity>,
}

impl<S, B> Service<Request<Incoming>> for Watched<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<Answer<B>>;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.activity.is_asked(&request);
        let answering = Some(Answering(Arc::clone(&self.activity)));
        let of = self.service.call(request);
        Answer { of, answering }
    }
}

pin_project! {
    /// The making of an answer, and then its body.
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

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
//! Sometimes we cannot know whether the next bytes begin a new request. A request with a body may
//! have a part of the body still to come, and after an upgrade the bytes belong to another protocol.
//! Such a connection is *opaque* until its next request, and does not count as idle.
//!
//! A response is in progress until its body is dropped. hyper drops the body when all of it is in
//! hyper's buffer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper::{Method, Request, Response, StatusCode};
use pin_project_lite::pin_project;

/// The activity of one connection. Only the task of the connection changes the fields, except for
/// `quiet`, so its relaxed accesses are in program order. The sweep also reads them (`sweep.rs`).
///
/// A connection keeps it while it is idle. If we freed it with hyper's state and allocated it again,
/// it would be in the middle of the freed memory, which could then not return to the system.
///
/// It is as small as possible, because a server with thousands of busy connections finds none of
/// them in a near cache.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// The number of changes so far. A change is a request, a write that the system accepts, the
    /// first write that it rejects, and the beginning of a phase. On an opaque connection that is not
    /// stuck, reads of [`PROGRESS_BYTES`] together are a change as well. The number wraps around.
    changes: AtomicU32,
    /// The number of responses that are not completely in hyper's buffer yet.
    answering: AtomicU32,
    /// The number of reads so far, and what this number was at the last request. Both wrap around.
    reads: AtomicU32,
    reads_at_request: AtomicU32,
    /// The number of bytes that were read in the current turn of the task.
    bytes: AtomicU32,
    /// The number of bytes that were read since the last change, if the connection is opaque.
    opaque_bytes: AtomicU32,
    /// Whether hyper still has to write a part of a response. It is set by a request, and cleared
    /// when hyper's output buffer is empty and no response is in progress.
    unsent: AtomicBool,
    /// Whether the system rejected the last write because its buffer is full.
    is_stuck: AtomicBool,
    /// Whether the connection is opaque: the next bytes may be something other than a request head.
    is_opaque: AtomicBool,
    /// Whether hyper's state has read a request since it was created.
    has_request: AtomicBool,
    /// How often the connection has received or freed hyper's state.
    phase: AtomicU32,
    /// What the sweep has found: the number of changes in the upper half, and in the lower half for
    /// how many milliseconds it has been the same. The lower half is 0 if the sweep has found
    /// nothing.
    quiet: AtomicU64,
}

/// The maximum number of bytes that a task reads in one turn. Without it, a client that sends small
/// frames without pause would occupy the worker.
pub(crate) const BYTES_PER_TURN: u32 = 64 << 10;

/// The number of bytes that count as progress on an opaque connection. These bytes may be the rest of
/// a body, which a client may still send after the response, or the head of the next request. If each
/// byte counted, a client could send this head byte by byte without any time limit. By default, hyper
/// accepts a head of about 400 KB at most. A head can therefore take at most a few times as long as
/// the time limit.
const PROGRESS_BYTES: u32 = 64 << 10;

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
        add(&self.reads, 1);
        // All reads are shorter than 4 GB.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        add(&self.bytes, bytes);
        if self.is_opaque.load(Relaxed) && !self.is_stuck.load(Relaxed) {
            let bytes = self.opaque_bytes.load(Relaxed).saturating_add(bytes);
            if bytes >= PROGRESS_BYTES {
                add(&self.changes, 1);
            }
            self.opaque_bytes.store(bytes % PROGRESS_BYTES, Relaxed);
        }
    }

    /// Records that the system accepted a part of a response, or that it rejected a write because
    /// its buffer is full.
    pub(crate) fn record_write(&self, is_taken: bool) {
        let was_stuck = self.is_stuck.load(Relaxed);
        self.is_stuck.store(!is_taken, Relaxed);
        // The time of a stuck connection begins with its first rejected write.
        if is_taken || !was_stuck {
            add(&self.changes, 1);
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
        // hyper has read the whole body of the previous request.
        let is_opaque = request.method() == Method::CONNECT || !request.body().is_end_stream();
        self.is_opaque.store(is_opaque, Relaxed);
        self.opaque_bytes.store(0, Relaxed);
        self.has_request.store(true, Relaxed);
        add(&self.changes, 1);
        add(&self.answering, 1);
        self.reads_at_request
            .store(self.reads.load(Relaxed), Relaxed);
        self.unsent.store(true, Relaxed);
    }

    /// Records that the response begins. After an upgrade, the bytes belong to another protocol.
    fn record_response(&self, status: StatusCode) {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            self.is_opaque.store(true, Relaxed);
        }
    }

    /// Records that hyper's state is new.
    pub(crate) fn expect_first_request(&self) {
        self.has_request.store(false, Relaxed);
    }

    /// Returns whether hyper's state has read a request since it was created.
    pub(crate) fn has_request(&self) -> bool {
        self.has_request.load(Relaxed)
    }

    /// Returns whether the connection is idle now. This means that all requests are answered, all
    /// output is written, and nothing was read after the last request.
    pub(crate) fn is_idle(&self) -> bool {
        self.state() == State::Idle
    }

    fn state(&self) -> State {
        if self.is_stuck.load(Relaxed) {
            State::Stuck
        } else if self.unsent.load(Relaxed) {
            State::Busy
        } else if !self.is_opaque.load(Relaxed)
            && self.reads.load(Relaxed) == self.reads_at_request.load(Relaxed)
        {
            State::Idle
        } else {
            State::Waiting
        }
    }

    /// Returns the progress so far. Any thread may call it. Another thread than that of the
    /// connection's task may see the fields at different times.
    pub(crate) fn progress(&self) -> Progress {
        Progress {
            changes: self.changes.load(Relaxed),
            state: self.state(),
        }
    }

    /// Records that the progress was the same for some time. Any thread may call it.
    pub(crate) fn record_quiet(&self, progress: Progress, time: Duration) {
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        let quiet = u64::from(progress.changes) << 32 | u64::from(ms);
        self.quiet.store(quiet, Relaxed);
    }

    /// Returns the state of a connection without progress, and for how long it has made none, if the
    /// sweep has found that. Call it when the task of the connection has nothing else to do. It
    /// returns each finding once.
    pub(crate) fn take_quiet(&self) -> Option<(State, Duration)> {
        let quiet = self.quiet.load(Relaxed);
        if quiet == 0 {
            return None;
        }
        self.quiet.store(0, Relaxed);
        let (changes, ms) = ((quiet >> 32) as u32, quiet as u32);
        // The connection may have made progress since.
        let is_current = changes == self.changes.load(Relaxed);
        is_current.then(|| (self.state(), Duration::from_millis(ms.into())))
    }

    /// Records that the connection has received or freed hyper's state. Returns the number of this
    /// phase.
    pub(crate) fn begin_phase(&self) -> u32 {
        add(&self.phase, 1);
        // A finding of the last phase does not count in this one.
        add(&self.changes, 1);
        self.quiet.store(0, Relaxed);
        self.phase()
    }

    /// Returns the number of the current phase. Any thread may call it.
    pub(crate) fn phase(&self) -> u32 {
        self.phase.load(Relaxed)
    }
}

/// The progress of a connection at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    changes: u32,
    state: State,
}

impl Progress {
    /// Returns whether the connection is busy, although it may make no progress for now.
    pub(crate) fn is_busy(self) -> bool {
        self.state == State::Busy
    }
}

/// What a connection does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// A response is in progress.
    #[default]
    Busy,
    /// A response is in progress, and the client did not read what was sent.
    Stuck,
    /// No complete request head has arrived. On an opaque connection, the next bytes may be anything.
    Waiting,
    /// The connection is between two requests. hyper's buffers can be freed.
    Idle,
}

/// Adds to a counter, which wraps around. A load and a store are enough, and cheaper than an atomic
/// addition, because only the task of the connection writes the counter.
fn add(counter: &AtomicU32, more: u32) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// A guard that counts a response as in progress until it is dropped.
struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        add(&self.0.answering, 1_u32.wrapping_neg());
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
        answering
            .iter()
            .for_each(|answering| answering.0.record_response(response.status()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_a_body_do_not_extend_the_time_of_a_stuck_response() {
        let activity = Activity::default();
        activity.is_opaque.store(true, Relaxed);
        let before = activity.progress();
        activity.record_read(PROGRESS_BYTES as usize);
        assert_ne!(activity.progress(), before);
        activity.record_write(false);
        let stuck = activity.progress();
        activity.record_read(PROGRESS_BYTES as usize);
        activity.record_write(false);
        assert_eq!(activity.progress(), stuck);
        activity.record_write(true);
        assert_ne!(activity.progress(), stuck);
    }

    #[test]
    fn small_reads_on_an_opaque_connection_are_no_progress_until_they_add_up() {
        let activity = Activity::default();
        activity.is_opaque.store(true, Relaxed);
        let before = activity.progress();
        (1..PROGRESS_BYTES).for_each(|_| activity.record_read(1));
        assert_eq!(activity.progress(), before);
        activity.record_read(1);
        assert_ne!(activity.progress(), before);
    }

    #[test]
    fn a_finding_of_one_phase_does_not_count_in_the_next() {
        let activity = Activity::default();
        activity.begin_phase();
        let progress = activity.progress();
        let time = Duration::from_secs(1);
        activity.record_quiet(progress, time);
        assert_eq!(activity.take_quiet(), Some((State::Idle, time)));
        assert_eq!(activity.take_quiet(), None);
        activity.begin_phase();
        activity.record_quiet(progress, time);
        assert_eq!(activity.take_quiet(), None);
    }
}

//! The streaming task of a pad.
//!
//! GStreamer calls an element from any thread: a program changes the state, a streaming thread
//! sends a flush or an event. A [`Stream`] is the task that pushes buffers, together with the flags
//! that these callers set. The task runs *steps*. In a step it holds the lock of its [`Body`], and
//! pushes downstream. Between two steps it holds nothing.
//!
//! Therefore a state change never has to wait for the task itself. It clears a flag and then takes
//! the lock of the body, which it gets as soon as a running step is over. If no step runs, it gets
//! the lock at once, even on the thread that would run the task. This matters because a streaming
//! thread of a context may change the state of other elements of the same context. A thread that
//! changes the state of a stream *in a step of the same stream* does not wait at all, since the
//! step ends after it returns.
//!
//! # Deferred work
//!
//! An element that receives a buffer sometimes has to wait, for example because its queue is full.
//! It must not block a thread of a context, because other streams run there. It calls [`defer`]
//! instead. The stream whose step pushed the buffer then runs no further step until the deferred
//! work is done. On a thread that belongs to no context, `defer` returns `false`, and the element
//! blocks as GStreamer's own elements do.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Cx, Poll, Waker};

use crate::context::{Context, Task, Worker};

/// The pad is active.
const ACTIVE: u32 = 1;
/// The element's state lets the stream run.
const RUNNING: u32 = 2;
/// A flush has begun and not ended.
const FLUSHING: u32 = 4;
/// The stream has ended, by the end of its data or by an error.
const ENDED: u32 = 8;
/// The program has asked for the end of the stream.
const EOS_ASKED: u32 = 16;
/// A flush has ended. The body learns this before its next step.
const FLUSHED: u32 = 32;
/// The pad was activated, which has removed its sticky events.
const RESTARTED: u32 = 128;
/// The task must end.
const CLOSED: u32 = 64;

/// The number of steps after which the task lets other tasks run.
const STEPS_MAX: u32 = 256;

/// The part of an element that its streaming task runs.
pub(crate) trait Body: Send + 'static {
    /// Runs one step, for example pushes one buffer. If there is nothing to do yet, arranges that
    /// the task of `cx` is woken.
    ///
    /// It is called with the lock of the body held. Code that a push may call, such as a handler of
    /// upstream events, must therefore not take this lock.
    fn poll_step(&mut self, cx: &mut Cx<'_>) -> Poll<Result<(), gst::FlowError>>;

    /// Reacts to an error that a step returned, or to a request for the end of the stream.
    fn ended(&mut self, error: gst::FlowError);

    /// Reacts to the end of a flush. The stream has to send a new segment.
    fn flushed(&mut self) {}

    /// Reacts to the activation of the pad, which has removed its sticky events.
    fn restarted(&mut self) {}

    /// Reports that a step has panicked.
    fn panicked(&mut self, message: &str);
}

/// Work that has to be done before the stream that caused it continues. Returns whether it is done,
/// or arranges that the task is woken.
pub(crate) type Deferred = Box<dyn FnMut(&mut Cx<'_>) -> Poll<()> + Send>;

thread_local! {
    /// The stream whose step this thread runs, as the address of its shared part, or 0.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
    /// The work that this step has deferred.
    static DEFERRED: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) };
    /// The worker of a context whose thread this is. The first poll of a stream sets it.
    static WORKER: RefCell<Option<Arc<Worker>>> = const { RefCell::new(None) };
}

/// Returns the worker of a context whose thread this is, if a stream has run here.
pub(crate) fn worker() -> Option<Arc<Worker>> {
    WORKER.with_borrow(Clone::clone)
}

/// Returns whether the calling thread is the thread of this worker.
pub(crate) fn is_on(worker: &Arc<Worker>) -> bool {
    WORKER.with_borrow(|own| own.as_ref().is_some_and(|own| Arc::ptr_eq(own, worker)))
}

/// Returns whether the calling thread runs a step of a stream, so that it must not block.
pub(crate) fn in_step() -> bool {
    CURRENT.get() != 0
}

/// Makes the stream whose step the calling thread runs wait for `work`. Returns `false`, and does
/// nothing, if the thread runs no step.
pub(crate) fn defer(work: Deferred) -> bool {
    let possible = in_step();
    if possible {
        DEFERRED.with_borrow_mut(|deferred| deferred.push(work));
    }
    possible
}

/// Marks the calling thread as one that runs a step, until it is dropped.
struct InStep {
    before: usize,
}

impl InStep {
    fn enter(stream: usize) -> Self {
        let before = CURRENT.replace(stream);
        Self { before }
    }
}

impl Drop for InStep {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// The streaming task of a pad, and the flags with which other threads control it.
pub(crate) struct Stream<B> {
    /// The part that the task shares. Each [`Stream::prepare`] creates a new one, so that a step of
    /// the former task, which may be on the stack of the caller, cannot be confused with it.
    shared: Mutex<Arc<Shared<B>>>,
    task: Mutex<Option<Task>>,
}

struct Shared<B> {
    /// The flags above. We access them with sequentially consistent ordering, because a thread that
    /// clears a flag and then takes the lock of the body must not miss a step that began before.
    /// The task reads the flags again after it has taken the lock.
    flags: AtomicU32,
    waker: Mutex<Option<Waker>>,
    body: Mutex<Option<B>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Body> Default for Stream<B> {
    fn default() -> Self {
        Self {
            shared: Mutex::new(Arc::new(Shared::new(0, None))),
            task: Mutex::default(),
        }
    }
}

impl<B: Body> Stream<B> {
    /// Starts the task. It runs no step before the pad is active and the stream is allowed to run.
    pub(crate) fn prepare(&self, context: &Context, body: B) {
        let shared = {
            let mut shared = lock(&self.shared);
            let flags = shared.flags.load(Ordering::SeqCst) & (ACTIVE | RESTARTED);
            *shared = Arc::new(Shared::new(flags, Some(body)));
            Arc::clone(&shared)
        };
        let worker = context.next_worker();
        let own = Arc::clone(&worker);
        let (mut deferred, mut known) = (Vec::new(), false);
        let task = worker.spawn(poll_fn(move |cx| {
            if !known {
                *lock(&shared.waker) = Some(cx.waker().clone());
                WORKER.set(Some(Arc::clone(&own)));
                known = true;
            }
            shared.poll(cx, &mut deferred)
        }));
        *lock(&self.task) = Some(task);
    }

    /// Ends the task and drops its body. Waits for a step that runs on another thread.
    pub(crate) fn unprepare(&self) {
        self.set(CLOSED);
        let shared = self.shared();
        if !shared.is_current() {
            let body = lock(&shared.body).take();
            drop(body);
            drop(lock(&self.task).take());
        }
        lock(&shared.waker).take();
    }

    /// Lets the stream run, and forgets that it ended.
    pub(crate) fn run(&self) {
        self.clear(ENDED);
        self.set(RUNNING);
    }

    /// Stops the stream after the current step.
    pub(crate) fn pause(&self) {
        self.clear(RUNNING);
    }

    /// Follows the activation of the pad. When the pad is deactivated, waits for a step that runs
    /// on another thread.
    pub(crate) fn activate(&self, active: bool) {
        if active {
            self.clear(FLUSHING | ENDED | EOS_ASKED);
            self.set(ACTIVE | RESTARTED);
        } else {
            self.clear(ACTIVE);
            self.wait_for_step();
        }
    }

    /// Begins a flush. A step that is running ends when its push returns. The caller must then push
    /// the flush event downstream, because this event makes a push that waits return.
    pub(crate) fn flush_start(&self) {
        self.set(FLUSHING);
    }

    /// Waits until no step runs on another thread, so that the end of a flush can be pushed.
    pub(crate) fn wait_for_step(&self) {
        let shared = self.shared();
        if !shared.is_current() {
            drop(lock(&shared.body));
        }
    }

    /// Returns whether the calling thread runs a step of this stream.
    pub(crate) fn is_current(&self) -> bool {
        self.shared().is_current()
    }

    /// Ends a flush.
    pub(crate) fn flush_stop(&self) {
        self.set(FLUSHED);
        self.clear(FLUSHING | ENDED);
    }

    /// Asks for the end of the stream.
    pub(crate) fn ask_for_eos(&self) {
        self.set(EOS_ASKED);
    }

    fn shared(&self) -> Arc<Shared<B>> {
        Arc::clone(&lock(&self.shared))
    }

    fn set(&self, flags: u32) {
        let shared = self.shared();
        shared.flags.fetch_or(flags, Ordering::SeqCst);
        shared.wake();
    }

    fn clear(&self, flags: u32) {
        let shared = self.shared();
        shared.flags.fetch_and(!flags, Ordering::SeqCst);
        shared.wake();
    }
}

impl<B> Shared<B> {
    fn new(flags: u32, body: Option<B>) -> Self {
        Self {
            flags: AtomicU32::new(flags),
            waker: Mutex::default(),
            body: Mutex::new(body),
        }
    }
}

impl<B: Body> Shared<B> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns whether the calling thread runs a step of this stream.
    fn is_current(&self) -> bool {
        CURRENT.get() == self.address()
    }

    /// Wakes the task, so that it reads its flags again.
    fn wake(&self) {
        if let Some(waker) = &*lock(&self.waker) {
            waker.wake_by_ref();
        }
    }

    fn has(&self, flags: u32) -> bool {
        self.flags.load(Ordering::SeqCst) & flags == flags
    }

    /// Clears a flag, and returns whether it was set.
    fn take(&self, flag: u32) -> bool {
        self.flags.fetch_and(!flag, Ordering::SeqCst) & flag != 0
    }

    fn runs(&self) -> bool {
        const ALL: u32 = ACTIVE | RUNNING | FLUSHING | ENDED | CLOSED;
        self.flags.load(Ordering::SeqCst) & ALL == ACTIVE | RUNNING
    }

    fn poll(&self, cx: &mut Cx<'_>, deferred: &mut Vec<Deferred>) -> Poll<()> {
        for _ in 0..STEPS_MAX {
            if !self.has(ACTIVE) || self.has(FLUSHING) {
                deferred.clear();
            }
            if !self.runs() && deferred.is_empty() {
                break;
            }
            let mut body = lock(&self.body);
            let Some(inner) = &mut *body else {
                return Poll::Ready(());
            };
            let step = InStep::enter(self.address());
            let polled = catch_unwind(AssertUnwindSafe(|| self.poll_body(inner, cx, deferred)));
            drop(step);
            DEFERRED.with_borrow_mut(|more| deferred.append(more));
            match polled {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(())) => {}
                Err(panic) => {
                    self.flags.fetch_or(ENDED, Ordering::SeqCst);
                    inner.panicked(message(&*panic));
                }
            }
        }
        if self.has(CLOSED) {
            lock(&self.body).take();
            return Poll::Ready(());
        }
        if self.runs() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Runs the deferred work of the last step, or the next step.
    fn poll_body(&self, body: &mut B, cx: &mut Cx<'_>, deferred: &mut Vec<Deferred>) -> Poll<()> {
        if !deferred.is_empty() {
            deferred.retain_mut(|work| work(cx).is_pending());
            // Deferred work may itself push a buffer, and defer more.
            let more = DEFERRED.with_borrow(|more| !more.is_empty());
            return match more || deferred.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            };
        }
        // The flags may have changed before we had the lock of the body.
        if !self.runs() {
            return Poll::Ready(());
        }
        let mut end = false;
        if self.flags.load(Ordering::SeqCst) & (RESTARTED | FLUSHED | EOS_ASKED) != 0 {
            if self.take(RESTARTED) {
                body.restarted();
            }
            if self.take(FLUSHED) {
                body.flushed();
            }
            end = self.take(EOS_ASKED);
        }
        let result = match end {
            true => Err(gst::FlowError::Eos),
            false => match body.poll_step(cx) {
                Poll::Ready(result) => result,
                Poll::Pending => return Poll::Pending,
            },
        };
        if let Err(error) = result {
            self.flags.fetch_or(ENDED, Ordering::SeqCst);
            // A flush or a deactivated pad makes the push fail as well, but is not the end of the
            // stream. We set `ENDED` in this case too, so that no further step runs. The end of the
            // flush or the next activation of the pad clears it again.
            if error != gst::FlowError::Flushing {
                body.ended(error);
            }
        }
        Poll::Ready(())
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

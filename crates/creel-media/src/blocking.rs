//! Waits for a future on a plain thread. The `_blocking` methods of the channel use it.

use creel::task::unconstrained;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// A waker that unparks one thread.
struct Unparker {
    thread: Thread,
    /// Set by a wake with `Release`, and cleared by the thread with `Acquire`, so that the thread
    /// sees what was written before the wake. Because of this flag, no wake is lost if other code
    /// consumes the park token.
    woken: AtomicBool,
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Polls `future` on this thread until it is ready. Parks the thread between polls.
///
/// The budget of a surrounding task does not apply, because the future would never be ready if the
/// task has used it up.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let unparker = Arc::new(Unparker {
        thread: thread::current(),
        woken: AtomicBool::new(false),
    });
    let waker = Waker::from(Arc::clone(&unparker));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(unconstrained(future));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        while !unparker.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

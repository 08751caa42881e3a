//! Waits for a future on a plain thread. The `_blocking` methods of the channels use it.
//!
//! It parks the thread and runs nothing else on it. If you want the thread to run tasks while it
//! waits, use `Pool::block_on`.

use crate::sync::{
    AtomicBool, Ordering, local,
    thread::{self, Thread},
    thread_local,
};
use crate::worker::budget;
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A waker that unparks one thread.
struct Unparker {
    thread: Thread,
    /// Whether the thread was woken. A wake sets this flag, and the thread clears it. Without the
    /// flag, a wake would be lost if other code on the thread consumed the park token.
    woken: AtomicBool,
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

thread_local! {
    /// The unparker of this thread. The first wait creates it. It is taken out while it is in use,
    /// so that a nested wait creates its own.
    static UNPARKER: RefCell<Option<Arc<Unparker>>> = const { RefCell::new(None) };
}

/// Polls `future` on this thread until it is ready. Parks the thread between polls.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let cached = local(&UNPARKER, RefCell::take);
    let unparker = cached.flatten().unwrap_or_else(|| {
        Arc::new(Unparker {
            thread: thread::current(),
            woken: AtomicBool::new(false),
        })
    });
    let waker = Waker::from(unparker.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        // In a task that has used up its budget, the future would never be ready and would be
        // polled again and again. Therefore we suspend the budget.
        let suspended = budget::suspend();
        let polled = future.as_mut().poll(&mut context);
        drop(suspended);
        if let Poll::Ready(output) = polled {
            local(&UNPARKER, |cell| cell.replace(Some(unparker)));
            return output;
        }
        while !unparker.woken.swap(false, Ordering::AcqRel) {
            thread::park();
        }
    }
}

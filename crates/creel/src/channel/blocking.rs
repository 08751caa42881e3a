//! Waiting for a future on a plain thread: the blocking side of the channels.
//!
//! It parks the thread and runs nothing else meanwhile; a program that wants its thread to help
//! uses `Pool::block_on`.

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

/// Unparks one thread.
struct Unparker {
    thread: Thread,
    /// Set by a wake, taken by the thread: a park token that other code used up is no wake lost.
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
    /// Made once a thread. Taken out while in use, so that a nested wait makes its own.
    static UNPARKER: RefCell<Option<Arc<Unparker>>> = const { RefCell::new(None) };
}

/// Polls `future` on this thread until it is ready, parking in between.
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
        // In a task that has used up its budget, it would be polled over and over.
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

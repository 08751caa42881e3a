//! Time limits for tests, so that a hang fails with a message instead of blocking the test run.

use std::{
    panic::resume_unwind,
    pin::pin,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// A limit far above the time that any test here takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Runs `f` on a thread of its own and returns its result.
///
/// # Panics
///
/// Panics if `f` has not returned in time. Its thread then continues to run. A panic of `f` is
/// passed on to the caller.
#[allow(
    dead_code,
    reason = "each test program uses only a part of this module"
)]
#[track_caller]
pub fn bounded<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        // If `f` took too long, nobody receives the result, so we ignore the error.
        let _ = done.send(f());
    });
    match wait.recv_timeout(LIMIT) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: not done after {LIMIT:?}"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => resume_unwind(payload),
            Ok(()) => unreachable!("a thread that returns has sent its result"),
        },
    }
}

/// Counts up to `most` rounds of a test. On a busy machine there are fewer rounds, so that all
/// rounds together take about a third of [`LIMIT`]. The rest of the limit is for a round that
/// hangs.
#[allow(
    dead_code,
    reason = "each test program uses only a part of this module"
)]
pub fn rounds(most: usize) -> impl Iterator<Item = usize> {
    let begin = Instant::now();
    (0..most).take_while(move |_| begin.elapsed() < LIMIT / 3)
}

/// A waker that unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on a thread that runs none of the pool's work during the wait.
#[allow(
    dead_code,
    reason = "each test program uses only a part of this module"
)]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        thread::park();
    }
}

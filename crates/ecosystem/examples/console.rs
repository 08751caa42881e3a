//! Shows the tasks of a pool in tokio-console.
//!
//!     cargo install --locked tokio-console
//!     cargo run --example console
//!     tokio-console
//!
//! Creel has no hook of its own for tracing, because `Traced` below can wrap any future. Copy it
//! into your program, and wrap the futures that you want to see. console-subscriber needs the flag
//! in `.cargo/config.toml`.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use creel::channel::bounded;
use creel::task::JoinSet;
use tracing::{Id, Span};

/// A future that reports its polls and wake-ups to console-subscriber.
pub struct Traced<F> {
    future: Pin<Box<F>>,
    span: Span,
}

impl<F> Traced<F> {
    /// Wraps the future of a task. The console shows its name, and the line of this call.
    #[track_caller]
    pub fn new(name: &str, future: F) -> Self {
        let place = Location::caller();
        let span = tracing::trace_span!(
            target: "tokio::task",
            "runtime.spawn",
            kind = "task",
            task.name = name,
            loc.file = place.file(),
            loc.line = place.line(),
            loc.col = place.column(),
        );
        let future = Box::pin(future);
        Traced { future, span }
    }
}

impl<F: Future> Future for Traced<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Traced { future, span } = self.get_mut();
        let Some(task) = span.id() else {
            // No subscriber wants this span.
            return future.as_mut().poll(cx);
        };
        let _entered = span.enter();
        let waker = Waker::from(Arc::new(TracedWaker::new(task, cx.waker().clone())));
        future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// A waker that reports its calls. There is a new one for each poll, so that the console warns if a
/// task waits and nobody has kept its waker.
struct TracedWaker {
    task: u64,
    waker: Waker,
}

impl TracedWaker {
    fn new(task: Id, waker: Waker) -> Self {
        let traced = TracedWaker {
            task: task.into_u64(),
            waker,
        };
        traced.report("waker.clone");
        traced
    }

    fn report(&self, op: &str) {
        tracing::trace!(target: "tokio::task::waker", op, task.id = self.task);
    }
}

impl Wake for TracedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.report("waker.wake_by_ref");
        self.waker.wake_by_ref();
    }
}

impl Drop for TracedWaker {
    fn drop(&mut self) {
        self.report("waker.drop");
    }
}

/// Runs three tasks until the program ends: one sends numbers, one adds them up, and one computes
/// for long in each poll.
pub async fn run() {
    let (sender, receiver) = bounded::channel(1);
    let mut tasks = JoinSet::new();
    tasks.spawn(Traced::new("sender", async move {
        let mut pause = creel::time::interval(Duration::from_millis(10));
        for number in 0_u64.. {
            pause.tick().await;
            if sender.send(number).await.is_err() {
                return;
            }
        }
    }));
    tasks.spawn(Traced::new("receiver", async move {
        let mut sum = 0_u64;
        while let Ok(number) = receiver.recv().await {
            sum = sum.wrapping_add(number);
        }
    }));
    tasks.spawn(Traced::new("busy", async {
        loop {
            let sum: u64 = std::hint::black_box((0..100_000).sum());
            assert_ne!(sum, 0);
            creel::time::sleep(Duration::from_millis(50)).await;
        }
    }));
    while tasks.join_next().await.is_some() {}
}

/// Starts the console and the tasks.
#[creel::main]
pub async fn main() {
    // This starts a thread, on which the console's server runs with a runtime of its own.
    console_subscriber::init();
    run().await;
}

//! A future that enters tokio's context around each poll.

use crate::Tokio;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// The future that [`with_tokio`](crate::with_tokio) and [`Tokio::wrap`] return.
    ///
    /// It enters tokio's context around each poll. It also does so while it drops the inner future,
    /// because some destructors need the context. For example, a connection may spawn a task that
    /// says goodbye to its server.
    #[must_use = "futures do nothing unless awaited or spawned"]
    pub struct WithTokio<F> {
        tokio: Tokio,
        // The inner future. It is `None` after it was ready, because we drop it at once, inside the
        // context.
        #[pin]
        future: Option<F>,
    }

    impl<F> PinnedDrop for WithTokio<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_none() {
                return;
            }
            let _entered = this.tokio.enter_to_drop();
            this.future.set(None);
        }
    }
}

impl<F: Future> WithTokio<F> {
    pub(crate) fn new(tokio: Tokio, future: F) -> Self {
        let future = Some(future);
        WithTokio { tokio, future }
    }
}

impl<F: Future> Future for WithTokio<F> {
    type Output = F::Output;

    /// Polls the future inside tokio's context.
    ///
    /// # Panics
    ///
    /// Panics if it has already returned the output.
    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let _entered = this.tokio.enter();
        let future = this.future.as_mut().as_pin_mut();
        let polled = future
            .expect("the future was polled after it was ready")
            .poll(cx);
        if polled.is_ready() {
            this.future.set(None);
        }
        polled
    }
}

impl<F> fmt::Debug for WithTokio<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithTokio")
            .field("finished", &self.future.is_none())
            .finish_non_exhaustive()
    }
}

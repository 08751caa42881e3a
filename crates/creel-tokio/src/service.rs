//! A service of hyper whose requests are answered inside tokio's context.

use crate::{Tokio, WithTokio};
use hyper::body::{Body, Frame, SizeHint};
use hyper::service::Service;
use hyper::{Request, Response};
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Answers requests inside tokio's context. Wrap the service of a server whose handlers need tokio,
/// for example axum's WebSocket upgrades, `Sse::keep_alive`, or tower's `timeout`.
///
/// The service itself, its futures and the bodies of its responses run on the workers of the pool.
/// Only `tokio::spawn` inside them uses the helper thread.
///
/// ```
/// use creel_tokio::TokioService;
/// use hyper::{Request, Response, body::Incoming, service::service_fn};
///
/// let service = service_fn(async |_: Request<Incoming>| {
///     let text = tokio::fs::read_to_string("Cargo.toml").await?;
///     std::io::Result::Ok(Response::new(text))
/// });
/// let listener = creel::net::TcpListener::bind("127.0.0.1:0".parse()?)?;
/// let server = creel_hyper::serve(listener, TokioService::new(service));
/// # drop(server);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// For an application of axum, pass `TokioService::new(creel_hyper::Tower(app))`.
#[derive(Clone)]
pub struct TokioService<S> {
    service: S,
    tokio: Tokio,
}

impl<S> TokioService<S> {
    /// Wraps a service. It uses the tokio runtime of the process ([`Tokio::global`]).
    ///
    /// # Panics
    ///
    /// Panics if the operating system refuses the helper thread or its descriptors.
    pub fn new(service: S) -> Self {
        Self::with_tokio(service, Tokio::global())
    }

    /// Wraps a service. It uses a tokio runtime of your choice.
    pub fn with_tokio(service: S, tokio: &Tokio) -> Self {
        let tokio = tokio.clone();
        TokioService { service, tokio }
    }
}

impl<S: fmt::Debug> fmt::Debug for TokioService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokioService").field(&self.service).finish()
    }
}

impl<S, R, B> Service<Request<R>> for TokioService<S>
where
    S: Service<Request<R>, Response = Response<B>>,
{
    type Response = Response<TokioBody<B>>;
    type Error = S::Error;
    type Future = TokioResponse<S::Future>;

    fn call(&self, request: Request<R>) -> Self::Future {
        let _entered = self.tokio.enter();
        TokioResponse {
            response: self.tokio.wrap(self.service.call(request)),
            tokio: self.tokio.clone(),
        }
    }
}

pin_project! {
    /// The future that a [`TokioService`] returns. It resolves to the response.
    #[must_use = "futures do nothing unless awaited or spawned"]
    pub struct TokioResponse<F> {
        #[pin]
        response: WithTokio<F>,
        tokio: Tokio,
    }
}

impl<F, B, E> Future for TokioResponse<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<TokioBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(cx))?;
        let tokio = this.tokio.clone();
        let body = |body| TokioBody {
            body: Some(body),
            tokio,
        };
        Poll::Ready(Ok(response.map(body)))
    }
}

impl<F> fmt::Debug for TokioResponse<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioResponse").finish_non_exhaustive()
    }
}

pin_project! {
    /// The body of a response of a [`TokioService`]. It is polled and dropped inside tokio's
    /// context, because it may contain timers.
    pub struct TokioBody<B> {
        // The inner body. It is `None` only while we drop it.
        #[pin]
        body: Option<B>,
        tokio: Tokio,
    }

    impl<B> PinnedDrop for TokioBody<B> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _entered = this.tokio.enter_to_drop();
            this.body.set(None);
        }
    }
}

impl<B: Body> Body for TokioBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let _entered = this.tokio.enter();
        match this.body.as_pin_mut() {
            Some(body) => body.poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl<B> fmt::Debug for TokioBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioBody").finish_non_exhaustive()
    }
}

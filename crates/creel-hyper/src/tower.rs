//! Adapts services of tower, such as axum's routers, to hyper.

use std::future::{Future, poll_fn};
use std::pin::Pin;

use hyper::Request;
use hyper::body::Incoming;
use tower_service::Service;

/// Makes a service of tower usable for hyper. For example, `Tower(router)` adapts an axum
/// application.
///
/// ```
/// use axum::{Router, routing::get};
///
/// let router: Router = Router::new().route("/", get(async || "hello"));
/// let service = creel_hyper::Tower(router);
/// # drop(service);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Tower<S>(pub S);

impl<S> hyper::service::Service<Request<Incoming>> for Tower<S>
where
    S: Service<Request<Incoming>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let mut service = self.0.clone();
        Box::pin(async move {
            poll_fn(|cx| service.poll_ready(cx)).await?;
            service.call(request).await
        })
    }
}

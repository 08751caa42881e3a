//! The address of a client, for the service that answers its requests.

use std::fmt;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service;

/// The address of the client that sent a request.
///
/// The server adds it to the extensions of each request if you ask for it with
/// [`Serve::with_peer`](crate::Serve::with_peer).
pub struct Peer<A>(Arc<A>);

impl<A> Peer<A> {
    pub(crate) fn new(addr: A) -> Self {
        Peer(Arc::new(addr))
    }

    /// Returns the address.
    pub fn addr(&self) -> &A {
        &self.0
    }
}

impl<A> Clone for Peer<A> {
    fn clone(&self) -> Self {
        Peer(Arc::clone(&self.0))
    }
}

impl<A: fmt::Debug> fmt::Debug for Peer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Peer").field(&self.0).finish()
    }
}

/// A service for one connection. It adds the address of the client to requests.
pub(crate) struct WithPeer<S, A> {
    pub(crate) service: Arc<S>,
    pub(crate) peer: Option<Peer<A>>,
}

impl<S, A> Clone for WithPeer<S, A> {
    fn clone(&self) -> Self {
        WithPeer {
            service: Arc::clone(&self.service),
            peer: self.peer.clone(),
        }
    }
}

impl<S, A> Service<Request<Incoming>> for WithPeer<S, A>
where
    S: Service<Request<Incoming>>,
    A: Send + Sync + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        self.service.call(request)
    }
}

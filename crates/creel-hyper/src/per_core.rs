//! Serving with a listener for each worker.
//!
//! A pool has one poller, which all of its workers use. Therefore an event of a connection may
//! reach a worker that does not run the connection's task. We avoid that with one pool per core,
//! each with a single worker, a poller and a listener of its own. A connection then never leaves
//! its core, and no wake-up crosses threads.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::{io, net};

use creel::net::{Stream, TcpListener};
use creel::task::{CancellationToken, JoinSet};
use creel::{BuildError, Placement, Pool};
use hyper::body::{Body, Incoming};
use hyper::rt::{Read, Write};
use hyper::service::Service;
use hyper::{Request, Response};

use crate::Serve;
use crate::serve::check;

/// Servers that share an address, one on each of several pools.
///
/// Use it for *thread-per-core* serving: each pool has one worker, and connections stay with the
/// worker that accepted them. The operating system distributes new connections among the pools.
/// This suits many short requests that cost about the same.
///
/// In contrast, [`serve`](crate::serve()) on one pool is *balanced*: an idle worker takes over
/// requests that wait behind a slow one. Choose it if some requests take much longer than others,
/// or if there are fewer busy connections than workers. We measured both with `creel-bench serve`.
///
/// On systems other than Linux and Android, the kernel does not distribute connections among
/// listeners. There, all pools accept from one queue.
///
/// ```
/// use std::convert::Infallible;
///
/// use creel_hyper::PerCore;
/// use hyper::{Request, Response, body::Incoming, service::service_fn};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pools = PerCore::pools(2)?;
/// let servers = PerCore::bind("127.0.0.1:0".parse()?, &pools)?;
/// let stop = async {}; // for example `creel::signal::ctrl_c()`
/// let main = creel::Pool::builder().workers(1).build()?;
/// main.block_on(servers.until(stop, |listener| {
///     let service = service_fn(async |_: Request<Incoming>| {
///         Ok::<_, Infallible>(Response::new("hello".to_owned()))
///     });
///     creel_hyper::serve(listener, service).max_connections(10_000)
/// }));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "servers do nothing until you call `until`"]
pub struct PerCore {
    /// A handle to each pool, and its listener.
    places: Vec<(Pool, TcpListener)>,
}

impl PerCore {
    /// Creates `cores` pools with one worker each. Each worker has a core of its own, if the
    /// machine has enough cores.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`PoolBuilder::build`](creel::PoolBuilder::build).
    pub fn pools(cores: usize) -> Result<Vec<Pool>, BuildError> {
        let pool = |_| {
            let builder = Pool::builder().workers(1);
            builder.placement(Placement::Cores).build()
        };
        (0..cores).map(pool).collect()
    }

    /// Binds one listener per pool to an address. If you pass port 0, the operating system chooses
    /// a free port, which all of them share.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`TcpListener::bind_each`].
    pub fn bind(address: SocketAddr, pools: &[Pool]) -> io::Result<Self> {
        let listeners = TcpListener::bind_each(address, pools.len())?;
        let handles = pools.iter().map(Pool::handle);
        Ok(PerCore {
            places: handles.zip(listeners).collect(),
        })
    }

    /// Returns the address that all listeners share.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no pools, or the error of the operating system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self.places.first() {
            Some((_, listener)) => listener.local_addr(),
            None => Err(io::Error::other("cannot serve: the list of pools is empty")),
        }
    }

    /// Serves on all pools until `stop` is ready, and then shuts down gracefully, like
    /// [`Serve::until`]. `server` creates the server for each pool from its listener. Limits such as
    /// [`max_connections`](Serve::max_connections) apply to each pool on its own.
    ///
    /// Await it on another pool. A caller of `block_on` runs tasks of its pool as well, so with one
    /// of these pools it would take connections away from the pool's worker.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`Serve::until`]. The servers of the other pools then end as well.
    pub async fn until<S, H, B, F, T>(
        self,
        stop: impl Future,
        mut server: impl FnMut(TcpListener) -> Serve<net::TcpListener, S, H>,
    ) where
        H: Fn(Stream<net::TcpStream>) -> F + Send + 'static,
        F: Future<Output = io::Result<T>> + Send + 'static,
        T: Read + Write + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let stopping = CancellationToken::new();
        let mut servers = JoinSet::new();
        for (pool, listener) in self.places {
            let (server, stopping) = (server(listener), stopping.clone());
            servers.add(pool.spawn(async move { server.until(stopping.cancelled()).await }));
        }
        let mut stop = pin!(stop);
        poll_fn(|cx| {
            // A server that ends before `stop` is ready has panicked, or its pool has ended.
            while let Poll::Ready(Some(ended)) = servers.poll_join_next(cx) {
                check(ended);
            }
            stop.as_mut().poll(cx).map(drop)
        })
        .await;
        stopping.cancel();
        while let Some(ended) = servers.join_next().await {
            check(ended);
        }
    }
}

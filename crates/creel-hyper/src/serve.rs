//! A server: takes connections, gives each a task, and comes to an end when it is told.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use creel::net::{Connection, Listen, Listener, Stream};
use creel::task::{CancellationToken, JoinSet};
use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};

use crate::Timer;

/// After an error that will not be gone at once, such as too many open files.
const PAUSE: Duration = Duration::from_millis(20);
/// For which those who are still connected are waited for in the end.
const GRACE: Duration = Duration::from_secs(30);
/// Who has not said by then what it speaks is not waited for.
#[cfg(feature = "http2")]
const BEGINNING: Duration = Duration::from_secs(30);

/// Serves HTTP/1 to all who connect, with a service that all share; until the future is dropped, or
/// [told](Serve::until). With the feature `http2` it serves that, too, to those who begin with it.
///
/// Each connection is a task of the pool that awaits this. One that sends no head for 30 s is closed;
/// an error of a connection ends that one. When no more files may be opened, it waits until some
/// are closed.
///
/// ```
/// use std::convert::Infallible;
///
/// use creel::net::{TcpListener, TcpStream};
/// use hyper::{Response, service::service_fn};
///
/// let pool = creel::Pool::builder().workers(2).build()?;
/// let listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
/// let address = listener.local_addr()?;
/// let service = service_fn(async |_| Ok::<_, Infallible>(Response::new("hello".to_owned())));
/// let answer = pool.block_on(async {
///     let client = async move {
///         let stream = TcpStream::connect(address).await?;
///         stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
///         let (mut answer, mut read) = (vec![0; 1024], 0);
///         loop {
///             match stream.read(&mut answer[read..]).await? {
///                 0 => break Ok::<_, std::io::Error>(answer[..read].to_vec()),
///                 more => read += more,
///             }
///         }
///     };
///     let (sender, done) = creel::channel::oneshot::channel();
///     creel::task::spawn(async move { sender.send(client.await) });
///     let mut answer = None;
///     creel_hyper::serve(listener, service)
///         .until(async { answer = Some(done.await) })
///         .await;
///     answer
/// });
/// assert!(answer.unwrap()??.ends_with(b"hello"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn serve<L: Listen, S>(listener: Listener<L>, service: S) -> Serve<L, S> {
    Serve { listener, service }
}

/// A server to be awaited; see [`serve()`].
#[must_use = "it serves while it is awaited"]
pub struct Serve<L: Listen, S> {
    listener: Listener<L>,
    service: S,
}

impl<L: Listen, S> fmt::Debug for Serve<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

impl<L, S, B> Serve<L, S>
where
    L: Listen,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Serves until `stop` is ready, then takes no more connections, lets those that there are
    /// answer what they have been asked, for 30 s at most, and returns.
    pub async fn until(self, stop: impl Future) {
        let Serve { listener, service } = self;
        let service = Arc::new(service);
        let stopping = CancellationToken::new();
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            let accepted = poll_fn(|cx| {
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                while let Poll::Ready(Some(_)) = connections.poll_join_next(cx) {}
                listener.poll_accept(cx).map(Some)
            });
            match accepted.await {
                None => break,
                Some(Ok((stream, _))) => {
                    let (service, stopping) = (Arc::clone(&service), stopping.clone());
                    connections.spawn(connection(stream, service, stopping));
                }
                Some(Err(error)) if is_of_one_connection(&error) => {}
                Some(Err(_)) => creel::time::sleep(PAUSE).await,
            }
        }
        drop(listener);
        stopping.cancel();
        let ended = async { while connections.join_next().await.is_some() {} };
        // Who takes longer is cut off.
        let _ = creel::time::timeout(GRACE, ended).await;
    }
}

impl<L, S, B> IntoFuture for Serve<L, S>
where
    L: Listen,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.until(std::future::pending::<()>()))
    }
}

/// An error of the one who wanted to connect: the next may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::Interrupted
    )
}

async fn connection<C, S, B>(stream: Stream<C>, service: Arc<S>, stopping: CancellationToken)
where
    C: Connection,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    #[cfg(not(feature = "http2"))]
    let io = crate::Io(stream);
    #[cfg(feature = "http2")]
    let io = {
        let begun = creel::time::timeout(BEGINNING, crate::begun::Begun::new(stream));
        let Some(Ok(Ok(io))) = stopping.run_until(begun).await else {
            return;
        };
        if io.is_http2() {
            let serving = hyper::server::conn::http2::Builder::new(crate::Executor)
                .timer(Timer)
                .serve_connection(io, service);
            // As large as it is, others need not hold room for it.
            return Box::pin(until(serving, |it| it.graceful_shutdown(), &stopping)).await;
        }
        io
    };
    let serving = hyper::server::conn::http1::Builder::new()
        .timer(Timer)
        .half_close(true)
        .serve_connection(io, service)
        .with_upgrades();
    until(serving, |it| it.graceful_shutdown(), &stopping).await;
}

/// Serves one, and tells it when all are to end.
async fn until<F: Future>(serving: F, end: impl Fn(Pin<&mut F>), stopping: &CancellationToken) {
    let mut serving = pin!(serving);
    let mut told = stopping.cancelled();
    let mut is_told = false;
    let ended = poll_fn(|cx| {
        if !is_told && Pin::new(&mut told).poll(cx).is_ready() {
            is_told = true;
            end(serving.as_mut());
        }
        serving.as_mut().poll(cx)
    });
    // What went wrong was between the two: the other side has heard of it, or is gone.
    let _ = ended.await;
}

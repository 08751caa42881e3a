//! Servers with hyper: the same service on Creel, on tokio and without a runtime.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, IntoFuture};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail};
#[cfg(feature = "servers")]
use creel_hyper::FuturesIo;
use creel_hyper::Io;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde::Serialize;

use super::epoll;
use super::raw::on_threads;
use super::server::{Runtime, Service, listeners, print_address, tokio_runtime};

/// What a server responds with.
#[derive(Clone)]
enum Answer {
    Body(Bytes),
    Json,
    Uneven,
}

/// One request in this number computes for [`LONG`], if the requests are uneven.
const LONG_ONE_IN: u32 = 100;
const LONG: Duration = Duration::from_millis(1);

thread_local! {
    /// The number of requests that this thread has answered, if the requests are uneven.
    static ANSWERED: Cell<u32> = const { Cell::new(0) };
}

#[derive(Serialize)]
struct Message {
    message: &'static str,
}

/// The layers below HTTP.
#[derive(Clone)]
enum Layer {
    Tcp,
    #[cfg(feature = "servers")]
    Tls(std::sync::Arc<rustls::ServerConfig>),
    #[cfg(feature = "servers")]
    Http2,
}

/// Runs a server with hyper.
pub fn serve(runtime: Runtime, workers: usize, service: Service) -> anyhow::Result<()> {
    let body = |bytes| Answer::Body(Bytes::from(vec![b'x'; bytes]));
    let (answer, layer) = match service {
        Service::Http(bytes) => (body(bytes), Layer::Tcp),
        Service::Json => (Answer::Json, Layer::Tcp),
        Service::Uneven => (Answer::Uneven, Layer::Tcp),
        #[cfg(feature = "servers")]
        Service::Https(bytes, certificate) => (body(bytes), Layer::Tls(certificate.for_server()?)),
        #[cfg(feature = "servers")]
        Service::Http2(bytes) => (body(bytes), Layer::Http2),
        Service::Raw(protocol) => bail!("{protocol:?} does not use hyper"),
    };
    match (runtime, layer) {
        (Runtime::Creel, layer) => creel(workers, answer, layer),
        (Runtime::CreelPerCore, layer) => creel_per_core(workers, answer, layer),
        (Runtime::CreelBare, Layer::Tcp) => creel_bare(workers, answer),
        (Runtime::Tokio, layer) => tokio(workers, answer, layer, false),
        (Runtime::TokioGraceful, layer) => tokio(workers, answer, layer, true),
        (Runtime::TokioPerCore, layer) => on_threads(workers, |listener| {
            tokio_runtime(1)?.block_on(on_tokio(listener, answer.clone(), layer.clone(), false))
        }),
        (Runtime::Epoll, Layer::Tcp) => on_threads(workers, |listener| {
            let begin = |stream| {
                let answer = answer.clone();
                let service = service_fn(move |asked| respond(asked, answer.clone()));
                http1::Builder::new().serve_connection(stream, service)
            };
            Ok(epoll::serve(&listener, begin)?)
        }),
        #[cfg(feature = "servers")]
        (runtime, _) => bail!("{runtime:?} does not have this service"),
    }
}

/// Answers a request. All runtimes use this service.
fn respond(
    _: Request<Incoming>,
    answer: Answer,
) -> impl Future<Output = Result<Response<Full<Bytes>>, Infallible>> {
    let response = match answer {
        Answer::Body(body) => Response::new(Full::new(body)),
        Answer::Json => {
            let message = Message {
                message: "Hello, World!",
            };
            let body = serde_json::to_vec(&message).unwrap_or_default();
            let mut response = Response::new(Full::new(body.into()));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            response
        }
        Answer::Uneven => {
            let answered = ANSWERED.get() + 1;
            ANSWERED.set(answered % LONG_ONE_IN);
            let begin = Instant::now();
            while answered == LONG_ONE_IN && begin.elapsed() < LONG {
                std::hint::spin_loop();
            }
            Response::new(Full::new(Bytes::from_static(b"Hello, World!")))
        }
    };
    std::future::ready(Ok(response))
}

/// Returns a handshake that begins TLS.
#[cfg(feature = "servers")]
fn handshake(
    config: std::sync::Arc<rustls::ServerConfig>,
) -> impl Fn(creel::net::TcpStream) -> Accepted + Clone + Send + 'static {
    let acceptor = futures_rustls::TlsAcceptor::from(config);
    move |stream| {
        let accepted = acceptor.accept(stream);
        Box::pin(async move { Ok(FuturesIo(accepted.await?)) })
    }
}

#[cfg(feature = "servers")]
type Accepted = std::pin::Pin<
    Box<
        dyn Future<
                Output = std::io::Result<
                    FuturesIo<futures_rustls::server::TlsStream<creel::net::TcpStream>>,
                >,
            > + Send,
    >,
>;

fn creel(workers: usize, answer: Answer, layer: Layer) -> anyhow::Result<()> {
    let pool = creel::Pool::builder().workers(workers).build()?;
    let listener = creel::net::TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    print_address(listener.local_addr()?)?;
    let service = service_fn(move |asked| respond(asked, answer.clone()));
    let server = creel_hyper::serve(listener, service);
    let server = match layer {
        #[cfg(feature = "servers")]
        Layer::Tls(config) => server.handshake(handshake(config)).into_future(),
        _ => server.into_future(),
    };
    pool.block_on(pool.spawn(server))
        .map_err(|error| anyhow!("{error:?}"))
}

fn creel_per_core(workers: usize, answer: Answer, layer: Layer) -> anyhow::Result<()> {
    let pools = creel_hyper::PerCore::pools(workers)?;
    let servers = creel_hyper::PerCore::bind(([127, 0, 0, 1], 0).into(), &pools)?;
    print_address(servers.local_addr()?)?;
    let service = service_fn(move |asked| respond(asked, answer.clone()));
    // Each pool has a copy of the service, so that they share no counter.
    let server = move |listener| creel_hyper::serve(listener, service.clone());
    let never = std::future::pending::<()>();
    // The main thread only waits, because it belongs to none of the pools that serve.
    let main = creel::Pool::builder().workers(1).build()?;
    match layer {
        #[cfg(feature = "servers")]
        Layer::Tls(config) => {
            let handshake = handshake(config);
            let server = move |listener| server(listener).handshake(handshake.clone());
            main.block_on(servers.until(never, server));
        }
        _ => main.block_on(servers.until(never, server)),
    }
    Ok(())
}

fn creel_bare(workers: usize, answer: Answer) -> anyhow::Result<()> {
    let pool = creel::Pool::builder().workers(workers).build()?;
    let listener = creel::net::TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    print_address(listener.local_addr()?)?;
    let serve = async move {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let answer = answer.clone();
            let service = service_fn(move |asked| respond(asked, answer.clone()));
            let connection = http1::Builder::new().serve_connection(Io(stream), service);
            creel::task::spawn(connection).detach();
        }
    };
    pool.block_on(pool.spawn(serve))
        .map_err(|error| anyhow!("{error:?}"))?
}

fn tokio(workers: usize, answer: Answer, layer: Layer, is_graceful: bool) -> anyhow::Result<()> {
    let listener = listeners(1)?.remove(0);
    print_address(listener.local_addr()?)?;
    let serve = on_tokio(listener, answer, layer, is_graceful);
    tokio_runtime(workers)?.block_on(async { tokio::spawn(serve).await? })
}

async fn on_tokio(
    listener: TcpListener,
    answer: Answer,
    layer: Layer,
    is_graceful: bool,
) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let graceful = GracefulShutdown::new();
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answer = answer.clone();
        let service = service_fn(move |asked| respond(asked, answer.clone()));
        match &layer {
            Layer::Tcp if is_graceful => {
                let mut http = http1::Builder::new();
                let http = http.timer(TokioTimer::new());
                let serve = http.serve_connection(TokioIo::new(stream), service);
                tokio::spawn(graceful.watch(serve));
            }
            Layer::Tcp => {
                let http = http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
            #[cfg(feature = "servers")]
            Layer::Http2 => {
                let executor = hyper_util::rt::TokioExecutor::new();
                let http = hyper::server::conn::http2::Builder::new(executor);
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
            #[cfg(feature = "servers")]
            Layer::Tls(config) => {
                let accepted = tokio_rustls::TlsAcceptor::from(config.clone()).accept(stream);
                tokio::spawn(async move {
                    let Ok(stream) = accepted.await else { return };
                    let http = http1::Builder::new();
                    let serve = http.serve_connection(TokioIo::new(stream), service);
                    // An error ends this connection only.
                    let _ = serve.await;
                });
            }
        }
    }
}

//! HTTPS: the same service behind rustls, HTTP/1.1 or HTTP/2 by what the client chooses.
//!
//! A handshake that takes longer than a head may is given up. Connections keep hyper's buffers while
//! they are idle, which those without TLS do not.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use creel::net::{TcpListener, TcpStream};
use creel::task::{CancellationToken, JoinSet};
use creel::time::{sleep, timeout};
use creel_hyper::{Executor, FuturesIo, Timer};
use futures_rustls::TlsAcceptor;
use futures_rustls::rustls::ServerConfig;
use futures_rustls::rustls::pki_types::pem::PemObject;
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;

use crate::app::App;
use crate::settings::Settings;

/// After an accept that failed: too many open files, say.
const PAUSE: Duration = Duration::from_millis(20);

/// A certificate's chain and key, ready to greet clients with.
pub(crate) fn acceptor(chain: &Path, key: &Path) -> io::Result<TlsAcceptor> {
    let invalid = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, error.to_string())
    };
    let chain =
        CertificateDer::pem_file_iter(chain).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| invalid(&error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| invalid(&error))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key);
    let mut config = config.map_err(|error| invalid(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until `stop` is ready, and lets those who have asked be answered.
pub(crate) async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    (app, settings): (Arc<App>, Settings),
    stop: impl Future,
) {
    let stopping = CancellationToken::new();
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = poll_fn(|cx| {
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            while let Poll::Ready(Some(_)) = connections.poll_join_next(cx) {}
            if connections.len() >= settings.connections {
                return Poll::Pending;
            }
            listener.poll_accept(cx).map(Some)
        });
        match accepted.await {
            None => break,
            Some(Ok((stream, _))) => {
                let (acceptor, app) = (acceptor.clone(), Arc::clone(&app));
                let limits = (settings.head_max, settings.head_timeout);
                connections.spawn(connection(stream, acceptor, app, limits, stopping.clone()));
            }
            Some(Err(_)) => sleep(PAUSE).await,
        }
    }
    drop(listener);
    stopping.cancel();
    let ended = async { while connections.join_next().await.is_some() {} };
    // Who takes longer is cut off.
    let _ = timeout(settings.grace, ended).await;
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    app: Arc<App>,
    (head_max, head_timeout): (usize, Duration),
    stopping: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let greeted = timeout(head_timeout, acceptor.accept(stream));
    let Some(Ok(Ok(stream))) = stopping.run_until(greeted).await else {
        return;
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        let app = Arc::clone(&app);
        async move { Ok::<_, std::convert::Infallible>(app.answer(request).await) }
    });
    if is_http2 {
        let mut http = http2::Builder::new(Executor);
        http.timer(Timer)
            .keep_alive_interval(head_timeout)
            .keep_alive_timeout(head_timeout);
        let serving = pin!(http.serve_connection(FuturesIo(stream), service));
        until(serving, |serving| serving.graceful_shutdown(), &stopping).await;
    } else {
        let mut http = http1::Builder::new();
        http.timer(Timer)
            .header_read_timeout(head_timeout)
            .max_buf_size(head_max.max(8192));
        let serving = pin!(http.serve_connection(FuturesIo(stream), service));
        until(serving, |serving| serving.graceful_shutdown(), &stopping).await;
    }
}

/// Serves to the end, and tells it when that is near.
async fn until<F: Future>(
    mut serving: Pin<&mut F>,
    end: impl Fn(Pin<&mut F>),
    stopping: &CancellationToken,
) {
    let mut told = pin!(stopping.cancelled());
    let mut is_told = false;
    poll_fn(|cx| {
        if !is_told && told.as_mut().poll(cx).is_ready() {
            is_told = true;
            end(serving.as_mut());
        }
        serving.as_mut().poll(cx).map(|_| ())
    })
    .await;
}

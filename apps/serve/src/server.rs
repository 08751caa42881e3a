//! The whole service: its pools, its listener and its shutdown.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use creel::net::TcpListener;
use creel::time::sleep;
use creel::{BuildError, Placement, Pool, Wait};
use creel_console::files;
use creel_hyper::Executor;
#[cfg(feature = "tls")]
use creel_hyper::FuturesIo;
use creel_topology::{Budget, Machine};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;

use crate::admission::{Admission, Limits};
use crate::app::App;
use crate::crypto::Crypto;
use crate::crypto_pool::CryptoPool;
use crate::key_file;
use crate::log::AccessLog;
use crate::memory;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::store::{Store, StoreError};

/// The number of HTTP/1 connections that may keep their buffers between two requests. The buffers
/// of this many connections take about 20 MB.
const AWAKE: usize = 1024;

/// The smallest limit of open connections that we start with, unless the setting asks for fewer.
/// With fewer, a few silent clients would keep all others out.
const CONNECTIONS_MIN: usize = 16;

/// An error that prevents the start of the service.
#[derive(Debug)]
pub enum ServerError {
    /// A setting is invalid.
    Setting(String),
    /// The limit of open files allows only this number of connections.
    Files(usize),
    /// A pool could not be created.
    Pool(BuildError),
    /// A file could not be read or created.
    File(PathBuf, io::Error),
    /// The service could not listen on the address.
    Listen(SocketAddr, io::Error),
    /// The store could not be opened.
    Store(StoreError),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Setting(what) => f.write_str(what),
            ServerError::Files(most) => write!(
                f,
                "the limit of open files allows only {most} connections: raise the limit (ulimit \
                 -n 1024)"
            ),
            ServerError::Pool(error) => error.fmt(f),
            ServerError::File(path, error) => write!(f, "cannot use {}: {error}", path.display()),
            ServerError::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            ServerError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The message is that of the inner error, so the cause is the inner error's cause. The
            // messages of the other variants contain their causes.
            ServerError::Pool(error) => error.source(),
            _ => None,
        }
    }
}

impl From<BuildError> for ServerError {
    fn from(error: BuildError) -> Self {
        ServerError::Pool(error)
    }
}

/// A service that is ready to run.
pub struct Server {
    app: Arc<App>,
    io: Pool,
    listener: TcpListener,
    address: SocketAddr,
    #[cfg(feature = "tls")]
    tls: Option<futures_rustls::TlsAcceptor>,
    settings: Settings,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Reads or creates the key, opens the store and the access log, and binds the address.
    ///
    /// # Errors
    ///
    /// Returns the error of the first step that fails. A setting can also be invalid.
    pub fn open(settings: &Settings) -> Result<Server, ServerError> {
        let most = settings.connections.min(files::allow_many());
        if most < CONNECTIONS_MIN.min(settings.connections) {
            return Err(ServerError::Files(most));
        }
        #[cfg(feature = "tls")]
        let tls = match &settings.tls {
            Some((chain, key)) => {
                let acceptor = crate::tls::acceptor(chain, key);
                Some(acceptor.map_err(|error| ServerError::File(chain.clone(), error))?)
            }
            None => None,
        };
        #[cfg(not(feature = "tls"))]
        if settings.tls.is_some() {
            return Err(ServerError::Setting(
                "cannot serve HTTPS, because this program was built without the feature tls: \
                 build it with --features tls"
                    .into(),
            ));
        }
        let work = pool("crypto", settings.workers, Wait::default())?;
        // These workers interrupt the ones that compute. The fewer there are, the more events each
        // wake handles.
        let io = settings.io_workers.unwrap_or_else(|| (usable() / 2).max(1));
        let io = pool("io", Some(io), settings.io_wait)?;
        let limits = Limits {
            is_on: settings.admission,
            workers: work.workers(),
            target: settings.target,
            interval: settings.interval,
            burst: settings.interval,
            waiting_max: settings.queue,
        };
        let crypto = crypto(settings)?;
        let metrics = Arc::new(Metrics::default());
        let store = Store::open(&settings.store, &metrics).map_err(ServerError::Store)?;
        let crypto_pool =
            CryptoPool::new(work, Admission::new(limits), crypto, Arc::clone(&metrics));
        let mut app = App::new(settings, crypto_pool, store, Arc::clone(&metrics));
        if let Some(path) = &settings.access_log {
            let log = AccessLog::open(path, metrics);
            app.log = Some(log.map_err(|error| ServerError::File(path.clone(), error))?);
        }
        let listener = TcpListener::bind(settings.listen)
            .and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) =
            listener.map_err(|error| ServerError::Listen(settings.listen, error))?;
        Ok(Server {
            app: Arc::new(app),
            io,
            listener,
            address,
            #[cfg(feature = "tls")]
            tls,
            settings: settings.clone(),
        })
    }

    /// Returns the address on which the service listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns why the store does not accept records, or `None` if it does.
    pub fn store_trouble(&self) -> Option<StoreError> {
        self.app.store.trouble()
    }

    /// Serves until `stop` is ready, and then for [`Settings::drain`]. Then it waits for the
    /// requests in flight, for at most [`Settings::grace`], and returns.
    ///
    /// When it returns, all acknowledged records are stored. All responses are in the access log,
    /// except for lines that were dropped because the log was too slow or full.
    pub fn run(self, stop: impl Future) {
        let Server {
            app,
            io,
            listener,
            #[cfg(feature = "tls")]
            tls,
            settings,
            ..
        } = self;
        let metrics = Arc::clone(&app.metrics);
        let draining = Arc::clone(&app);
        let stop = async move {
            stop.await;
            draining.is_draining.store(true, Relaxed);
            drop(draining);
            sleep(settings.drain).await;
        };
        let service = service_fn(move |request| {
            let app = Arc::clone(&app);
            async move { Ok::<_, Infallible>(app.answer(request).await) }
        });
        let mut http1 = http1::Builder::new();
        // hyper panics if the maximum size of the buffer is below 8,192 bytes.
        http1
            .max_buf_size(settings.head_max.max(8192))
            .max_headers(64);
        let mut http2 = http2::Builder::new(Executor);
        // We ping an idle HTTP/2 connection to see whether its client is still there.
        http2
            .keep_alive_interval(settings.head_timeout)
            .keep_alive_timeout(settings.head_timeout);
        let counted = Arc::clone(&metrics);
        let mut serving = creel_hyper::serve(listener, service);
        if settings.access_log.is_some() {
            serving = serving.with_peer();
        }
        let serving = serving
            .max_connections(settings.connections.min(files::allow_many()))
            .max_idle_buffers(AWAKE)
            .head_timeout(settings.head_timeout)
            .write_timeout(settings.write_timeout)
            .grace(settings.grace)
            .on_event(move |event| counted.connection(&event))
            .http1(http1)
            .http2(http2);
        io.block_on(async {
            let _trim = creel::task::spawn(memory::trim_when_idle(metrics)).abort_on_drop();
            #[cfg(feature = "tls")]
            if let Some(acceptor) = tls {
                let handshake = move |stream| {
                    let accepted = acceptor.accept(stream);
                    async move { Ok(FuturesIo(accepted.await?)) }
                };
                return serving.handshake(handshake).until(stop).await;
            }
            serving.until(stop).await;
        });
    }
}

/// Returns the number of usable cores.
fn usable() -> usize {
    Machine::detect().map_or(1, |machine| Budget::of(&machine).workers())
}

/// Builds a pool that shares the cores with another pool.
///
/// We do not pin its workers. The OS can then move a thread to a free core, where a pinned thread
/// would wait behind one of the other pool.
fn pool(name: &str, workers: Option<usize>, wait: Wait) -> Result<Pool, BuildError> {
    let builder = Pool::builder()
        .name(name)
        .wait(wait)
        .placement(Placement::Unpinned);
    match workers {
        Some(workers) => builder.workers(workers).build(),
        None => builder.build(),
    }
}

/// Loads the key, or generates one that is not stored, and prepares the cryptography.
fn crypto(settings: &Settings) -> Result<Crypto, ServerError> {
    let seed = match &settings.key {
        Some(path) => key_file::load_or_create(path)
            .map_err(|error| ServerError::File(path.clone(), error))?,
        None => {
            let mut seed = [0; 32];
            let filled = getrandom::fill(&mut seed);
            filled.map_err(|error| {
                ServerError::Setting(format!("cannot generate a signing key: {error}"))
            })?;
            seed
        }
    };
    Crypto::new(&seed, settings.password_cost).map_err(ServerError::Setting)
}

//! The service as a whole: its pools, its listener, its end.

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
use crate::crypto::{self, Crypto};
use crate::crypto_pool::CryptoPool;
use crate::log::AccessLog;
use crate::memory;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::store::{Store, StoreError};

/// Connections that keep their buffers between two requests: some 20 MB.
const AWAKE: usize = 1024;

/// Fewer, and a few clients that say nothing would keep all others out.
const CONNECTIONS_MIN: usize = 16;

/// Why a service could not be started.
#[derive(Debug)]
pub enum ServerError {
    /// A setting that cannot be.
    Setting(String),
    /// So few connections could be had at once, by the limit of open files.
    Files(usize),
    /// A pool could not be made.
    Pool(BuildError),
    /// A file could not be read, or made.
    File(PathBuf, io::Error),
    /// The address could not be had.
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
                "{most} connections at once, by the limit of open files: raise it (ulimit -n 1024)"
            ),
            ServerError::Pool(error) => error.fmt(f),
            ServerError::File(path, error) => write!(f, "{}: {error}", path.display()),
            ServerError::Listen(address, error) => write!(f, "{address}: {error}"),
            ServerError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServerError {}

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
    /// Takes the address, the key and the store.
    ///
    /// # Errors
    ///
    /// Which of them it could not have.
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
                "HTTPS: this program was built without the feature tls".into(),
            ));
        }
        let work = pool("crypto", settings.workers, Wait::default())?;
        // They interrupt those who compute, and the fewer they are the more they find at a time.
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
        let store = Store::open(&settings.store, &io, &metrics).map_err(ServerError::Store)?;
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready; then answers what has been asked, and returns. All that was
    /// acknowledged is kept, and all that was answered is in the log.
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
        // hyper takes no less.
        http1
            .max_buf_size(settings.head_max.max(8192))
            .max_headers(64);
        let mut http2 = http2::Builder::new(Executor);
        // An idle one is asked whether it is still there.
        http2
            .keep_alive_interval(settings.head_timeout)
            .keep_alive_timeout(settings.head_timeout);
        let counted = Arc::clone(&metrics);
        let serving = creel_hyper::serve(listener, service)
            .most_connections(settings.connections.min(files::allow_many()))
            .most_awake(AWAKE)
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

fn usable() -> usize {
    Machine::detect().map_or(1, |machine| Budget::of(&machine).workers())
}

/// Threads of two pools that share the cores: the system moves them, so that no pinned one waits
/// behind another while a core is free.
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

fn crypto(settings: &Settings) -> Result<Crypto, ServerError> {
    let seed = match &settings.key {
        Some(path) => crypto::seed(path).map_err(|error| ServerError::File(path.clone(), error))?,
        None => {
            let mut seed = [0; 32];
            let filled = getrandom::fill(&mut seed);
            filled.map_err(|error| ServerError::Setting(format!("no random numbers: {error}")))?;
            seed
        }
    };
    Crypto::new(&seed, settings.password_cost).map_err(ServerError::Setting)
}

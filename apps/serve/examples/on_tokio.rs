//! The same service on tokio, for comparison. It uses hyper and the same cryptography and store.
//! The cryptography runs on tokio's blocking pool.
//!
//! `--workers N` and `--blocking N` set tokio's two numbers of threads. Without them, tokio's
//! defaults apply. With `--admission on`, our admission control runs before the work.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use creel_serve::admission::{Admission, Limits};
use creel_serve::app::{Refusal, Reply, error_reply, reply, respond};
use creel_serve::crypto::{Cost, Crypto};
use creel_serve::metrics::Metrics;
use creel_serve::routes::{self, Route};
use creel_serve::store::{Kind, Store};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;

#[derive(Parser)]
struct Cli {
    /// Listen on this address
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Use N threads for tasks
    #[arg(long)]
    workers: Option<usize>,
    /// Use N threads for the cryptography
    #[arg(long)]
    blocking: Option<usize>,
    /// Hash passwords with these Argon2 parameters: m KiB of memory, t passes and p lanes
    #[arg(long)]
    password_cost: Option<Cost>,
    /// Keep records in this store
    #[arg(long, default_value = "memory")]
    store: Kind,
    /// Turn admission control on or off
    #[arg(long, default_value = "off")]
    admission: String,
}

struct App {
    crypto: Arc<Crypto>,
    store: Store,
    admission: Arc<Admission>,
    metrics: Metrics,
    started: Instant,
}

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cli = Cli::parse();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(workers) = cli.workers {
        builder.worker_threads(workers);
    }
    if let Some(blocking) = cli.blocking {
        builder.max_blocking_threads(blocking);
    }
    let runtime = builder.enable_all().build()?;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| error.to_string())?;
    let limits = Limits {
        is_on: cli.admission == "on",
        workers: cli.blocking.unwrap_or(512),
        target: Duration::from_millis(10),
        interval: Duration::from_millis(100),
        burst: Duration::from_millis(100),
        waiting_max: 4096,
    };
    let app = Arc::new(App {
        crypto: Arc::new(Crypto::new(&seed, cli.password_cost.unwrap_or_default())?),
        store: Store::open(&cli.store, &Arc::default())?,
        admission: Arc::new(Admission::new(limits)),
        metrics: Metrics::default(),
        started: Instant::now(),
    });
    runtime.block_on(async {
        let listener = TcpListener::bind(&cli.listen).await?;
        println!("http://{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            let _ = stream.set_nodelay(true);
            let app = Arc::clone(&app);
            let service = service_fn(move |request| {
                let app = Arc::clone(&app);
                async move { Ok::<_, Infallible>(app.answer(request).await) }
            });
            tokio::spawn(async move {
                let mut http = hyper::server::conn::http1::Builder::new();
                let _ = http
                    .timer(TokioTimer::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    })
}

impl App {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Reply {
        let (started, route) = (Instant::now(), Route::of(request.uri().path()));
        if route == Route::Metrics {
            return Response::new(Full::from(
                self.metrics.text(&self.admission, self.store.is_ready()),
            ));
        }
        let request_timeout =
            routes::request_timeout(request.headers(), DEFAULT_TIMEOUT, Duration::from_secs(60));
        let request_timeout = request_timeout.unwrap_or(DEFAULT_TIMEOUT);
        let work = Arc::clone(&self).work(route, request, started + request_timeout);
        let reply = match tokio::time::timeout(request_timeout, work).await {
            Ok(reply) => reply.unwrap_or_else(|refusal| error_reply(&refusal)),
            Err(_) => error_reply(&Refusal::Late),
        };
        self.metrics
            .answered(route, reply.status().as_u16(), started.elapsed());
        reply
    }

    async fn work(
        self: Arc<Self>,
        route: Route,
        request: Request<Incoming>,
        deadline: Instant,
    ) -> Result<Reply, Refusal> {
        match route {
            Route::Health => return Ok(reply(json!({"status": "alive"}))),
            Route::Key => return Ok(reply(json!({"key": hex::encode(self.crypto.key())}))),
            _ => {}
        }
        let uri = request.uri().clone();
        let body = Limited::new(request.into_body(), 64 << 10).collect().await;
        let body: Bytes = body.map_err(|_| Refusal::TooLarge)?.to_bytes();
        let job = routes::job(route, &uri, body).map_err(|why| Refusal::Bad(why.to_owned()))?;
        let nanos = |at: Instant| at.saturating_duration_since(self.started).as_nanos() as u64;
        let queued = self
            .admission
            .enter(job.kind(), nanos(Instant::now()), nanos(deadline));
        let queued = queued.map_err(Refusal::Shed)?;
        let (crypto, app) = (Arc::clone(&self.crypto), Arc::clone(&self));
        let done = tokio::task::spawn_blocking(move || {
            let nanos = || app.started.elapsed().as_nanos() as u64;
            let from = nanos();
            let (_, permit) = queued.start(from).map_err(Refusal::Shed)?;
            let done = crypto.perform(&job);
            permit.finish(nanos() - from);
            Ok(done)
        });
        let done = done.await.unwrap_or(Err(Refusal::Broken))?;
        respond(done, &self.crypto, &self.store).await
    }
}

//! Serves the HTTP service of `examples/server.rs` on tokio, with hyper-util.

use std::convert::Infallible;
use std::env;
use std::pin::pin;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::{Request, Response, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;

async fn hello(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(format!("hello, {}\n", request.uri().path())))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".into());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(tokio::signal::ctrl_c());
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted?,
            _ = &mut stop => break,
        };
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service_fn(hello));
        tokio::spawn(graceful.watch(serving));
    }
    drop(listener);
    let _ = tokio::time::timeout(Duration::from_secs(30), graceful.shutdown()).await;
    Ok(())
}

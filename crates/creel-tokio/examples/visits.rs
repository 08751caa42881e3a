//! A web server that counts the visits of each page in Redis.
//!
//!     REDIS=redis://127.0.0.1 cargo run -p creel-tokio --features hyper --example visits
//!     curl 127.0.0.1:8080/page

use std::env;

use creel::net::TcpListener;
use creel_tokio::{TokioService, with_tokio};
use hyper::body::Incoming;
use hyper::{Request, Response, service::service_fn};
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

async fn visit(
    request: Request<Incoming>,
    mut redis: MultiplexedConnection,
) -> redis::RedisResult<Response<String>> {
    let page = request.uri().path();
    let count: u64 = redis.hincr("visits", page, 1).await?;
    Ok(Response::new(format!("visit {count} of {page}\n")))
}

/// Serves until Ctrl-C.
#[creel::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".into());
    let client = redis::Client::open(env::var("REDIS").unwrap_or("redis://127.0.0.1".into()))?;
    // All requests share one connection, which sends their commands together.
    let redis = with_tokio(client.get_multiplexed_async_connection()).await?;
    let listener = TcpListener::bind(address.parse()?)?;
    println!("http://{}", listener.local_addr()?);
    // The handlers use redis. Therefore they run inside tokio's context.
    let service = TokioService::new(service_fn(move |request| visit(request, redis.clone())));
    let server = creel_hyper::serve(listener, service);
    server.until(creel::signal::ctrl_c()).await;
    Ok(())
}

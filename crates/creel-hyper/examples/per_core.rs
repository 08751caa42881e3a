//! Serves HTTP with one listener per core. Connections stay with the core that accepted them.

use std::convert::Infallible;
use std::env;

use creel_hyper::PerCore;
use hyper::body::Incoming;
use hyper::{Request, Response, service::service_fn};

async fn hello(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(format!("hello, {}\n", request.uri().path())))
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".into());
    let cores = std::thread::available_parallelism()?.get();
    let pools = PerCore::pools(cores)?;
    let servers = PerCore::bind(address.parse()?, &pools)?;
    println!("http://{}", servers.local_addr()?);
    let server = |listener| creel_hyper::serve(listener, service_fn(hello));
    // This thread only waits, because it belongs to none of the pools that serve.
    let main = creel::Pool::builder().workers(1).build()?;
    main.block_on(servers.until(creel::signal::ctrl_c(), server));
    Ok(())
}

//! Serves HTTP and shuts down gracefully on Ctrl-C.

use std::convert::Infallible;
use std::env;

use creel::net::TcpListener;
use hyper::body::Incoming;
use hyper::{Request, Response, service::service_fn};

async fn hello(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    Ok(Response::new(format!("hello, {}\n", request.uri().path())))
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".into());
    let pool = creel::Pool::builder().build()?;
    let listener = TcpListener::bind(address.parse()?)?;
    println!("http://{}", listener.local_addr()?);
    let server = creel_hyper::serve(listener, service_fn(hello));
    pool.block_on(server.until(creel::signal::ctrl_c()));
    Ok(())
}

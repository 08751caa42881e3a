//! Serves an axum application.

use std::env;

use axum::{Json, Router, extract::Path, routing::get};
use creel::net::TcpListener;
use creel_hyper::Tower;

async fn square(Path(number): Path<u32>) -> Json<u64> {
    Json(u64::from(number).pow(2))
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".into());
    let app: Router = Router::new()
        .route("/", get(async || "hello"))
        .route("/square/{number}", get(square));
    let pool = creel::Pool::builder().build()?;
    let listener = TcpListener::bind(address.parse()?)?;
    println!("http://{}", listener.local_addr()?);
    let server = creel_hyper::serve(listener, Tower(app));
    pool.block_on(server.until(creel::signal::ctrl_c()));
    Ok(())
}

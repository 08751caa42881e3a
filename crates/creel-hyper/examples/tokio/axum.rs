//! Serves the axum application of `examples/axum.rs` on tokio.

use std::env;

use axum::{Json, Router, extract::Path, routing::get};
use tokio::net::TcpListener;

async fn square(Path(number): Path<u32>) -> Json<u64> {
    Json(u64::from(number).pow(2))
}

async fn stop() {
    let _ = tokio::signal::ctrl_c().await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".into());
    let app: Router = Router::new()
        .route("/", get(async || "hello"))
        .route("/square/{number}", get(square));
    let listener = TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(stop())
        .await?;
    Ok(())
}

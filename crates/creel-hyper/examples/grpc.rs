//! Serves gRPC with tonic. The service is the standard health check.
//!
//! Your own services are generated from `.proto` files. You add them in the same way.

use std::env;

use creel::net::TcpListener;
use creel_hyper::Tower;
use tonic::service::Routes;
use tonic_health::{ServingStatus, server::health_reporter};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:50051".into());
    let pool = creel::Pool::builder().build()?;
    let listener = TcpListener::bind(address.parse()?)?;
    println!("http://{}", listener.local_addr()?);
    pool.block_on(async {
        let (reporter, health) = health_reporter();
        reporter
            .set_service_status("songs", ServingStatus::Serving)
            .await;
        let server = creel_hyper::serve(listener, Tower(Routes::new(health)));
        server.until(creel::signal::ctrl_c()).await;
    });
    Ok(())
}

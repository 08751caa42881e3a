//! Asks a gRPC server about its health with tonic's client, whose connection runs on the pool.
//!
//! Start the server with `cargo run -p creel-hyper --example grpc --features http2` in the
//! repository's own workspace. Then run this client:
//!
//!     cargo run --example grpc_client

use std::env;

use creel_tokio::{Executor, with_tokio};
use tonic::transport::Endpoint;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// Prints the health of the server that the variable `SERVER` names.
#[creel::main]
pub async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let server = env::var("SERVER").unwrap_or("http://127.0.0.1:50051".into());
    with_tokio(async {
        // Without an executor, tonic would run the connection on tokio's helper thread.
        let endpoint = Endpoint::from_shared(server)?.executor(Executor::current());
        let mut client = HealthClient::new(endpoint.connect().await?);
        let service = "songs".into();
        let answer = client.check(HealthCheckRequest { service }).await?;
        println!("{:?}", answer.into_inner().status());
        Ok(())
    })
    .await
}

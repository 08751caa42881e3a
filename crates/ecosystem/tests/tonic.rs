//! Runs gRPC with tonic in both directions.

use std::time::Duration;

use creel::Pool;
use creel::net::TcpListener;
use creel::task::{CancellationToken, JoinSet};
use creel_hyper::Tower;
use creel_tokio::{Executor, Tokio, with_tokio};
use tonic::service::Routes;
use tonic::transport::{Endpoint, server::TcpIncoming};
use tonic_health::ServingStatus;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus as Status, health_client::HealthClient,
};
use tonic_health::server::{HealthReporter, health_reporter};

const CALLS: usize = 50;

fn request(service: &str) -> HealthCheckRequest {
    let service = service.into();
    HealthCheckRequest { service }
}

/// Checks unary calls from several tasks, a status that is an error, and a stream of the server.
async fn check(channel: tonic::transport::Channel, tokio: &Tokio, reporter: HealthReporter) {
    let mut client = HealthClient::new(channel);
    let mut calls = JoinSet::new();
    for n in 0..CALLS {
        let mut client = client.clone();
        calls.spawn(tokio.wrap(async move {
            let service = if n % 2 == 0 { "songs" } else { "unknown" };
            (n, client.check(request(service)).await)
        }));
    }
    while let Some(call) = calls.join_next().await {
        match call.unwrap() {
            (n, Ok(answer)) if n % 2 == 0 => {
                assert_eq!(answer.into_inner().status(), Status::Serving);
            }
            (n, answer) => {
                assert_eq!(n % 2, 1);
                assert_eq!(answer.unwrap_err().code(), tonic::Code::NotFound);
            }
        }
    }
    let mut statuses = client.watch(request("songs")).await.unwrap().into_inner();
    let status = statuses.message().await.unwrap().unwrap();
    assert_eq!(status.status(), Status::Serving);
    let not_serving = ServingStatus::NotServing;
    reporter.set_service_status("songs", not_serving).await;
    let status = statuses.message().await.unwrap().unwrap();
    assert_eq!(status.status(), Status::NotServing);
}

#[test]
fn client_and_server_run_on_the_pool_and_not_on_the_helper_thread() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let tokio = Tokio::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    pool.block_on(tokio.wrap(async {
        let (reporter, health) = health_reporter();
        let serving = ServingStatus::Serving;
        reporter.set_service_status("songs", serving).await;
        let server = creel_hyper::serve(listener, Tower(Routes::new(health)));
        let stop = CancellationToken::new();
        let of_server = stop.clone();
        let server = creel::task::spawn(async move { server.until(of_server.cancelled()).await });
        let channel = Endpoint::from_shared(format!("http://{address}"))
            .unwrap()
            .executor(Executor::with_tokio(&pool, &tokio))
            .connect_timeout(Duration::from_secs(60))
            .connect()
            .await
            .unwrap();
        check(channel.clone(), &tokio, reporter).await;
        // Nothing was spawned with `tokio::spawn`, although the connection is still open.
        assert_eq!(tokio.handle().metrics().num_alive_tasks(), 0);
        drop(channel);
        stop.cancel();
        server.await.unwrap();
    }));
}

#[test]
fn without_an_executor_the_connection_runs_on_the_helper_thread() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let tokio = Tokio::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    pool.block_on(tokio.wrap(async {
        let (reporter, health) = health_reporter();
        let serving = ServingStatus::Serving;
        reporter.set_service_status("songs", serving).await;
        let server = creel_hyper::serve(listener, Tower(Routes::new(health)));
        let server = creel::task::spawn(async move { server.await }).abort_on_drop();
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = endpoint.connect().await.unwrap();
        check(channel.clone(), &tokio, reporter).await;
        assert!(tokio.handle().metrics().num_alive_tasks() > 0);
        drop(channel);
        drop(server);
    }));
}

#[test]
fn tonics_own_server_works_inside_with_tokio() {
    let pool = Pool::builder().workers(2).build().unwrap();
    let (sender, address) = creel::channel::oneshot::channel();
    let (reporter, health) = health_reporter();
    let stop = CancellationToken::new();
    let of_server = stop.clone();
    let server = pool.spawn(with_tokio(async move {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        sender.send(incoming.local_addr().unwrap()).unwrap();
        tonic::transport::Server::builder()
            .add_service(health)
            .serve_with_incoming_shutdown(incoming, of_server.cancelled())
            .await
    }));
    pool.block_on(with_tokio(async {
        let address = address.await.unwrap();
        let serving = ServingStatus::Serving;
        reporter.set_service_status("songs", serving).await;
        let channel = Endpoint::from_shared(format!("http://{address}"))
            .unwrap()
            .executor(Executor::current())
            .connect()
            .await
            .unwrap();
        check(channel, Tokio::global(), reporter).await;
        stop.cancel();
        server.await.unwrap().unwrap();
    }));
}

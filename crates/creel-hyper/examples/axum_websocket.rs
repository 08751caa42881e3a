//! Serves an axum application that has a WebSocket among its routes.

use std::env;

use async_tungstenite::tungstenite::handshake::server::create_response_with_body;
use async_tungstenite::tungstenite::protocol::Role;
use async_tungstenite::{WebSocketStream, tungstenite::Error};
use axum::response::{IntoResponse, Response};
use axum::{Router, body::Body, extract::Request, http::StatusCode, routing::get};
use creel::net::TcpListener;
use creel_hyper::{FuturesIo, Tower};
use futures_util::StreamExt;
use hyper::upgrade::Upgraded;

async fn echo(upgraded: Upgraded) -> Result<(), Error> {
    let stream = FuturesIo(upgraded);
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

async fn upgrade(request: Request) -> Response {
    let Ok(answer) = create_response_with_body(&request, Body::empty) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    creel::task::spawn(async {
        if let Ok(upgraded) = hyper::upgrade::on(request).await {
            let _ = echo(upgraded).await;
        }
    });
    answer
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".into());
    let app: Router = Router::new()
        .route("/", get(async || "hello"))
        .route("/echo", get(upgrade));
    let pool = creel::Pool::builder().build()?;
    let listener = TcpListener::bind(address.parse()?)?;
    println!("ws://{}/echo, http://{0}", listener.local_addr()?);
    let server = creel_hyper::serve(listener, Tower(app));
    pool.block_on(server.until(creel::signal::ctrl_c()));
    Ok(())
}

//! Echoes messages over WebSockets.

use std::env;

use async_tungstenite::{accept_async, tungstenite::Error};
use creel::net::{TcpListener, TcpStream};
use futures_util::StreamExt;

async fn echo(stream: TcpStream) -> Result<(), Error> {
    let mut socket = accept_async(stream).await?;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8080".into());
    let pool = creel::Pool::builder().build()?;
    let listener = TcpListener::bind(address.parse()?)?;
    println!("ws://{}", listener.local_addr()?);
    pool.block_on(async {
        loop {
            let (stream, _) = listener.accept().await?;
            creel::task::spawn(echo(stream));
        }
    })
}

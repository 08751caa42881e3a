//! A proxy that speaks TLS with clients and plain TCP with the server behind it.
//!
//! `tls_proxy LISTEN SERVER`, with `cert.pem` and `key.pem` in the working directory.

use std::sync::Arc;

use creel::net::{TcpListener, TcpStream};
use futures_rustls::TlsAcceptor;
use futures_rustls::rustls::ServerConfig;
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use futures_util::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use futures_util::{future::try_join, io::copy};

/// To the end of it, which it passes on.
async fn pipe(from: impl AsyncRead, mut to: impl AsyncWrite + Unpin) -> std::io::Result<()> {
    copy(from, &mut to).await?;
    to.close().await
}

async fn proxy(client: TcpStream, acceptor: TlsAcceptor, server: String) -> std::io::Result<()> {
    let (from_client, to_client) = acceptor.accept(client).await?.split();
    let (from_server, to_server) = TcpStream::connect_to(server).await?.into_split();
    try_join(pipe(from_client, to_server), pipe(from_server, to_client)).await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (listen, server) = arguments
        .next()
        .zip(arguments.next())
        .ok_or("LISTEN SERVER")?;
    let chain = CertificateDer::pem_file_iter("cert.pem")?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file("key.pem")?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let pool = creel::Pool::builder().build()?;
    let listener = TcpListener::bind(listen.parse()?)?;
    pool.block_on(async {
        loop {
            let (client, _) = listener.accept().await?;
            creel::task::spawn(proxy(client, acceptor.clone(), server.clone()));
        }
    })
}

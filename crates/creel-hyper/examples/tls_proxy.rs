//! A proxy that uses TLS with its clients and plain TCP with the server behind it.
//!
//! It needs `cert.pem` and `key.pem` in the working directory.

use std::env;
use std::sync::Arc;

use creel::net::{TcpListener, TcpStream, relay};
use futures_rustls::TlsAcceptor;
use futures_rustls::rustls::ServerConfig;
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

async fn proxy(client: TcpStream, acceptor: TlsAcceptor, server: String) -> std::io::Result<()> {
    let mut client = acceptor.accept(client).await?;
    let mut server = TcpStream::connect_to(server).await?;
    relay(&mut client, &mut server).await?;
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = env::var("LISTEN").unwrap_or("127.0.0.1:8443".into());
    let server = env::var("SERVER").unwrap_or("127.0.0.1:8080".into());
    let chain = CertificateDer::pem_file_iter("cert.pem")?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file("key.pem")?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let pool = creel::Pool::builder().build()?;
    let listener = TcpListener::bind(address.parse()?)?;
    println!("https://{}", listener.local_addr()?);
    pool.block_on(async {
        loop {
            let (client, _) = listener.accept().await?;
            creel::task::spawn(proxy(client, acceptor.clone(), server.clone()));
        }
    })
}

//! The configuration of rustls, for HTTPS and for Redis. The HTTPS client chooses HTTP/1.1 or
//! HTTP/2.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures_rustls::TlsAcceptor;
use futures_rustls::rustls::ServerConfig;
use futures_rustls::rustls::pki_types::pem::PemObject;
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::store::Certificates;

/// Selects ring for all of rustls. Otherwise rustls panics if another crate of the program enables
/// a second provider.
fn use_ring() {
    // An error means that there is a provider already.
    let _ = futures_rustls::rustls::crypto::ring::default_provider().install_default();
}

/// Creates a Redis client that uses TLS.
pub(crate) fn redis_client(
    certificates: &Certificates,
    info: redis::ConnectionInfo,
) -> redis::RedisResult<redis::Client> {
    use_ring();
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot read {}: {error}", path.display()),
            )
        })
    };
    let root_cert = certificates.authority.as_deref().map(read).transpose()?;
    let client_tls = match &certificates.client {
        Some((chain, key)) => Some(redis::ClientTlsConfig {
            client_cert: read(chain)?,
            client_key: read(key)?,
        }),
        None => None,
    };
    let certificates = redis::TlsCertificates {
        client_tls,
        root_cert,
    };
    redis::Client::build_with_tls(info, certificates)
}

/// Creates an acceptor from the PEM files of a certificate chain and its private key.
pub(crate) fn acceptor(chain: &Path, key: &Path) -> io::Result<TlsAcceptor> {
    use_ring();
    let invalid = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, error.to_string())
    };
    let chain =
        CertificateDer::pem_file_iter(chain).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| invalid(&error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| invalid(&error))?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key);
    let mut config = config.map_err(|error| invalid(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

//! HTTPS: the configuration of rustls. The client chooses HTTP/1.1 or HTTP/2.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures_rustls::TlsAcceptor;
use futures_rustls::rustls::ServerConfig;
use futures_rustls::rustls::pki_types::pem::PemObject;
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Creates an acceptor from the PEM files of a certificate chain and its private key.
pub(crate) fn acceptor(chain: &Path, key: &Path) -> io::Result<TlsAcceptor> {
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

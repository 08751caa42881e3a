//! The certificate of the servers with TLS, and the settings of both sides.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

/// A certificate for `localhost` with its key, both in DER.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Certificate {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Certificate {
    /// Creates a certificate that is signed by itself.
    pub fn new() -> anyhow::Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        Ok(Certificate {
            certificate: made.cert.der().to_vec(),
            key: made.signing_key.serialize_der(),
        })
    }

    /// Returns the settings of a server.
    pub fn for_server(&self) -> anyhow::Result<Arc<rustls::ServerConfig>> {
        let chain = vec![CertificateDer::from(self.certificate.clone())];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.clone()));
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        Ok(Arc::new(config.with_single_cert(chain, key)?))
    }

    /// Returns the settings of a client that trusts this certificate only.
    pub fn for_client(&self) -> anyhow::Result<Arc<rustls::ClientConfig>> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from(self.certificate.clone()))?;
        let config = rustls::ClientConfig::builder().with_root_certificates(roots);
        Ok(Arc::new(config.with_no_client_auth()))
    }
}

//! The requests of a load, and the check of their responses.

use std::io::{self, ErrorKind};

use ed25519_dalek::{Signature, VerifyingKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::arrivals::Random;
use super::client::Client;
use super::mix::{Kind, Mix};
use super::plan::Plan;
use crate::routes::TIMEOUT_HEADER;

/// A request that is ready to be sent.
#[derive(Debug)]
pub(super) struct BuiltRequest {
    pub(super) bytes: Vec<u8>,
    kind: Kind,
    message: Vec<u8>,
}

/// Builds requests and checks responses.
#[derive(Debug)]
pub(super) struct RequestBuilder {
    mix: Mix,
    total: u64,
    seed: u64,
    size: usize,
    /// The headers that all requests have.
    headers: String,
    key: Option<VerifyingKey>,
    /// The hash of [`PASSWORD`] that the service returned.
    stored_hash: String,
}

const PASSWORD: &str = "correct horse battery staple";

impl RequestBuilder {
    /// Asks the service for its key and a password hash, if the requests or the checks need them.
    pub(super) async fn new(plan: &Plan) -> io::Result<RequestBuilder> {
        let mut headers = format!("Host: {}\r\n", plan.to);
        if let Some(request_timeout) = plan.request_timeout {
            headers += &format!("{TIMEOUT_HEADER}: {}\r\n", request_timeout.as_millis());
        }
        let mut builder = RequestBuilder {
            total: plan.mix.0.iter().map(|(_, weight)| weight).sum(),
            mix: plan.mix.clone(),
            seed: plan.seed,
            size: plan.size,
            headers,
            key: None,
            stored_hash: String::new(),
        };
        let has = |kind| plan.mix.0.iter().any(|part| part.0 == kind);
        // This checks first that the service can be reached at all.
        let connected = creel::time::timeout(plan.timeout, Client::connect(plan.to)).await;
        connected.map_err(|_| ErrorKind::TimedOut)??;
        if has(Kind::Sign) && plan.check {
            let body = builder.fetch(plan, "GET", "/key", b"").await?;
            builder.key = parsed::<Key>(&body)
                .and_then(|reply| VerifyingKey::from_bytes(&bytes(&reply.key)?).ok());
            builder.key.ok_or(ErrorKind::InvalidData)?;
        }
        if has(Kind::Check) {
            let body = builder
                .fetch(plan, "POST", "/password", PASSWORD.as_bytes())
                .await?;
            builder.stored_hash = parsed::<StoredHash>(&body)
                .ok_or(ErrorKind::InvalidData)?
                .stored_hash;
        }
        Ok(builder)
    }

    /// Sends one request over a new connection. Returns the body of a response with status 200.
    async fn fetch(
        &self,
        plan: &Plan,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> io::Result<Vec<u8>> {
        let exchange = async {
            let mut client = Client::connect(plan.to).await?;
            client.exchange(&self.bytes(method, path, body)).await
        };
        let response = creel::time::timeout(plan.timeout, exchange).await;
        let response = response.map_err(|_| ErrorKind::TimedOut)??;
        match response.status {
            200 => Ok(response.body),
            status => Err(io::Error::other(format!("{path}: status {status}"))),
        }
    }

    /// Returns the bytes of a request.
    fn bytes(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{}Content-Length: {length}\r\n\r\n",
            self.headers
        );
        [head.as_bytes(), body].concat()
    }

    /// Builds the request with this number. The same number and seed give the same request.
    pub(super) fn build(&self, number: u64) -> BuiltRequest {
        let mut random = Random(self.seed ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        let mut at = random.next() % self.total.max(1);
        let mut kind = Kind::Health;
        for (next, weight) in &self.mix.0 {
            kind = *next;
            match at.checked_sub(*weight) {
                Some(left) => at = left,
                None => break,
            }
        }
        let mut message = format!("{} {number} ", self.seed).into_bytes();
        message.resize(self.size.max(message.len()), b'.');
        let bytes = match kind {
            Kind::Sign => self.bytes("POST", "/sign", &message),
            Kind::Digest => self.bytes("POST", "/digest", &message),
            Kind::Password => self.bytes("POST", "/password", PASSWORD.as_bytes()),
            Kind::Check => {
                let body =
                    serde_json::json!({"password": PASSWORD, "stored_hash": self.stored_hash})
                        .to_string();
                self.bytes("POST", "/password/check", body.as_bytes())
            }
            Kind::Health => self.bytes("GET", "/health", b""),
        };
        BuiltRequest {
            bytes,
            kind,
            message,
        }
    }

    /// Checks a response. Returns the name of the record that it acknowledges, if any.
    pub(super) fn check(&self, request: &BuiltRequest, body: &[u8]) -> Result<Option<String>, ()> {
        let is_right = match request.kind {
            Kind::Sign => {
                let reply: Signed = parsed(body).ok_or(())?;
                let signature = bytes(&reply.signature).ok_or(())?;
                let key = self.key.as_ref().ok_or(())?;
                let verified =
                    key.verify_strict(&request.message, &Signature::from_bytes(&signature));
                let id = hex::encode(Sha256::digest(&request.message));
                return match verified.is_ok() && id == reply.id {
                    true => Ok(Some(id)),
                    false => Err(()),
                };
            }
            Kind::Digest => {
                let reply: Digested = parsed(body).ok_or(())?;
                reply.digest == hex::encode(Sha256::digest(&request.message))
            }
            Kind::Check => parsed::<Valid>(body).is_some_and(|reply| reply.valid),
            Kind::Password => parsed::<StoredHash>(body)
                .is_some_and(|reply| reply.stored_hash.starts_with("$argon2id$")),
            Kind::Health => true,
        };
        is_right.then_some(None).ok_or(())
    }
}

#[derive(Deserialize)]
struct Key {
    key: String,
}
#[derive(Deserialize)]
struct Signed {
    id: String,
    signature: String,
}
#[derive(Deserialize)]
struct Digested {
    digest: String,
}
#[derive(Deserialize)]
struct StoredHash {
    stored_hash: String,
}
#[derive(Deserialize)]
struct Valid {
    valid: bool,
}

/// Parses a JSON body.
fn parsed<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

/// Parses hex digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

//! The routes: paths, methods, queries and the timeout header.

use hyper::http::uri::Uri;
use hyper::{HeaderMap, Method};
use serde::Deserialize;
use std::time::Duration;

use bytes::Bytes;

use crate::crypto::{Algo, Job};

/// The route that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `POST /sign` signs the body and stores the record.
    Sign,
    /// `POST /verify?key=HEX&signature=HEX` checks the signature of the body.
    Verify,
    /// `POST /digest` returns the SHA-256 of the body. `?algorithm=sha512` selects SHA-512.
    Digest,
    /// `POST /password` returns the hash of the password in the body.
    Hash,
    /// `POST /password/check` checks a password against a hash: `{"password", "stored_hash"}`.
    Check,
    /// `GET /records/ID` returns the record of a signed message.
    Record,
    /// `GET /counters` returns the number of signatures.
    Counters,
    /// `GET /key` returns the public key.
    Key,
    /// `GET /health` returns 200 while the process is alive.
    Health,
    /// `GET /ready` returns 200 while the store accepts records and the service is not shutting
    /// down.
    Ready,
    /// `GET /metrics` returns the metrics in Prometheus's format.
    Metrics,
    /// Any other path.
    Unknown,
}

impl Route {
    /// All routes, in the order of their discriminants.
    pub const ALL: [Route; 12] = [
        Route::Sign,
        Route::Verify,
        Route::Digest,
        Route::Hash,
        Route::Check,
        Route::Record,
        Route::Counters,
        Route::Key,
        Route::Health,
        Route::Ready,
        Route::Metrics,
        Route::Unknown,
    ];

    /// Returns the route of a path.
    pub fn of(path: &str) -> Route {
        match path {
            "/sign" => Route::Sign,
            "/verify" => Route::Verify,
            "/digest" => Route::Digest,
            "/password" => Route::Hash,
            "/password/check" => Route::Check,
            "/counters" => Route::Counters,
            "/key" => Route::Key,
            "/health" => Route::Health,
            "/ready" => Route::Ready,
            "/metrics" => Route::Metrics,
            _ if path.starts_with("/records/") => Route::Record,
            _ => Route::Unknown,
        }
    }

    /// Returns the name of the route in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Route::Sign => "sign",
            Route::Verify => "verify",
            Route::Digest => "digest",
            Route::Hash => "password",
            Route::Check => "password_check",
            Route::Record => "record",
            Route::Counters => "counters",
            Route::Key => "key",
            Route::Health => "health",
            Route::Ready => "ready",
            Route::Metrics => "metrics",
            Route::Unknown => "unknown",
        }
    }

    /// Returns the method of the route.
    pub fn method(self) -> Method {
        match self {
            Route::Sign | Route::Verify | Route::Digest | Route::Hash | Route::Check => {
                Method::POST
            }
            _ => Method::GET,
        }
    }
}

/// Returns the job that a request with a body asks for.
///
/// # Errors
///
/// Returns the reason if the request is invalid.
pub fn job(route: Route, uri: &Uri, body: Bytes) -> Result<Job, &'static str> {
    match route {
        Route::Sign => Ok(Job::Sign(body)),
        Route::Verify => {
            let (mut key, mut signature) = ([0; 32], [0; 64]);
            let bytes = |name, into: &mut [u8]| {
                hex::decode_to_slice(value(uri, name).unwrap_or_default(), into)
            };
            bytes("key", &mut key).map_err(|_| "the key must have 64 hex digits")?;
            bytes("signature", &mut signature)
                .map_err(|_| "the signature must have 128 hex digits")?;
            Ok(Job::Verify {
                key,
                signature,
                message: body,
            })
        }
        Route::Digest => match value(uri, "algorithm") {
            None | Some("sha256") => Ok(Job::Digest(Algo::Sha256, body)),
            Some("sha512") => Ok(Job::Digest(Algo::Sha512, body)),
            Some(_) => Err("algorithm: expected sha256 or sha512"),
        },
        Route::Hash => match body.len() {
            0 => Err("the request body must contain a password"),
            _ => Ok(Job::Hash(body)),
        },
        Route::Check => {
            #[derive(Deserialize)]
            struct Pair {
                password: String,
                #[serde(alias = "kept")]
                stored_hash: String,
            }
            let pair: Result<Pair, _> = serde_json::from_slice(&body);
            let Pair {
                password,
                stored_hash,
            } = pair.map_err(|_| "expected JSON: {\"password\": …, \"stored_hash\": …}")?;
            Ok(Job::Check {
                password: password.into(),
                stored_hash,
            })
        }
        _ => Err("this path has no job"),
    }
}

/// Returns the name of the record in a path of the route `/records/`.
pub fn record(path: &str) -> Option<[u8; 32]> {
    let mut id = [0; 32];
    hex::decode_to_slice(path.strip_prefix("/records/")?, &mut id).ok()?;
    Some(id)
}

/// Returns the value of a parameter in the query of a URI.
fn value<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let mut pairs = uri
        .query()?
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
}

/// The request header that says how many milliseconds the client waits for the response.
pub const TIMEOUT_HEADER: &str = "x-timeout-ms";

/// Returns how long to work on a request: the time in its header, up to `most`, or the default.
///
/// # Errors
///
/// Returns the reason if the header is not a number of milliseconds.
pub fn request_timeout(
    headers: &HeaderMap,
    default: Duration,
    most: Duration,
) -> Result<Duration, &'static str> {
    let Some(timeout) = headers.get(TIMEOUT_HEADER) else {
        return Ok(default);
    };
    let timeout = timeout.to_str().ok().and_then(|text| text.parse().ok());
    let timeout = timeout.ok_or("the header x-timeout-ms must be a number of milliseconds")?;
    Ok(Duration::from_millis(timeout).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_map_to_their_routes() {
        for route in Route::ALL {
            assert_eq!(
                route as usize,
                Route::ALL.iter().position(|other| *other == route).unwrap()
            );
        }
        assert_eq!(Route::of("/sign"), Route::Sign);
        assert_eq!(Route::of("/sign/"), Route::Unknown);
        assert_eq!(Route::of("/records/ab"), Route::Record);
        assert_eq!(record("/records/ab"), None);
        assert_eq!(
            record(&format!("/records/{}", "0f".repeat(32))),
            Some([0x0f; 32])
        );
    }

    #[test]
    fn invalid_queries_are_rejected() {
        let parse = |route, uri: &str| job(route, &uri.parse().unwrap(), Bytes::from_static(b"x"));
        let (key, signature) = ("00".repeat(32), "11".repeat(64));
        assert!(
            parse(
                Route::Verify,
                &format!("/verify?signature={signature}&key={key}")
            )
            .is_ok()
        );
        assert!(
            parse(Route::Verify, &format!("/verify?key={key}"))
                .unwrap_err()
                .contains("signature")
        );
        assert!(
            parse(Route::Verify, "/verify?key=xx")
                .unwrap_err()
                .contains("key")
        );
        assert!(parse(Route::Digest, "/digest?algorithm=sha512").is_ok());
        assert!(parse(Route::Digest, "/digest?algorithm=md5").is_err());
        assert!(parse(Route::Check, "/password/check").is_err());
    }

    #[test]
    fn the_former_key_kept_is_accepted_for_the_stored_hash() {
        for name in ["stored_hash", "kept"] {
            let body = format!("{{\"password\":\"a\",\"{name}\":\"b\"}}");
            let job = job(
                Route::Check,
                &"/password/check".parse().unwrap(),
                body.into(),
            );
            assert!(matches!(job, Ok(Job::Check { .. })), "{name}: {job:?}");
        }
    }

    #[test]
    fn the_timeout_of_a_request_is_limited() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let mut headers = HeaderMap::new();
        assert_eq!(request_timeout(&headers, second, minute), Ok(second));
        for (text, timeout) in [
            ("250", Some(250)),
            ("99999999", Some(60_000)),
            ("-1", None),
            ("", None),
        ] {
            headers.insert(TIMEOUT_HEADER, text.parse().unwrap());
            let expected = timeout.map(Duration::from_millis);
            assert_eq!(
                request_timeout(&headers, second, minute).ok(),
                expected,
                "{text}"
            );
        }
    }
}

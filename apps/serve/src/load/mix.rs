//! The kinds of requests in a load, with their weights.

use std::str::FromStr;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sign,
    Digest,
    Check,
    Password,
    Health,
}

/// The kinds of requests in a load and their weights, for example `sign` or `sign=9,check=1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mix(pub(super) Vec<(Kind, u64)>);

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Mix, String> {
        let part = |part: &str| {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let kind = match name {
                "sign" => Kind::Sign,
                "digest" => Kind::Digest,
                "check" => Kind::Check,
                "password" => Kind::Password,
                "health" => Kind::Health,
                _ => return None,
            };
            weight
                .parse()
                .ok()
                .filter(|weight| (1..=1000).contains(weight))
                .map(|weight| (kind, weight))
        };
        let parts: Option<Vec<_>> = text.split(',').map(part).collect();
        let why = "expected sign, digest, password, check or health, or several with weights from 1 to 1000: sign=9,check=1";
        parts.map(Mix).ok_or_else(|| why.to_owned())
    }
}

//! The kinds of requests of a load, with their weights.

use std::str::FromStr;

/// What may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sign,
    Digest,
    Check,
    Password,
    Health,
}

/// Kinds of requests, and how often each comes: `sign`, `sign=9,check=1`.
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
        let why =
            "sign, digest, password, check or health, or several with weights: sign=9,check=1";
        parts.map(Mix).ok_or_else(|| why.to_owned())
    }
}

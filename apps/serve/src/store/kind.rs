//! The kinds of stores, and the notation that the command line uses for them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::redis::RedisAddr;

/// The kind of store that keeps the records and counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The memory of this process. Records are lost when the process ends.
    Memory,
    /// An embedded database in a file.
    File(PathBuf),
    /// A Redis server, or several of them.
    Redis(Box<RedisAddr>),
}

impl fmt::Display for Kind {
    /// Writes the notation of the store without a login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Memory => f.write_str("memory"),
            Kind::File(path) => path.display().fmt(f),
            Kind::Redis(address) => address.fmt(f),
        }
    }
}

/// The notations of a store, for messages.
const NOTATIONS: &str = "a file path, redis://HOST, rediss://HOST, redis+sentinel://HOST,…/MASTER, \
                         redis+cluster://HOST,…, unix:PATH or memory";

impl FromStr for Kind {
    type Err = String;

    /// Parses `memory`, the URL of a Redis server, `unix:PATH` (the socket of a Redis server), or a
    /// file path. The errors never contain a password.
    fn from_str(text: &str) -> Result<Kind, String> {
        if let Some(address) = RedisAddr::parse_url(text) {
            return Ok(Kind::Redis(Box::new(address?)));
        }
        if let Some((scheme, _)) = text.split_once(':').filter(|(head, _)| is_scheme(head)) {
            return Err(format!(
                "unknown store scheme \"{scheme}\": expected {NOTATIONS}. For a file of that name, \
                 write ./{scheme}:…"
            ));
        }
        match (text.strip_prefix("unix:"), text) {
            (_, "") => Err(format!("expected {NOTATIONS}")),
            (_, "memory") => Ok(Kind::Memory),
            (Some(path), _) => Ok(Kind::Redis(Box::new(RedisAddr::parse_unix(path)?))),
            (None, path) => Ok(Kind::File(path.into())),
        }
    }
}

/// Returns whether the text before a colon looks like the scheme of a URL.
///
/// A file name should not look like that. A single letter is a Windows drive and not a scheme. Our
/// own `unix:` is not a URL either.
///
/// Source: RFC 3986, section 3.1.
fn is_scheme(head: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_valid = head.starts_with(|c: char| c.is_ascii_alphabetic()) && head.chars().all(rest);
    is_valid && head.len() > 1 && head != "unix"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_names_are_parsed() {
        let of = |text: &str| text.parse::<Kind>();
        assert_eq!(of("memory"), Ok(Kind::Memory));
        for redis in [
            "redis://localhost",
            "rediss://me@localhost:6379/2",
            "redis+sentinel://a,b/main",
            "unix:/run/r.sock",
        ] {
            assert!(matches!(of(redis), Ok(Kind::Redis(_))), "{redis}");
        }
        for file in ["a/b.redb", "./redis:a", "C:\\a.redb"] {
            assert_eq!(of(file), Ok(Kind::File(file.into())));
        }
        for bad in [
            "",
            "unix:",
            "unix:?db=1",
            "unix:a?secret",
            "redis://localhost:x",
            "redis://:secret@localhost:x",
            "redis+ring://:secret@localhost",
            "mongodb://:secret@localhost",
            "redis:localhost:6379",
            "file:a.redb",
        ] {
            let why = of(bad).unwrap_err();
            assert!(!why.contains("secret"), "{bad}: {why}");
        }
    }
}

//! The kinds of stores, and the notation that the command line uses for them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The kind of store that keeps the records and counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The memory of this process. Records are lost when the process ends.
    Memory,
    /// An embedded database in a file.
    File(PathBuf),
    /// A Redis server.
    Redis(RedisAddr),
}

/// The address of a Redis server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisAddr {
    /// A TCP address, as `HOST:PORT`.
    Tcp(String),
    /// The path of a Unix domain socket.
    Unix(PathBuf),
}

impl fmt::Display for RedisAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisAddr::Tcp(address) => f.write_str(address),
            RedisAddr::Unix(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    /// Parses `memory`, `redis://HOST:PORT`, `unix:PATH` (the socket of a Redis server), or a file
    /// path.
    fn from_str(text: &str) -> Result<Kind, String> {
        if let Some(address) = text.strip_prefix("redis://") {
            if address.contains(['@', '/']) {
                let why =
                    "only redis://HOST:PORT is supported: remove the user, password and database";
                return Err(why.into());
            }
            let port = address
                .rsplit_once(':')
                .map(|(_, port)| port.parse::<u16>());
            return match port {
                Some(Ok(_)) => Ok(Kind::Redis(RedisAddr::Tcp(address.to_owned()))),
                _ => Err("expected a port number: redis://HOST:PORT".into()),
            };
        }
        if let Some((scheme, _)) = text.split_once(':').filter(|(head, _)| is_scheme(head)) {
            return Err(format!(
                "unknown store scheme \"{scheme}\": expected redis://HOST:PORT, unix:PATH or a file \
                 path. For a file of that name, write ./{scheme}:…"
            ));
        }
        match (text.strip_prefix("unix:"), text) {
            (_, "" | "unix:") => {
                Err("expected memory, redis://HOST:PORT, unix:PATH or a file path".into())
            }
            (_, "memory") => Ok(Kind::Memory),
            (Some(path), _) => Ok(Kind::Redis(RedisAddr::Unix(path.into()))),
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
        assert_eq!(
            of("redis://localhost:6379"),
            Ok(Kind::Redis(RedisAddr::Tcp("localhost:6379".into())))
        );
        assert_eq!(
            of("unix:/run/r.sock"),
            Ok(Kind::Redis(RedisAddr::Unix("/run/r.sock".into())))
        );
        for file in ["a/b.redb", "./redis:a", "C:\\a.redb"] {
            assert_eq!(of(file), Ok(Kind::File(file.into())));
        }
        for bad in [
            "",
            "redis://localhost",
            "redis://localhost:x",
            "redis://:secret@localhost:6379",
            "redis://localhost:6379/2",
            "rediss://localhost:6379",
            "redis:localhost:6379",
            "file:a.redb",
        ] {
            let why = of(bad).unwrap_err();
            assert!(!why.contains("secret"), "{bad}: {why}");
        }
    }
}

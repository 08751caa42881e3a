//! The kinds of stores, as the command line names them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Which store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// In this process's memory: gone when it ends.
    Memory,
    /// An embedded database in a file.
    File(PathBuf),
    /// A Redis server.
    Redis(RedisAddr),
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedisAddr {
    /// A host and a port.
    Tcp(String),
    /// A socket's path.
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

    /// `memory`, `redis://HOST:PORT`, `unix:PATH` of a Redis, or a file's path.
    fn from_str(text: &str) -> Result<Kind, String> {
        if let Some(address) = text.strip_prefix("redis://") {
            if address.contains(['@', '/']) {
                let known = "redis://HOST:PORT is all: no user or password, no database";
                return Err(known.into());
            }
            let port = address
                .rsplit_once(':')
                .map(|(_, port)| port.parse::<u16>());
            return match port {
                Some(Ok(_)) => Ok(Kind::Redis(RedisAddr::Tcp(address.to_owned()))),
                _ => Err("redis://HOST:PORT is needed".into()),
            };
        }
        if let Some((scheme, _)) = text.split_once(':').filter(|(head, _)| is_scheme(head)) {
            return Err(format!(
                "{scheme}: is no store's; redis://HOST:PORT, unix:PATH, or ./{scheme}:… if it is a file"
            ));
        }
        match (text.strip_prefix("unix:"), text) {
            (_, "" | "unix:") => {
                Err("memory, redis://HOST:PORT, unix:PATH or a file is needed".into())
            }
            (_, "memory") => Ok(Kind::Memory),
            (Some(path), _) => Ok(Kind::Redis(RedisAddr::Unix(path.into()))),
            (None, path) => Ok(Kind::File(path.into())),
        }
    }
}

/// Whether it looks like what a URL begins with, as no file's name should.
///
/// Source: RFC 3986, section 3.1; of one letter, it is a drive.
fn is_scheme(head: &str) -> bool {
    let rest = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let is_one = head.starts_with(|c: char| c.is_ascii_alphabetic()) && head.chars().all(rest);
    is_one && head.len() > 1 && head != "unix"
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

//! The address of a Redis server, and how to log in to it.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

/// The default port of a Redis server.
const PORT: u16 = 6379;
/// The default port of a Sentinel.
const SENTINEL_PORT: u16 = 26379;

/// A password. Its debug output does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// The name or IP address, without the brackets of IPv6.
    pub name: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

impl Host {
    /// Parses `HOST` or `HOST:PORT`. An IPv6 address is in brackets if a port follows.
    ///
    /// The errors do not contain the text, because it may be a misplaced password.
    pub(super) fn parse(text: &str, default_port: u16) -> Result<Host, String> {
        let bad_port = || "expected a port number after the host: HOST:PORT".to_owned();
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, default_port),
            Some((name, port)) => {
                let port = port.strip_prefix(':').and_then(|port| port.parse().ok());
                (name, port.ok_or_else(bad_port)?)
            }
            None => match text.rsplit_once(':') {
                Some((name, port)) if !name.contains(':') => {
                    (name, port.parse().map_err(|_| bad_port())?)
                }
                _ => (text, default_port),
            },
        };
        let is_valid = |c: char| c.is_alphanumeric() || "-_.:%".contains(c);
        if name.is_empty() || !name.chars().all(is_valid) {
            return Err("expected a host name or an IP address".into());
        }
        let name = name.to_owned();
        Ok(Host { name, port })
    }
}

impl Host {
    /// Parses the address in a reply of a server. It always has a port, and an IPv6 address has no
    /// brackets.
    pub(super) fn parse_reply(text: &str) -> Option<Host> {
        let (name, port) = text.rsplit_once(':')?;
        let host = Host::parse(name.trim_matches(['[', ']']), 0).ok()?;
        let port = port.parse().ok()?;
        Some(Host { port, ..host })
    }
}

/// How we find the server that accepts writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One server. If it belongs to a cluster, we use the whole cluster.
    Server(Host),
    /// The Unix domain socket of one server.
    Unix(PathBuf),
    /// Sentinels, and the name of the master that they watch.
    Sentinel(Vec<Host>, String),
    /// Some of the nodes of a cluster.
    Cluster(Vec<Host>),
}

/// A user and a password.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// The user, or `None` for the default user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
}

/// How many replicas must confirm a write before we acknowledge it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replicas {
    /// One, if the master has a replica, and if Sentinel or the cluster could fail over to it.
    #[default]
    Automatic,
    /// This number, always.
    AtLeast(usize),
}

/// The certificates for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificates {
    /// A PEM file with the certificates that we trust instead of those of the system.
    pub authority: Option<PathBuf>,
    /// The PEM files of our own certificate chain and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}

/// The address of a Redis server, and how to log in to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisAddr {
    /// How we find the server.
    pub topology: Topology,
    /// The number of the database.
    pub database: u32,
    /// Whether we use TLS.
    pub tls: bool,
    /// The certificates for TLS.
    pub certificates: Certificates,
    /// The login for the servers.
    pub login: Login,
    /// The login for the Sentinels.
    pub sentinel_login: Login,
    /// How many replicas must confirm a write.
    pub replicas: Replicas,
}

impl fmt::Display for RedisAddr {
    /// Writes the address without the login.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let list = |hosts: &[Host]| {
            let hosts = hosts.iter().map(Host::to_string);
            hosts.collect::<Vec<_>>().join(",")
        };
        match &self.topology {
            Topology::Server(host) => write!(f, "{scheme}://{host}")?,
            Topology::Unix(path) => write!(f, "unix:{}", path.display())?,
            Topology::Sentinel(hosts, master) => {
                write!(f, "{scheme}+sentinel://{}/{master}", list(hosts))?;
            }
            Topology::Cluster(hosts) => write!(f, "{scheme}+cluster://{}", list(hosts))?,
        }
        match (self.database, &self.topology) {
            (0, _) => Ok(()),
            (database, Topology::Unix(_)) => write!(f, "?db={database}"),
            (database, _) => write!(f, "/{database}"),
        }
    }
}

impl RedisAddr {
    fn new(topology: Topology, tls: bool) -> RedisAddr {
        RedisAddr {
            topology,
            database: 0,
            tls,
            certificates: Certificates::default(),
            login: Login::default(),
            sentinel_login: Login::default(),
            replicas: Replicas::default(),
        }
    }

    /// Parses the text after `unix:`.
    pub(in crate::store) fn parse_unix(text: &str) -> Result<RedisAddr, String> {
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        // `unix:///run/redis.sock` is the form of a URL, which has an empty host.
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err("expected the path of a socket: unix:PATH".into());
        }
        let mut address = RedisAddr::new(Topology::Unix(path.into()), false);
        address.database = match query.split_once('=') {
            None if query.is_empty() => 0,
            Some(("db", number)) => database(number)?,
            _ => return Err("unknown option after \"?\": expected unix:PATH?db=NUMBER".into()),
        };
        Ok(address)
    }

    /// Parses a URL. Returns `None` if the scheme is not one of ours.
    pub(in crate::store) fn parse_url(text: &str) -> Option<Result<RedisAddr, String>> {
        let (scheme, rest) = text.split_once("://")?;
        let (kind, tls) = match scheme {
            "redis" | "valkey" => ("", false),
            "rediss" | "valkeys" => ("", true),
            _ => match scheme.split_once(['+', '-'])? {
                ("redis" | "valkey", kind @ ("sentinel" | "cluster")) => (kind, false),
                ("rediss" | "valkeys", kind @ ("sentinel" | "cluster")) => (kind, true),
                ("redis" | "valkey", "unix") => return Some(RedisAddr::parse_unix(rest)),
                _ => return None,
            },
        };
        Some(RedisAddr::parse_rest(kind, tls, rest))
    }

    /// Parses the part of a URL after `://`. The messages never contain the login.
    fn parse_rest(kind: &str, tls: bool, rest: &str) -> Result<RedisAddr, String> {
        // The login may contain the separators of the other parts if they are not encoded.
        // Therefore, the last `@` ends the login.
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        if rest.contains(['?', '#']) {
            return Err(
                "this address cannot have options after \"?\" or \"#\": remove them".into(),
            );
        }
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let default_port = if kind == "sentinel" {
            SENTINEL_PORT
        } else {
            PORT
        };
        let hosts = hosts.split(',').map(|host| Host::parse(host, default_port));
        let mut hosts = hosts.collect::<Result<Vec<_>, _>>()?;
        let mut number = path;
        let topology = match kind {
            "sentinel" => {
                let master;
                (master, number) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    let why = "expected the name of the master after the Sentinels, for example \
                               redis+sentinel://HOST,HOST/mymaster";
                    return Err(why.into());
                }
                Topology::Sentinel(hosts, decode(master)?)
            }
            "cluster" => Topology::Cluster(hosts),
            _ if hosts.len() > 1 => {
                let why = "several hosts need redis+sentinel://HOST,HOST/MASTER or \
                           redis+cluster://HOST,HOST";
                return Err(why.into());
            }
            _ => Topology::Server(hosts.remove(0)),
        };
        let mut address = RedisAddr::new(topology, tls);
        address.database = if number.is_empty() {
            0
        } else {
            database(number)?
        };
        if address.database > 0 && kind == "cluster" {
            return Err(
                "a cluster has only database 0: remove the number of the database from the address"
                    .into(),
            );
        }
        if let Some(login) = login {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, Some(Secret(decode(password)?))),
                None => (login, None),
            };
            let user = Some(decode(user)?).filter(|user| !user.is_empty());
            address.login = Login { user, password };
        }
        Ok(address)
    }
}

/// Parses the number of a database.
fn database(text: &str) -> Result<u32, String> {
    let why = "expected the number of a database after the address, for example /2";
    text.parse().map_err(|_| why.to_owned())
}

/// Decodes `%40` and the like.
fn decode(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded
        .map(|text| text.into_owned())
        .map_err(|_| "the user or the password in the address is not valid UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RedisAddr, String> {
        RedisAddr::parse_url(text).expect("the scheme must be known")
    }

    #[test]
    fn addresses_are_printed_as_they_are_parsed() {
        for (text, printed) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://10.0.0.1:7000/2", "redis://10.0.0.1:7000/2"),
            ("rediss://[::1]/3", "rediss://[::1]:6379/3"),
            ("valkeys://[::1]:7", "rediss://[::1]:7"),
            ("redis+unix:///run/r.sock?db=4", "unix:/run/r.sock?db=4"),
            (
                "redis-sentinel://a,b:1/main/5",
                "redis+sentinel://a:26379,b:1/main/5",
            ),
            ("rediss+cluster://a,b:1", "rediss+cluster://a:6379,b:1"),
        ] {
            let address = parse(text).unwrap();
            assert_eq!(address.to_string(), printed);
            if !printed.starts_with("unix:") {
                assert_eq!(parse(printed), Ok(address));
            }
        }
    }

    #[test]
    fn a_login_is_decoded_and_never_printed() {
        let address = parse("redis://me:a%40b/c:d@host/1").unwrap();
        assert_eq!(address.login.user.as_deref(), Some("me"));
        assert_eq!(address.login.password, Some(Secret("a@b/c:d".into())));
        assert_eq!(address.topology, parse("redis://host/1").unwrap().topology);
        let shown = format!("{address} {address:?}");
        assert!(!shown.contains("a@b"), "{shown}");
        let only_user = parse("redis://me@host").unwrap().login;
        assert_eq!(
            (only_user.user.as_deref(), only_user.password),
            (Some("me"), None)
        );
        let only_password = parse("redis://:secret@host").unwrap().login;
        assert_eq!(only_password.user, None);
        assert_eq!(only_password.password, Some(Secret("secret".into())));
    }

    #[test]
    fn wrong_addresses_are_rejected_without_the_password() {
        for bad in [
            "redis://",
            "redis://:secret@",
            "redis://:secret",
            "redis://:secret@host:x",
            "redis://:secret@host:70000",
            "redis://:secret@host/x",
            "redis://:secret@host/-1",
            "redis://:secret@a,b",
            "redis://:secret@host?db=2",
            "redis+sentinel://:secret@a,b",
            "redis+cluster://:secret@a,b/2",
            "redis+cluster://:secret@a,,b",
            "rediss://:secret@[::1",
        ] {
            let why = parse(bad).unwrap_err();
            assert!(!why.contains("secret"), "{bad}: {why}");
        }
    }
}

//! A connection to one server, over the blocking connection of the crate `redis`.
//!
//! The crate connects, does TLS, and encodes and parses the protocol. We send and receive one batch
//! of commands ourselves for three reasons. We stop at the first reply that does not arrive in
//! time, whereas the crate waits for each of them. We need the server's own words if it rejects the
//! login. And the crate's Sentinel and cluster clients wait for a stopped server without a time
//! limit.

use std::io::Write;
use std::ops::Range;
use std::time::{Duration, Instant};

use redis::io::tcp::TcpSettings;
use redis::{
    Client, Cmd, Connection, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisError,
    ServerError, Value, cmd,
};

use super::address::{Host, Login, RedisAddr, Replicas, Topology};
use crate::store::health::{Reason, StoreError};

/// How long we wait for a TCP connection, and for each reply during the login.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long we wait for each reply.
const REPLY_TIMEOUT: Duration = Duration::from_millis(500);
/// How long all replies of a batch may take.
const BATCH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the server waits for its replicas, in milliseconds. It must answer before
/// [`REPLY_TIMEOUT`].
const REPLICAS_TIMEOUT_MS: u64 = 400;

/// The advice for a server whose certificate is marked as an authority. `openssl req -x509` creates
/// such certificates by default, and rustls rejects them.
const AUTHORITY_HINT: &str = ". The certificate of the server is marked as an authority (CA:TRUE). \
                              Create it with \"openssl req -x509 -addext \
                              basicConstraints=critical,CA:FALSE\", or sign one for the server \
                              with an authority of its own";

/// A command in the bytes that we send. The crate's own type takes several allocations, which are a
/// large part of the cost of a small command.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) bytes: Vec<u8>,
    key: Range<usize>,
    pub(super) writes: bool,
}

impl Op {
    /// Encodes a command with a key, and with a value if it has one.
    pub(super) fn new(name: &str, key: &str, value: Option<&[u8]>, writes: bool) -> Op {
        let mut bytes = Vec::with_capacity(48 + key.len() + value.map_or(0, <[u8]>::len));
        let words = if value.is_some() {
            b"*3\r\n"
        } else {
            b"*2\r\n"
        };
        bytes.extend_from_slice(words);
        let mut put = |word: &[u8]| {
            // Writing to a vector cannot fail.
            let _ = write!(bytes, "${}\r\n", word.len());
            let start = bytes.len();
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
            start..start + word.len()
        };
        put(name.as_bytes());
        let key = put(key.as_bytes());
        if let Some(value) = value {
            put(value);
        }
        Op { bytes, key, writes }
    }

    /// Returns the key, which determines the slot in a cluster.
    pub(super) fn key(&self) -> &[u8] {
        &self.bytes[self.key.clone()]
    }
}

/// The reply to a command: a value, or the error of the server.
pub(super) type Reply = Result<Value, ServerError>;

/// The replies to a batch, and the role of the server if we have asked for it. The role is an error
/// if the replicas that we need do not confirm the batch.
pub(super) type Executed = (Vec<Reply>, Result<Option<Role>, StoreError>);

/// A connection to one server.
pub(super) struct Node {
    connection: Connection,
    name: String,
    /// When we have sent the commands whose replies we read.
    sent: Instant,
}

/// The replicas that must have a batch of writes before we acknowledge it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// We do not wait for replicas.
    None,
    /// We ask the master for its replicas, and wait for one if there are any.
    IfConnected,
    /// We wait for this number of replicas.
    AtLeast(usize),
}

impl Confirmation {
    /// Returns how many replicas must confirm a write, as the address of the server asks for.
    pub(super) fn of(address: &RedisAddr, is_cluster: bool) -> Confirmation {
        let fails_over = is_cluster || matches!(address.topology, Topology::Sentinel(..));
        match address.replicas {
            Replicas::AtLeast(0) => Confirmation::None,
            Replicas::AtLeast(replicas) => Confirmation::AtLeast(replicas),
            Replicas::Automatic if fails_over => Confirmation::IfConnected,
            Replicas::Automatic => Confirmation::None,
        }
    }

    /// Returns the command that follows a batch of writes, if there is one.
    pub(super) fn command(self) -> Option<Vec<u8>> {
        match self {
            Confirmation::None => None,
            Confirmation::IfConnected => Some(cmd("ROLE").get_packed_command()),
            Confirmation::AtLeast(replicas) => Some(wait(replicas)),
        }
    }

    /// Returns whether [`wait`] must follow, because the reply to [`command`](Self::command) does
    /// not say whether a replica has the writes.
    pub(super) fn needs_wait(self, reply: &Reply) -> Result<bool, StoreError> {
        match (self, reply) {
            (Confirmation::None, _) => Ok(false),
            (Confirmation::AtLeast(replicas), reply) => confirmed(reply, replicas).map(|()| false),
            (Confirmation::IfConnected, reply) => Ok(!Role::of(reply)?.replicas.is_empty()),
        }
    }
}

/// The reply of a master to `ROLE`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Role {
    /// The addresses of the replicas that are connected.
    pub(super) replicas: Vec<String>,
}

impl Role {
    /// Parses the reply. A server that has become a replica after it has executed our writes loses
    /// them, which is an error.
    fn of(reply: &Reply) -> Result<Role, StoreError> {
        let parts = match reply {
            Ok(Value::Array(parts)) => &parts[..],
            Ok(_) => &[],
            Err(error) => return Err(server_error(error)),
        };
        match parts {
            // These are the name of the role, an offset, and the replicas.
            [_, _, Value::Array(replicas), ..] => Ok(Role {
                replicas: replicas.iter().map(address_of).collect(),
            }),
            [Value::BulkString(name), ..] if name == b"slave" => {
                let why = "the Redis server has become a replica, which accepts no records";
                Err(StoreError::new(Reason::ReadOnly, why))
            }
            _ => Ok(Role::default()),
        }
    }
}

/// Returns the address of a replica in the reply of a master: its host and its port.
fn address_of(replica: &Value) -> String {
    let Value::Array(parts) = replica else {
        return String::new();
    };
    let texts = parts.iter().take(2).filter_map(|part| match part {
        Value::BulkString(text) => Some(String::from_utf8_lossy(text)),
        _ => None,
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Returns a command that waits until replicas have all writes of this connection, for at most
/// [`REPLICAS_TIMEOUT_MS`].
pub(super) fn wait(replicas: usize) -> Vec<u8> {
    let mut command = cmd("WAIT");
    command.arg(replicas).arg(REPLICAS_TIMEOUT_MS);
    command.get_packed_command()
}

/// Checks the reply to [`wait`].
pub(super) fn confirmed(reply: &Reply, wanted: usize) -> Result<(), StoreError> {
    match reply {
        Ok(Value::Int(replicas)) if usize::try_from(*replicas).is_ok_and(|n| n >= wanted) => Ok(()),
        Ok(Value::Int(replicas)) => Err(StoreError::new(
            Reason::Replicas,
            format!(
                "{replicas} of {wanted} replicas confirmed the write within {REPLICAS_TIMEOUT_MS} ms"
            ),
        )),
        Ok(other) => Err(unexpected(other)),
        Err(error) => Err(server_error(error)),
    }
}

impl Node {
    /// Connects to a host and logs in.
    pub(super) fn connect(address: &RedisAddr, host: &Host) -> Result<Node, StoreError> {
        let name = host.to_string();
        let (host, port) = (host.name.clone(), host.port);
        let place = match address.tls {
            true => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
            false => ConnectionAddr::Tcp(host, port),
        };
        Node::open(address, place, name, &address.login, address.database)
    }

    /// Connects to a Sentinel and logs in.
    pub(super) fn sentinel(address: &RedisAddr, host: &Host) -> Result<Node, StoreError> {
        let login = address.sentinel_login.clone();
        let database = 0;
        let sentinel = RedisAddr {
            login,
            database,
            ..address.clone()
        };
        Node::connect(&sentinel, host)
    }

    /// Connects to a Unix domain socket and logs in.
    pub(super) fn unix(address: &RedisAddr, path: &std::path::Path) -> Result<Node, StoreError> {
        let name = path.display().to_string();
        let place = ConnectionAddr::Unix(path.to_owned());
        Node::open(address, place, name, &address.login, address.database)
    }

    fn open(
        address: &RedisAddr,
        place: ConnectionAddr,
        name: String,
        login: &Login,
        database: u32,
    ) -> Result<Node, StoreError> {
        // Without a login and the name of the library, connecting sends nothing. We log in
        // ourselves.
        let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
        let tcp = TcpSettings::default().set_nodelay(true);
        let connection = place
            .into_connection_info()
            .map(|info| info.set_redis_settings(settings).set_tcp_settings(tcp))
            .and_then(|info| client(address, info))
            .and_then(|client| client.get_connection_with_timeout(CONNECT_TIMEOUT))
            .and_then(|connection| {
                connection.set_read_timeout(Some(CONNECT_TIMEOUT))?;
                connection.set_write_timeout(Some(CONNECT_TIMEOUT))?;
                Ok(connection)
            })
            .map_err(|error| connection_error(&name, &error))?;
        let mut node = Node {
            connection,
            name,
            sent: Instant::now(),
        };
        node.log_in(login, database)?;
        let timeouts = node.connection.set_read_timeout(Some(REPLY_TIMEOUT));
        timeouts.map_err(|error| connection_error(&node.name, &error))?;
        Ok(node)
    }

    fn log_in(&mut self, login: &Login, database: u32) -> Result<(), StoreError> {
        if login.user.is_some() || login.password.is_some() {
            let mut auth = cmd("AUTH");
            let password = login.password.as_ref().map_or("", |secret| &secret.0);
            auth.arg(login.user.as_deref()).arg(password);
            // Old servers report a wrong password as a general error.
            let reply = self.call(&auth)?;
            reply.map_err(|error| StoreError::new(Reason::Auth, words(&error)))?;
        }
        if database > 0 {
            let reply = self.call(cmd("SELECT").arg(database))?;
            reply.map_err(|error| server_error(&error))?;
        }
        // With TLS, the handshake takes place now at the latest.
        self.call(&cmd("PING"))?.map(|_| ()).or_else(|error| {
            // A user may be denied PING. Any answer shows that the server is there.
            match server_error(&error) {
                error if error.reason == Reason::Permission => Ok(()),
                error => Err(error),
            }
        })
    }

    /// Executes one command.
    pub(super) fn call(&mut self, command: &Cmd) -> Result<Reply, StoreError> {
        self.send(&command.get_packed_command())?;
        self.receive()
    }

    /// Sends commands. [`receive`](Self::receive) must be called once for each of them.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.sent = Instant::now();
        let sent = self.connection.send_packed_command(bytes);
        sent.map_err(|error| connection_error(&self.name, &error))
    }

    /// Receives the reply to the next command. After an error, the connection must not be used.
    pub(super) fn receive(&mut self) -> Result<Reply, StoreError> {
        if self.sent.elapsed() > BATCH_TIMEOUT {
            let why = format!("{}: the Redis server is too slow", self.name);
            return Err(StoreError::new(Reason::Timeout, why));
        }
        match self.connection.recv_response() {
            Ok(Value::ServerError(error)) => Ok(Err(error)),
            Ok(value) => Ok(Ok(value)),
            Err(error) => Err(connection_error(&self.name, &error)),
        }
    }

    /// Executes a batch of commands and returns their replies in order.
    pub(super) fn execute(
        &mut self,
        ops: &[Op],
        confirmation: Confirmation,
    ) -> Result<Executed, StoreError> {
        let mut bytes: Vec<u8> = Vec::new();
        ops.iter().for_each(|op| bytes.extend_from_slice(&op.bytes));
        let ask = confirmation.command();
        let ask = ask.filter(|_| ops.iter().any(|op| op.writes));
        bytes.extend(ask.iter().flatten());
        self.send(&bytes)?;
        let replies = ops.iter().map(|_| self.receive());
        let replies = replies.collect::<Result<Vec<_>, _>>()?;
        if ask.is_none() {
            return Ok((replies, Ok(None)));
        }
        let reply = self.receive()?;
        let confirmed_by_replicas = match confirmation.needs_wait(&reply) {
            Ok(true) => {
                self.send(&wait(1))?;
                confirmed(&self.receive()?, 1)
            }
            other => other.map(|_| ()),
        };
        let role = match confirmation {
            Confirmation::IfConnected => Role::of(&reply).ok(),
            _ => None,
        };
        Ok((replies, confirmed_by_replicas.map(|()| role)))
    }
}

/// Creates the client of the crate.
fn client(address: &RedisAddr, info: redis::ConnectionInfo) -> Result<Client, RedisError> {
    #[cfg(feature = "tls")]
    if address.tls {
        return crate::tls::redis_client(&address.certificates, info);
    }
    let _ = address;
    Client::open(info)
}

/// Returns the server's own words on one line, for the log.
pub(super) fn words(error: &ServerError) -> String {
    let words = match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    };
    words.replace(char::is_control, " ")
}

/// Converts an error that the server reports.
pub(super) fn server_error(error: &ServerError) -> StoreError {
    let reason = match error.code() {
        "NOAUTH" | "WRONGPASS" => Reason::Auth,
        "NOPERM" => Reason::Permission,
        "OOM" => Reason::Memory,
        "READONLY" => Reason::ReadOnly,
        "MISCONF" => Reason::Disk,
        "NOREPLICAS" => Reason::Replicas,
        "LOADING" | "BUSY" | "MASTERDOWN" => Reason::Loading,
        "CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" => Reason::Cluster,
        _ => Reason::Other,
    };
    StoreError::new(reason, words(error))
}

/// Returns the error of a reply that has the wrong type.
pub(super) fn unexpected(value: &Value) -> StoreError {
    let why = format!("the reply of the Redis server has an unexpected type: {value:?}");
    StoreError::new(Reason::Other, why)
}

/// Converts an error of the connection.
fn connection_error(name: &str, error: &RedisError) -> StoreError {
    let words = error.to_string();
    let is_tls = [
        "certificate",
        "TLS",
        "tls",
        "alert",
        "handshake",
        "corrupt message",
    ];
    let (reason, words) = if error.is_timeout() {
        (
            Reason::Timeout,
            "the Redis server did not answer in time".into(),
        )
    } else if is_tls.iter().any(|word| words.contains(word)) {
        (Reason::Tls, words)
    } else if error.is_connection_dropped() && !error.is_connection_refusal() {
        (
            Reason::Unreachable,
            "the Redis server closed the connection".into(),
        )
    } else if error.is_io_error() {
        (Reason::Unreachable, words)
    } else {
        (Reason::Other, words)
    };
    let hint = match words.contains("CaUsedAsEndEntity") {
        true => AUTHORITY_HINT,
        false => "",
    };
    StoreError::new(reason, format!("{name}: {words}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let op = Op::new("SET", "a key", Some(b"\r\n"), true);
        assert_eq!(
            op.bytes,
            b"*3\r\n$3\r\nSET\r\n$5\r\na key\r\n$2\r\n\r\n\r\n"
        );
        assert_eq!(op.key(), b"a key");
        let of_crate = cmd("SET")
            .arg("a key")
            .arg(&b"\r\n"[..])
            .get_packed_command();
        assert_eq!(op.bytes, of_crate);
        let op = Op::new("GET", "k", None, false);
        assert_eq!(op.bytes, cmd("GET").arg("k").get_packed_command());
    }

    #[test]
    fn an_automatic_confirmation_waits_only_if_there_are_replicas() {
        let role = |replicas: Vec<Value>| {
            let name = Value::BulkString(b"master".to_vec());
            Ok(Value::Array(vec![
                name,
                Value::Int(1),
                Value::Array(replicas),
            ]))
        };
        let automatic = Confirmation::IfConnected;
        assert_eq!(automatic.needs_wait(&role(vec![])), Ok(false));
        assert_eq!(automatic.needs_wait(&role(vec![Value::Nil])), Ok(true));
        let demoted = Value::Array(vec![Value::BulkString(b"slave".to_vec())]);
        let error = automatic.needs_wait(&Ok(demoted)).unwrap_err();
        assert_eq!(error.reason, Reason::ReadOnly, "its writes are lost");
        let two = Confirmation::AtLeast(2);
        assert_eq!(two.needs_wait(&Ok(Value::Int(2))), Ok(false));
        let error = two.needs_wait(&Ok(Value::Int(1))).unwrap_err();
        assert_eq!(error.reason, Reason::Replicas);
    }
}

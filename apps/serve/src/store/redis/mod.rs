//! The Redis client. Its own thread takes all requests that wait, executes them as one batch, and
//! sends the answers.
//!
//! A batch takes about one round trip, and the requests that arrive in this time share the next one.
//! A thread with blocking calls is enough for that. The reply to a command never goes to another
//! one, because no batch begins before all replies of the previous one have been read. After any
//! error of the connection, we close it.
//!
//! A server may answer but reject writes, for example because its memory is full or because it has
//! become a replica. Each connection therefore begins with a write that changes nothing, and repeats
//! it every [`PROBE_INTERVAL`]. These probes also detect a server that has stopped answering while
//! there are no other requests.
//!
//! If the connection is lost, we connect again after a pause between [`RECONNECT_MIN`] and
//! [`RECONNECT_MAX`]. With Sentinels, each attempt asks them for the current master. We also ask
//! them before we acknowledge writes if a replica has left the master (see `sentinel.rs`).

mod address;
mod cluster;
mod node;
mod sentinel;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use bytes::Bytes;
use redis::Value;

pub use address::{Certificates, Host, Login, RedisAddr, Replicas, Secret, Topology};

use self::cluster::Cluster;
use self::node::{Confirmation, Node, Op, server_error, unexpected};
use self::sentinel::Sentinels;
use super::health::{Health, Reason, StoreError};
use super::request::{Answer, Command, Outcome, StoreRequest};
use crate::metrics::Metrics;

const RECONNECT_MIN: Duration = Duration::from_millis(10);
const RECONNECT_MAX: Duration = Duration::from_millis(250);
/// The pause after the server has rejected our login. The server logs each attempt.
const RECONNECT_AUTH: Duration = Duration::from_secs(1);
/// If an attempt lasts longer than this, including the time to connect, the next pause is
/// [`RECONNECT_MIN`]. So an attempt to connect that runs into its timeout resets the pause, too.
const STABLE: Duration = Duration::from_secs(1);
/// The time between two probes, which are writes that change nothing.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// How long we use a connection to a server that has become a replica, before we connect again. The
/// server remains readable, but its host name may already belong to the new master.
const REPLICA_MAX: Duration = Duration::from_secs(5);
/// The maximum number of requests that are added to the first one of a batch.
const BATCH: usize = 1024;

/// The key of the counter.
const SIGNED: &str = "creel:signed";

/// Executes requests on a Redis server.
pub(super) struct RedisStore {
    address: RedisAddr,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    /// Whether a server has redirected us, so that we must use its whole cluster.
    is_cluster: bool,
    /// The Sentinels, if the address names some.
    sentinels: Option<Sentinels>,
    /// When we last tried to connect.
    connected: Instant,
}

/// The connection to the server, or to all masters of a cluster.
enum Link {
    Server(Box<Node>, Confirmation),
    Cluster(Box<Cluster>),
}

impl RedisStore {
    pub(super) fn new(address: RedisAddr, health: Arc<Health>, metrics: Arc<Metrics>) -> Self {
        let sentinels = match &address.topology {
            Topology::Sentinel(hosts, master) => Some(Sentinels::new(hosts, master)),
            _ => None,
        };
        RedisStore {
            address,
            health,
            metrics,
            is_cluster: false,
            sentinels,
            connected: Instant::now(),
        }
    }

    /// Executes requests until all senders are gone. Sends to `first` when the first attempt to
    /// connect has succeeded or failed.
    pub(super) fn run(mut self, requests: &Receiver<StoreRequest>, first: &SyncSender<()>) {
        let mut pause = RECONNECT_MIN;
        loop {
            let started = Instant::now();
            let ended = match self.connect() {
                Ok(mut link) => {
                    self.metrics.store_connections.fetch_add(1, Relaxed);
                    let _ = first.try_send(());
                    self.serve(&mut link, requests)
                }
                Err(error) => Err(error),
            };
            let Err(error) = ended else { return };
            if self.is_redirection(&error) {
                self.is_cluster = true;
                continue;
            }
            // The server may have been replaced by one that does not belong to a cluster.
            self.is_cluster &= !error.words.contains("cluster support disabled");
            self.health.fails(&error, false);
            let _ = first.try_send(());
            if started.elapsed() > STABLE {
                pause = RECONNECT_MIN;
            }
            let until = match error.reason {
                Reason::Auth => Instant::now() + RECONNECT_AUTH,
                _ => Instant::now() + pause,
            };
            pause = (2 * pause).min(RECONNECT_MAX);
            loop {
                match requests.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(request) => {
                        let _ = request.answer.send(Err(error.clone()));
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        }
    }

    /// Returns whether an error shows that the server is a node of a cluster, if we did not know
    /// that before.
    fn is_redirection(&self, error: &StoreError) -> bool {
        let is_server = matches!(self.address.topology, Topology::Server(_));
        is_server && !self.is_cluster && error.words.starts_with("MOVED ")
    }

    /// Connects, and makes a first write that changes nothing.
    fn connect(&mut self) -> Result<Link, StoreError> {
        self.connected = Instant::now();
        let confirmation = Confirmation::of(&self.address, false);
        let server = |node| Link::Server(Box::new(node), confirmation);
        let mut link = match &self.address.topology {
            Topology::Server(host) if self.is_cluster => {
                let hosts = std::slice::from_ref(host);
                Link::Cluster(Box::new(Cluster::connect(&self.address, hosts)?))
            }
            Topology::Server(host) => server(Node::connect(&self.address, host)?),
            Topology::Unix(path) => server(Node::unix(&self.address, path)?),
            Topology::Cluster(hosts) => {
                Link::Cluster(Box::new(Cluster::connect(&self.address, hosts)?))
            }
            Topology::Sentinel(..) => {
                let missing = || StoreError::new(Reason::Unreachable, "no Sentinel is known");
                let sentinels = self.sentinels.as_mut().ok_or_else(missing)?;
                server(sentinels.connect(&self.address)?)
            }
        };
        self.execute(&mut link, vec![StoreRequest::probe()])?;
        Ok(link)
    }

    /// Executes requests over one connection. Returns an error if it is lost, and `Ok` when all
    /// senders are gone.
    fn serve(
        &mut self,
        link: &mut Link,
        requests: &Receiver<StoreRequest>,
    ) -> Result<(), StoreError> {
        let mut probe = Instant::now() + PROBE_INTERVAL;
        loop {
            let left = probe.saturating_duration_since(Instant::now());
            let first = match requests.recv_timeout(left) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let more = std::iter::from_fn(|| requests.try_recv().ok());
            let mut batch: Vec<_> = first.into_iter().chain(more.take(BATCH)).collect();
            batch.retain(|request| !request.is_abandoned());
            if probe <= Instant::now() {
                probe = Instant::now() + PROBE_INTERVAL;
                batch.push(StoreRequest::probe());
            }
            if !batch.is_empty() {
                self.execute(link, batch)?;
            }
        }
    }

    /// Executes a batch and sends the answers. Returns an error if the connection must be closed.
    fn execute(&mut self, link: &mut Link, batch: Vec<StoreRequest>) -> Result<(), StoreError> {
        let probe_key = ["creel:probe".to_owned()];
        let probe_keys = match link {
            Link::Server(..) => &probe_key[..],
            Link::Cluster(cluster) => cluster.probe_keys(),
        };
        let mut ops = Vec::with_capacity(2 * batch.len());
        let ranges = batch.iter().map(|request| {
            let start = ops.len();
            push_ops(&request.command, probe_keys, &mut ops);
            start..ops.len()
        });
        let ranges: Vec<Range<usize>> = ranges.collect();
        let values = match link {
            Link::Server(node, confirmation) => self.execute_on(node, &ops, *confirmation),
            Link::Cluster(cluster) => cluster.execute(&ops),
        };
        let values = match values {
            Ok(values) => values,
            Err(error) => {
                for request in batch {
                    let _ = request.answer.send(Err(error.clone()));
                }
                return Err(error);
            }
        };
        let answers = batch.into_iter().zip(ranges).map(|(request, range)| {
            let outcome = outcome(&request.command, &values[range]);
            (request, outcome)
        });
        let answers: Vec<_> = answers.collect();
        let writes = answers
            .iter()
            .filter(|(request, _)| request.command.writes());
        let has_written = writes.clone().next().is_some();
        let write_error = writes
            .filter_map(|(_, outcome)| outcome.clone().err())
            .next();
        // We publish a failure before a client can see it in an answer.
        if let Some(error) = write_error
            .as_ref()
            .filter(|error| !self.needs_new_connection(error))
        {
            self.health.fails(error, true);
        }
        for (request, outcome) in answers {
            let _ = request.answer.send(outcome);
        }
        match write_error {
            // A new connection logs in again, asks the Sentinels for the new master, or uses the
            // whole cluster.
            Some(error) if self.needs_new_connection(&error) => Err(error),
            None if has_written => {
                self.health.works();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Executes a batch of commands on one server. If its writes may be lost in a failover, their
    /// outcome is an error.
    fn execute_on(
        &mut self,
        node: &mut Node,
        ops: &[Op],
        confirmation: Confirmation,
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let (replies, role) = node.execute(ops, confirmation)?;
        let confirmed = match (role, &mut self.sentinels) {
            (Ok(Some(role)), Some(sentinels)) => sentinels.check(&self.address, &role),
            (Err(error), Some(sentinels)) => Err(sentinels.explain(&self.address, error)),
            (role, _) => role.map(|_| ()),
        };
        let values = ops.iter().zip(replies).map(|(op, reply)| match reply {
            Ok(value) if op.writes => confirmed.clone().map(|()| value),
            reply => reply.map_err(|error| server_error(&error)),
        });
        Ok(values.collect())
    }

    /// Returns whether we must connect again after this error, because it may persist on the
    /// current connection.
    fn needs_new_connection(&self, error: &StoreError) -> bool {
        match error.reason {
            Reason::Auth | Reason::Failover => true,
            Reason::ReadOnly => {
                let has_sentinels = matches!(self.address.topology, Topology::Sentinel(..));
                has_sentinels || self.connected.elapsed() > REPLICA_MAX
            }
            _ => self.is_redirection(error),
        }
    }
}

/// Appends the Redis commands that execute a command to the store.
fn push_ops(command: &Command, probe_keys: &[String], ops: &mut Vec<Op>) {
    let record_key = |id: &[u8; 32]| format!("creel:record:{}", hex::encode(id));
    match command {
        Command::Put(id, record) => {
            ops.push(Op::new("SET", &record_key(id), Some(record), true));
            ops.push(Op::new("INCR", SIGNED, None, true));
        }
        // A probe writes like `Put`, but to keys of its own, and it adds zero to the counter.
        Command::Probe => {
            let keys = probe_keys.iter();
            ops.extend(keys.map(|key| Op::new("SET", key, Some(b"1"), true)));
            ops.push(Op::new("INCRBY", SIGNED, Some(b"0"), true));
        }
        Command::Get(id) => ops.push(Op::new("GET", &record_key(id), None, false)),
        Command::Count => ops.push(Op::new("GET", SIGNED, None, false)),
    }
}

/// Returns the outcome of a command from the replies to its Redis commands.
fn outcome(command: &Command, values: &[Result<Value, StoreError>]) -> Outcome {
    let mut last = &Value::Nil;
    for (at, value) in values.iter().enumerate() {
        last = value.as_ref().map_err(StoreError::clone)?;
        // All but the last command of a write are `SET`. A record is stored only if the reply to
        // `SET` is `OK`.
        let is_set = command.writes() && at + 1 < values.len();
        if is_set && *last != Value::Okay {
            return Err(unexpected(last));
        }
    }
    match (command, last) {
        (Command::Put(..) | Command::Probe, Value::Int(_)) => Ok(Answer::Stored),
        (Command::Get(_), Value::Nil) => Ok(Answer::Record(None)),
        (Command::Get(_), Value::BulkString(record)) => {
            Ok(Answer::Record(Some(Bytes::from(record.clone()))))
        }
        (Command::Count, Value::Nil) => Ok(Answer::Count(0)),
        (Command::Count, Value::BulkString(count)) => {
            let count = std::str::from_utf8(count)
                .ok()
                .and_then(|text| text.parse().ok());
            count.map(Answer::Count).ok_or_else(|| unexpected(last))
        }
        (_, other) => Err(unexpected(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_command_makes_the_operation_fail() {
        let put = Command::Put([0; 32], Bytes::new());
        let error = StoreError::new(Reason::Memory, "OOM");
        let failed = [Err(error.clone()), Ok(Value::Int(5))];
        assert_eq!(outcome(&put, &failed), Err(error));
        let done = [Ok(Value::Okay), Ok(Value::Int(5))];
        assert_eq!(outcome(&put, &done), Ok(Answer::Stored));
        let ignored = [Ok(Value::Nil), Ok(Value::Int(5))];
        assert_eq!(outcome(&put, &ignored).unwrap_err().reason, Reason::Other);
        let count = [Ok(Value::BulkString(b"12".to_vec()))];
        assert_eq!(outcome(&Command::Count, &count), Ok(Answer::Count(12)));
        assert!(outcome(&Command::Count, &[Ok(Value::Okay)]).is_err());
    }
}

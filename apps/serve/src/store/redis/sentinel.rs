//! Asks the Sentinels where the master is, and whether a failover is about to replace it.
//!
//! A failover that an operator starts (`SENTINEL FAILOVER`) first makes a replica the new master.
//! The old master continues to accept writes for some seconds, until the Sentinels make it a
//! replica. Those writes are lost then. The old master cannot know this, but it can see that its
//! replica has left. While the master has no replica, and after one has left, we therefore ask the
//! Sentinels before we acknowledge a write. One of them leads the failover and knows about it from
//! the start.
//!
//! Source: "Guidelines for Redis clients with support for Redis Sentinel" and "High availability
//! with Redis Sentinel".

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, Value, cmd};

use super::address::{Host, RedisAddr};
use super::node::{Node, Role, server_error};
use crate::store::health::{Reason, StoreError};

/// How long an answer of the Sentinels about the same master and the same replicas is valid.
const VETTED: Duration = Duration::from_secs(1);
/// How long we remember a replica that has left. The Sentinels make an old master a replica about
/// ten seconds after the failover.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The Sentinels of a master.
pub(super) struct Sentinels {
    hosts: Vec<Host>,
    /// The name of the master.
    name: String,
    /// The index of the Sentinel that has answered last.
    last: usize,
    /// The server that a Sentinel has named as the master, if we have connected to it.
    master: Option<Host>,
    /// The replicas of the master, and when the master has listed each of them last.
    replicas: HashMap<String, Instant>,
    /// When the Sentinels have last confirmed that no failover is in progress.
    vetted: Option<Instant>,
}

impl Sentinels {
    pub(super) fn new(hosts: &[Host], name: &str) -> Sentinels {
        Sentinels {
            hosts: hosts.to_vec(),
            name: name.to_owned(),
            last: 0,
            master: None,
            replicas: HashMap::new(),
            vetted: None,
        }
    }

    /// Asks the Sentinels in turn for the master and connects to it.
    pub(super) fn connect(&mut self, address: &RedisAddr) -> Result<Node, StoreError> {
        let mut last = StoreError::new(Reason::Unreachable, "no Sentinel is known");
        for offset in 0..self.hosts.len() {
            let index = (self.last + offset) % self.hosts.len();
            let connected = self
                .ask(address, index, "GET-MASTER-ADDR-BY-NAME")
                .and_then(|reply| {
                    master_host(&reply).ok_or_else(|| {
                        let (sentinel, name) = (&self.hosts[index], &self.name);
                        let why =
                            format!("Sentinel {sentinel} does not know the master \"{name}\"");
                        StoreError::new(Reason::Unreachable, why)
                    })
                })
                .and_then(|host| Ok((Node::connect(address, &host)?, host)));
            match connected {
                Ok((node, host)) => {
                    self.last = index;
                    self.vetted = None;
                    if self.master.as_ref() != Some(&host) {
                        self.replicas.clear();
                        self.master = Some(host);
                    }
                    return Ok(node);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Checks the role that the master has reported after a batch of writes. Returns an error if
    /// the Sentinels may replace it by a replica that does not have these writes.
    pub(super) fn check(&mut self, address: &RedisAddr, role: &Role) -> Result<(), StoreError> {
        let now = Instant::now();
        self.replicas
            .retain(|_, seen| now.duration_since(*seen) < REMEMBERED);
        let listed = role.replicas.iter().map(|replica| (replica.clone(), now));
        self.replicas.extend(listed);
        let has_left = self.replicas.values().any(|seen| *seen != now);
        if !has_left && !role.replicas.is_empty() {
            self.vetted = None;
            return Ok(());
        }
        if self
            .vetted
            .is_some_and(|at| now.duration_since(at) < VETTED)
        {
            return Ok(());
        }
        self.vet(address)?;
        self.vetted = Some(Instant::now());
        Ok(())
    }

    /// Returns the failover that explains why no replica has confirmed a batch of writes, or the
    /// error itself.
    pub(super) fn explain(&self, address: &RedisAddr, error: StoreError) -> StoreError {
        let vetted = match error.reason {
            Reason::Replicas => self.vet(address).err(),
            _ => None,
        };
        let failover = vetted.filter(|vetted| vetted.reason == Reason::Failover);
        failover.unwrap_or(error)
    }

    /// Asks the Sentinels whether the master is still the master. At least half of them must
    /// answer. Otherwise we may be on the wrong side of a broken network, whose other side has
    /// another master.
    fn vet(&self, address: &RedisAddr) -> Result<(), StoreError> {
        let mut views = Vec::new();
        let mut last = None;
        for index in 0..self.hosts.len() {
            let view = self.ask(address, index, "MASTER").and_then(|state| {
                Ok((state, self.ask(address, index, "GET-MASTER-ADDR-BY-NAME")?))
            });
            match view {
                Ok((state, current)) => views.push(self.view(&state, &current)),
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) if views.len() < self.hosts.len().div_ceil(2) => Err(StoreError::new(
                error.reason,
                format!(
                    "a replica has disconnected, and only {} of {} Sentinels answer whether there \
                     is a new master: {}",
                    views.len(),
                    self.hosts.len(),
                    error.words
                ),
            )),
            _ => newest_objection(views).map_or(Ok(()), Err),
        }
    }

    /// Reads how a Sentinel sees the master. Returns the epoch of this view, and an error if the
    /// view shows that our server may not be the master any more. `state` is the Sentinel's reply
    /// with its fields for the master. `current` is the address to which it sends clients. As soon
    /// as a failover has promoted a replica, this is the address of the replica, even before the
    /// failover has ended.
    fn view(&self, state: &Value, current: &Value) -> (u64, Option<StoreError>) {
        let fields: HashMap<String, String> =
            HashMap::from_redis_value(state.clone()).unwrap_or_default();
        let field = |name: &str| fields.get(name).map_or("", String::as_str);
        let epoch = field("config-epoch").parse().unwrap_or(0);
        let watched = Host {
            name: field("ip").to_owned(),
            port: field("port").parse().unwrap_or(0),
        };
        let is_replacing = field("flags").contains("failover_in_progress");
        let words = match master_host(current) {
            Some(host) if self.master.as_ref() != Some(&host) => {
                format!("the Sentinels have made {host} the new master")
            }
            _ if is_replacing && self.master.as_ref() == Some(&watched) => {
                "the Sentinels are replacing the master".to_owned()
            }
            _ => return (epoch, None),
        };
        (epoch, Some(StoreError::new(Reason::Failover, words)))
    }

    /// Sends a command about the master to one of the Sentinels.
    fn ask(&self, address: &RedisAddr, index: usize, what: &str) -> Result<Value, StoreError> {
        let mut command = cmd("SENTINEL");
        command.arg(what).arg(&self.name);
        let reply = Node::sentinel(address, &self.hosts[index])
            .and_then(|mut node| node.call(&command))
            .and_then(|reply| reply.map_err(|error| server_error(&error)));
        reply.map_err(|error| {
            let words = format!("Sentinel {}", error.words);
            StoreError::new(error.reason, words)
        })
    }
}

/// Returns the error of a view with the highest epoch, or `None` if no such view has an error. We
/// ignore older views, because after a failover some Sentinels need seconds until they know the new
/// master.
fn newest_objection(views: Vec<(u64, Option<StoreError>)>) -> Option<StoreError> {
    let newest = views.iter().map(|(epoch, _)| *epoch).max()?;
    let mut objections = views.into_iter().filter(|(epoch, _)| *epoch == newest);
    objections.find_map(|(_, objection)| objection)
}

/// Returns the host in the reply of a Sentinel, or `None` if it does not know the master.
fn master_host(reply: &Value) -> Option<Host> {
    let Value::Array(parts) = reply else {
        return None;
    };
    let [Value::BulkString(name), Value::BulkString(port)] = &parts[..] else {
        return None;
    };
    Some(Host {
        name: String::from_utf8(name.clone()).ok()?,
        port: std::str::from_utf8(port).ok()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(fields: &[&str]) -> Value {
        let text = |field: &&str| Value::BulkString(field.as_bytes().to_vec());
        Value::Array(fields.iter().map(text).collect())
    }

    #[test]
    fn the_old_master_is_rejected_and_the_promoted_replica_is_not() {
        let mut sentinels = Sentinels::new(&[], "main");
        let host = |port| answer(&["10.0.0.1", port]);
        sentinels.master = master_host(&host("7"));
        let view = |watched, current, flags| {
            let state = ["ip", "10.0.0.1", "port", watched, "flags", flags];
            let state = [&state[..], &["config-epoch", "3"]].concat();
            let (epoch, objection) = sentinels.view(&answer(&state), &host(current));
            assert_eq!(epoch, 3);
            objection.map(|error| error.reason)
        };
        let failover = "master,failover_in_progress";
        assert_eq!(view("7", "7", "master"), None);
        assert_eq!(view("7", "7", failover), Some(Reason::Failover));
        assert_eq!(view("7", "8", failover), Some(Reason::Failover));
        assert_eq!(view("8", "8", "master"), Some(Reason::Failover));
        // We are connected to the promoted replica.
        assert_eq!(view("6", "7", failover), None);
    }

    #[test]
    fn only_the_newest_views_of_the_sentinels_can_reject_a_master() {
        let error = || Some(StoreError::new(Reason::Failover, "new master"));
        assert_eq!(newest_objection(vec![(1, error()), (2, None)]), None);
        assert_eq!(newest_objection(vec![(2, None), (2, error())]), error());
        assert_eq!(newest_objection(vec![]), None);
    }
}

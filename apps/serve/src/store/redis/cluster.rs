//! A Redis cluster: a connection to each master, and the map from slots to masters.
//!
//! A batch is split by master. We send to all masters first and then read the replies, so the batch
//! takes about one round trip. A reply `MOVED` or `ASK` sends the command again to the server that
//! it names. The commands of a master that fails get an error. We do not send them again, because
//! they may have been executed.
//!
//! Source: "Redis cluster specification", sections on redirection and hash slots.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

use redis::cluster_routing::Slot;
use redis::{Value, cmd};

use super::address::{Host, RedisAddr};
use super::node::{Confirmation, Node, Op, Reply, confirmed, server_error, wait};
use crate::store::health::{Reason, StoreError};

const SLOTS: u16 = 16384;
/// How many times we follow a redirection of one command.
const REDIRECTS_MAX: usize = 5;
/// The pause before we repeat a command during the migration of its slot.
const TRY_AGAIN_PAUSE: Duration = Duration::from_millis(10);
/// How many keys we try, to find one on each master.
const PROBE_KEYS_MAX: usize = 4096;

/// The connections to a cluster.
pub(super) struct Cluster {
    address: RedisAddr,
    seeds: Vec<Host>,
    /// The master of each slot.
    masters: HashMap<Slot, Host>,
    nodes: HashMap<Host, Node>,
    confirmation: Confirmation,
    /// For each master, a key that it stores. We write to these keys to check the cluster.
    probe_keys: Vec<String>,
    /// Whether the map of slots may be out of date.
    is_stale: bool,
}

/// The commands for one master, as indices of a batch.
struct Share {
    host: Host,
    ops: Vec<usize>,
    /// Whether the slot is being moved to this master, which then needs `ASKING` before each
    /// command.
    asking: bool,
    /// Whether we must wait for a replica.
    waits: bool,
    /// The reason why the writes for this master are not confirmed.
    error: Option<StoreError>,
}

impl Cluster {
    /// Connects to the first of the hosts that answers and reads the map of slots.
    pub(super) fn connect(address: &RedisAddr, seeds: &[Host]) -> Result<Cluster, StoreError> {
        let mut cluster = Cluster {
            address: address.clone(),
            seeds: seeds.to_vec(),
            masters: HashMap::new(),
            nodes: HashMap::new(),
            confirmation: Confirmation::of(address, true),
            probe_keys: Vec::new(),
            is_stale: true,
        };
        cluster.refresh()?;
        Ok(cluster)
    }

    /// Returns a key on each master. A write to all of them shows whether the cluster works.
    pub(super) fn probe_keys(&self) -> &[String] {
        &self.probe_keys
    }

    /// Executes a batch of commands and returns their outcomes in order.
    pub(super) fn execute(
        &mut self,
        ops: &[Op],
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        if self.is_stale {
            self.refresh()?;
        }
        let mut outcomes: Vec<Option<Result<Value, StoreError>>> = vec![None; ops.len()];
        let mut todo: Vec<(usize, Option<(Host, bool)>)> =
            (0..ops.len()).map(|op| (op, None)).collect();
        for round in 0..=REDIRECTS_MAX {
            let mut shares: Vec<Share> = Vec::new();
            for (op, redirect) in todo.drain(..) {
                let slot = Slot::for_key(ops[op].key());
                let target = redirect.or_else(|| Some((self.masters.get(&slot)?.clone(), false)));
                let Some((host, asking)) = target else {
                    self.is_stale = true;
                    let why = "no master of the cluster serves the hash slot of this record";
                    outcomes[op] = Some(Err(StoreError::new(Reason::Cluster, why)));
                    continue;
                };
                let same = |share: &&mut Share| share.host == host && share.asking == asking;
                match shares.iter_mut().find(same) {
                    Some(share) => share.ops.push(op),
                    None => shares.push(Share {
                        host,
                        ops: vec![op],
                        asking,
                        waits: false,
                        error: None,
                    }),
                }
            }
            for share in &mut shares {
                share.error = self.send(share, ops).err();
            }
            for share in &mut shares {
                let replies = match share.error.take() {
                    None => self.receive(share, ops),
                    Some(error) => Err(error),
                };
                match replies {
                    Ok(replies) => {
                        for (op, reply) in share.ops.iter().zip(replies) {
                            let is_last = round == REDIRECTS_MAX;
                            match self.redirect(*op, ops, &share.host, &reply) {
                                Some(next) if !is_last => todo.push(next),
                                _ => {
                                    outcomes[*op] =
                                        Some(reply.map_err(|error| server_error(&error)));
                                }
                            }
                        }
                    }
                    Err(error) => {
                        self.nodes.remove(&share.host);
                        self.is_stale = true;
                        for op in &share.ops {
                            outcomes[*op] = Some(Err(error.clone()));
                        }
                    }
                }
            }
            self.confirm(&mut shares, ops, &mut outcomes);
            if todo.is_empty() {
                break;
            }
        }
        let lost = || {
            Err(StoreError::new(
                Reason::Cluster,
                "the nodes of the cluster redirected the command too often",
            ))
        };
        let outcomes = outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(lost));
        Ok(outcomes.collect())
    }

    /// Sends the commands of a share.
    fn send(&mut self, share: &Share, ops: &[Op]) -> Result<(), StoreError> {
        let mut bytes: Vec<u8> = Vec::new();
        for op in &share.ops {
            if share.asking {
                bytes.extend(cmd("ASKING").get_packed_command());
            }
            bytes.extend_from_slice(&ops[*op].bytes);
        }
        if share.ops.iter().any(|op| ops[*op].writes) {
            bytes.extend(self.confirmation.command().iter().flatten());
        }
        self.node(&share.host)?.send(&bytes)
    }

    /// Receives the replies of a share, and notes whether a replica must confirm it.
    fn receive(&mut self, share: &mut Share, ops: &[Op]) -> Result<Vec<Reply>, StoreError> {
        let confirmation = self.confirmation;
        let asks = confirmation.command().is_some();
        let asking = share.asking;
        let node = self.node(&share.host)?;
        let replies = share.ops.iter().map(|_| {
            if asking {
                node.receive()?.map_err(|error| server_error(&error))?;
            }
            node.receive()
        });
        let replies = replies.collect::<Result<Vec<_>, _>>()?;
        if asks && share.ops.iter().any(|op| ops[*op].writes) {
            let reply = node.receive()?;
            match confirmation.needs_wait(&reply) {
                Ok(waits) => share.waits = waits,
                Err(error) => share.error = Some(error),
            }
        }
        Ok(replies)
    }

    /// Waits for the replicas of all shares that need it. Writes without a confirmation fail.
    fn confirm(
        &mut self,
        shares: &mut [Share],
        ops: &[Op],
        outcomes: &mut [Option<Result<Value, StoreError>>],
    ) {
        for share in shares.iter_mut().filter(|share| share.waits) {
            let sent = self.node(&share.host).and_then(|node| node.send(&wait(1)));
            share.error = sent.err();
        }
        for share in shares.iter_mut() {
            if share.waits && share.error.is_none() {
                let reply = self.node(&share.host).and_then(|node| node.receive());
                if reply.is_err() {
                    self.nodes.remove(&share.host);
                    self.is_stale = true;
                }
                share.error = reply.and_then(|reply| confirmed(&reply, 1)).err();
            }
            let Some(error) = &share.error else { continue };
            for op in share.ops.iter().filter(|op| ops[**op].writes) {
                if let Some(Ok(_)) = &outcomes[*op] {
                    outcomes[*op] = Some(Err(error.clone()));
                }
            }
        }
    }

    /// Returns where a command must be sent again because of its reply.
    fn redirect(
        &mut self,
        op: usize,
        ops: &[Op],
        host: &Host,
        reply: &Reply,
    ) -> Option<(usize, Option<(Host, bool)>)> {
        let error = reply.as_ref().err()?;
        let target = || {
            let (_, target) = error.details()?.split_once(' ')?;
            // A server that does not know its own name leaves the name out.
            match target.strip_prefix(':') {
                Some(port) => Some(Host {
                    name: host.name.clone(),
                    port: port.parse().ok()?,
                }),
                None => Host::parse_reply(target),
            }
        };
        match error.code() {
            "MOVED" => {
                let target = target()?;
                self.is_stale = true;
                self.masters
                    .insert(Slot::for_key(ops[op].key()), target.clone());
                Some((op, Some((target, false))))
            }
            "ASK" => Some((op, Some((target()?, true)))),
            "TRYAGAIN" => {
                sleep(TRY_AGAIN_PAUSE);
                Some((op, None))
            }
            "READONLY" | "CLUSTERDOWN" => {
                self.is_stale = true;
                None
            }
            _ => None,
        }
    }

    /// Returns the connection to a host, and connects first if necessary.
    fn node(&mut self, host: &Host) -> Result<&mut Node, StoreError> {
        if !self.nodes.contains_key(host) {
            let node = Node::connect(&self.address, host)?;
            self.nodes.insert(host.clone(), node);
        }
        let missing = || {
            StoreError::new(
                Reason::Unreachable,
                "the connection to the node of the cluster is lost",
            )
        };
        self.nodes.get_mut(host).ok_or_else(missing)
    }

    /// Reads the map of slots from the first server that answers.
    fn refresh(&mut self) -> Result<(), StoreError> {
        let known: Vec<Host> = self.nodes.keys().chain(&self.seeds).cloned().collect();
        let none = "cannot read which node serves which hash slots: no node of the cluster is \
                    known";
        let mut last = StoreError::new(Reason::Cluster, none);
        for host in known {
            let reply = self
                .node(&host)
                .and_then(|node| node.call(cmd("CLUSTER").arg("SLOTS")))
                .and_then(|reply| reply.map_err(|error| server_error(&error)));
            match reply.map(|reply| slots(&reply, &host)) {
                Ok(ranges) if !ranges.is_empty() => {
                    self.set_masters(ranges);
                    return Ok(());
                }
                Ok(_) => {
                    let why =
                        format!("{host}: the cluster serves no hash slots, so it stores nothing");
                    last = StoreError::new(Reason::Cluster, why);
                }
                Err(error) => {
                    self.nodes.remove(&host);
                    last = error;
                }
            }
        }
        Err(last)
    }

    fn set_masters(&mut self, ranges: Vec<(u16, u16, Host)>) {
        self.masters.clear();
        for (first, last, host) in &ranges {
            for slot in (*first..=*last).filter_map(Slot::new) {
                self.masters.insert(slot, host.clone());
            }
        }
        self.is_stale = false;
        self.nodes
            .retain(|host, _| ranges.iter().any(|range| range.2 == *host));
        let mut missing: Vec<&Host> = ranges.iter().map(|range| &range.2).collect();
        self.probe_keys = (0..PROBE_KEYS_MAX)
            .map(|number| format!("creel:probe:{number}"))
            .filter(|key| {
                let master = self.masters.get(&Slot::for_key(key));
                let before = missing.len();
                missing.retain(|host| Some(*host) != master);
                missing.len() < before
            })
            .collect();
    }
}

/// Returns the ranges of slots in a reply to `CLUSTER SLOTS`, and their masters. We skip ranges
/// whose master has no known address.
fn slots(reply: &Value, from: &Host) -> Vec<(u16, u16, Host)> {
    let Value::Array(ranges) = reply else {
        return Vec::new();
    };
    let parse = |range: &Value| {
        let Value::Array(range) = range else {
            return None;
        };
        let [
            Value::Int(first),
            Value::Int(last),
            Value::Array(master),
            ..,
        ] = &range[..]
        else {
            return None;
        };
        let name = match master.first()? {
            Value::BulkString(name) => String::from_utf8(name.clone()).ok()?,
            Value::SimpleString(name) => name.clone(),
            _ => String::new(),
        };
        let Value::Int(port) = master.get(1)? else {
            return None;
        };
        let name = match name.as_str() {
            "?" => return None,
            "" => from.name.clone(),
            _ => name,
        };
        let port = u16::try_from(*port).ok()?;
        let first = u16::try_from(*first).ok()?;
        let last = u16::try_from(*last).ok()?.min(SLOTS - 1);
        Some((first, last, Host { name, port }))
    };
    ranges.iter().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_ranges_are_parsed_and_unknown_masters_skipped() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let range = |first, last, name: Value, port| {
            let master = Value::Array(vec![name, Value::Int(port), text("id")]);
            Value::Array(vec![Value::Int(first), Value::Int(last), master])
        };
        let from = Host {
            name: "seed".into(),
            port: 1,
        };
        let reply = Value::Array(vec![
            range(0, 99, text("10.0.0.1"), 7000),
            range(100, 199, text(""), 7001),
            range(200, 299, Value::Nil, 7002),
            range(300, 399, text("?"), 7003),
            Value::Nil,
        ]);
        let found = slots(&reply, &from);
        let found = found
            .iter()
            .map(|(first, last, host)| format!("{first}-{last} {host}"));
        let expected = [
            "0-99 10.0.0.1:7000",
            "100-199 seed:7001",
            "200-299 seed:7002",
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(slots(&Value::Nil, &from), vec![]);
    }
}

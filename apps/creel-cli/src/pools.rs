//! Finds the observable pools of running programs (`creel::Observe`), queries them and resizes
//! them.
//!
//! Each pool listens on a Unix socket with an abstract name. Abstract names belong to a network
//! namespace. Therefore a program in a container with its own network is visible only from inside
//! the container.

use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream},
    },
    time::Duration,
};

/// The time limit for an answer.
const TIMEOUT: Duration = Duration::from_millis(200);
/// The size limit for an answer in bytes, enough for about 16,000 workers.
const ANSWER_MAX: u64 = 8 << 20;

/// The flag of a listening socket in `/proc/net/unix`. Source: proc_pid_net(5), `__SO_ACCEPTCON`.
const LISTENS: u32 = 0x1_0000;

/// The answer of a pool. The counts are since its creation.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pool {
    #[serde(rename = "pool")]
    pub name: String,
    pub pid: u32,
    pub wait: String,
    pub balance: String,
    pub resizable: bool,
    pub tasks: Tasks,
    pub workers: Vec<Worker>,
    /// The name of the socket, which identifies the pool in the next query.
    #[serde(skip)]
    pub socket: String,
}

/// The counts of the tasks of a pool.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Tasks {
    pub spawned: u64,
    pub finished: u64,
    pub cancelled: u64,
    pub polls: u64,
    pub steals: u64,
}

/// The counts of one worker.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Worker {
    pub worker: usize,
    pub state: String,
    pub cpus: String,
    pub inbox: u64,
    pub timers: u64,
    pub events: u64,
    pub parks: u64,
    pub parked_ns: u64,
    pub loop_items: u64,
    pub loop_blocks: u64,
    pub steals: u64,
    pub spins: u64,
    pub spun_ns: u64,
}

impl Pool {
    /// Returns the difference to `before`, an earlier answer of the same pool.
    pub fn since(&self, before: &Pool) -> Pool {
        let none = Worker::default();
        let workers = self.workers.iter().map(|now| {
            let then = before.workers.get(now.worker).unwrap_or(&none);
            now.since(then)
        });
        let (now, then) = (&self.tasks, &before.tasks);
        Pool {
            workers: workers.collect(),
            tasks: Tasks {
                spawned: now.spawned.saturating_sub(then.spawned),
                finished: now.finished.saturating_sub(then.finished),
                cancelled: now.cancelled.saturating_sub(then.cancelled),
                polls: now.polls.saturating_sub(then.polls),
                steals: now.steals.saturating_sub(then.steals),
            },
            ..self.clone()
        }
    }
}

impl Worker {
    fn since(&self, then: &Worker) -> Worker {
        Worker {
            worker: self.worker,
            state: self.state.clone(),
            cpus: self.cpus.clone(),
            inbox: self.inbox.saturating_sub(then.inbox),
            timers: self.timers.saturating_sub(then.timers),
            events: self.events.saturating_sub(then.events),
            parks: self.parks.saturating_sub(then.parks),
            parked_ns: self.parked_ns.saturating_sub(then.parked_ns),
            loop_items: self.loop_items.saturating_sub(then.loop_items),
            loop_blocks: self.loop_blocks.saturating_sub(then.loop_blocks),
            steals: self.steals.saturating_sub(then.steals),
            spins: self.spins.saturating_sub(then.spins),
            spun_ns: self.spun_ns.saturating_sub(then.spun_ns),
        }
    }
}

/// Queries the pools of these processes.
pub fn query(pids: &[u32]) -> Vec<Pool> {
    let answered = observed_sockets(pids)
        .into_iter()
        .filter_map(|(pid, socket)| {
            let answer = request(pid, &socket, "stats").ok()?;
            let pool: Pool = serde_json::from_str(&answer).ok()?;
            // We replace the process id in the answer, because it may belong to another namespace.
            Some(Pool {
                pid,
                socket,
                ..pool
            })
        });
    answered.collect()
}

/// Resizes the resizable pools of these processes. Returns the number of resized pools, and an
/// error message for each pool that rejected the new size.
pub fn resize(pids: &[u32], workers: usize) -> (usize, Vec<String>) {
    let (mut resized, mut refused) = (0, Vec::new());
    for pool in query(pids).into_iter().filter(|pool| pool.resizable) {
        #[derive(Deserialize)]
        struct Answer {
            error: Option<String>,
        }
        let said = request(pool.pid, &pool.socket, &format!("workers {workers}"));
        match said.map(|text| serde_json::from_str::<Answer>(&text)) {
            Ok(Ok(Answer { error: None })) => resized += 1,
            Ok(Ok(Answer { error: Some(why) })) => {
                refused.push(format!("cannot resize pool {}: {why}", pool.name));
            }
            // The program has ended in the meantime.
            Ok(Err(_)) | Err(_) => {}
        }
    }
    (resized, refused)
}

/// Returns the sockets whose names contain the ids of these processes.
fn observed_sockets(pids: &[u32]) -> Vec<(u32, String)> {
    let table = creel_console::system::text("/proc/net/unix").unwrap_or_default();
    let names: BTreeSet<&str> = table.lines().filter_map(listening).collect();
    let owned = names.into_iter().filter_map(|name| {
        let (pid, number) = name.strip_prefix("creel/")?.split_once('/')?;
        let _: u32 = number.parse().ok()?;
        let pid = pid.parse().ok()?;
        pids.contains(&pid).then(|| (pid, name.to_owned()))
    });
    owned.collect()
}

/// Returns the abstract name in a line, if a process listens on the socket.
fn listening(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let name = words.nth(3)?.strip_prefix('@')?;
    (flags & LISTENS != 0).then_some(name)
}

/// Sends one line and returns the answer.
fn request(pid: u32, socket: &str, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(socket)?)?;
    // We check the process id that the kernel reports, because any process can use the name.
    let listener = socket_peercred(&stream)?.pid;
    if u32::try_from(listener.as_raw_nonzero().get()) != Ok(pid) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    writeln!(stream, "{line}")?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_socket_names_are_parsed() {
        let line = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 @creel/77/0";
        assert_eq!(listening(line), Some("creel/77/0"));
        let accepted = line.replace("00010000", "00000000");
        assert_eq!(listening(&accepted), None);
        assert_eq!(
            listening("Num RefCount Protocol Flags Type St Inode Path"),
            None
        );
        assert_eq!(listening(&line.replace('@', "/run/")), None);
    }
}

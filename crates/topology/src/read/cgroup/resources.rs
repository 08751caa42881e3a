//! Limits other than PUs and quotas: weights, numbers of tasks, and memory.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/pids.rst and
//! cgroup-v1/memory.rst; getrlimit(2) and proc_pid_limits(5) for the number of processes.

use super::mounts::Version;
use crate::read::tree::Tree;
use crate::types::{Constraint, Error, Rule};

/// We treat a memory limit from this value on as unlimited, because version 1 writes a number near
/// 2^63 if the group sets no limit.
const UNLIMITED: u64 = 1 << 60;
/// The capabilities that exempt a process from the limit on processes (SYS_ADMIN, SYS_RESOURCE).
const EXEMPT: u64 = 1 << 21 | 1 << 24;

/// Reads the CPU weight: `cpu.weight` with default 100, or in version 1 `cpu.shares` with default
/// 1024. Returns `None` if the file is missing or contains the default.
pub(super) fn weight(tree: &Tree, group: &str, version: Version) -> Option<(String, Rule)> {
    let (name, usual) = match version {
        Version::V1 => ("cpu.shares", 1024),
        Version::V2 => ("cpu.weight", 100),
    };
    let path = format!("{group}/{name}");
    let reported = u64::try_from(tree.number(&path)?).ok();
    let value = reported.filter(|&value| value != usual)?;
    Some((path, Rule::Weight { value, usual }))
}

/// Reads `pids.max` and `pids.current`.
pub(super) fn tasks(tree: &Tree, group: &str) -> Option<(String, Rule)> {
    let path = format!("{group}/pids.max");
    let most = limit(tree, &path)?;
    let now = tree.number(&format!("{group}/pids.current"));
    let now = now.and_then(|now| u64::try_from(now).ok()).unwrap_or(0);
    Some((path, Rule::Tasks { most, now }))
}

/// Reads the memory limit, or returns `None` if the group sets no limit.
pub(super) fn memory(tree: &Tree, group: &str, version: Version) -> Option<(String, Rule)> {
    let name = match version {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.max",
    };
    let path = format!("{group}/{name}");
    let bytes = limit(tree, &path).filter(|&bytes| bytes < UNLIMITED)?;
    Some((path, Rule::Memory(bytes)))
}

/// Reads a limit. Returns `None` if the file is missing, contains `max`, or contains something that
/// we must note.
fn limit(tree: &Tree, path: &str) -> Option<u64> {
    let text = tree.limit_text(path).filter(|text| text != "max")?;
    let reason = "a limit must be a whole number or max";
    let number = text.parse();
    tree.valid(
        path,
        number.map_err(|_| Error::syntax("limit", &text, reason)),
    )
}

/// Reads the user's limit on processes. Each thread counts as one. Returns `None` if the process is
/// exempt.
pub(super) fn processes(tree: &Tree) -> Option<Constraint> {
    let path = "/proc/self/limits";
    let limits = tree.text(path).unwrap_or_default();
    let line = limits.lines().find_map(|l| l.strip_prefix("Max processes"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let status = tree.text("proc/self/status").unwrap_or_default();
    let capable = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let capable = capable.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    let exempt = capable.is_some_and(|capable| capable & EXEMPT != 0);
    soft.filter(|_| !exempt).map(|most| Constraint {
        path: path.into(),
        generation: 0,
        rule: Rule::Tasks { most, now: 0 },
    })
}

//! The results of a reader, before [`Machine`](crate::Machine) puts them in order.

use super::cpuset::CpuSet;
use super::objects::{Cache, Die, Kind, NumaNode, Package};

/// The parts of a machine, and the limits of the process that reads it.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) online: CpuSet,
    /// The sets of siblings, which are the PUs of each core. The list is empty if the system does
    /// not report them.
    pub(crate) siblings: Vec<CpuSet>,
    pub(crate) packages: Vec<Package>,
    pub(crate) dies: Vec<Die>,
    pub(crate) nodes: Vec<NumaNode>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) mask: Option<CpuSet>,
    /// The memory of the whole machine in bytes.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) constraints: Vec<Constraint>,
    /// Notes on files that are unusable or contradict each other.
    pub(crate) notes: Vec<String>,
}

/// A limit that one file sets: a file of a control group, or `/proc/self/limits`. On Windows, it is
/// the CPU rate of the job object.
#[derive(Debug, Clone)]
pub(crate) struct Constraint {
    /// The path of the file on the machine itself, or a description on Windows.
    pub(crate) path: String,
    /// The distance to the process's own group: 0 for that group, 1 for its parent, and so on.
    pub(crate) generation: usize,
    pub(crate) rule: Rule,
}

/// The limit of a [`Constraint`].
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    /// The PUs that the group may use.
    Cpuset(CpuSet),
    /// The CPU time per period, both in microseconds. The period is above 0.
    Quota { quota_us: u64, period_us: u64 },
    /// The share of CPU time compared with other groups. `usual` is the default value.
    Weight { value: u64, usual: u64 },
    /// The maximum and the current number of threads and processes.
    Tasks { most: u64, now: u64 },
    /// The memory in bytes.
    Memory(u64),
}

impl Constraint {
    pub(crate) fn cpuset(&self) -> Option<&CpuSet> {
        match &self.rule {
            Rule::Cpuset(cpus) => Some(cpus),
            _ => None,
        }
    }
}

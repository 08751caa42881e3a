//! What a reader found, before [`Machine`](crate::Machine) puts it in order.

use super::cpuset::CpuSet;
use super::objects::{Cache, Die, Kind, NumaNode, Package};

/// The parts of a machine, and what confines the process that reads it.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) online: CpuSet,
    /// Sibling sets; empty when the system tells none.
    pub(crate) siblings: Vec<CpuSet>,
    pub(crate) packages: Vec<Package>,
    pub(crate) dies: Vec<Die>,
    pub(crate) nodes: Vec<NumaNode>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) mask: Option<CpuSet>,
    pub(crate) constraints: Vec<Constraint>,
}

/// A limit found in one file of one group.
#[derive(Debug, Clone)]
pub(crate) struct Constraint {
    /// The file, as the machine itself names it.
    pub(crate) path: String,
    /// 0 for the process's own group, 1 for its parent, and so on.
    pub(crate) generation: usize,
    pub(crate) rule: Rule,
}

#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Cpuset(CpuSet),
    /// So much CPU time in each period, both in microseconds; the period is above 0.
    Quota {
        quota_us: u64,
        period_us: u64,
    },
    /// A share of the CPU time against others: of `usual` where nobody sets one.
    Weight {
        value: u64,
        usual: u64,
    },
    /// So many threads and processes, and those that there are.
    Tasks {
        most: u64,
        now: u64,
    },
    /// So many bytes of memory.
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

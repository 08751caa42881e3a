//! What a machine has, as plain data: packages, dies, NUMA nodes, caches, cores, kinds of cores.
//!
//! Left out: what holds between them. [`Machine`](crate::Machine) puts them in order and tells.

use super::cpuset::CpuSet;

/// A physical package (socket).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The system's number, where it gives one.
    pub os_index: Option<usize>,
    /// The online PUs.
    pub pus: CpuSet,
}

/// A die of a package; told only where some package has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Die {
    /// The system's number, where it gives one.
    pub os_index: Option<usize>,
    /// The online PUs.
    pub pus: CpuSet,
}

/// A NUMA node: memory, and the PUs that are nearest to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaNode {
    /// The system's number; numbers may have gaps.
    pub os_index: usize,
    /// The online PUs of the node; for a node without any, those whose memory it is: of its
    /// initiators, or of the nodes at the least distance. Empty where neither is told.
    pub pus: CpuSet,
    /// Whether the node has PUs of its own.
    pub has_pus: bool,
    /// The node's memory in bytes, where told; 0 for a node without memory.
    pub memory_bytes: Option<u64>,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheKind {
    /// Data and instructions.
    Unified,
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
}

/// A cache and the PUs that share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// 1 to 8; 1 is nearest to the core.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Its size in bytes, where told.
    pub size_bytes: Option<u64>,
    /// The online PUs that share it.
    pub pus: CpuSet,
}

/// A core: the PUs that the kernel calls siblings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// The PUs as the kernel lists them. Only here a PU may be offline: kernels that still tell
    /// of an offline PU's core are repeated as they say.
    pub pus: CpuSet,
    /// The index of its kind in [`Machine::kinds`](crate::Machine::kinds); `None` where kinds are not told.
    pub kind: Option<usize>,
}

/// Cores of one speed, e.g. performance or efficient ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// 0 is the slowest kind; the fastest is the last.
    pub rank: usize,
    /// The online PUs of this kind.
    pub pus: CpuSet,
    /// Who told.
    pub source: KindSource,
}

/// Who told the kinds of cores apart, in descending order of trust.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KindSource {
    /// The PMUs' lists, `sys/devices/cpu_core/cpus` and `cpu_atom/cpus`.
    Pmu,
    /// The scheduler's `cpu_capacity`.
    Capacity,
    /// ACPI CPPC's nominal performance.
    Cppc,
    /// The base frequency.
    BaseFrequency,
    /// The maximum frequency.
    MaxFrequency,
    /// The description of a synthetic machine.
    Description,
}

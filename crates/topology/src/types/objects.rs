//! What a machine has, as plain data: packages, dies, NUMA nodes, caches, cores, kinds of cores.
//!
//! Left out: what holds between them. [`Machine`](crate::Machine) puts them in order and tells.

use super::cpuset::CpuSet;

/// A physical package (socket).
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
/// assert_eq!(machine.packages()[1].pus.to_string(), "6-11");
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The system's number, where it gives one.
    pub os_index: Option<usize>,
    /// The online PUs.
    pub pus: CpuSet,
}

/// A die of a package; told only where some package has several.
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:1 die:2 core:2")?;
/// assert_eq!(machine.dies().len(), 2);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Die {
    /// The system's number, where it gives one.
    pub os_index: Option<usize>,
    /// The online PUs.
    pub pus: CpuSet,
}

/// A NUMA node: memory, and the PUs that are nearest to it.
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
/// assert!(machine.numa_nodes()[0].has_pus);
/// # Ok::<(), creel_topology::Error>(())
/// ```
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
///
/// ```
/// use creel_topology::{CacheKind, Machine};
///
/// let machine = Machine::synthetic("l3:1 core:2")?;
/// assert_eq!(machine.caches()[0].kind, CacheKind::Unified);
/// # Ok::<(), creel_topology::Error>(())
/// ```
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
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
/// assert!(machine.caches().iter().all(|cache| cache.level == 3));
/// # Ok::<(), creel_topology::Error>(())
/// ```
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
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
/// assert_eq!(machine.cores()[0].pus.len(), 2);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Core {
    /// The PUs as the kernel lists them. Only here a PU may be offline: kernels that still tell
    /// of an offline PU's core are repeated as they say.
    pub pus: CpuSet,
    /// The index of its kind in [`Machine::kinds`](crate::Machine::kinds); `None` where kinds are not told.
    pub kind: Option<usize>,
}

/// Cores of one speed, e.g. performance or efficient ones.
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
/// assert_eq!(machine.kinds().last().map(|fastest| fastest.rank), Some(1));
/// # Ok::<(), creel_topology::Error>(())
/// ```
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
///
/// ```
/// use creel_topology::{KindSource, Machine};
///
/// let machine = Machine::synthetic("core:1+1")?;
/// assert_eq!(machine.kinds()[0].source, KindSource::Description);
/// # Ok::<(), creel_topology::Error>(())
/// ```
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

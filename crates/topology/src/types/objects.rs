//! The objects of a machine as plain data: packages, dies, NUMA nodes, caches, cores, kinds of
//! cores.
//!
//! The relations between these objects are not part of this file, but of
//! [`Machine`](crate::Machine).

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
#[non_exhaustive]
pub struct Package {
    /// The number that the system gives the package, if any.
    pub os_index: Option<usize>,
    /// The online PUs of the package.
    pub pus: CpuSet,
}

/// A die of a package. Dies are listed only if some package has several. A synthetic machine lists
/// the dies of its description in any case.
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:1 die:2 core:2")?;
/// assert_eq!(machine.dies().len(), 2);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Die {
    /// The number that the system gives the die, if any.
    pub os_index: Option<usize>,
    /// The online PUs of the die.
    pub pus: CpuSet,
}

/// A NUMA node: memory, and the PUs that are closest to it.
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
/// assert!(machine.numa_nodes()[0].has_pus);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NumaNode {
    /// The number that the system gives the node. There may be gaps between the numbers.
    pub os_index: usize,
    /// The online PUs of the node.
    ///
    /// If the node has no PUs, these are the PUs of its initiators, or of the nodes at the smallest
    /// distance. The set is empty if the system reports neither.
    pub pus: CpuSet,
    /// Whether the node has PUs of its own.
    pub has_pus: bool,
    /// The memory of the node in bytes, if known. It is 0 for a node without memory.
    pub memory_bytes: Option<u64>,
}

/// The contents of a cache.
///
/// ```
/// use creel_topology::{CacheKind, Machine};
///
/// let machine = Machine::synthetic("l3:1 core:2")?;
/// assert_eq!(machine.caches()[0].kind, CacheKind::Unified);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum CacheKind {
    /// The cache holds data and instructions.
    Unified,
    /// The cache holds data only.
    Data,
    /// The cache holds instructions only.
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
#[non_exhaustive]
pub struct Cache {
    /// The level from 1 to 8. Level 1 is nearest to the core.
    pub level: u8,
    /// The contents of the cache.
    pub kind: CacheKind,
    /// The size in bytes, if known.
    pub size_bytes: Option<u64>,
    /// The online PUs that share the cache.
    pub pus: CpuSet,
}

/// A core: a set of PUs that the kernel calls siblings.
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
/// assert_eq!(machine.cores()[0].pus.len(), 2);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Core {
    /// The PUs of the core as the kernel lists them. This is the only set of a machine that may
    /// contain offline PUs, because some kernels still report the core of an offline PU.
    pub pus: CpuSet,
    /// The index of the core's kind in [`Machine::kinds`](crate::Machine::kinds), or `None` if the
    /// kinds are unknown.
    pub kind: Option<usize>,
}

/// A kind of cores: all cores of one speed, for example performance or efficiency cores.
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
/// assert_eq!(machine.kinds().last().map(|fastest| fastest.rank), Some(1));
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// The rank by speed. Rank 0 is the slowest kind, and the last rank is the fastest.
    pub rank: usize,
    /// The online PUs of this kind.
    pub pus: CpuSet,
    /// The source that distinguishes this kind from the others.
    pub source: KindSource,
}

/// The information from which we know that cores are of different kinds. The sources on Linux come
/// first, from the most to the least trusted.
///
/// ```
/// use creel_topology::{KindSource, Machine};
///
/// let machine = Machine::synthetic("core:1+1")?;
/// assert_eq!(machine.kinds()[0].source, KindSource::Description);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KindSource {
    /// The lists of the hybrid PMUs: `sys/devices/cpu_core/cpus`, `cpu_atom/cpus` and
    /// `cpu_lowpower/cpus`.
    Pmu,
    /// The `cpu_capacity` that the kernel's scheduler uses for each PU.
    Capacity,
    /// The nominal performance of ACPI CPPC.
    Cppc,
    /// The base frequency.
    BaseFrequency,
    /// The maximum frequency.
    MaxFrequency,
    /// The highest performance of ACPI CPPC.
    CppcHighest,
    /// Whether the cores share a level 3 cache. Low-power cores may have none.
    SharedCache,
    /// The efficiency classes of Windows.
    EfficiencyClass,
    /// The performance levels of macOS.
    PerformanceLevel,
    /// The description of a synthetic machine.
    Description,
}

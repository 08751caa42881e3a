//! The machine: what the system tells of packages, dies, NUMA nodes, caches, cores and PUs.
//!
//! Invariants: PUs go by OS index; the objects of a level do not overlap; every level but the
//! cores holds online PUs only; every online PU is in exactly one core. Lists are in logical
//! order: objects that share more lie next to one another, and an object's place in its list is
//! its logical index.

use std::path::Path;

use crate::cgroup::Constraint;
use crate::tree::Tree;
use crate::{CpuSet, Error, affinity, cgroup, synthetic, sysfs};

/// A machine, as the system or a captured tree describes it.
///
/// ```
/// use creel_topology::Machine;
///
/// let machine = Machine::synthetic("package:2 core:8 pu:2")?;
/// assert_eq!(machine.packages().len(), 2);
/// assert_eq!(machine.cores()[1].pus.to_string(), "2-3");
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Machine {
    online: CpuSet,
    allowed: CpuSet,
    logical: Vec<usize>,
    packages: Vec<Package>,
    dies: Vec<Die>,
    nodes: Vec<NumaNode>,
    caches: Vec<Cache>,
    cores: Vec<Core>,
    siblings_told: bool,
    kinds: Vec<Kind>,
    mask: Option<CpuSet>,
    constraints: Vec<Constraint>,
}

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
    /// The online PUs of the node; for a node without any, those of the nodes nearest to it.
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
    /// 1 is nearest to the core.
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
    /// The index of its kind in [`Machine::kinds`]; `None` where kinds are not told.
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

/// What a reader found, before it is put in order.
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

impl Machine {
    /// Reads the machine that this thread runs on, and what this thread may use of it.
    ///
    /// It reads some files, and so may block for some milliseconds. On systems other than Linux
    /// it tells only how many PUs there are.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] or [`Error::Malformed`] when the system's files cannot be read,
    /// [`Error::NoMachine`] when they describe no CPU; [`Error::Unsupported`] elsewhere, when the
    /// system does not tell its PUs.
    pub fn detect() -> Result<Machine, Error> {
        if cfg!(target_os = "linux") {
            let mut parts = read_parts(Path::new("/"))?;
            parts.mask = affinity::current().ok().or(parts.mask);
            Ok(Machine::assemble(parts))
        } else {
            let pus = std::thread::available_parallelism()
                .map_err(|_| Error::Unsupported("count of its PUs"))?;
            Ok(Machine::assemble(Parts {
                online: CpuSet::range(0, pus.get() - 1),
                ..Parts::default()
            }))
        }
    }

    /// Reads a machine from a folder that holds copies of its `/sys` and `/proc`.
    ///
    /// The mask is that of `proc/self/status` where it was copied.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] when a file is there and cannot be read, [`Error::Malformed`] when it
    /// says something impossible, [`Error::NoMachine`] when no CPU is described.
    pub fn read_from(root: &Path) -> Result<Machine, Error> {
        read_parts(root).map(Machine::assemble)
    }

    /// Makes a machine from a description such as `package:2 numa:2 l3:1 core:8 pu:2`.
    ///
    /// Levels go from the outside in; each number says how many there are in one object of the
    /// level before. Levels: `package`, `die`, `numa`, `l4` to `l1`, `core`, `pu`; all may be
    /// left out but one. `core:6+8` makes kinds: 6 fast cores, then 8 slower ones, in each object
    /// before; with `pu:2+1` each kind has its own number of PUs.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] when the description has a mistake or asks for more than 16,384 PUs.
    pub fn synthetic(description: &str) -> Result<Machine, Error> {
        synthetic::parts(description).map(Machine::assemble)
    }

    /// The online PUs.
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// The online PUs that the cpuset and the affinity mask allow.
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// The online PUs in logical order: the PU at place `i` has logical index `i`.
    pub fn pus(&self) -> &[usize] {
        &self.logical
    }

    /// The packages; empty when not told.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The dies; empty unless some package has several.
    pub fn dies(&self) -> &[Die] {
        &self.dies
    }

    /// The NUMA nodes by ascending OS index; one node holds all where the system tells of none.
    pub fn numa_nodes(&self) -> &[NumaNode] {
        &self.nodes
    }

    /// All caches, the lowest level first.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The caches of a level that hold data.
    pub fn caches_at(&self, level: u8) -> impl Iterator<Item = &Cache> {
        self.caches
            .iter()
            .filter(move |cache| cache.level == level && cache.kind != CacheKind::Instruction)
    }

    /// The cores. Where the system tells no siblings, each PU counts as a core.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// Whether the system told which PUs share a core.
    pub fn siblings_told(&self) -> bool {
        self.siblings_told
    }

    /// The kinds of cores, the slowest first; empty when not told.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// How many cores have a PU in `pus`: the usable cores, hyper-threads counted once.
    pub fn cores_in(&self, pus: &CpuSet) -> usize {
        self.cores
            .iter()
            .filter(|core| core.pus.intersects(pus))
            .count()
    }

    /// The units (core, caches, die, NUMA node, package) that hold all of `pus`, the smallest
    /// first: who is in an earlier one is nearer to `pus`.
    ///
    /// ```
    /// use creel_topology::{CpuSet, Machine};
    ///
    /// let machine = Machine::synthetic("package:2 l3:2 core:2 pu:2")?;
    /// let sizes = |pus: &str| -> Result<Vec<usize>, creel_topology::Error> {
    ///     let pus: CpuSet = pus.parse()?;
    ///     Ok(machine.units_around(&pus).iter().map(|unit| unit.len()).collect())
    /// };
    /// assert_eq!(sizes("5")?, [2, 4, 8, 16], "core, L3, package; the one node holds all");
    /// assert_eq!(sizes("3,4")?, [8, 16], "two caches of one package");
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn units_around(&self, pus: &CpuSet) -> Vec<&CpuSet> {
        let levels = self.levels().into_iter().flatten();
        let mut units: Vec<&CpuSet> = levels.filter(|unit| pus.is_subset(unit)).collect();
        units.sort_by_key(|unit| unit.len());
        units.dedup();
        units
    }

    pub(crate) fn mask(&self) -> Option<&CpuSet> {
        self.mask.as_ref()
    }

    pub(crate) fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// The sets of each level, the level with the widest set first.
    pub(crate) fn levels(&self) -> Vec<Vec<&CpuSet>> {
        let own_pus = self.nodes.iter().filter(|node| node.has_pus);
        let mut levels: Vec<Vec<&CpuSet>> = vec![
            self.packages.iter().map(|package| &package.pus).collect(),
            self.dies.iter().map(|die| &die.pus).collect(),
            own_pus.map(|node| &node.pus).collect(),
            self.cores.iter().map(|core| &core.pus).collect(),
        ];
        let deepest = self
            .caches
            .iter()
            .map(|cache| cache.level)
            .max()
            .unwrap_or(0);
        levels.extend(
            (1..=deepest).map(|level| self.caches_at(level).map(|cache| &cache.pus).collect()),
        );
        levels.retain(|sets: &Vec<&CpuSet>| !sets.is_empty());
        levels.sort_by_key(|sets| std::cmp::Reverse(sets.iter().map(|set| set.len()).max()));
        levels
    }

    /// Computes what follows from the parts, and puts all in logical order.
    fn assemble(parts: Parts) -> Machine {
        let siblings_told = !parts.siblings.is_empty();
        let cores = with_lone_pus(parts.siblings, &parts.online)
            .into_iter()
            .map(|pus| Core {
                kind: parts
                    .kinds
                    .iter()
                    .position(|kind| kind.pus.intersects(&pus)),
                pus,
            });
        let mut machine = Machine {
            allowed: allowed(&parts.online, parts.mask.as_ref(), &parts.constraints),
            logical: Vec::new(),
            packages: parts.packages,
            dies: parts.dies,
            nodes: parts.nodes,
            caches: parts.caches,
            cores: cores.collect(),
            siblings_told,
            kinds: parts.kinds,
            mask: parts.mask,
            constraints: parts.constraints,
            online: parts.online,
        };
        if machine.nodes.is_empty() {
            let pus = machine.online.clone();
            machine.nodes.push(NumaNode {
                os_index: 0,
                pus,
                has_pus: true,
                memory_bytes: None,
            });
        }
        machine.sort();
        machine
    }

    fn sort(&mut self) {
        self.logical = logical_order(&self.online, &self.levels());
        let mut place = vec![usize::MAX; self.online.last().map_or(0, |last| last + 1)];
        for (logical, &pu) in self.logical.iter().enumerate() {
            place[pu] = logical;
        }
        let key = |pus: &CpuSet| {
            let logical = pus.iter().filter_map(|pu| place.get(pu).copied()).min();
            (logical.unwrap_or(usize::MAX), pus.first())
        };
        self.packages
            .sort_by_cached_key(|package| key(&package.pus));
        self.dies.sort_by_cached_key(|die| key(&die.pus));
        self.nodes.sort_by_key(|node| node.os_index);
        self.caches
            .sort_by_cached_key(|cache| (cache.level, cache.kind, key(&cache.pus)));
        self.cores.sort_by_cached_key(|core| key(&core.pus));
    }
}

fn read_parts(root: &Path) -> Result<Parts, Error> {
    let tree = Tree::open(root)?;
    let mut parts = sysfs::read(&tree)?;
    let confines = cgroup::read(&tree)?;
    parts.mask = confines.mask;
    parts.constraints = confines.constraints;
    Ok(parts)
}

/// The cpusets and the mask narrow what is online. The kernel keeps the mask inside the cpuset;
/// when the two disagree (a stale or foreign tree), the mask is what binds this thread.
fn allowed(online: &CpuSet, mask: Option<&CpuSet>, constraints: &[Constraint]) -> CpuSet {
    let in_mask = mask.map_or_else(|| online.clone(), |mask| online & mask);
    let in_both = constraints
        .iter()
        .filter_map(Constraint::cpuset)
        .fold(in_mask.clone(), |set, cpus| &set & cpus);
    if in_both.is_empty() { in_mask } else { in_both }
}

/// The sibling sets, and a set of one for each online PU that is in none.
fn with_lone_pus(siblings: Vec<CpuSet>, online: &CpuSet) -> Vec<CpuSet> {
    let known = siblings.iter().fold(CpuSet::new(), |all, pus| &all | pus);
    let lone = (online - &known)
        .iter()
        .map(|pu| CpuSet::from_iter([pu]))
        .collect::<Vec<_>>();
    siblings.into_iter().chain(lone).collect()
}

/// The online PUs, ordered by the first PU of the widest object around them, then of the next.
fn logical_order(online: &CpuSet, levels: &[Vec<&CpuSet>]) -> Vec<usize> {
    let mut keys: Vec<(Vec<usize>, usize)> = online
        .iter()
        .map(|pu| (Vec::with_capacity(levels.len()), pu))
        .collect();
    for sets in levels {
        let mut firsts = vec![usize::MAX; online.last().map_or(0, |last| last + 1)];
        for (pu, first) in sets
            .iter()
            .flat_map(|set| set.iter().map(|pu| (pu, set.first().unwrap_or(pu))))
        {
            if let Some(slot) = firsts.get_mut(pu) {
                *slot = first;
            }
        }
        for (key, pu) in &mut keys {
            key.push(firsts[*pu]);
        }
    }
    keys.sort();
    keys.into_iter().map(|(_, pu)| pu).collect()
}

//! The machine: what the system tells of packages, dies, NUMA nodes, caches, cores and PUs.
//!
//! Invariants: PUs go by OS index; the objects of a level do not overlap, but for NUMA nodes
//! without PUs of their own; every level but the cores holds online PUs only; every online PU is
//! in exactly one core. Lists are in logical order, but for NUMA nodes (by OS index) and kinds (by
//! speed): objects that share more lie next to one another, and an object's place in its list is
//! its logical index.

mod order;

use std::path::Path;

use crate::types::{
    Cache, CacheKind, Constraint, Core, CpuSet, Die, Error, Kind, NumaNode, Package, Parts,
};
use crate::{affinity, read};

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
    siblings_known: bool,
    kinds: Vec<Kind>,
    mask: Option<CpuSet>,
    constraints: Vec<Constraint>,
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
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::detect()?;
    /// assert!(!machine.online().is_empty());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn detect() -> Result<Machine, Error> {
        Machine::here(read::tree)
    }

    /// As [`detect`](Machine::detect), but reads only what a [`Budget`](crate::Budget) counts: the
    /// PUs, the cores and what confines this thread. A program that starts others, and only wants
    /// to know how many, so reads a file a core and not a dozen.
    ///
    /// Packages, dies, caches and kinds are empty, one NUMA node holds all, and logical order is
    /// that of the OS indices; memory is not told but by cgroups' limits.
    ///
    /// ```
    /// use creel_topology::{Budget, Machine};
    ///
    /// let whole = Budget::of(&Machine::detect()?);
    /// assert_eq!(Budget::of(&Machine::detect_cores()?).workers(), whole.workers());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`detect`](Machine::detect).
    pub fn detect_cores() -> Result<Machine, Error> {
        Machine::here(read::cores)
    }

    fn here(read: fn(&Path) -> Result<Parts, Error>) -> Result<Machine, Error> {
        if cfg!(target_os = "linux") {
            let mut parts = read(Path::new("/"))?;
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
    /// The mask is that of `proc/self/status` where it was copied. It reads some files of each
    /// PU, and so may block for some milliseconds.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] when a file is there and cannot be read, [`Error::Malformed`] when it
    /// says something impossible, [`Error::NoMachine`] when no CPU is described.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let nothing = std::env::temp_dir().join("no machine is here");
    /// assert!(Machine::read_from(&nothing).is_err());
    /// ```
    pub fn read_from(root: &Path) -> Result<Machine, Error> {
        read::tree(root).map(Machine::assemble)
    }

    /// As [`read_from`](Machine::read_from), but reads only what
    /// [`detect_cores`](Machine::detect_cores) does.
    ///
    /// # Errors
    ///
    /// As [`read_from`](Machine::read_from).
    pub fn read_cores_from(root: &Path) -> Result<Machine, Error> {
        read::cores(root).map(Machine::assemble)
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
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let hybrid = Machine::synthetic("core:6+8 pu:2+1")?;
    /// assert_eq!((hybrid.cores().len(), hybrid.pus().len()), (14, 20));
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn synthetic(description: &str) -> Result<Machine, Error> {
        read::synthetic::parts(description).map(Machine::assemble)
    }

    /// The online PUs.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert_eq!(machine.online().to_string(), "0-11");
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// The online PUs that the cpuset and the affinity mask allow.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert_eq!(machine.allowed(), machine.online());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// The online PUs in logical order: the PU at place `i` has logical index `i`.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert_eq!(machine.pus().len(), 12);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn pus(&self) -> &[usize] {
        &self.logical
    }

    /// The packages; empty when not told.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert_eq!(machine.packages()[0].pus.len(), 6);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The dies; empty unless some package has several.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert!(machine.dies().is_empty());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn dies(&self) -> &[Die] {
        &self.dies
    }

    /// The NUMA nodes by ascending OS index; one node holds all where the system tells of none.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert_eq!(machine.numa_nodes().len(), 1);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn numa_nodes(&self) -> &[NumaNode] {
        &self.nodes
    }

    /// All caches, the lowest level first.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert_eq!(machine.caches().len(), 2);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The caches of a level that hold data.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert_eq!(machine.caches_at(3).count(), 2);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn caches_at(&self, level: u8) -> impl Iterator<Item = &Cache> {
        self.caches
            .iter()
            .filter(move |cache| cache.level == level && cache.kind != CacheKind::Instruction)
    }

    /// The cores. Where the system tells no siblings, each PU counts as a core.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert_eq!(machine.cores().len(), 8);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// Whether the system told which PUs share a core.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert!(machine.siblings_told());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn siblings_known(&self) -> bool {
        self.siblings_known
    }

    /// The kinds of cores, the slowest first; empty when not told.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// let [slow, fast] = machine.kinds() else { panic!("two kinds") };
    /// assert_eq!((slow.pus.len(), fast.pus.len()), (4, 8));
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// How many cores have a PU in `pus`: the usable cores, hyper-threads counted once.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert_eq!(machine.cores_in(&"0-3".parse()?), 2);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
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
        let siblings_known = !parts.siblings.is_empty();
        let cores = order::with_lone_pus(parts.siblings, &parts.online)
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
            siblings_known,
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
        self.logical = order::logical(&self.online, &self.levels());
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

//! The machine: its packages, dies, NUMA nodes, caches, cores and PUs, as the system reports them.
//!
//! Invariants:
//!
//! - PUs are identified by their OS index.
//! - The objects of a level do not overlap. There are two exceptions: an instruction cache and a
//!   data cache may belong to the same PUs, and a NUMA node without PUs of its own shares the PUs
//!   of its nearest nodes.
//! - All levels except the cores contain online PUs only.
//! - Every online PU is in exactly one core.
//! - Lists are in logical order, in which objects that share more are next to each other. The index
//!   of an object in its list is its logical index. The exceptions are NUMA nodes, which are sorted
//!   by OS index, and kinds, which are sorted by speed.

mod order;

use std::fs;
use std::path::Path;

use crate::read::{self, Detail};
use crate::system;
use crate::types::{
    Cache, CacheKind, Constraint, Core, CpuSet, Die, Error, Kind, NumaNode, Package, Parts, shown,
};

/// The maximum length of a note.
const NOTE_CHARS_MAX: usize = 400;

/// A machine, as described by the system, a captured tree, or a description.
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
    /// The memory of the whole machine in bytes, if known.
    pub(crate) memory_bytes: Option<u64>,
    constraints: Vec<Constraint>,
    notes: Vec<String>,
}

impl Machine {
    /// Reads the machine on which this thread runs, and the part of it that this thread may use.
    ///
    /// On Linux, this reads some files, so it may block for some milliseconds. On Windows, it
    /// reports cores, caches, packages, NUMA nodes, kinds of cores, affinity masks and the CPU rate
    /// of the job object. On macOS, it reports cores, shared caches and kinds of cores. On FreeBSD,
    /// it reports the affinity mask. On other systems, it reports only the number of PUs.
    ///
    /// On Linux, this never fails, because no file may keep a program from starting. If a file is
    /// unusable or contradicts another, [`notes`](Machine::notes) says so. The affinity mask has
    /// priority over all files: the allowed PUs are those of the mask.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Unsupported`] on other systems, if they do not report the number of PUs.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::detect()?;
    /// assert!(!machine.online().is_empty());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn detect() -> Result<Machine, Error> {
        Machine::here(Detail::Whole)
    }

    /// Reads only the parts that a [`Budget`](crate::Budget) needs: the PUs, the cores and the
    /// limits of this thread.
    ///
    /// Use it instead of [`detect`](Machine::detect) in a program that needs only the number of
    /// workers, for example to start other programs. It reads one file per core instead of a dozen.
    ///
    /// On Linux, packages, dies, caches and kinds are empty in the result. One NUMA node holds all
    /// PUs, and the logical order groups the PUs by core only. The only known memory limits are
    /// those of control groups. On other systems, the result is that of
    /// [`detect`](Machine::detect).
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
    /// Returns the errors of [`detect`](Machine::detect).
    pub fn detect_cores() -> Result<Machine, Error> {
        Machine::here(Detail::Cores)
    }

    /// Reads the running system, and notes whether it can pin threads.
    fn here(detail: Detail) -> Result<Machine, Error> {
        let mut machine = Machine::of_system(detail)?;
        // Linux always has masks, and a program should not wait for a system call without need.
        let has_masks =
            cfg!(target_os = "linux") || !matches!(system::current(), Err(Error::Unsupported(_)));
        if !has_masks {
            machine.notes.push(
                "this system has no affinity masks for threads, so workers are not pinned".into(),
            );
        }
        Ok(machine)
    }

    /// Reads the running system from its files.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn of_system(detail: Detail) -> Result<Machine, Error> {
        let mask = system::mask_of_files().ok();
        Ok(Machine::started(
            Path::new("/"),
            None,
            mask.as_ref(),
            detail,
        ))
    }

    /// Reads the running system with a few system calls. We always read the whole machine, because
    /// reading less would not save a call.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn of_system(_: Detail) -> Result<Machine, Error> {
        let parts = system::parts();
        parts
            .map(Machine::assemble)
            .ok_or(Error::Unsupported("counting its PUs"))
    }

    /// Reads a machine like [`detect`](Machine::detect), but from the files below `root`, and for a
    /// thread with the affinity mask `mask`.
    ///
    /// This never fails. Without any files, the PUs are those of the mask, or one PU if the mask is
    /// unknown too.
    ///
    /// ```
    /// use creel_topology::{Budget, CpuSet, Machine};
    /// use std::path::Path;
    ///
    /// let machine = Machine::detect_in(Path::new("/no/such/folder"), Some(&CpuSet::range(4..=6)));
    /// assert_eq!(Budget::of(&machine).workers(), 3);
    /// assert!(machine.notes()[0].contains("no file lists the online CPUs"));
    /// ```
    pub fn detect_in(root: &Path, mask: Option<&CpuSet>) -> Machine {
        Machine::started(root, None, mask, Detail::Whole)
    }

    /// Reads a machine like [`detect_cores`](Machine::detect_cores), but from the files below
    /// `root`, and for a thread with the affinity mask `mask`.
    ///
    /// ```
    /// use creel_topology::Machine;
    /// use std::path::Path;
    ///
    /// let machine = Machine::detect_cores_in(Path::new("/no/such/folder"), None);
    /// assert_eq!(machine.allowed().len(), 1);
    /// ```
    pub fn detect_cores_in(root: &Path, mask: Option<&CpuSet>) -> Machine {
        Machine::started(root, None, mask, Detail::Cores)
    }

    /// Reads a machine like [`detect_cores_in`](Machine::detect_cores_in), but with the limits of
    /// the process with this id. The root is usually `/`.
    ///
    /// `mask` is the affinity mask of the process. If it is unknown, it is read from the files.
    /// This is for programs that watch others. Without the files of the process, it has no limits.
    ///
    /// ```
    /// use creel_topology::Machine;
    /// use std::path::Path;
    ///
    /// let own = std::process::id();
    /// let machine = Machine::detect_process_in(Path::new("/"), own, None);
    /// assert!(!machine.allowed().is_empty());
    /// ```
    pub fn detect_process_in(root: &Path, process: u32, mask: Option<&CpuSet>) -> Machine {
        Machine::started(root, Some(process), mask, Detail::Cores)
    }

    /// Reads a machine, and never fails: if no PU is known, it assumes PU 0 and adds a note. A
    /// program can then start in any case.
    fn started(
        root: &Path,
        process: Option<u32>,
        mask: Option<&CpuSet>,
        detail: Detail,
    ) -> Machine {
        let mut parts = read::tree(root, process, mask, detail);
        if parts.online.is_empty() {
            parts.online = CpuSet::range(0..=0);
            let note = "neither a file nor an affinity mask lists a CPU, so creel assumes one";
            parts.notes.push(note.into());
        }
        Machine::assemble(parts)
    }

    /// Reads a machine from a folder that contains copies of its `/sys` and `/proc`.
    ///
    /// The affinity mask is that of the copied file `proc/self/status`, if the folder contains it.
    /// This reads some files per PU, so it may block for some milliseconds. If a file is unusable
    /// or contradicts another, [`notes`](Machine::notes) says so.
    ///
    /// # Errors
    ///
    /// - [`Error::Unreadable`] if the folder cannot be read.
    /// - [`Error::NoMachine`] if the folder describes no CPU.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let nothing = std::env::temp_dir().join("no machine is here");
    /// assert!(Machine::read_from(&nothing).is_err());
    /// ```
    pub fn read_from(root: &Path) -> Result<Machine, Error> {
        Machine::copied(root, Detail::Whole)
    }

    /// Reads from a folder, like [`read_from`](Machine::read_from), but only the parts that
    /// [`detect_cores`](Machine::detect_cores) reads.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read_from`](Machine::read_from).
    pub fn read_cores_from(root: &Path) -> Result<Machine, Error> {
        Machine::copied(root, Detail::Cores)
    }

    fn copied(root: &Path, detail: Detail) -> Result<Machine, Error> {
        fs::read_dir(root).map_err(|source| Error::Unreadable {
            path: root.into(),
            source,
        })?;
        let parts = read::tree(root, None, None, detail);
        if parts.online.is_empty() {
            return Err(Error::NoMachine {
                root: root.into(),
                notes: shown_notes(&parts.notes),
            });
        }
        Ok(Machine::assemble(parts))
    }

    /// Creates a machine from a description, for example `package:2 numa:2 l3:1 core:8 pu:2`.
    ///
    /// Levels are listed from the outside in. Each number is the number of objects in one object of
    /// the level before. The levels are `package`, `die`, `numa`, `l4` to `l1`, `core` and `pu`.
    /// You can leave out all but one.
    ///
    /// `core:6+8` creates kinds of cores: 6 fast cores and then 8 slower ones in each object of the
    /// level before. With `pu:2+1` each kind has its own number of PUs.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Syntax`] if the description has a mistake or asks for more than 16,384 PUs.
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

    /// Returns the online PUs.
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

    /// Returns the online PUs that the cpuset and the affinity mask allow. If the two contradict
    /// each other, the mask counts.
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

    /// Returns the online PUs in logical order. The PU at index `i` has the logical index `i`.
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

    /// Returns the packages. The list is empty if the system does not report them.
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

    /// Returns the dies. The list is empty unless some package has several dies. A synthetic
    /// machine lists the dies of its description in any case.
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

    /// Returns the NUMA nodes by ascending OS index. If the system reports none, one node holds all
    /// PUs.
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

    /// Returns all caches, sorted by level. Level 1 comes first.
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

    /// Returns the caches of a level that hold data.
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

    /// Returns the cores. If the system does not report siblings, each PU counts as a core.
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

    /// Returns whether the system reports which PUs share a core.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// let machine = Machine::synthetic("package:2 l3:1 core:2+2 pu:2+1")?;
    /// assert!(machine.siblings_known());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn siblings_known(&self) -> bool {
        self.siblings_known
    }

    /// Returns the kinds of cores, sorted from the slowest to the fastest. The list is empty if the
    /// kinds are unknown.
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

    /// Returns the number of cores that have a PU in `pus`. The PUs of one core count once.
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

    /// Returns the units (core, caches, die, NUMA node, package) that contain all of `pus`, sorted
    /// from the smallest to the largest. Units with the same PUs, for example a core and its L1
    /// cache, are returned once.
    ///
    /// A PU in an earlier unit is nearer to `pus` than one in a later unit.
    ///
    /// ```
    /// use creel_topology::{CpuSet, Machine};
    ///
    /// let machine = Machine::synthetic("package:2 l3:2 core:2 pu:2")?;
    /// let sizes = |pus: &str| -> Result<Vec<usize>, creel_topology::Error> {
    ///     let pus: CpuSet = pus.parse()?;
    ///     Ok(machine.units_around(&pus).iter().map(|unit| unit.len()).collect())
    /// };
    /// assert_eq!(sizes("5")?, [2, 4, 8, 16], "core, L3, package, and the node with all PUs");
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

    /// Returns notes about files that are unusable or contradict each other, and about facts that
    /// may surprise you, for example a cpuset that has no effect. Each note is one line. The list
    /// is usually empty.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// for note in Machine::detect()?.notes() {
    ///     eprintln!("note: {note}");
    /// }
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the affinity mask, if it is known.
    pub(crate) fn mask(&self) -> Option<&CpuSet> {
        self.mask.as_ref()
    }

    /// Returns the limits of the process.
    pub(crate) fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Returns the sets of each level. The levels are sorted by their widest set, and the level
    /// with the most PUs in one set comes first.
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

    /// Builds the machine from its parts: derives the remaining facts and sorts all lists.
    fn assemble(mut parts: Parts) -> Machine {
        let allowed = allowed(&mut parts);
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
            allowed,
            logical: Vec::new(),
            packages: parts.packages,
            dies: parts.dies,
            nodes: parts.nodes,
            caches: parts.caches,
            cores: cores.collect(),
            siblings_known,
            kinds: parts.kinds,
            mask: parts.mask,
            memory_bytes: parts.memory_bytes,
            constraints: parts.constraints,
            notes: shown_notes(&parts.notes),
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

    /// Puts all lists in logical order.
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

/// Returns the notes, shortened to one line each. Control characters are replaced, because the
/// names of files and groups may contain any character.
fn shown_notes(notes: &[String]) -> Vec<String> {
    notes
        .iter()
        .map(|note| shown(note, NOTE_CHARS_MAX))
        .collect()
}

/// Returns the online PUs that the mask allows, or those that the cpusets allow if the mask is
/// unknown. The result is never empty, unless the machine has no PU.
///
/// The kernel keeps the mask inside of every cpuset. If a cpuset contradicts it, or leaves no PU,
/// we ignore this cpuset and add a note.
fn allowed(parts: &mut Parts) -> CpuSet {
    let cpusets = || {
        let outermost_first = parts.constraints.iter().rev();
        outermost_first.filter_map(|constraint| Some((&constraint.path, constraint.cpuset()?)))
    };
    let mut notes = Vec::new();
    let allowed = match &parts.mask {
        Some(mask) => {
            let allowed = &parts.online & mask;
            for (path, cpus) in cpusets().filter(|(_, cpus)| !allowed.is_subset(cpus)) {
                notes.push(format!(
                    "{path} allows only the CPUs {cpus}, but the affinity mask has the CPUs \
                     {allowed}: we use the mask"
                ));
            }
            allowed
        }
        None => cpusets().fold(parts.online.clone(), |left, (path, cpus)| {
            let narrowed = &left & cpus;
            if narrowed.is_empty() {
                notes.push(format!(
                    "{path} allows only the CPUs {cpus}, of which none is in {left}: creel ignores \
                     this file"
                ));
                return left;
            }
            narrowed
        }),
    };
    parts.notes.append(&mut notes);
    allowed
}

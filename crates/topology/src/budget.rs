//! The number of workers: the usable cores, reduced by CPU quotas and other limits.
//!
//! Invariant: the number is at least 1, even if a quota is less than one CPU. Otherwise it is never
//! above what a limit allows. The only exception is [`Budget::explicit`], because a number that the
//! user gave always wins.

use std::fmt;

use crate::machine::Machine;
use crate::types::{Constraint, CpuSet, Rule};

/// The rounding of a quota that is not a whole number of CPUs to a number of workers.
///
/// ```
/// use creel_topology::{Budget, Machine, Rounding};
///
/// let machine = Machine::synthetic("core:4")?;
/// assert_eq!(Budget::rounded(&machine, Rounding::Ceil).workers(), 4);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Rounding {
    /// Rounds down, so that the quota throttles no worker. 2.5 CPUs give 2 workers. Less than one
    /// CPU gives 1 worker.
    #[default]
    Floor,
    /// Rounds up, so that the whole quota can be used. 2.5 CPUs give 3 workers.
    Ceil,
}

/// The kind of a limit.
///
/// ```
/// use creel_topology::{Budget, LimitKind, Machine};
///
/// let budget = Budget::of(&Machine::synthetic("core:4")?);
/// assert_eq!(budget.bound_by().kind, LimitKind::Cores);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// The number of cores of the machine.
    Cores,
    /// The cpuset of a control group.
    Cpuset,
    /// The affinity mask of the thread.
    Affinity,
    /// The CPU quota of a control group, or on Windows the CPU rate of a job object.
    Quota,
    /// The maximum number of threads and processes of a control group or a user.
    Tasks,
    /// The memory, if the program has said how much memory each worker needs.
    Memory,
    /// A number that the user gave to the program, for example with a flag.
    Explicit,
}

impl LimitKind {
    /// Returns the name that programs print: `cores`, `cpuset`, `affinity`, `quota`, `tasks`,
    /// `memory` or `explicit`.
    ///
    /// ```
    /// use creel_topology::LimitKind;
    ///
    /// assert_eq!(LimitKind::Quota.name(), "quota");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            LimitKind::Cores => "cores",
            LimitKind::Cpuset => "cpuset",
            LimitKind::Affinity => "affinity",
            LimitKind::Quota => "quota",
            LimitKind::Tasks => "tasks",
            LimitKind::Memory => "memory",
            LimitKind::Explicit => "explicit",
        }
    }
}

/// One limit on the number of workers.
///
/// It displays as a readable text, for example `cpu.max of the parent cgroup (300000/100000)`.
///
/// ```
/// use creel_topology::{Budget, Machine};
///
/// let budget = Budget::of(&Machine::synthetic("core:4")?);
/// let limit = budget.bound_by();
/// assert_eq!((limit.workers, limit.value.as_str()), (4, "4"));
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// The kind of the limit.
    pub kind: LimitKind,
    /// The file that sets the limit. It is empty if no file does. For the CPU rate of a Windows job
    /// object, it is a description.
    pub path: String,
    /// The value of the limit. Its format depends on [`kind`](Self::kind):
    ///
    /// | kind | value |
    /// |---|---|
    /// | `Cores` | the number of cores |
    /// | `Cpuset`, `Affinity` | a CPU list, for example `0-3,8` |
    /// | `Quota` | `QUOTA/PERIOD` in microseconds |
    /// | `Tasks` | `CURRENT/MAXIMUM` |
    /// | `Memory` | `BYTES/BYTES PER WORKER`, and only `BYTES` from [`Machine::memory_limit`] |
    /// | `Explicit` | the number of workers |
    pub value: String,
    /// The number of workers that the limit allows.
    ///
    /// A quota allows at least 1. For a cpuset or the mask, it is the number of cores that remain
    /// after this set and all sets before it.
    pub workers: usize,
    /// The distance to the process's own control group: 0 for that group, 1 for its parent, and so
    /// on.
    pub generation: usize,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match self.kind {
            LimitKind::Cores => write!(f, "the machine's cores ({})", self.value),
            LimitKind::Affinity => write!(f, "the affinity mask ({})", self.value),
            LimitKind::Explicit => write!(f, "the given number ({})", self.value),
            LimitKind::Tasks if group == "/proc/self" => {
                write!(f, "the user's limit on processes ({})", self.value)
            }
            LimitKind::Memory if self.path.is_empty() => {
                write!(f, "the machine's memory ({})", self.value)
            }
            LimitKind::Cpuset | LimitKind::Quota | LimitKind::Tasks | LimitKind::Memory => {
                match self.generation {
                    0 => write!(f, "{file} of this cgroup ({})", self.value),
                    1 => write!(f, "{file} of the parent cgroup ({})", self.value),
                    _ => write!(f, "{file} of the ancestor cgroup {group} ({})", self.value),
                }
            }
        }
    }
}

/// The number of workers to start, and the limits that lead to it.
///
/// ```
/// use creel_topology::{Budget, Machine};
///
/// let machine = Machine::synthetic("core:8 pu:2")?;
/// let budget = Budget::of(&machine);
/// assert_eq!(budget.workers(), 8); // hyper-threads are counted once
/// assert_eq!(budget.bound_by().to_string(), "the machine's cores (8)");
/// assert_eq!(budget.explicit(20).workers(), 20);
/// # Ok::<(), creel_topology::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    limits: Vec<Limit>,
    bound: usize,
}

impl Budget {
    /// Returns the budget of a machine. It is the number of cores that the cpusets and the affinity
    /// mask allow. A lower CPU quota, or a lower limit on the number of tasks, reduces it further.
    /// Quotas are rounded down.
    ///
    /// ```
    /// use creel_topology::{Budget, Machine};
    ///
    /// let machine = Machine::synthetic("package:2 core:8 pu:2")?;
    /// assert_eq!(Budget::of(&machine).workers(), 16);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn of(machine: &Machine) -> Budget {
        Budget::rounded(machine, Rounding::Floor)
    }

    /// Returns the budget like [`Budget::of`], but rounds quotas as `rounding` says.
    ///
    /// ```
    /// use creel_topology::{Budget, Machine, Rounding};
    ///
    /// let machine = Machine::detect()?;
    /// let rounded = |rounding| Budget::rounded(&machine, rounding).workers();
    /// assert!(rounded(Rounding::Floor) <= rounded(Rounding::Ceil));
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn rounded(machine: &Machine, rounding: Rounding) -> Budget {
        let cores = machine.cores_in(machine.online());
        let mut limits = vec![limit(LimitKind::Cores, cores, cores.to_string())];
        limits.extend(set_limits(machine));
        limits.extend(
            machine
                .constraints()
                .iter()
                .filter_map(|constraint| quota_limit(constraint, rounding)),
        );
        limits.extend(
            machine
                .constraints()
                .iter()
                .filter_map(tasks_limit)
                .filter(|limit| limit.workers < cores),
        );
        // If several limits are equal, the first one is reported. The order is: the machine, the
        // cpusets, the mask, the quotas from the nearest group outwards, the numbers of tasks.
        let bound = least(&limits);
        Budget { limits, bound }
    }

    /// Adds a limit for workers that need `bytes` of memory each.
    ///
    /// The limit is the number of such workers that fit into [`Machine::memory_limit`]. It is at
    /// least one. Without a known amount of memory, the budget does not change.
    ///
    /// ```
    /// use creel_topology::{Budget, Machine};
    ///
    /// let machine = Machine::synthetic("core:8")?;
    /// let budget = Budget::of(&machine).with_memory(&machine, 1 << 30);
    /// assert_eq!(budget.workers(), 8, "a synthetic machine has no known memory");
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn with_memory(mut self, machine: &Machine, bytes: u64) -> Budget {
        let Some(mut memory) = machine.memory_limit() else {
            return self;
        };
        let total: u64 = memory.value.parse().unwrap_or(u64::MAX);
        memory.value = format!("{total}/{bytes}");
        memory.workers = usize::try_from(total / bytes.max(1))
            .unwrap_or(usize::MAX)
            .max(1);
        self.limits.push(memory);
        if self.limits[self.bound].kind != LimitKind::Explicit {
            self.bound = least(&self.limits);
        }
        self
    }

    /// Overrides all limits with a number that the program was given. The number is at least 1.
    ///
    /// ```
    /// use creel_topology::{Budget, Machine};
    ///
    /// let budget = Budget::of(&Machine::synthetic("core:4")?);
    /// assert_eq!(budget.explicit(6).workers(), 6);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn explicit(mut self, workers: usize) -> Budget {
        let workers = workers.max(1);
        self.bound = self.limits.len();
        self.limits
            .push(limit(LimitKind::Explicit, workers, workers.to_string()));
        self
    }

    /// Returns the number of workers to start, which is at least 1.
    ///
    /// ```
    /// use creel_topology::{Budget, Machine};
    ///
    /// let workers = Budget::of(&Machine::detect()?).workers();
    /// assert!(workers >= 1);
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn workers(&self) -> usize {
        self.bound_by().workers.max(1)
    }

    /// Returns the limit that decided the number of workers.
    ///
    /// ```
    /// use creel_topology::{Budget, Machine};
    ///
    /// let budget = Budget::of(&Machine::detect()?);
    /// println!("{} workers, bound by {}", budget.workers(), budget.bound_by());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn bound_by(&self) -> &Limit {
        &self.limits[self.bound]
    }

    /// Returns all limits. The list is never empty.
    ///
    /// The limits are in this order:
    ///
    /// 1. the machine's cores
    /// 2. the cpusets that narrow them, from the outermost group inwards
    /// 3. the affinity mask, if it narrows them further
    /// 4. the quotas
    /// 5. the numbers of tasks that are below the number of cores
    /// 6. the memory
    /// 7. the explicit number
    ///
    /// ```
    /// use creel_topology::{Budget, Machine};
    ///
    /// let budget = Budget::of(&Machine::synthetic("core:4")?).explicit(2);
    /// assert_eq!(budget.limits().len(), 2); // the cores, and the number given
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }
}

/// Returns the index of the first limit with the smallest number of workers.
fn least(limits: &[Limit]) -> usize {
    let places = 0..limits.len();
    places.min_by_key(|&i| limits[i].workers).unwrap_or(0)
}

/// Creates a limit that no file sets.
fn limit(kind: LimitKind, workers: usize, value: String) -> Limit {
    Limit {
        kind,
        path: String::new(),
        value,
        workers,
        generation: 0,
    }
}

/// Returns the cpusets that narrow the machine, from the outermost group inwards, and then the
/// mask.
fn set_limits(machine: &Machine) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut left = machine.online().clone();
    let outermost_first = machine.constraints().iter().rev();
    for (constraint, cpus) in
        outermost_first.filter_map(|constraint| Some((constraint, constraint.cpuset()?)))
    {
        let narrowed = &left & cpus;
        if narrowed != left && machine.allowed().is_subset(&narrowed) {
            left = narrowed;
            limits.push(Limit {
                path: constraint.path.clone(),
                generation: constraint.generation,
                ..limit(LimitKind::Cpuset, machine.cores_in(&left), cpus.to_string())
            });
        }
    }
    if *machine.allowed() != left {
        let mask = machine.mask().map_or_else(String::new, CpuSet::to_string);
        limits.push(limit(
            LimitKind::Affinity,
            machine.cores_in(machine.allowed()),
            mask,
        ));
    }
    limits
}

/// Returns the limit on workers that a CPU quota sets, or `None` for other constraints.
fn quota_limit(constraint: &Constraint, rounding: Rounding) -> Option<Limit> {
    let Rule::Quota {
        quota_us,
        period_us,
    } = constraint.rule
    else {
        return None;
    };
    let cpus = match rounding {
        Rounding::Floor => quota_us / period_us,
        Rounding::Ceil => quota_us.div_ceil(period_us),
    };
    let workers = usize::try_from(cpus).unwrap_or(usize::MAX).max(1);
    Some(Limit {
        path: constraint.path.clone(),
        generation: constraint.generation,
        ..limit(LimitKind::Quota, workers, format!("{quota_us}/{period_us}"))
    })
}

/// Returns the limit on workers that a maximum number of tasks sets, or `None` for other
/// constraints.
fn tasks_limit(constraint: &Constraint) -> Option<Limit> {
    let Rule::Tasks { most, now } = constraint.rule else {
        return None;
    };
    let left = usize::try_from(most.saturating_sub(now)).unwrap_or(usize::MAX);
    Some(Limit {
        path: constraint.path.clone(),
        generation: constraint.generation,
        ..limit(LimitKind::Tasks, left.max(1), format!("{now}/{most}"))
    })
}

impl Machine {
    /// Returns the smallest memory limit of the process's control groups, or the memory of the
    /// machine if that is less. Its value is in bytes.
    ///
    /// The memory of the machine is the sum of its NUMA nodes, or on Linux `MemTotal` if that is
    /// more. The host of a virtual machine may take memory from a node for a while (a balloon).
    ///
    /// Returns `None` if neither is known.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// // A synthetic machine has no known memory.
    /// assert!(Machine::synthetic("core:4")?.memory_limit().is_none());
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn memory_limit(&self) -> Option<Limit> {
        let of_groups = self.constraints().iter().filter_map(|constraint| {
            let Rule::Memory(bytes) = constraint.rule else {
                return None;
            };
            let found = Limit {
                path: constraint.path.clone(),
                generation: constraint.generation,
                ..limit(LimitKind::Memory, 1, bytes.to_string())
            };
            Some((bytes, found))
        });
        let nodes = self.numa_nodes().iter().map(|node| node.memory_bytes);
        let total = nodes.sum::<Option<u64>>().max(self.memory_bytes);
        let total = total.filter(|&bytes| bytes > 0);
        let whole = total.map(|bytes| (bytes, limit(LimitKind::Memory, 1, bytes.to_string())));
        let least = of_groups.chain(whole).min_by_key(|(bytes, _)| *bytes);
        least.map(|(_, limit)| limit)
    }

    /// Returns a warning if the budget may be far too large.
    ///
    /// This is the case if the control groups give the process a share of the CPUs by weight and
    /// set no quota. All CPUs then look usable, but other processes use them too.
    ///
    /// ```
    /// use creel_topology::Machine;
    ///
    /// if let Some(why) = Machine::detect()?.weight_only() {
    ///     eprintln!("the number of workers may be too large: {why}");
    /// }
    /// # Ok::<(), creel_topology::Error>(())
    /// ```
    pub fn weight_only(&self) -> Option<String> {
        let rules = || self.constraints().iter();
        if rules().any(|constraint| matches!(constraint.rule, Rule::Quota { .. })) {
            return None;
        }
        rules().find_map(|constraint| match constraint.rule {
            Rule::Weight { value, usual } => Some(format!(
                "{} is {value} (usually {usual}) and no quota is set: when other processes \
                 are busy, this process gets only a part of the CPUs, and a pool as large as the \
                 machine thrashes",
                constraint.path
            )),
            _ => None,
        })
    }
}

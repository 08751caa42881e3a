//! How many workers: the usable cores, cut by CPU quotas, and which limit bound the number.
//!
//! Invariant: never below 1, though a quota may be less than one CPU; else never above what any
//! limit allows, except by [`Budget::explicit`]: a number that the program was given always wins.

use std::fmt;

use crate::machine::Machine;
use crate::types::{Constraint, CpuSet, Rule};

/// How a quota that is no whole number of CPUs becomes a number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rounding {
    /// 2.5 CPUs are 2 workers: the quota throttles none of them. Less than one CPU is 1 worker.
    #[default]
    Floor,
    /// 2.5 CPUs are 3 workers: all of the quota can be used.
    Ceil,
}

/// What sort of limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKind {
    /// The machine's own cores.
    Cores,
    /// A control group's cpuset.
    Cpuset,
    /// The thread's affinity mask.
    Affinity,
    /// A control group's CPU time.
    Quota,
    /// A number that the program was given.
    Explicit,
}

impl LimitKind {
    /// The name that programs print: `cores`, `cpuset`, `affinity`, `quota` or `explicit`.
    pub fn name(self) -> &'static str {
        match self {
            LimitKind::Cores => "cores",
            LimitKind::Cpuset => "cpuset",
            LimitKind::Affinity => "affinity",
            LimitKind::Quota => "quota",
            LimitKind::Explicit => "explicit",
        }
    }
}

/// One limit on the number of workers. It displays as people say it:
/// `cpu.max of the parent cgroup (300000/100000)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// What sort of limit.
    pub kind: LimitKind,
    /// The file that sets it; empty when none does.
    pub path: String,
    /// What is written there: a CPU list, `QUOTA/PERIOD` in microseconds, or a number of cores.
    pub value: String,
    /// How many workers it leaves, at least 1 for a quota; for a cpuset or the mask, together with
    /// the sets before it.
    pub workers: usize,
    /// 0 for the process's own control group, 1 for its parent, and so on.
    pub generation: usize,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, file) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match self.kind {
            LimitKind::Cores => write!(f, "the machine's cores ({})", self.value),
            LimitKind::Affinity => write!(f, "the affinity mask ({})", self.value),
            LimitKind::Explicit => write!(f, "the given number ({})", self.value),
            LimitKind::Cpuset | LimitKind::Quota => match self.generation {
                0 => write!(f, "{file} of this cgroup ({})", self.value),
                1 => write!(f, "{file} of the parent cgroup ({})", self.value),
                _ => write!(f, "{file} of the ancestor cgroup {group} ({})", self.value),
            },
        }
    }
}

/// How many workers to start, and why.
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
    /// The usable cores of a machine: mask ∩ cpuset ∩ quota, quotas rounded down.
    pub fn of(machine: &Machine) -> Budget {
        Budget::rounded(machine, Rounding::Floor)
    }

    /// As [`Budget::of`], with quotas rounded as said.
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
        // Of equal limits the first is named: the machine before the cpusets before the mask before
        // the quotas, and of these the nearest.
        let bound = (0..limits.len())
            .min_by_key(|&i| limits[i].workers)
            .unwrap_or(0);
        Budget { limits, bound }
    }

    /// The same limits, overruled by a number that the program was given; at least 1.
    pub fn explicit(mut self, workers: usize) -> Budget {
        let workers = workers.max(1);
        self.bound = self.limits.len();
        self.limits
            .push(limit(LimitKind::Explicit, workers, workers.to_string()));
        self
    }

    /// How many workers to start; at least 1.
    pub fn workers(&self) -> usize {
        self.bound_by().workers.max(1)
    }

    /// The limit that bound the number.
    pub fn bound_by(&self) -> &Limit {
        &self.limits[self.bound]
    }

    /// The machine's cores; the cpusets that narrow them, from the outermost group inwards; the
    /// mask where it narrows them further; every quota; the given number. Never empty.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }
}

fn limit(kind: LimitKind, workers: usize, value: String) -> Limit {
    Limit {
        kind,
        path: String::new(),
        value,
        workers,
        generation: 0,
    }
}

/// The cpusets that narrow the machine, from the outermost group inwards, and then the mask.
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

//! Computes layouts. This is a pure function of the machine, the allowed PUs, the number of
//! workers, the policy, and the current load.
//!
//! Invariants:
//!
//! - The PUs of every worker are a non-empty subset of the allowed PUs.
//! - A core that a policy uses gets a second worker only if all cores that the policy uses have
//!   one.
//! - Workers go to the cores with the lowest load first.
//!
//! The last two invariants do not apply to `Unpinned`, which restricts a worker to no core, and to
//! a list, which is used exactly as given.

use std::collections::BTreeMap;

use super::layout::Layout;
use super::policy::Placement;
use crate::machine::Machine;
use crate::types::{CacheKind, CpuSet, Error};

/// Places `workers` workers on the PUs in `allowed`, as `placement` decides.
///
/// # Errors
///
/// Returns [`Error::NotAllowed`] if no allowed PU is online, or if a list is empty, has an empty
/// set or names a PU that is not allowed.
///
/// ```
/// use creel_topology::{place, Machine, Placement};
///
/// let machine = Machine::synthetic("package:2 core:2 pu:2")?;
/// let layout = place(&machine, machine.allowed(), 6, &Placement::Cores)?;
/// let assigned: Vec<String> = layout.assigned().iter().map(|pus| pus.to_string()).collect();
/// assert_eq!(assigned, ["0-1", "2-3", "4-5", "6-7", "0-1", "2-3"]);
/// assert!(layout.wrapped());
/// # Ok::<(), creel_topology::Error>(())
/// ```
pub fn place(
    machine: &Machine,
    allowed: &CpuSet,
    workers: usize,
    placement: &Placement,
) -> Result<Layout, Error> {
    Placer::new(machine, allowed, |_| 0)?.layout(workers, placement)
}

/// A core with at least one allowed PU.
#[derive(Clone)]
struct AvailableCore {
    /// The allowed PUs of the core, sorted by load. The PU with the lowest load comes first.
    pus: Vec<usize>,
    /// The rank of the core's kind. A higher rank is faster.
    kind: Option<usize>,
    load: u64,
}

impl AvailableCore {
    fn pu_set(&self) -> CpuSet {
        self.pus.iter().copied().collect()
    }
}

/// Places workers on the allowed cores, which are in logical order.
pub(crate) struct Placer<'a> {
    machine: &'a Machine,
    allowed: CpuSet,
    cores: Vec<AvailableCore>,
}

impl<'a> Placer<'a> {
    /// Creates a placer. `load` returns the current load of a PU.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotAllowed`] if no allowed PU is online.
    pub(crate) fn new(
        machine: &'a Machine,
        allowed: &CpuSet,
        load: impl Fn(usize) -> u64,
    ) -> Result<Placer<'a>, Error> {
        let usable = allowed & machine.online();
        if usable.is_empty() {
            return Err(Error::NotAllowed {
                reason: format!("none of the PUs {{{allowed}}} is online"),
            });
        }
        let mut cores = Vec::new();
        for core in machine.cores() {
            let mut pus: Vec<usize> = (&core.pus & &usable).iter().collect();
            pus.sort_by_key(|&pu| load(pu));
            if !pus.is_empty() {
                let load = pus.iter().map(|&pu| load(pu)).sum();
                cores.push(AvailableCore {
                    pus,
                    kind: core.kind,
                    load,
                });
            }
        }
        Ok(Placer {
            machine,
            allowed: usable,
            cores,
        })
    }

    /// Returns the PUs of each worker.
    pub(crate) fn layout(&self, workers: usize, placement: &Placement) -> Result<Layout, Error> {
        let (assigned, places) = match placement {
            Placement::Unpinned => (vec![self.allowed.clone(); workers], usize::MAX),
            Placement::Cores => round_robin(
                fastest_first(self.least_loaded(&self.cores, workers)),
                workers,
            ),
            Placement::Pus => round_robin(self.pus_by_rank(workers), workers),
            Placement::Close => blocks(self.nearest(workers), workers),
            Placement::Spread => self.spread(workers),
            Placement::PerCache => self.per_domain(workers, |pu| self.last_level_cache(pu)),
            Placement::PerNode => self.per_domain(workers, |pu| self.node(pu)),
            Placement::FastCores => round_robin(
                pu_sets(self.least_loaded(&self.fastest(), workers)),
                workers,
            ),
            Placement::List(sets) => round_robin(self.checked(sets)?, workers),
        };
        let pinned = *placement != Placement::Unpinned;
        Ok(Layout {
            assigned,
            wrapped: workers > places,
            pinned,
        })
    }

    /// Returns the cores with the lowest load, in logical order. There is at least one core per
    /// worker, if the machine has enough of them.
    fn least_loaded(&self, cores: &[AvailableCore], workers: usize) -> Vec<AvailableCore> {
        let mut loads: Vec<u64> = cores.iter().map(|core| core.load).collect();
        loads.sort_unstable();
        let Some(&bound) = loads.get(workers.saturating_sub(1)) else {
            return cores.to_vec();
        };
        // We take all cores with less load than `bound`, and of the cores whose load equals it only
        // as many as we still need.
        let mut at_bound = workers
            - loads
                .iter()
                .filter(|&&load| load < bound)
                .count()
                .min(workers);
        if loads[0] == bound {
            at_bound = cores.len();
        }
        let mut kept = Vec::new();
        for core in cores.iter().filter(|core| core.load <= bound) {
            if core.load == bound {
                if at_bound == 0 {
                    continue;
                }
                at_bound -= 1;
            }
            kept.push(core.clone());
        }
        kept
    }

    /// Returns the first PU of every core, then the second PU of every core, and so on. In each of
    /// these rounds, cores of the fastest kind come first.
    fn pus_by_rank(&self, workers: usize) -> Vec<CpuSet> {
        let mut cores = self.least_loaded(&self.cores, workers);
        cores.sort_by_key(|core| std::cmp::Reverse(core.kind));
        let widest = cores.iter().map(|core| core.pus.len()).max().unwrap_or(0);
        let ranks =
            (0..widest).flat_map(|rank| cores.iter().filter_map(move |core| core.pus.get(rank)));
        ranks.map(|&pu| CpuSet::from_iter([pu])).collect()
    }

    /// Returns one core per worker, all of them from the smallest object of the machine that has
    /// enough cores. If no object has enough, it returns the cores with the lowest load.
    fn nearest(&self, workers: usize) -> Vec<CpuSet> {
        let cores = self.least_loaded(&self.cores, workers);
        let inside = |object: &CpuSet| {
            cores
                .iter()
                .filter(|core| object.contains(core.pus[0]))
                .count()
        };
        let objects = self.machine.levels();
        let fitting = objects
            .iter()
            .flatten()
            .filter(|object| inside(object) >= workers);
        let smallest = fitting.min_by_key(|object| object.len());
        let near = cores
            .iter()
            .filter(|core| smallest.is_none_or(|object| object.contains(core.pus[0])));
        near.take(workers.max(1))
            .map(AvailableCore::pu_set)
            .collect()
    }

    /// Spreads workers over the machine. Workers on neighbouring cores have neighbouring indices.
    fn spread(&self, workers: usize) -> (Vec<CpuSet>, usize) {
        let cores = self.least_loaded(&self.cores, workers);
        let (everywhere, rest) = (workers / cores.len(), workers % cores.len());
        let mut counts = vec![everywhere; cores.len()];
        let all: Vec<usize> = (0..cores.len()).collect();
        for chosen in spread_over(&cores, &all, rest, &self.machine.levels()) {
            counts[chosen] += 1;
        }
        let assigned = cores
            .iter()
            .zip(&counts)
            .flat_map(|(core, &count)| vec![core.pu_set(); count])
            .collect();
        (assigned, cores.len())
    }

    /// Assigns workers to domains in turn. A domain gets more workers than it has cores only if all
    /// domains are full.
    fn per_domain<K: Ord>(
        &self,
        workers: usize,
        domain_of: impl Fn(usize) -> Option<K>,
    ) -> (Vec<CpuSet>, usize) {
        let mut order: Vec<Option<K>> = Vec::new();
        let mut domains: Vec<Domain> = Vec::new();
        for core in &self.cores {
            let key = domain_of(core.pus[0]);
            let i = order
                .iter()
                .position(|known| *known == key)
                .unwrap_or_else(|| {
                    order.push(key);
                    domains.push(Domain::default());
                    domains.len() - 1
                });
            domains[i].add(core);
        }
        domains.sort_by_key(Domain::load_per_core);
        let assigned = (0..workers).filter_map(|_| {
            let next = domains.iter_mut().min_by_key(|domain| {
                (domain.workers / domain.cores, domain.workers % domain.cores)
            })?;
            next.workers += 1;
            Some(next.pus.clone())
        });
        (assigned.collect(), self.cores.len())
    }

    fn fastest(&self) -> Vec<AvailableCore> {
        let fastest = self.cores.iter().map(|core| core.kind).max().flatten();
        self.cores
            .iter()
            .filter(|core| core.kind == fastest)
            .cloned()
            .collect()
    }

    /// Checks that all sets of a list are allowed.
    fn checked(&self, sets: &[CpuSet]) -> Result<Vec<CpuSet>, Error> {
        for set in sets {
            if set.is_empty() || !set.is_subset(&self.allowed) {
                let reason = format!(
                    "cannot place a worker on the PUs {{{set}}}, because this process may use only \
                     the PUs {{{}}}",
                    self.allowed
                );
                return Err(Error::NotAllowed { reason });
            }
        }
        match sets.is_empty() {
            true => Err(Error::NotAllowed {
                reason: "the list of PUs is empty".into(),
            }),
            false => Ok(sets.to_vec()),
        }
    }

    /// Returns the level and the first PU of the outermost cache that holds the data of a PU. If no
    /// cache is known, returns level 0 and the first PU of its package.
    fn last_level_cache(&self, pu: usize) -> Option<(u8, Option<usize>)> {
        let caches = self.machine.caches().iter().rev();
        let cache = caches
            .filter(|cache| cache.kind != CacheKind::Instruction)
            .find(|cache| cache.pus.contains(pu));
        let package = || {
            self.machine
                .packages()
                .iter()
                .find(|package| package.pus.contains(pu))
        };
        cache
            .map(|cache| (cache.level, cache.pus.first()))
            .or_else(|| Some((0, package()?.pus.first())))
    }

    fn node(&self, pu: usize) -> Option<usize> {
        let mut nodes = self.machine.numa_nodes().iter().filter(|node| node.has_pus);
        Some(nodes.find(|node| node.pus.contains(pu))?.os_index)
    }
}

/// A domain, which is a set of cores among which a worker may move, for example the cores of one
/// cache.
#[derive(Default)]
struct Domain {
    pus: CpuSet,
    cores: usize,
    load: u64,
    workers: usize,
}

impl Domain {
    fn add(&mut self, core: &AvailableCore) {
        self.pus.extend(core.pus.iter().copied());
        self.cores += 1;
        self.load += core.load;
    }

    fn load_per_core(&self) -> u64 {
        self.load / self.cores as u64
    }
}

fn pu_sets(cores: Vec<AvailableCore>) -> Vec<CpuSet> {
    cores.iter().map(AvailableCore::pu_set).collect()
}

fn fastest_first(mut cores: Vec<AvailableCore>) -> Vec<CpuSet> {
    cores.sort_by_key(|core| std::cmp::Reverse(core.kind));
    pu_sets(cores)
}

/// Assigns worker `i` to place `i`. After the last place, it starts again with the first one.
fn round_robin(places: Vec<CpuSet>, workers: usize) -> (Vec<CpuSet>, usize) {
    (
        places.iter().cycle().take(workers).cloned().collect(),
        places.len(),
    )
}

/// Assigns workers with neighbouring indices to neighbouring places. If there are fewer places than
/// workers, such workers share a place.
fn blocks(places: Vec<CpuSet>, workers: usize) -> (Vec<CpuSet>, usize) {
    let assigned = (0..workers).map(|i| {
        places[if workers <= places.len() {
            i
        } else {
            i * places.len() / workers
        }]
        .clone()
    });
    (assigned.collect(), places.len())
}

/// Chooses `count` of the cores. They are spread evenly over the objects of each level, from the
/// outermost level inwards.
fn spread_over(
    cores: &[AvailableCore],
    among: &[usize],
    count: usize,
    levels: &[Vec<&CpuSet>],
) -> Vec<usize> {
    let Some((objects, inner)) = levels.split_first() else {
        return (0..count).map(|i| among[i * among.len() / count]).collect();
    };
    let object_of = |core: usize| {
        objects
            .iter()
            .position(|object| object.contains(cores[core].pus[0]))
    };
    let mut groups: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for &core in among {
        groups.entry(object_of(core)).or_default().push(core);
    }
    let groups: Vec<Vec<usize>> = groups.into_values().collect();
    let mut counts = vec![0; groups.len()];
    for _ in 0..count {
        let open = (0..groups.len()).filter(|&group| counts[group] < groups[group].len());
        if let Some(group) = open.min_by_key(|&group| counts[group]) {
            counts[group] += 1;
        }
    }
    let mut chosen: Vec<usize> = groups
        .iter()
        .zip(counts)
        .flat_map(|(group, count)| spread_over(cores, group, count, inner))
        .collect();
    chosen.sort_unstable();
    chosen
}

//! Seats for workers: a pure function of machine, allowed PUs, number and policy.
//!
//! Invariants: every seat is a non-empty subset of the allowed PUs; a core that a policy uses has
//! a worker before another has two, and the least seated cores come first. Only a list is taken as
//! it is written.

use std::collections::BTreeMap;

use super::layout::Layout;
use super::placement::Placement;
use crate::machine::Machine;
use crate::types::{CacheKind, CpuSet, Error};

/// Seats `workers` workers on `allowed`, by `placement`.
///
/// # Errors
///
/// [`Error::NotAllowed`] when no allowed PU is online, or a list names a PU that is not allowed.
///
/// ```
/// use creel_topology::{place, Machine, Placement};
///
/// let machine = Machine::synthetic("package:2 core:2 pu:2")?;
/// let layout = place(&machine, machine.allowed(), 6, &Placement::Cores)?;
/// let seats: Vec<String> = layout.seats().iter().map(|seat| seat.to_string()).collect();
/// assert_eq!(seats, ["0-1", "2-3", "4-5", "6-7", "0-1", "2-3"]);
/// assert!(layout.wrapped());
/// # Ok::<(), creel_topology::Error>(())
/// ```
pub fn place(
    machine: &Machine,
    allowed: &CpuSet,
    workers: usize,
    placement: &Placement,
) -> Result<Layout, Error> {
    Floor::new(machine, allowed, |_| 0)?.layout(workers, placement)
}

/// An allowed core.
#[derive(Clone)]
struct Site {
    /// Its allowed PUs, the least seated first.
    pus: Vec<usize>,
    /// Its kind's rank; higher is faster.
    kind: Option<usize>,
    load: u64,
}

impl Site {
    fn seat(&self) -> CpuSet {
        self.pus.iter().copied().collect()
    }
}

/// The allowed cores in logical order.
pub(crate) struct Floor<'a> {
    machine: &'a Machine,
    allowed: CpuSet,
    sites: Vec<Site>,
}

impl<'a> Floor<'a> {
    /// # Errors
    ///
    /// [`Error::NotAllowed`] when no allowed PU is online.
    pub(crate) fn new(
        machine: &'a Machine,
        allowed: &CpuSet,
        load: impl Fn(usize) -> u64,
    ) -> Result<Floor<'a>, Error> {
        let usable = allowed & machine.online();
        if usable.is_empty() {
            return Err(Error::NotAllowed {
                reason: format!("none of the PUs {{{allowed}}} is online"),
            });
        }
        let mut sites = Vec::new();
        for core in machine.cores() {
            let mut pus: Vec<usize> = (&core.pus & &usable).iter().collect();
            pus.sort_by_key(|&pu| load(pu));
            if !pus.is_empty() {
                let load = pus.iter().map(|&pu| load(pu)).sum();
                sites.push(Site {
                    pus,
                    kind: core.kind,
                    load,
                });
            }
        }
        Ok(Floor {
            machine,
            allowed: usable,
            sites,
        })
    }

    pub(crate) fn layout(&self, workers: usize, placement: &Placement) -> Result<Layout, Error> {
        let (seats, places) = match placement {
            Placement::Unpinned => (vec![self.allowed.clone(); workers], usize::MAX),
            Placement::Cores => in_turn(fastest_first(self.quiet(&self.sites, workers)), workers),
            Placement::Pus => in_turn(self.pus_by_rank(workers), workers),
            Placement::Close => in_blocks(self.nearest(workers), workers),
            Placement::Spread => self.spread(workers),
            Placement::PerCache => self.per_domain(workers, |pu| self.last_level_cache(pu)),
            Placement::PerNode => self.per_domain(workers, |pu| self.node(pu)),
            Placement::FastCores => in_turn(seats(self.quiet(&self.fastest(), workers)), workers),
            Placement::List(sets) => in_turn(self.checked(sets)?, workers),
        };
        let pinned = *placement != Placement::Unpinned;
        Ok(Layout {
            seats,
            wrapped: workers > places,
            pinned,
        })
    }

    /// The least seated of the sites, at least as many as workers, in logical order.
    fn quiet(&self, sites: &[Site], workers: usize) -> Vec<Site> {
        let mut loads: Vec<u64> = sites.iter().map(|site| site.load).collect();
        loads.sort_unstable();
        let Some(&bound) = loads.get(workers.saturating_sub(1)) else {
            return sites.to_vec();
        };
        // Of the sites at the bound, only as many as are still wanted.
        let mut at_bound = workers
            - loads
                .iter()
                .filter(|&&load| load < bound)
                .count()
                .min(workers);
        if loads[0] == bound {
            at_bound = sites.len();
        }
        let mut kept = Vec::new();
        for site in sites.iter().filter(|site| site.load <= bound) {
            if site.load == bound {
                if at_bound == 0 {
                    continue;
                }
                at_bound -= 1;
            }
            kept.push(site.clone());
        }
        kept
    }

    /// The first PU of every core, then the second ones, and so on; the fastest kind first.
    fn pus_by_rank(&self, workers: usize) -> Vec<CpuSet> {
        let mut sites = self.quiet(&self.sites, workers);
        sites.sort_by_key(|site| std::cmp::Reverse(site.kind));
        let widest = sites.iter().map(|site| site.pus.len()).max().unwrap_or(0);
        let ranks =
            (0..widest).flat_map(|rank| sites.iter().filter_map(move |site| site.pus.get(rank)));
        ranks.map(|&pu| CpuSet::from_iter([pu])).collect()
    }

    /// The cores of the smallest object of the machine that has enough of them.
    fn nearest(&self, workers: usize) -> Vec<CpuSet> {
        let sites = self.quiet(&self.sites, workers);
        let inside = |object: &CpuSet| {
            sites
                .iter()
                .filter(|site| object.contains(site.pus[0]))
                .count()
        };
        let objects = self.machine.levels();
        let fitting = objects
            .iter()
            .flatten()
            .filter(|object| inside(object) >= workers);
        let smallest = fitting.min_by_key(|object| object.len());
        let near = sites
            .iter()
            .filter(|site| smallest.is_none_or(|object| object.contains(site.pus[0])));
        near.take(workers.max(1)).map(Site::seat).collect()
    }

    /// Workers in blocks along the logical order, so that neighbours have near numbers.
    fn spread(&self, workers: usize) -> (Vec<CpuSet>, usize) {
        let sites = self.quiet(&self.sites, workers);
        let (everywhere, rest) = (workers / sites.len(), workers % sites.len());
        let mut counts = vec![everywhere; sites.len()];
        let all: Vec<usize> = (0..sites.len()).collect();
        for chosen in spread_over(&sites, &all, rest, &self.machine.levels()) {
            counts[chosen] += 1;
        }
        let seats = sites
            .iter()
            .zip(&counts)
            .flat_map(|(site, &count)| vec![site.seat(); count])
            .collect();
        (seats, sites.len())
    }

    /// Workers to the domains in turn, to none more than it has cores before all are full.
    fn per_domain<K: Ord>(
        &self,
        workers: usize,
        domain_of: impl Fn(usize) -> Option<K>,
    ) -> (Vec<CpuSet>, usize) {
        let mut order: Vec<Option<K>> = Vec::new();
        let mut domains: Vec<Domain> = Vec::new();
        for site in &self.sites {
            let key = domain_of(site.pus[0]);
            let i = order
                .iter()
                .position(|known| *known == key)
                .unwrap_or_else(|| {
                    order.push(key);
                    domains.push(Domain::default());
                    domains.len() - 1
                });
            domains[i].add(site);
        }
        domains.sort_by_key(Domain::load_per_core);
        let seats = (0..workers).filter_map(|_| {
            let next = domains.iter_mut().min_by_key(|domain| {
                (domain.workers / domain.cores, domain.workers % domain.cores)
            })?;
            next.workers += 1;
            Some(next.pus.clone())
        });
        (seats.collect(), self.sites.len())
    }

    fn fastest(&self) -> Vec<Site> {
        let fastest = self.sites.iter().map(|site| site.kind).max().flatten();
        self.sites
            .iter()
            .filter(|site| site.kind == fastest)
            .cloned()
            .collect()
    }

    fn checked(&self, sets: &[CpuSet]) -> Result<Vec<CpuSet>, Error> {
        for set in sets {
            if set.is_empty() || !set.is_subset(&self.allowed) {
                let reason = format!(
                    "the PUs {{{set}}} are not all among the allowed ones, {{{}}}",
                    self.allowed
                );
                return Err(Error::NotAllowed { reason });
            }
        }
        match sets.is_empty() {
            true => Err(Error::NotAllowed {
                reason: "an empty list of PUs".into(),
            }),
            false => Ok(sets.to_vec()),
        }
    }

    /// Level and first PU of the outermost cache that holds a PU's data, or else of its package.
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

/// Cores among which a worker may move.
#[derive(Default)]
struct Domain {
    pus: CpuSet,
    cores: usize,
    load: u64,
    workers: usize,
}

impl Domain {
    fn add(&mut self, site: &Site) {
        self.pus.extend(site.pus.iter().copied());
        self.cores += 1;
        self.load += site.load;
    }

    fn load_per_core(&self) -> u64 {
        self.load / self.cores as u64
    }
}

fn seats(sites: Vec<Site>) -> Vec<CpuSet> {
    sites.iter().map(Site::seat).collect()
}

fn fastest_first(mut sites: Vec<Site>) -> Vec<CpuSet> {
    sites.sort_by_key(|site| std::cmp::Reverse(site.kind));
    seats(sites)
}

/// Worker i at place i, and again from the first.
fn in_turn(places: Vec<CpuSet>, workers: usize) -> (Vec<CpuSet>, usize) {
    (
        places.iter().cycle().take(workers).cloned().collect(),
        places.len(),
    )
}

/// Neighbouring workers at neighbouring places, and at the same one when there are too few.
fn in_blocks(places: Vec<CpuSet>, workers: usize) -> (Vec<CpuSet>, usize) {
    let seats = (0..workers).map(|i| {
        places[if workers <= places.len() {
            i
        } else {
            i * places.len() / workers
        }]
        .clone()
    });
    (seats.collect(), places.len())
}

/// Chooses `count` of the sites, even over the objects of each level from the outside in.
fn spread_over(
    sites: &[Site],
    among: &[usize],
    count: usize,
    levels: &[Vec<&CpuSet>],
) -> Vec<usize> {
    let Some((objects, inner)) = levels.split_first() else {
        return (0..count).map(|i| among[i * among.len() / count]).collect();
    };
    let object_of = |site: usize| {
        objects
            .iter()
            .position(|object| object.contains(sites[site].pus[0]))
    };
    let mut groups: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
    for &site in among {
        groups.entry(object_of(site)).or_default().push(site);
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
        .flat_map(|(group, count)| spread_over(sites, group, count, inner))
        .collect();
    chosen.sort_unstable();
    chosen
}

//! Reads a machine's shape from `sys/devices/system`: the kernel's word, level by level.
//!
//! One flow: which PUs are online, then for each level the set that each PU names. A PU that an
//! earlier PU's set covers is not asked again, so sets of a level never overlap. Where both are
//! given, the mask file is read and not the list. What `sys` does not tell comes from
//! `proc/cpuinfo`.
//!
//! Left out on purpose: `core_id`, which says nothing about siblings (ids restart in each
//! package, and on some kernels in each cluster), and levels that no placement uses (clusters,
//! books, drawers).
//!
//! Source: Linux, Documentation/admin-guide/cputopology.rst and
//! Documentation/ABI/testing/sysfs-devices-system-cpu.

use std::collections::BTreeMap;

use crate::cpuinfo::Cpuinfo;
use crate::machine::Parts;
use crate::tree::Tree;
use crate::{Cache, CacheKind, CpuSet, Die, Error, NumaNode, Package, kinds, nodes};

const CPU: &str = "sys/devices/system/cpu";

/// # Errors
///
/// [`Error::NoMachine`] when no PU is described; [`Error::Malformed`] and [`Error::Unreadable`].
pub(crate) fn read(tree: &Tree) -> Result<Parts, Error> {
    let folders = tree.numbered(CPU, "cpu")?;
    let online = online(tree, &folders)?;
    if online.is_empty() {
        return Cpuinfo::read(tree)?.into_parts(tree);
    }
    let asked = &online & &folders.iter().copied().collect();
    let mut siblings = siblings(tree, &folders)?;
    let nodes = nodes::read(tree, &online)?;
    let mut packages = packages(tree, &asked, &nodes)?;
    if siblings.is_empty() || packages.is_empty() {
        let told = Cpuinfo::read(tree)?;
        siblings = if siblings.is_empty() {
            told.cores(&online)
        } else {
            siblings
        };
        packages = if packages.is_empty() {
            told.packages(&online)
        } else {
            packages
        };
    }
    Ok(Parts {
        dies: dies(tree, &asked, &packages)?,
        caches: caches(tree, &asked, &siblings)?,
        kinds: kinds::read(tree, &online)?,
        online,
        siblings,
        packages,
        nodes,
        ..Parts::default()
    })
}

/// The kernel's list, or the PUs whose folder does not say that they are offline (kernels before
/// 2.6.29 have no list, and a PU that cannot go offline has no file).
fn online(tree: &Tree, folders: &[usize]) -> Result<CpuSet, Error> {
    if let Some(list) = tree
        .list(&format!("{CPU}/online"))?
        .filter(|list| !list.is_empty())
    {
        return Ok(list);
    }
    let mut online = CpuSet::new();
    for &pu in folders {
        if tree.number(&format!("{CPU}/cpu{pu}/online"))? != Some(0) {
            online.insert(pu);
        }
    }
    Ok(online)
}

/// The kernel's sibling sets, also those of offline PUs where it still tells them.
fn siblings(tree: &Tree, folders: &[usize]) -> Result<Vec<CpuSet>, Error> {
    let told = partition(folders.iter().copied(), |pu| {
        topology(tree, pu, ["core_cpus", "thread_siblings"])
    })?;
    Ok(told.into_iter().map(|(_, pus)| pus).collect())
}

fn packages(tree: &Tree, asked: &CpuSet, nodes: &[NumaNode]) -> Result<Vec<Package>, Error> {
    let told = partition(asked.iter(), |pu| {
        Ok(topology(tree, pu, ["package_cpus", "core_siblings"])?.map(|pus| &pus & asked))
    })?;
    let mut packages: Vec<Package> = Vec::with_capacity(told.len());
    for (pu, pus) in told {
        let os_index = id(tree, pu, "physical_package_id")?;
        packages.push(Package { os_index, pus });
    }
    Ok(rejoined(packages, nodes))
}

/// Kernels before 4.10 cut `core_siblings` at the NUMA node when a package holds several: sets
/// that share a package's number and are a NUMA node each are one package.
fn rejoined(told: Vec<Package>, nodes: &[NumaNode]) -> Vec<Package> {
    let mut packages: Vec<Package> = Vec::with_capacity(told.len());
    let is_node = |pus: &CpuSet| nodes.iter().any(|node| node.has_pus && node.pus == *pus);
    let mut of_nodes: BTreeMap<usize, usize> = BTreeMap::new();
    for package in told {
        let number = package.os_index.filter(|_| is_node(&package.pus));
        match number.and_then(|number| of_nodes.get(&number)) {
            Some(&first) => packages[first].pus = &packages[first].pus | &package.pus,
            None => {
                of_nodes.extend(number.map(|number| (number, packages.len())));
                packages.push(package);
            }
        }
    }
    packages
}

/// The dies, when they are more than another name for the packages. Kernels that know of none
/// give each PU a die of its own with the number -1.
fn dies(tree: &Tree, asked: &CpuSet, packages: &[Package]) -> Result<Vec<Die>, Error> {
    let told = partition(asked.iter(), |pu| {
        Ok(topology(tree, pu, ["die_cpus"])?.map(|pus| &pus & asked))
    })?;
    let mut dies = Vec::new();
    for (pu, pus) in told {
        let os_index = id(tree, pu, "die_id")?;
        if os_index.is_some() {
            dies.push(Die { os_index, pus });
        }
    }
    let is_package = |die: &Die| packages.iter().any(|package| package.pus == die.pus);
    Ok(if dies.iter().all(is_package) {
        Vec::new()
    } else {
        dies
    })
}

/// Every cache once. A hyper-thread that shares all caches of a sibling is not asked for its own.
fn caches(tree: &Tree, asked: &CpuSet, siblings: &[CpuSet]) -> Result<Vec<Cache>, Error> {
    let mut levels: BTreeMap<(u8, CacheKind), Vec<Cache>> = BTreeMap::new();
    let mut alike = CpuSet::new();
    for pu in asked.iter() {
        if alike.contains(pu) {
            continue;
        }
        let core = siblings.iter().find(|core| core.contains(pu));
        let core = core.map_or_else(|| CpuSet::from_iter([pu]), |core| core & asked);
        let indices = tree.numbered(&format!("{CPU}/cpu{pu}/cache"), "index")?;
        let mut sharing_all = if indices.is_empty() {
            CpuSet::new()
        } else {
            core.clone()
        };
        for index in indices {
            let folder = format!("{CPU}/cpu{pu}/cache/index{index}");
            let Some((level, kind)) = level_and_kind(tree, &folder)? else {
                continue;
            };
            let known = levels.entry((level, kind)).or_default();
            let place = known.iter().position(|cache| cache.pus.contains(pu));
            let place = place.unwrap_or(known.len());
            if place == known.len() {
                let told = sharers(tree, &folder)?.map(|told| &told & asked);
                let told = told
                    .filter(|told| !told.is_empty())
                    .unwrap_or_else(|| core.clone());
                let mut pus = known.iter().fold(told, |pus, cache| &pus - &cache.pus);
                pus.insert(pu);
                let size_bytes = tree
                    .text(&format!("{folder}/size"))?
                    .and_then(|text| size_bytes(&text));
                known.push(Cache {
                    level,
                    kind,
                    size_bytes,
                    pus,
                });
            }
            sharing_all = &sharing_all & &known[place].pus;
        }
        alike = &alike | &sharing_all;
    }
    Ok(levels.into_values().flatten().collect())
}

/// The PUs that share a cache. Old IA-64 kernels tell none for some: it belongs to its core then.
fn sharers(tree: &Tree, folder: &str) -> Result<Option<CpuSet>, Error> {
    let (mask, list) = (
        format!("{folder}/shared_cpu_map"),
        format!("{folder}/shared_cpu_list"),
    );
    tree.mask_or_list(&mask, &list)
}

fn level_and_kind(tree: &Tree, folder: &str) -> Result<Option<(u8, CacheKind)>, Error> {
    let Some(level) = tree.number(&format!("{folder}/level"))? else {
        return Ok(None);
    };
    let kind = match tree.text(&format!("{folder}/type"))?.as_deref() {
        Some("Data") => CacheKind::Data,
        Some("Instruction") => CacheKind::Instruction,
        _ => CacheKind::Unified,
    };
    Ok(u8::try_from(level)
        .ok()
        .filter(|level| (1..=8).contains(level))
        .map(|level| (level, kind)))
}

/// `32K`, `8M` or a plain number, in bytes; a size of 0 is one that is not told.
fn size_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)
        .filter(|&bytes| bytes > 0)
}

/// The first of these sets that the kernel tells for a PU, by mask or list.
fn topology<const N: usize>(
    tree: &Tree,
    pu: usize,
    names: [&str; N],
) -> Result<Option<CpuSet>, Error> {
    for name in names {
        let file = format!("{CPU}/cpu{pu}/topology/{name}");
        if let Some(set) = tree.mask_or_list(&file, &format!("{file}_list"))? {
            return Ok(Some(set));
        }
    }
    Ok(None)
}

/// An object's number; kernels write -1 where the firmware gives none.
fn id(tree: &Tree, pu: usize, name: &str) -> Result<Option<usize>, Error> {
    let number = tree.number(&format!("{CPU}/cpu{pu}/topology/{name}"))?;
    Ok(number.and_then(|number| usize::try_from(number).ok()))
}

/// Asks each PU for its set, unless an earlier one's covers it.
fn partition(
    pus: impl Iterator<Item = usize>,
    told: impl Fn(usize) -> Result<Option<CpuSet>, Error>,
) -> Result<Vec<(usize, CpuSet)>, Error> {
    let mut covered = CpuSet::new();
    let mut sets = Vec::new();
    for pu in pus {
        if covered.contains(pu) {
            continue;
        }
        let fresh = &told(pu)?.unwrap_or_default() - &covered;
        if !fresh.is_empty() {
            covered = &covered | &fresh;
            sets.push((pu, fresh));
        }
    }
    Ok(sets)
}

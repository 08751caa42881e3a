//! Cores, packages and dies, from each PU's `topology` folder.
//!
//! Invariant: the sets of a level never overlap. We skip a PU if the set of an earlier PU contains
//! it, and we remove PUs from a later set if an earlier set contains them.
//!
//! Left out on purpose: `core_id`, because it does not identify siblings (ids restart in each
//! package, and on some kernels in each cluster), and levels that no placement uses (clusters,
//! books, drawers).
//!
//! Source: Linux, Documentation/admin-guide/cputopology.rst.

use std::collections::BTreeMap;

use crate::read::tree::{CPU, Tree};
use crate::types::{CpuSet, Die, NumaNode, Package};

/// Reads the sibling sets of the kernel, including those of offline PUs if the kernel still reports
/// them.
pub(super) fn siblings(tree: &Tree, folders: &[usize]) -> Vec<CpuSet> {
    let reported = partition(folders.iter().copied(), |pu| {
        first_reported(tree, pu, ["core_cpus", "thread_siblings"])
    });
    reported.into_iter().map(|(_, pus)| pus).collect()
}

/// Reads the packages.
pub(super) fn packages(tree: &Tree, asked: &CpuSet, nodes: &[NumaNode]) -> Vec<Package> {
    let reported = partition(asked.iter(), |pu| {
        first_reported(tree, pu, ["package_cpus", "core_siblings"]).map(|pus| &pus & asked)
    });
    let mut packages: Vec<Package> = Vec::with_capacity(reported.len());
    for (pu, pus) in reported {
        let os_index = id(tree, pu, "physical_package_id");
        packages.push(Package { os_index, pus });
    }
    rejoined(packages, nodes)
}

/// Joins the sets of packages that were split at NUMA nodes.
///
/// Kernels before 4.10 split `core_siblings` at the NUMA node if a package contains several nodes.
/// Sets that have the same package number and are a NUMA node each are therefore one package.
fn rejoined(reported: Vec<Package>, nodes: &[NumaNode]) -> Vec<Package> {
    let mut packages: Vec<Package> = Vec::with_capacity(reported.len());
    let is_node = |pus: &CpuSet| nodes.iter().any(|node| node.has_pus && node.pus == *pus);
    let mut of_nodes: BTreeMap<usize, usize> = BTreeMap::new();
    for package in reported {
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

/// Reads the dies. The list is empty if they are the same as the packages. Kernels that do not
/// support dies report a die with the number -1 for each PU.
pub(super) fn dies(tree: &Tree, asked: &CpuSet, packages: &[Package]) -> Vec<Die> {
    let reported = partition(asked.iter(), |pu| {
        first_reported(tree, pu, ["die_cpus"]).map(|pus| &pus & asked)
    });
    let mut dies = Vec::new();
    for (pu, pus) in reported {
        let os_index = id(tree, pu, "die_id");
        if os_index.is_some() {
            dies.push(Die { os_index, pus });
        }
    }
    let is_package = |die: &Die| packages.iter().any(|package| package.pus == die.pus);
    if dies.iter().all(is_package) {
        Vec::new()
    } else {
        dies
    }
}

/// Returns the first of these sets of PUs that the kernel reports for a PU, as a mask or a list.
fn first_reported<const N: usize>(tree: &Tree, pu: usize, names: [&str; N]) -> Option<CpuSet> {
    names.into_iter().find_map(|name| {
        let file = format!("{CPU}/cpu{pu}/topology/{name}");
        tree.mask_or_list(&file, &format!("{file}_list"))
    })
}

/// Returns the number of an object. Kernels write -1 if the firmware gives no number.
fn id(tree: &Tree, pu: usize, name: &str) -> Option<usize> {
    let number = tree.number(&format!("{CPU}/cpu{pu}/topology/{name}"))?;
    usize::try_from(number).ok()
}

/// Reads the set of each PU. Skips a PU if the set of an earlier PU contains it.
fn partition(
    pus: impl Iterator<Item = usize>,
    reported: impl Fn(usize) -> Option<CpuSet>,
) -> Vec<(usize, CpuSet)> {
    let mut covered = CpuSet::new();
    let mut sets = Vec::new();
    for pu in pus {
        if covered.contains(pu) {
            continue;
        }
        let fresh = &reported(pu).unwrap_or_default() - &covered;
        if !fresh.is_empty() {
            covered = &covered | &fresh;
            sets.push((pu, fresh));
        }
    }
    sets
}

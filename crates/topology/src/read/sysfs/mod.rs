//! Reads the shape of a machine from `sys/devices/system`.
//!
//! We read the online PUs first, and then the files of each PU for each level. If both a mask file
//! and a list file exist, we read the mask. If `sys` does not report cores or packages, we take
//! them from `proc/cpuinfo`.

mod caches;
mod kinds;
mod nodes;
mod topology;

pub(super) use nodes::memory_bytes;

use super::Detail;
use super::cpuinfo::Cpuinfo;
use super::tree::{CPU, Tree};
use crate::types::{CpuSet, Parts};

/// Reads the shape of the machine whose PUs are `online`. `folders` are the PUs that have a folder.
/// The mask and the constraints stay empty.
pub(crate) fn read(tree: &Tree, folders: &[usize], online: CpuSet, detail: Detail) -> Parts {
    let mut siblings = topology::siblings(tree, folders);
    if detail == Detail::Cores {
        if siblings.is_empty() {
            siblings = Cpuinfo::read(tree).cores(&online);
        }
        return Parts {
            online,
            siblings,
            ..Parts::default()
        };
    }
    let asked = &online & &folders.iter().copied().collect();
    let nodes = nodes::read(tree, &online);
    let mut packages = topology::packages(tree, &asked, &nodes);
    if siblings.is_empty() || packages.is_empty() {
        let reported = Cpuinfo::read(tree);
        siblings = if siblings.is_empty() {
            reported.cores(&online)
        } else {
            siblings
        };
        packages = if packages.is_empty() {
            reported.packages(&online)
        } else {
            packages
        };
    }
    let caches = caches::read(tree, &asked, &siblings);
    Parts {
        dies: topology::dies(tree, &asked, &packages),
        kinds: kinds::read(tree, &online, &caches),
        caches,
        online,
        siblings,
        packages,
        nodes,
        ..Parts::default()
    }
}

/// Returns the online PUs, or an empty set if `sys` lists none.
///
/// We use the kernel's list. Kernels before 2.6.29 have none, so we take the PUs whose folder does
/// not say that they are offline. A PU that cannot go offline has no such file.
pub(super) fn online(tree: &Tree, folders: &[usize]) -> CpuSet {
    let list = tree.list(&format!("{CPU}/online"));
    list.filter(|list| !list.is_empty()).unwrap_or_else(|| {
        let is_online = |pu: &usize| tree.number(&format!("{CPU}/cpu{pu}/online")) != Some(0);
        folders.iter().copied().filter(is_online).collect()
    })
}

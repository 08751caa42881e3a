//! Reads a machine's shape from `sys/devices/system`: the kernel's word, level by level.
//!
//! One flow: which PUs are online, then what each of them tells of each level. Where both are
//! given, the mask file is read and not the list. What `sys` does not tell of cores and packages
//! comes from `proc/cpuinfo`.

mod caches;
mod kinds;
mod nodes;
mod topology;

use super::cpuinfo::Cpuinfo;
use super::tree::{CPU, Tree};
use crate::types::{CpuSet, Error, Parts};

/// The machine's shape; mask and constraints stay empty.
///
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
    let mut siblings = topology::siblings(tree, &folders)?;
    let nodes = nodes::read(tree, &online)?;
    let mut packages = topology::packages(tree, &asked, &nodes)?;
    if siblings.is_empty() || packages.is_empty() {
        let reported = Cpuinfo::read(tree)?;
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
    Ok(Parts {
        dies: topology::dies(tree, &asked, &packages)?,
        caches: caches::read(tree, &asked, &siblings)?,
        kinds: kinds::read(tree, &online)?,
        online,
        siblings,
        packages,
        nodes,
        ..Parts::default()
    })
}

/// Of the shape only what a budget counts: the online PUs and the cores, a file a core.
///
/// # Errors
///
/// As [`read`].
pub(crate) fn read_cores(tree: &Tree) -> Result<Parts, Error> {
    let folders = tree.numbered(CPU, "cpu")?;
    let online = online(tree, &folders)?;
    if online.is_empty() {
        return Cpuinfo::read(tree)?.into_parts(tree);
    }
    let mut siblings = topology::siblings(tree, &folders)?;
    if siblings.is_empty() {
        siblings = Cpuinfo::read(tree)?.cores(&online);
    }
    Ok(Parts {
        online,
        siblings,
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

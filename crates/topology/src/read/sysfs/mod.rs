//! Reads the shape of a machine from `sys/devices/system`.
//!
//! We read the online PUs first, and then the files of each PU for each level. If both a mask file
//! and a list file exist, we read the mask. If `sys` does not report cores or packages, we take
//! them from `proc/cpuinfo`.

mod caches;
mod kinds;
mod nodes;
mod topology;

use super::cpuinfo::Cpuinfo;
use super::tree::{CPU, Tree};
use crate::types::{CpuSet, Error, Parts};

/// Reads the shape of the machine. The mask and the constraints stay empty.
///
/// # Errors
///
/// Returns [`Error::NoMachine`] if no PU is described, [`Error::Malformed`] or
/// [`Error::Unreadable`].
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

/// Reads only the parts that a budget needs: the online PUs and the cores. This takes one file per
/// core.
///
/// # Errors
///
/// Returns the errors of [`read`].
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

/// Returns the online PUs.
///
/// We use the kernel's list. Kernels before 2.6.29 have none, so we take the PUs whose folder does
/// not say that they are offline. A PU that cannot go offline has no such file.
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

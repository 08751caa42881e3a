//! Readers: what a machine's files, or a description, tell.
//!
//! Each answers with [`Parts`] or some of them, as found; what follows from the parts is
//! [`Machine`](crate::Machine)'s. So a reader needs nothing but the types, and the files come all
//! from one [`Tree`].

mod cgroup;
mod cpuinfo;
pub(crate) mod synthetic;
mod sysfs;
mod tree;

use std::path::Path;

use self::tree::Tree;
use crate::types::{Error, Parts};

/// All that the files below a root tell: the shape of the machine, and what confines the process.
///
/// # Errors
///
/// [`Error::Unreadable`], [`Error::Malformed`], and [`Error::NoMachine`] when no PU is described.
pub(crate) fn tree(root: &Path) -> Result<Parts, Error> {
    confined(&Tree::open(root)?, sysfs::read)
}

/// The PUs, the cores and what confines the process, for a machine of many PUs has thousands of
/// files.
///
/// # Errors
///
/// As [`tree`].
pub(crate) fn cores(root: &Path) -> Result<Parts, Error> {
    confined(&Tree::open(root)?, sysfs::read_cores)
}

fn confined(tree: &Tree, shape: fn(&Tree) -> Result<Parts, Error>) -> Result<Parts, Error> {
    let mut parts = shape(tree)?;
    let confines = cgroup::read(tree)?;
    parts.mask = confines.mask;
    parts.constraints = confines.constraints;
    Ok(parts)
}

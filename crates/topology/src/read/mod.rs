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
    let tree = Tree::open(root)?;
    let mut parts = sysfs::read(&tree)?;
    let confines = cgroup::read(&tree)?;
    parts.mask = confines.mask;
    parts.constraints = confines.constraints;
    Ok(parts)
}

//! Readers of a machine's files, or of a description.
//!
//! Each reader returns [`Parts`], or some of them, as it found them. [`Machine`](crate::Machine)
//! derives the rest, so a reader needs only the types. All files come from one [`Tree`].

mod cgroup;
mod cpuinfo;
pub(crate) mod synthetic;
mod sysfs;
mod tree;

use std::path::Path;

use self::tree::Tree;
use crate::types::{Error, Parts};

/// Reads everything that the files below a root contain: the shape of the machine and the limits of
/// the process.
///
/// # Errors
///
/// Returns [`Error::Unreadable`], [`Error::Malformed`], or [`Error::NoMachine`] if the files
/// describe no PU.
pub(crate) fn tree(root: &Path) -> Result<Parts, Error> {
    confined(&Tree::open(root)?, sysfs::read)
}

/// Reads only the PUs, the cores and the limits of the process, because a machine with many PUs has
/// thousands of files.
///
/// # Errors
///
/// Returns the errors of [`tree`].
pub(crate) fn cores(root: &Path) -> Result<Parts, Error> {
    confined(&Tree::open(root)?, sysfs::read_cores)
}

/// Reads the shape of the machine with `shape`, and the limits of the process.
fn confined(tree: &Tree, shape: fn(&Tree) -> Result<Parts, Error>) -> Result<Parts, Error> {
    let mut parts = shape(tree)?;
    let confines = cgroup::read(tree)?;
    parts.mask = confines.mask;
    parts.constraints = confines.constraints;
    Ok(parts)
}

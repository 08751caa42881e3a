//! Readers of a machine's files, or of a description.
//!
//! Each reader returns [`Parts`], or some of them, as it found them. [`Machine`](crate::Machine)
//! derives the rest, so a reader needs only the types. All files come from one [`Tree`].
//!
//! The affinity mask has priority over all files about the PUs, because the kernel itself enforces
//! it. Files may contradict it. For example, in a container lxcfs shows a list of online PUs that
//! need not be those on which the container runs. We then use both, and add a note.

#[cfg(any(target_vendor = "apple", test))]
pub(crate) mod apple;
mod cgroup;
mod cpuinfo;
pub(crate) mod synthetic;
mod sysfs;
mod tree;
#[cfg(any(windows, test))]
pub(crate) mod windows;

use std::path::Path;

use self::cpuinfo::Cpuinfo;
use self::tree::{CPU, Tree};
use crate::types::{CpuSet, Parts};

/// The parts of a machine that a reader reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The shape of the machine and the limits of the process.
    Whole,
    /// Only the PUs, the cores and the limits of the process. A machine with many PUs has thousands
    /// of files, and most of them are about other objects.
    Cores,
}

/// Reads the files below a root. Pass the affinity mask of this thread as `mask` if the files
/// describe the machine on which it runs. The limits are those of `process`, or of the process that
/// the tree calls `self`. The list of PUs in the result is empty if neither the files nor the mask
/// name any.
pub(crate) fn tree(
    root: &Path,
    process: Option<u32>,
    mask: Option<&CpuSet>,
    detail: Detail,
) -> Parts {
    let tree = Tree::open(root, process);
    let folders = tree.numbered(CPU, "cpu");
    let listed = sysfs::online(&tree, &folders);
    let cpuinfo = if listed.is_empty() {
        Some(Cpuinfo::read(&tree))
    } else {
        None
    };
    let listed = cpuinfo.map_or(listed, |cpuinfo| cpuinfo.online(&tree));
    let live = mask.filter(|mask| !mask.is_empty());
    let mask = live.cloned().or_else(|| cgroup::mask(&tree));
    let online = match &mask {
        // A mask that was read from a file may contain offline PUs, but the mask of a running
        // thread does not.
        Some(mask) if live.is_some() || !mask.intersects(&listed) => {
            note_contradiction(&tree, &listed, mask);
            &listed | mask
        }
        _ => listed,
    };
    let mut parts = sysfs::read(&tree, &folders, online, detail);
    parts.constraints = cgroup::read(&tree, live.is_some());
    if detail == Detail::Whole {
        parts.memory_bytes = sysfs::memory_bytes(&tree, "proc/meminfo");
    }
    if let Some(mask) = &mask {
        note_isolated(&tree, mask);
    }
    parts.mask = mask;
    parts.notes = tree.into_notes();
    parts
}

/// Notes that a mask contains PUs that no file lists.
fn note_contradiction(tree: &Tree, listed: &CpuSet, mask: &CpuSet) {
    if listed.is_empty() {
        tree.note(format!(
            "no file lists the online CPUs, so only those of the affinity mask are known ({mask})"
        ));
    } else if !mask.is_subset(listed) {
        tree.note(format!(
            "the files list only the CPUs {listed} as online, but the affinity mask has the CPUs \
             {mask}: we use the mask"
        ));
    }
}

/// Notes that the kernel moves no threads to some PUs of a mask.
///
/// Source: Linux, Documentation/admin-guide/kernel-parameters.txt (`isolcpus`).
fn note_isolated(tree: &Tree, mask: &CpuSet) {
    let isolated = tree.list(&format!("{CPU}/isolated")).unwrap_or_default();
    let here = &isolated & mask;
    if !here.is_empty() {
        tree.note(format!(
            "the CPUs {here} are isolated (isolcpus): the kernel moves no thread there by itself, \
             so only threads that are pinned there use them"
        ));
    }
}

//! Finds the group of this process if a namespace hides its name.
//!
//! Inside a cgroup namespace, `proc/self/cgroup` contains `/`. If a mount begins above the
//! namespace, however, the mount point is the folder of an ancestor. If we read only that folder,
//! we would miss the limits of the groups below it. We therefore search the given number of levels
//! below the mount point for the group whose `cgroup.procs` lists this process.

use crate::read::tree::Tree;

/// The maximum number of folders that the search visits.
const FOLDERS_MAX: usize = 10_000;

/// Returns the path below `point` of the group that lists the process that the tree calls `self`.
/// The path has `levels` names. Returns `None` if no group lists it.
pub(super) fn group_of_self(tree: &Tree, point: &str, levels: usize) -> Option<String> {
    let stat = tree.text("proc/self/stat").unwrap_or_default();
    let pid = stat.split(' ').next().filter(|pid| !pid.is_empty())?;
    let mut open = vec![(String::new(), 0)];
    let mut looked_at = 0;
    while let Some((within, depth)) = open.pop() {
        looked_at += 1;
        if looked_at > FOLDERS_MAX {
            break;
        }
        let folder = format!("{point}/{within}");
        if depth == levels {
            let members = tree
                .long_text(&format!("{folder}/cgroup.procs"))
                .unwrap_or_default();
            if members.lines().any(|member| member == pid) {
                return Some(within);
            }
            continue;
        }
        for name in tree.folders(&folder) {
            let inner = if within.is_empty() {
                name
            } else {
                format!("{within}/{name}")
            };
            open.push((inner, depth + 1));
        }
    }
    None
}

//! Finds this process's own group where a namespace hides its name.
//!
//! Inside a cgroup namespace whose mounts begin above it, `proc/self/cgroup` says `/` and the
//! mount point is an ancestor's folder: read as it is told, every limit would look unlimited.
//! The group is the one, so many levels below, whose `cgroup.procs` lists the process.

use crate::read::tree::Tree;
use crate::types::Error;

/// Folders looked at before the search gives up.
const FOLDERS_MAX: usize = 10_000;

/// The path below `point`, `levels` names long, of the group that lists the process that the
/// tree calls `self`; `None` when none does.
pub(super) fn group_of_self(
    tree: &Tree,
    point: &str,
    levels: usize,
) -> Result<Option<String>, Error> {
    let stat = tree.text("proc/self/stat")?.unwrap_or_default();
    let Some(pid) = stat.split(' ').next().filter(|pid| !pid.is_empty()) else {
        return Ok(None);
    };
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
                .long_text(&format!("{folder}/cgroup.procs"))?
                .unwrap_or_default();
            if members.lines().any(|member| member == pid) {
                return Ok(Some(within));
            }
            continue;
        }
        for name in tree.folders(&folder)? {
            let inner = if within.is_empty() {
                name
            } else {
                format!("{within}/{name}")
            };
            open.push((inner, depth + 1));
        }
    }
    Ok(None)
}

//! The control groups of the process, and their paths below a mount point.

use super::mounts::{Controller, Mount, Version};
use super::search;
use crate::read::tree::Tree;

/// The group of the process in each hierarchy.
pub(super) struct Groups {
    /// For each hierarchy, the names of its controllers (none for version 2), and the path of the
    /// process's group.
    lines: Vec<(Vec<String>, String)>,
    /// The path in `proc/self/cpuset`, for kernels without `proc/self/cgroup`.
    cpuset: Option<String>,
    /// Whether there is a file `proc/self/cgroup`, which may be unusable.
    is_listed: bool,
}

impl Groups {
    pub(super) fn read(tree: &Tree) -> Groups {
        let list = tree.long_text("proc/self/cgroup");
        let is_listed = list.is_some();
        let list = list.unwrap_or_default();
        let lines = list.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let names = controllers.split(',').filter(|name| !name.is_empty());
            Some((names.map(String::from).collect(), path.to_string()))
        });
        let lines = lines.collect();
        Groups {
            lines,
            cpuset: tree
                .text("proc/self/cpuset")
                .filter(|path| path.starts_with('/')),
            is_listed,
        }
    }

    /// Returns whether no usable file lists the groups of the process.
    pub(super) fn is_unknown(&self) -> bool {
        self.lines.is_empty() && (self.is_listed || self.cpuset.is_none())
    }

    /// Returns whether the process is in any control group.
    pub(super) fn is_any(&self) -> bool {
        !self.lines.is_empty() || self.cpuset.is_some()
    }

    /// Returns the path of the process's group in the hierarchy of a mount.
    fn path(&self, controller: Controller, mount: &Mount) -> Option<&str> {
        let line = self.lines.iter().find(|(names, _)| match mount.version {
            Version::V1 => names.iter().any(|name| name == controller.name()),
            Version::V2 => names.is_empty(),
        });
        let no_lines = || self.cpuset.as_deref().filter(|_| self.lines.is_empty());
        line.map(|(_, path)| path.as_str()).or_else(no_lines)
    }

    /// Returns the mount of the hierarchy that has a controller, and the path of the group below
    /// its mount point.
    ///
    /// A controller is in one hierarchy only. In version 1 the mount options name it. If a
    /// hierarchy is mounted several times, we choose the mount that shows the most ancestors. If no
    /// mount shows the group, a note says that its limits are hidden.
    pub(super) fn mount_of<'m>(
        &self,
        tree: &Tree,
        controller: Controller,
        mounts: &'m [Mount],
    ) -> Option<(&'m Mount, String)> {
        let named = |mount: &Mount| {
            mount
                .controllers
                .iter()
                .any(|name| name == controller.name())
        };
        let version = if mounts.iter().any(named) {
            Version::V1
        } else {
            Version::V2
        };
        let mut best: Option<(&Mount, String)> = None;
        // Something else may be mounted over the mount that shows the most ancestors. Therefore a
        // mount with the folder of the group has priority over one without it.
        let mut best_rank = (false, 0);
        let mut hidden = None;
        for mount in mounts.iter().filter(|mount| mount.version == version) {
            let Some(path) = self
                .path(controller, mount)
                .filter(|_| version == Version::V2 || named(mount))
            else {
                continue;
            };
            let within = below(tree, path, mount);
            // The ancestors may still have limits if only the folder of the group is missing.
            let point = mount.point.trim_end_matches('/');
            let is_there = |within: &String| tree.is_folder(&format!("{point}/{within}"));
            let is_shown = within.as_ref().is_some_and(is_there);
            if !is_shown {
                hidden = Some((path, mount));
            }
            if let Some(within) = within {
                let rank = (is_shown, within.split('/').count());
                if rank > best_rank {
                    (best, best_rank) = (Some((mount, within)), rank);
                }
            }
        }
        if let Some((path, mount)) = hidden
            && !best_rank.0
        {
            tree.note(format!(
                "the control group {path} of this process is not below {}, which shows the groups \
                 of {}: its limits are hidden",
                mount.point, mount.root
            ));
        }
        best
    }
}

/// Returns the part of a group's path below the group that is mounted. Returns `None` if the mount
/// shows another part of the hierarchy.
fn below(tree: &Tree, path: &str, mount: &Mount) -> Option<String> {
    // The group of a namespace is "/", and the group above it is "/..". For example, if the root of
    // the mount is `/../..`, the mount begins two levels above the namespace. The names of the
    // groups in between are hidden, so we search for the group of this process.
    let above = mount.root.split('/').filter(|name| !name.is_empty());
    if mount.root.starts_with("/..") && !path.starts_with("/..") {
        let levels = above.clone().take_while(|name| *name == "..").count();
        if above.count() > levels {
            return None;
        }
        let own = path.split('/').filter(|name| !name.is_empty()).count();
        return search::group_of_self(tree, &mount.point, levels + own);
    }
    let root = mount.root.trim_end_matches('/');
    let within = path
        .strip_prefix(root)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let outside = path.split('/').any(|name| name == "..");
    within
        .filter(|_| !outside)
        .map(|within| within.trim_matches('/').to_string())
}

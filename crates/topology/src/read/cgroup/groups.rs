//! The groups that the process is in, and where a mount shows them.

use super::mounts::{Controller, Mount, Version};
use super::search;
use crate::read::tree::Tree;
use crate::types::Error;

/// The process's group in each hierarchy: controller names (none for version 2) and path.
pub(super) struct Groups {
    lines: Vec<(Vec<String>, String)>,
    /// `proc/self/cpuset`, for kernels that have no `proc/self/cgroup`.
    cpuset: Option<String>,
}

impl Groups {
    pub(super) fn read(tree: &Tree) -> Result<Groups, Error> {
        let text = tree.long_text("proc/self/cgroup")?.unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            let names = controllers.split(',').filter(|name| !name.is_empty());
            Some((names.map(String::from).collect(), path.to_string()))
        });
        let lines = lines.collect();
        Ok(Groups {
            lines,
            cpuset: tree
                .text("proc/self/cpuset")?
                .filter(|path| path.starts_with('/')),
        })
    }

    /// The group's path in the hierarchy of a mount.
    fn path(&self, controller: Controller, mount: &Mount) -> Option<&str> {
        let line = self.lines.iter().find(|(names, _)| match mount.version {
            Version::V1 => names.iter().any(|name| name == controller.name()),
            Version::V2 => names.is_empty(),
        });
        let no_lines = || self.cpuset.as_deref().filter(|_| self.lines.is_empty());
        line.map(|(_, path)| path.as_str()).or_else(no_lines)
    }

    /// The hierarchy that has the controller, and the group's path below its mount point. A
    /// controller is in one hierarchy only; version 1 says so in its options. Of several mounts
    /// of the same hierarchy, the one that shows most ancestors.
    pub(super) fn mount_of<'m>(
        &self,
        tree: &Tree,
        controller: Controller,
        mounts: &'m [Mount],
    ) -> Result<Option<(&'m Mount, String)>, Error> {
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
        for mount in mounts.iter().filter(|mount| mount.version == version) {
            let Some(path) = self
                .path(controller, mount)
                .filter(|_| version == Version::V2 || named(mount))
            else {
                continue;
            };
            let within = below(tree, path, mount)?;
            let depth = |within: &str| within.split('/').count();
            if let Some(within) =
                within.filter(|new| best.as_ref().is_none_or(|(_, old)| depth(new) > depth(old)))
            {
                best = Some((mount, within));
            }
        }
        Ok(best)
    }
}

/// The part of a group's path below the group that is mounted; `None` when the mount shows
/// another part of the hierarchy.
fn below(tree: &Tree, path: &str, mount: &Mount) -> Result<Option<String>, Error> {
    // A namespace's own group is "/", and what lies above it "/..": the mount begins so many
    // levels above, and the names on the way down are not told.
    let above = mount.root.split('/').filter(|name| !name.is_empty());
    if mount.root.starts_with("/..") && !path.starts_with("/..") {
        let levels = above.clone().take_while(|name| *name == "..").count();
        if above.count() > levels {
            return Ok(None);
        }
        let own = path.split('/').filter(|name| !name.is_empty()).count();
        return search::group_of_self(tree, &mount.point, levels + own);
    }
    let root = mount.root.trim_end_matches('/');
    let within = path
        .strip_prefix(root)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let outside = path.split('/').any(|name| name == "..");
    Ok(within
        .filter(|_| !outside)
        .map(|within| within.trim_matches('/').to_string()))
}

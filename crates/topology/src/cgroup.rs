//! What control groups allow this process: cpusets and CPU quotas, of its group and of every
//! ancestor that the mounts show.
//!
//! Versions 1, 2 and both at once (hybrid): each mount of `proc/self/mountinfo` that carries the
//! `cpu` or `cpuset` controller is followed from the process's own group up to the mount point.
//! The mount's root says how much of the group's path lies above it (containers), or that the
//! mount begins above this namespace: then the group is the one that lists this process.
//!
//! Source: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst,
//! Documentation/scheduler/sched-bwc.rst, proc_pid_mountinfo(5), cgroup_namespaces(7).

mod search;

use crate::tree::Tree;
use crate::{CpuSet, Error};

/// A limit found in one file of one group.
#[derive(Debug, Clone)]
pub(crate) struct Constraint {
    /// The file, as the machine itself names it.
    pub(crate) path: String,
    /// 0 for the process's own group, 1 for its parent, and so on.
    pub(crate) generation: usize,
    pub(crate) rule: Rule,
}

#[derive(Debug, Clone)]
pub(crate) enum Rule {
    Cpuset(CpuSet),
    /// So much CPU time in each period, both in microseconds; the period is above 0.
    Quota {
        quota_us: u64,
        period_us: u64,
    },
}

impl Constraint {
    pub(crate) fn cpuset(&self) -> Option<&CpuSet> {
        match &self.rule {
            Rule::Cpuset(cpus) => Some(cpus),
            Rule::Quota { .. } => None,
        }
    }
}

/// What confines the process that the tree calls `self`.
pub(crate) struct Confines {
    pub(crate) mask: Option<CpuSet>,
    pub(crate) constraints: Vec<Constraint>,
}

pub(crate) fn read(tree: &Tree) -> Result<Confines, Error> {
    let mounts = mounts(tree)?;
    let groups = Groups::read(tree)?;
    let mut constraints = Vec::new();
    for controller in [Controller::Cpuset, Controller::Cpu] {
        let Some((mount, within)) = groups.mount_of(tree, controller, &mounts)? else {
            continue;
        };
        for (generation, group) in upwards(&mount.point, within).enumerate() {
            constraints.extend(rule(tree, &group, controller, mount.version, generation)?);
        }
    }
    Ok(Confines {
        mask: mask(tree)?,
        constraints,
    })
}

/// `Cpus_allowed_list` of the copied process.
fn mask(tree: &Tree) -> Result<Option<CpuSet>, Error> {
    let file = "proc/self/status";
    let status = tree.text(file)?.unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(|list| {
        list.parse()
            .map_err(|error: Error| error.in_file(tree.path(file)))
    })
    .transpose()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Cpuset,
    Cpu,
}

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Controller::Cpuset => "cpuset",
            Controller::Cpu => "cpu",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

/// A mounted group hierarchy.
struct Mount {
    version: Version,
    /// For version 1, the controllers that it carries.
    controllers: Vec<String>,
    /// The group that the mount point shows.
    root: String,
    /// Where it is mounted.
    point: String,
}

fn mounts(tree: &Tree) -> Result<Vec<Mount>, Error> {
    if let Some(text) = tree.long_text("proc/self/mountinfo")? {
        return Ok(text.lines().filter_map(from_mountinfo).collect());
    }
    let text = match tree.long_text("proc/mounts")? {
        Some(text) => text,
        None => tree.long_text("proc/self/mounts")?.unwrap_or_default(),
    };
    Ok(text.lines().filter_map(from_mounts).collect())
}

/// `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELDS…] - TYPE SOURCE SUPER_OPTIONS`
fn from_mountinfo(line: &str) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let (kind, _source, options) = (system.next()?, system.next()?, system.next().unwrap_or(""));
    hierarchy(kind, options, unescaped(root), unescaped(point))
}

/// `SOURCE POINT TYPE OPTIONS …`, which does not tell the root.
fn from_mounts(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').skip(1);
    let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
    hierarchy(kind, options, "/".into(), unescaped(point))
}

fn hierarchy(kind: &str, options: &str, root: String, point: String) -> Option<Mount> {
    let (version, controllers) = match kind {
        "cgroup2" => (Version::V2, Vec::new()),
        "cgroup" => (Version::V1, options.split(',').map(String::from).collect()),
        // The cpuset file system of before control groups.
        "cpuset" => (Version::V1, vec!["cpuset".into()]),
        _ => return None,
    };
    Some(Mount {
        version,
        controllers,
        root,
        point,
    })
}

/// Mount tables write blanks, tabs, line ends and backslashes as `\NNN`, octal.
fn unescaped(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or("").to_string();
    for part in parts {
        let code = part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(byte) => {
                text.push(char::from(byte));
                text.push_str(&part[3..]);
            }
            None => {
                text.push('\\');
                text.push_str(part);
            }
        }
    }
    text
}

/// The process's group in each hierarchy: controller names (none for version 2) and path.
struct Groups {
    lines: Vec<(Vec<String>, String)>,
    /// `proc/self/cpuset`, for kernels that have no `proc/self/cgroup`.
    cpuset: Option<String>,
}

impl Groups {
    fn read(tree: &Tree) -> Result<Groups, Error> {
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
    fn mount_of<'m>(
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

/// The group's folder, its parent's, and so on up to the mount point.
fn upwards(point: &str, within: String) -> impl Iterator<Item = String> {
    let point = point.trim_end_matches('/').to_string();
    let deepest = if within.is_empty() {
        point.clone()
    } else {
        format!("{point}/{within}")
    };
    std::iter::successors(Some(deepest), move |group| {
        let parent = &group[..group.rfind('/')?];
        (group.len() > point.len()).then(|| parent.to_string())
    })
}

/// What one group says of one controller; nothing when it sets no limit.
fn rule(
    tree: &Tree,
    group: &str,
    controller: Controller,
    version: Version,
    generation: usize,
) -> Result<Option<Constraint>, Error> {
    let found = match (controller, version) {
        (Controller::Cpuset, Version::V2) => cpuset(tree, group, &["cpuset.cpus.effective"])?,
        (Controller::Cpuset, Version::V1) => cpuset(
            tree,
            group,
            &["cpuset.effective_cpus", "cpuset.cpus", "cpus"],
        )?,
        (Controller::Cpu, Version::V2) => quota_v2(tree, group)?,
        (Controller::Cpu, Version::V1) => quota_v1(tree, group)?,
    };
    Ok(found.map(|(path, rule)| Constraint {
        path,
        generation,
        rule,
    }))
}

/// The first of the files that names PUs.
fn cpuset(tree: &Tree, group: &str, names: &[&str]) -> Result<Option<(String, Rule)>, Error> {
    for name in names {
        let path = format!("{group}/{name}");
        if let Some(cpus) = tree.list(&path)?.filter(|cpus| !cpus.is_empty()) {
            return Ok(Some((path, Rule::Cpuset(cpus))));
        }
    }
    Ok(None)
}

/// `cpu.max`: `QUOTA PERIOD`, where the quota may be `max`.
fn quota_v2(tree: &Tree, group: &str) -> Result<Option<(String, Rule)>, Error> {
    let path = format!("{group}/cpu.max");
    let Some(text) = tree.text(&path)? else {
        return Ok(None);
    };
    let mut words = text.split_whitespace();
    let (quota, period) = (
        words.next().unwrap_or("max"),
        words.next().unwrap_or("100000"),
    );
    if quota == "max" {
        return Ok(None);
    }
    let quota = quota.parse().ok().zip(period.parse().ok());
    quota_rule(tree, path, quota, &text).map(Some)
}

/// `cpu.cfs_quota_us` (-1 is no limit) and `cpu.cfs_period_us`.
fn quota_v1(tree: &Tree, group: &str) -> Result<Option<(String, Rule)>, Error> {
    let path = format!("{group}/cpu.cfs_quota_us");
    let Some(text) = tree.text(&path)? else {
        return Ok(None);
    };
    if text.starts_with('-') {
        return Ok(None);
    }
    let period = tree
        .text(&format!("{group}/cpu.cfs_period_us"))?
        .unwrap_or_else(|| "100000".into());
    let quota = text.parse().ok().zip(period.parse().ok());
    quota_rule(tree, path, quota, &format!("{text} of {period}")).map(Some)
}

fn quota_rule(
    tree: &Tree,
    path: String,
    quota: Option<(u64, u64)>,
    text: &str,
) -> Result<(String, Rule), Error> {
    match quota {
        Some((quota_us, period_us)) if quota_us > 0 && period_us > 0 => Ok((
            path,
            Rule::Quota {
                quota_us,
                period_us,
            },
        )),
        _ => Err(Error::syntax(
            "CPU quota",
            text,
            "both times must be whole numbers above 0",
        )
        .in_file(tree.path(&path))),
    }
}

//! The mounted cgroup hierarchies, read from the mount table.

use crate::read::tree::Tree;

/// The version of a cgroup hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

/// A controller whose limits we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Controller {
    Cpuset,
    Cpu,
    Pids,
    Memory,
}

impl Controller {
    pub(super) fn name(self) -> &'static str {
        match self {
            Controller::Cpuset => "cpuset",
            Controller::Cpu => "cpu",
            Controller::Pids => "pids",
            Controller::Memory => "memory",
        }
    }
}

/// A mounted cgroup hierarchy.
pub(super) struct Mount {
    pub(super) version: Version,
    /// The controllers of a version 1 hierarchy.
    pub(super) controllers: Vec<String>,
    /// The group that the mount point shows.
    pub(super) root: String,
    /// The mount point.
    pub(super) point: String,
}

/// Reads the mount table.
pub(super) fn read(tree: &Tree) -> Vec<Mount> {
    if let Some(text) = tree.long_text("proc/self/mountinfo") {
        return text.lines().filter_map(from_mountinfo).collect();
    }
    let text = tree
        .long_text("proc/mounts")
        .or_else(|| tree.long_text("proc/self/mounts"))
        .unwrap_or_default();
    text.lines().filter_map(from_mounts).collect()
}

/// Parses a line `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELDS…] - TYPE SOURCE SUPER_OPTIONS`.
fn from_mountinfo(line: &str) -> Option<Mount> {
    let (mount, system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (mount.next()?, mount.next()?);
    let mut system = system.split(' ');
    let (kind, _source, options) = (system.next()?, system.next()?, system.next().unwrap_or(""));
    hierarchy(kind, options, unescaped(root), unescaped(point))
}

/// Parses a line `SOURCE POINT TYPE OPTIONS …`, which does not contain the root.
fn from_mounts(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ').skip(1);
    let (point, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
    hierarchy(kind, options, "/".into(), unescaped(point))
}

/// Creates the mount of a cgroup hierarchy, or `None` for other file systems.
fn hierarchy(kind: &str, options: &str, root: String, point: String) -> Option<Mount> {
    let (version, controllers) = match kind {
        "cgroup2" => (Version::V2, Vec::new()),
        "cgroup" => (Version::V1, options.split(',').map(String::from).collect()),
        // The cpuset file system is older than control groups.
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

/// Decodes a field of a mount table. Blanks, tabs, line ends and backslashes are written as octal
/// `\NNN`.
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

//! Sets a quota of CPU time for a process, as a container does. With it, we measure and test
//! programs under a quota. The quota belongs to a control group (cgroup) that we create for the
//! process.
//!
//! Note that you need permission to create a control group. Outside of containers, root has it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PERIOD_US: u64 = 100_000;

/// The control groups of this machine: version 1 or version 2.
struct Hierarchy {
    /// The folder of the group that this process is in.
    home: PathBuf,
    /// The name of the file for the quota.
    file: &'static str,
    /// Formats a quota in microseconds per period for the quota file.
    line: fn(u64) -> String,
}

impl Hierarchy {
    /// Finds the `cpu` controller of version 1, or the only hierarchy of version 2.
    fn find() -> Option<Self> {
        let groups = crate::system::text("/proc/self/cgroup").ok()?;
        let own = |controller: &str| {
            let of = |line: &'_ str| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                let found = controllers.split(',').any(|name| name == controller);
                found.then(|| path.trim_start_matches('/').to_string())
            };
            groups.lines().find_map(of)
        };
        let root = Path::new("/sys/fs/cgroup");
        if let Some(path) = own("cpu") {
            return Some(Self {
                home: root.join("cpu").join(path),
                file: "cpu.cfs_quota_us",
                line: |quota| quota.to_string(),
            });
        }
        Some(Self {
            home: root.join(own("")?),
            file: "cpu.max",
            line: |quota| format!("{quota} {PERIOD_US}"),
        })
    }
}

/// A control group with a quota, below the group of this process. Dropping it removes the group if
/// no process is in it any more.
#[derive(Debug)]
pub struct Quota {
    home: PathBuf,
    group: PathBuf,
}

impl Quota {
    /// Creates a group with a quota of `cores` cores, for example 1.5.
    ///
    /// # Errors
    ///
    /// Returns an error that names the file if the system does not allow it.
    pub fn new(name: &str, cores: f64) -> io::Result<Quota> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "this system has no control groups");
        let hierarchy = Hierarchy::find().ok_or_else(none)?;
        let group = hierarchy
            .home
            .join(format!("{name}-{}", std::process::id()));
        let home = hierarchy.home;
        fs::create_dir(&group).map_err(|error| of(&group, &error))?;
        // From here on, dropping `quota` removes the group if a later step fails.
        let quota = Quota { home, group };
        let line = (hierarchy.line)((cores * PERIOD_US as f64) as u64);
        write(&quota.group.join(hierarchy.file), &line)?;
        Ok(quota)
    }

    /// Returns the path of the file into which you write the id of a process to move it into the
    /// group.
    pub fn members(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }

    /// Moves this process into the group.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn enter(&self) -> io::Result<()> {
        write(&self.members(), &std::process::id().to_string())
    }

    /// Moves this process back to the group that it was in.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn leave(&self) -> io::Result<()> {
        let members = self.home.join("cgroup.procs");
        write(&members, &std::process::id().to_string())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // If the removal fails, the administrator has to remove the group. We can do nothing more.
        let _ = fs::remove_dir(&self.group);
    }
}

fn write(path: &Path, line: &str) -> io::Result<()> {
    fs::write(path, line).map_err(|error| of(path, &error))
}

fn of(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

//! A quota of CPU time, as a container has it: a control group of one's own.
//!
//! This needs the right to make one, which root has outside containers.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PERIOD_US: u64 = 100_000;

/// A kind of control group that has quotas.
struct Hierarchy {
    /// Where this process is now.
    home: PathBuf,
    /// The file that takes the quota, and what it takes.
    file: &'static str,
    line: fn(u64) -> String,
}

impl Hierarchy {
    /// The one of this machine: version 1's `cpu`, or version 2's only one.
    fn find() -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
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

/// A control group with a quota, beside where this process is; it is removed when this is dropped, if
/// nobody is in it any more.
#[derive(Debug)]
pub struct Quota {
    home: PathBuf,
    group: PathBuf,
}

impl Quota {
    /// Makes one of so many cores.
    ///
    /// # Errors
    ///
    /// What the system says; the file is named.
    pub fn new(name: &str, cores: f64) -> io::Result<Quota> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "no control groups");
        let hierarchy = Hierarchy::find().ok_or_else(none)?;
        let group = hierarchy
            .home
            .join(format!("{name}-{}", std::process::id()));
        let home = hierarchy.home;
        fs::create_dir(&group).map_err(|error| of(&group, &error))?;
        // From here on it is removed again, whatever fails.
        let quota = Quota { home, group };
        let line = (hierarchy.line)((cores * PERIOD_US as f64) as u64);
        write(&quota.group.join(hierarchy.file), &line)?;
        Ok(quota)
    }

    /// The file that takes the number of who is to be in it.
    pub fn members(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }

    /// Moves this process into it.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn enter(&self) -> io::Result<()> {
        write(&self.members(), &std::process::id().to_string())
    }

    /// Moves this process to where it was.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn leave(&self) -> io::Result<()> {
        let members = self.home.join("cgroup.procs");
        write(&members, &std::process::id().to_string())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // What does not work is left to the administrator: nothing here can mend it.
        let _ = fs::remove_dir(&self.group);
    }
}

fn write(path: &Path, line: &str) -> io::Result<()> {
    fs::write(path, line).map_err(|error| of(path, &error))
}

fn of(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

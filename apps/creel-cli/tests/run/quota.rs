//! Creates control groups with a quota for a test.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Two nested cgroups. The outer one has a quota of one CPU. Dropping this removes them.
pub struct Quota {
    outer: PathBuf,
}

impl Quota {
    /// Creates the groups. Returns `None`, with a note on stderr, if the host does not allow it.
    pub fn of_one_cpu() -> Option<Self> {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("creel-run-{}-{number}", std::process::id());
        for (mount, file, value) in [
            ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"),
            ("/sys/fs/cgroup", "cpu.max", "100000 100000"),
        ] {
            let outer = Path::new(mount).join(&name);
            if !Path::new(mount).join("cgroup.procs").exists() || fs::create_dir(&outer).is_err() {
                continue;
            }
            let quota = Quota { outer };
            let limited = fs::write(quota.outer.join(file), value).is_ok();
            if limited && fs::create_dir(quota.inner()).is_ok() {
                return Some(quota);
            }
        }
        eprintln!("skipped: this host does not allow a cgroup with a quota");
        None
    }

    /// Lowers the quota to 0.1 CPU, which the program uses up even on a busy machine.
    pub fn tighten(&self) {
        let v1 = fs::write(self.outer.join("cpu.cfs_quota_us"), "10000");
        v1.or_else(|_| fs::write(self.outer.join("cpu.max"), "10000 100000"))
            .unwrap();
    }

    /// Removes the quota.
    pub fn lift(&self) {
        let v1 = fs::write(self.outer.join("cpu.cfs_quota_us"), "-1");
        v1.or_else(|_| fs::write(self.outer.join("cpu.max"), "max"))
            .unwrap();
    }

    /// Returns whether this process has no quota itself.
    pub fn none_here() -> bool {
        let machine = creel_topology::Machine::detect().unwrap();
        let budget = creel_topology::Budget::of(&machine);
        let kinds = budget.limits().iter().map(|limit| limit.kind);
        !kinds
            .into_iter()
            .any(|kind| kind == creel_topology::LimitKind::Quota)
    }

    fn inner(&self) -> PathBuf {
        self.outer.join("inner")
    }

    /// Returns words that you put in front of a command to run it in a group. `.` is the outer
    /// group, and any other name is the inner one.
    pub fn enter(&self, group: &'static str) -> Vec<&str> {
        let script = match group {
            "." => "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"",
            _ => "echo $$ > \"$0/inner/cgroup.procs\" && exec \"$@\"",
        };
        vec!["sh", "-c", script, self.outer.to_str().unwrap()]
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.inner());
        let _ = fs::remove_dir(&self.outer);
    }
}

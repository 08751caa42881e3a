//! Threads of other processes that are pinned to certain PUs.
//!
//! If two programs pin their workers to the first cores, they wait for each other while the rest of
//! the machine is idle. This module lets you detect that.
//!
//! It works on Linux only. On other systems the list is empty. We leave out kernel threads, because
//! each PU has its own, and threads that this user may not inspect.

use std::fs;
use std::path::Path;

use crate::types::CpuSet;

/// A thread of another process that may run only on the given PUs.
///
/// ```
/// use creel_topology::{CpuSet, neighbours};
///
/// for other in neighbours(&CpuSet::range(0..=0)) {
///     println!("{} ({}) is pinned to {}", other.name, other.process, other.pus);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Neighbour {
    /// The id of the process.
    pub process: u32,
    /// The id of the thread.
    pub thread: u32,
    /// The name of the thread.
    pub name: String,
    /// The affinity mask of the thread.
    pub pus: CpuSet,
}

/// Returns the threads of other processes that are restricted to `pus`, sorted by process and
/// thread.
///
/// This blocks while it reads one file per thread of the system. A thousand threads take some
/// milliseconds.
///
/// ```
/// use creel_topology::{CpuSet, neighbours};
///
/// assert!(neighbours(&CpuSet::new()).is_empty(), "no thread is pinned to the empty set");
/// ```
pub fn neighbours(pus: &CpuSet) -> Vec<Neighbour> {
    neighbours_in(Path::new("/proc"), std::process::id(), pus)
}

/// Returns the neighbours below a `/proc` folder, except those of the process `own`.
fn neighbours_in(proc: &Path, own: u32, pus: &CpuSet) -> Vec<Neighbour> {
    let mut found = Vec::new();
    for process in numbers(proc).into_iter().filter(|pid| *pid != own) {
        let tasks = proc.join(process.to_string()).join("task");
        for thread in numbers(&tasks) {
            // A thread may have ended since we read the folder. We skip it.
            let status = fs::read_to_string(tasks.join(thread.to_string()).join("status"));
            let neighbour = status.ok().and_then(|text| parse(&text, process, thread));
            found.extend(neighbour.filter(|other| other.pus.is_subset(pus)));
        }
    }
    found
}

/// Returns the entries of a folder that are numbers, in ascending order.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Parses a status file. Returns `None` for a kernel thread, which has no memory of its own.
///
/// Source: proc_pid_status(5).
fn parse(status: &str, process: u32, thread: u32) -> Option<Neighbour> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    field("VmSize:")?;
    Some(Neighbour {
        process,
        thread,
        name: field("Name:")?.trim().into(),
        pus: field("Cpus_allowed_list:")?.trim().parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(proc: &Path, process: u32, thread: u32, status: &str) {
        let folder = proc.join(format!("{process}/task/{thread}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("status"), status).unwrap();
    }

    #[test]
    fn only_pinned_user_threads_of_other_processes_are_found() {
        let proc = tempfile::tempdir().unwrap();
        let user = "Name:\tgame\nVmSize:\t 10 kB\nCpus_allowed_list:\t";
        thread(proc.path(), 7, 7, &format!("{user}0-3\n"));
        thread(proc.path(), 7, 8, &format!("{user}1\n"));
        thread(
            proc.path(),
            9,
            9,
            "Name:\tksoftirqd/1\nCpus_allowed_list:\t1\n",
        );
        thread(proc.path(), 11, 11, &format!("{user}1\n"));
        thread(proc.path(), 13, 13, "Name:\tcut sho");
        fs::create_dir(proc.path().join("sys")).unwrap();
        let found = neighbours_in(proc.path(), 11, &CpuSet::range(0..=1));
        let expected = Neighbour {
            process: 7,
            thread: 8,
            name: "game".into(),
            pus: CpuSet::range(1..=1),
        };
        assert_eq!(found, [expected]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn other_pinned_processes_are_found() {
        let all = crate::affinity::current().unwrap();
        let last = CpuSet::from_iter([all.last().unwrap()]);
        let child = std::thread::scope(|scope| {
            let pinned = || {
                crate::affinity::set(&last).unwrap();
                let mut sleep = std::process::Command::new("sleep");
                sleep.arg("60").spawn().unwrap()
            };
            scope.spawn(pinned).join().unwrap()
        });
        let found = neighbours(&last);
        let mut child = child;
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.iter().any(|other| other.process == child.id()));
    }
}

//! Threads of other processes that are pinned to some PUs: two programs that pin their workers
//! each to the first cores wait for each other while the rest of the machine idles.
//!
//! Linux only; elsewhere nobody is found. Left out: kernel threads, of which each PU has its
//! own, and whoever may not be looked at.

use std::fs;
use std::path::Path;

use crate::types::CpuSet;

/// A thread of another process that may run nowhere but on the PUs asked about.
///
/// ```
/// use creel_topology::{CpuSet, neighbours};
///
/// for other in neighbours(&CpuSet::range(0, 0)) {
///     println!("{} ({}) is pinned to {}", other.name, other.process, other.pus);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neighbour {
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// The thread's name.
    pub name: String,
    /// Its mask.
    pub pus: CpuSet,
}

/// The threads of other processes that are confined to `pus`, by process and thread.
///
/// Blocks while it reads a file of each thread on the system: some milliseconds for a thousand.
///
/// ```
/// use creel_topology::{CpuSet, neighbours};
///
/// assert!(neighbours(&CpuSet::new()).is_empty(), "nobody is pinned to nothing");
/// ```
pub fn neighbours(pus: &CpuSet) -> Vec<Neighbour> {
    neighbours_in(Path::new("/proc"), std::process::id(), pus)
}

fn neighbours_in(proc: &Path, own: u32, pus: &CpuSet) -> Vec<Neighbour> {
    let mut found = Vec::new();
    for process in numbers(proc).into_iter().filter(|pid| *pid != own) {
        let tasks = proc.join(process.to_string()).join("task");
        for thread in numbers(&tasks) {
            // Who has ended meanwhile is no neighbour.
            let status = fs::read_to_string(tasks.join(thread.to_string()).join("status"));
            let neighbour = status.ok().and_then(|text| parse(&text, process, thread));
            found.extend(neighbour.filter(|other| other.pus.is_subset(pus)));
        }
    }
    found
}

/// The entries of a folder that are numbers, in order.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// What a status file tells; none for a kernel thread, which has no memory of its own.
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
    fn only_pinned_threads_of_others_are_found() {
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
        let found = neighbours_in(proc.path(), 11, &CpuSet::range(0, 1));
        let expected = Neighbour {
            process: 7,
            thread: 8,
            name: "game".into(),
            pus: CpuSet::range(1, 1),
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

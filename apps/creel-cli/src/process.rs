//! Functions about processes, shared by several commands.

use creel_console::system;
use std::fs;

/// Returns all descendants of `root`, children before grandchildren. Without `/proc`, the list is
/// empty.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut found = children(root);
    let mut next = 0;
    while next < found.len() {
        found.extend(children(found[next]));
        next += 1;
    }
    found
}

/// Returns the children of all threads of the process.
pub fn children(pid: u32) -> Vec<u32> {
    // In the `/proc` of another PID namespace, the id may be that of a foreign process.
    if !system::shows_processes() {
        return Vec::new();
    }
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let pids = |list: String| -> Vec<u32> {
        list.split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    };
    lists.flat_map(pids).collect()
}

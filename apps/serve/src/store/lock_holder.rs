//! Finds the process that has locked a file, for the error message of a second server.

use std::fs;
use std::path::Path;

/// Returns a description of the process that holds the lock of a file, for example
/// `process 1234 (creel-serve --listen 127.0.0.1:8080)`.
///
/// Returns `None` if the OS does not list the lock. For example, the process may be in another
/// container.
pub(super) fn lock_holder(path: &Path) -> Option<String> {
    let process = holder(&creel_console::system::text("/proc/locks").ok()?, path)?;
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = command
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    let command = words.join(" ");
    Some(match words.is_empty() {
        true => format!("process {process}"),
        false => format!("process {process} ({command})"),
    })
}

/// Returns the process that holds a lock of a file, from the text of `/proc/locks`.
///
/// Source: proc_locks(5).
#[cfg(unix)]
fn holder(locks: &str, path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;

    let inode = fs::metadata(path).ok()?.ino();
    locks.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        // A process that waits for a lock has an additional field `->`.
        let [_, kind, _, _, process, file, ..] = fields[..] else {
            return None;
        };
        // We do not compare the device, because some file systems, for example btrfs and overlayfs,
        // report another one here than in `stat`.
        let found = file.rsplit(':').next()?.parse::<u64>().ok()?;
        let is_lock = matches!(kind, "FLOCK" | "POSIX" | "OFDLCK");
        let process = process.parse().ok().filter(|process| *process > 0)?;
        (is_lock && found == inode).then_some(process)
    })
}

#[cfg(not(unix))]
fn holder(_: &str, _: &Path) -> Option<u32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_holder_of_a_file_is_found_by_its_inode() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let inode = file.path().metadata().unwrap().ino();
        let locks = format!(
            "1: POSIX  ADVISORY  WRITE 11 fe:00:{} 0 EOF\n\
             1: -> FLOCK  ADVISORY  WRITE 22 fe:00:{inode} 0 EOF\n\
             2: FLOCK  ADVISORY  WRITE 33 fe:00:{inode} 0 EOF\n",
            inode + 1
        );
        assert_eq!(holder(&locks, file.path()), Some(33));
        assert_eq!(holder("", file.path()), None);
        assert_eq!(holder(&locks, &file.path().join("missing")), None);
    }
}

//! How much memory the process holds, and has held at most; which only C can have given back.

use std::fs;

/// The largest resident set of the process's life so far, in bytes; NaN where the system does
/// not tell.
///
/// Source: proc(5), `VmHWM` of /proc/self/status.
pub fn peak_rss_bytes() -> f64 {
    of_status("VmHWM:")
}

/// The resident set now, in bytes; NaN where the system does not tell.
///
/// Source: proc(5), `VmRSS` of /proc/self/status.
pub fn rss_bytes() -> f64 {
    of_status("VmRSS:")
}

/// Gives to the system what is free in the heap, where the C library can do that; by itself it
/// keeps what lies between blocks in use.
#[allow(unsafe_code)]
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it may be called by any thread at any time, malloc_trim(3).
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

fn of_status(name: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse(&status, name).unwrap_or(f64::NAN)
}

fn parse(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_memory_is_parsed_from_kib() {
        let status = "Name:\tx\nVmHWM:\t    1840 kB\nVmRSS:\t 12 kB\n";
        assert_eq!(parse(status, "VmHWM:"), Some(1840.0 * 1024.0));
        assert_eq!(parse(status, "VmRSS:"), Some(12.0 * 1024.0));
        assert_eq!(parse("Name:\tx\n", "VmHWM:"), None);
    }
}

//! The memory of this process, now and at its peak, and a way to return free memory to the system.
//!
//! Unsafe code is allowed here for one call of the C library, `malloc_trim`.

/// Returns the largest resident set so far in bytes, or NaN if the system does not report it.
///
/// Source: proc(5), `VmHWM` of /proc/self/status.
pub fn peak_rss_bytes() -> f64 {
    of_status("VmHWM:")
}

/// Returns the current resident set in bytes, or NaN if the system does not report it.
///
/// Source: proc(5), `VmRSS` of /proc/self/status.
pub fn rss_bytes() -> f64 {
    of_status("VmRSS:")
}

/// Returns free memory of the heap to the system, if the C library can do this.
///
/// Without this call, glibc keeps free memory that lies between used blocks.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call `malloc_trim` at any time, see malloc_trim(3). It needs no
    // pointers.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

fn of_status(name: &str) -> f64 {
    let status = creel_console::system::text("/proc/self/status").unwrap_or_default();
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

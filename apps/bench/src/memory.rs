//! How much memory the process has held at most.

use std::fs;

/// The largest resident set of the process's life so far, in bytes; NaN where the system does
/// not tell.
///
/// Source: proc(5), `VmHWM` of /proc/self/status.
pub fn peak_rss_bytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse_peak(&status).unwrap_or(f64::NAN)
}

fn parse_peak(status: &str) -> Option<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_told_in_kib() {
        assert_eq!(
            parse_peak("Name:\tx\nVmHWM:\t    1840 kB\n"),
            Some(1840.0 * 1024.0)
        );
        assert_eq!(parse_peak("Name:\tx\n"), None);
    }
}

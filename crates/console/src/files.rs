//! The limit on the number of open files. Servers raise it when they start, because each connection
//! needs a file.

/// The smallest and the largest number of open files that we reserve for purposes other than
/// connections. Between these two numbers, we reserve a quarter of the limit.
#[cfg(unix)]
const RESERVED: std::ops::RangeInclusive<u64> = 16..=100;

/// Raises the limit on open files as far as the system allows, for this process and for processes
/// that it starts. Returns the number of connections that fit into the limit, which is at least
/// one.
pub fn allow_many() -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // We ignore an error, because the program also works with the present limit.
        let _ = setrlimit(Resource::Nofile, raised);
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        usize::try_from(connections_within(allowed)).unwrap_or(usize::MAX)
    }
    #[cfg(not(unix))]
    usize::MAX
}

#[cfg(unix)]
fn connections_within(allowed: u64) -> u64 {
    let reserved = (allowed / 4).clamp(*RESERVED.start(), *RESERVED.end());
    allowed.saturating_sub(reserved).max(1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::connections_within;

    #[test]
    fn every_limit_of_files_leaves_room_for_a_connection() {
        let limits = [0, 16, 24, 64, 256, 1024, u64::MAX];
        assert_eq!(
            limits.map(connections_within),
            [1, 1, 8, 48, 192, 924, u64::MAX - 100]
        );
    }
}

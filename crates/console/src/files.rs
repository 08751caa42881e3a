//! Open files: how many a process may have.

/// Files that a process has open beside its connections, at most.
#[cfg(unix)]
const OTHERS: u64 = 100;

/// Raises this process's limit of open files, and that of processes it starts, as far as it may. Gives
/// how many connections that leaves room for, at least one.
pub fn allow_many() -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // Not allowed, it stays as it is.
        let _ = setrlimit(Resource::Nofile, raised);
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        usize::try_from(allowed.saturating_sub(OTHERS).max(1)).unwrap_or(usize::MAX)
    }
    #[cfg(not(unix))]
    usize::MAX
}

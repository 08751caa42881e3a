//! Samples under a quota of CPU time.
//!
//! While such a sample runs, this process is in a control group of its own. If we cannot create a
//! control group, we leave out the cases that need a quota.

use creel_console::quota::Quota;

use crate::harness::Subject;

/// A guard that keeps this process in a control group with a quota until it is dropped.
struct Within(Quota);

impl Within {
    fn enter(cores: f64) -> anyhow::Result<Self> {
        let within = Within(Quota::new("creel-bench", cores)?);
        within.0.enter()?;
        Ok(within)
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        // Dropping the quota removes the group, if the process could leave it. We ignore an error
        // here, because there is nothing that we could do about it.
        let _ = self.0.leave();
    }
}

/// Returns whether we can set a quota on this machine.
pub fn can_be_set() -> bool {
    Within::enter(1.0).is_ok()
}

/// Returns the subject with a quota of `cores` cores, under which each of its samples runs.
pub fn within(subject: Subject, cores: f64) -> Subject {
    subject.within(move |sample| {
        let _quota = Within::enter(cores)?;
        sample()
    })
}

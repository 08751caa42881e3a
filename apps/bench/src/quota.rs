//! Samples under a quota of CPU time: in a control group of our own, while one is taken. Where none
//! can be made, the cases that need a quota are left out.

use creel_console::quota::Quota;

use crate::harness::Subject;

/// This process is in a group with a quota until it is dropped.
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
        // The group is removed after this, if it worked.
        let _ = self.0.leave();
    }
}

/// Whether a quota can be set here.
pub fn can_be_set() -> bool {
    Within::enter(1.0).is_ok()
}

/// The subject, with each of its samples under a quota of so many cores.
pub fn within(subject: Subject, cores: f64) -> Subject {
    subject.within(move |sample| {
        let _quota = Within::enter(cores)?;
        sample()
    })
}

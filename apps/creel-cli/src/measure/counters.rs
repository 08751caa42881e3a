//! The kernel's performance counters over this process and all that it starts, each where it is
//! allowed: migrations by software, cycles and instructions by hardware.

use super::sample::Sample;
use perf_event::{
    Builder, Counter,
    events::{Event, Hardware, Software},
};
use std::os::fd::AsRawFd;

/// Counters that are open, with the figures that they give and their last values.
pub struct Counters(Vec<(&'static str, Counter, u64)>);

impl Counters {
    pub fn open() -> Self {
        let wanted: [(&str, Event); 3] = [
            ("migrations", Software::CPU_MIGRATIONS.into()),
            ("cycles", Hardware::CPU_CYCLES.into()),
            ("instructions", Hardware::INSTRUCTIONS.into()),
        ];
        let opened = wanted.into_iter().filter_map(|(name, event)| {
            let mut builder = Builder::new().kind(event);
            // A migration happens inside the kernel: without this the count is always zero.
            builder.inherit(true).include_kernel();
            let mut counter = builder.build().ok()?;
            close_on_exec(&counter);
            counter.enable().ok()?;
            Some((name, counter, 0))
        });
        Self(opened.collect())
    }

    /// Remembers where the counters stand.
    pub fn begin(&mut self) {
        for (_, counter, before) in &mut self.0 {
            *before = counter.read().unwrap_or(0);
        }
    }

    /// What they have counted since.
    pub fn read(&mut self, sample: &mut Sample) {
        for (name, counter, before) in &mut self.0 {
            let counted = counter.read().ok().map(|now| now.saturating_sub(*before));
            sample.set(name, counted.map(|n| n as f64));
        }
    }
}

/// The commands shall find no descriptor that is ours.
#[allow(unsafe_code)]
fn close_on_exec(counter: &Counter) {
    // SAFETY: the descriptor is the counter's, which outlives the call; no memory is passed.
    unsafe { libc::fcntl(counter.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
}

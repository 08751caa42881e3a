//! Performance counters of the kernel for this process and its descendants. Migrations are counted
//! by software, and cycles and instructions by hardware. We use those that the system allows.
//!
//! Unsafe code is allowed here for one call of `fcntl`, which closes a counter in child processes.

use super::sample::Sample;
use perf_event::{
    Builder, Counter,
    events::{Event, Hardware, Software},
};
use std::os::fd::AsRawFd;

/// The open counters. Each has the name of its figure and the value at the start of the run.
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
            // Migrations happen inside the kernel. Without `include_kernel`, the count is always
            // zero.
            builder.inherit(true).include_kernel();
            let mut counter = builder.build().ok()?;
            close_on_exec(&counter);
            counter.enable().ok()?;
            Some((name, counter, 0))
        });
        Self(opened.collect())
    }

    /// Records the current values.
    pub fn begin(&mut self) {
        for (_, counter, before) in &mut self.0 {
            *before = counter.read().unwrap_or(0);
        }
    }

    /// Stores the increase since [`Counters::begin`] in the sample.
    pub fn read(&mut self, sample: &mut Sample) {
        for (name, counter, before) in &mut self.0 {
            let counted = counter.read().ok().map(|now| now.saturating_sub(*before));
            sample.set(name, counted.map(|n| n as f64));
        }
    }
}

/// Closes the descriptor of a counter in the commands, so that they inherit none of ours.
#[allow(unsafe_code)]
fn close_on_exec(counter: &Counter) {
    // SAFETY: the counter owns the descriptor and outlives the call. We pass no memory.
    unsafe { libc::fcntl(counter.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
}

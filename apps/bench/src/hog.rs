//! Imitates another program on the same machine, because users rarely have a machine for
//! themselves. A *hog* is a thread that spins on one PU.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use creel_topology::{CpuSet, affinity};

use crate::harness::Subject;

/// A guard with a thread that spins until the guard is dropped.
struct Hog {
    /// Ends the thread. Relaxed is enough, because the flag publishes no other data.
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// Starts a thread on the last PU of the caller's affinity mask. Returns when the thread is on
    /// that PU.
    fn start() -> anyhow::Result<Self> {
        let last = affinity::current()?.last().unwrap_or(0);
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, started) = std::sync::mpsc::channel();
        let seen = Arc::clone(&stop);
        let thread = thread::Builder::new().name("hog".into()).spawn(move || {
            // The send cannot fail, because the receiver waits for this message.
            let _ = ready.send(affinity::set(&CpuSet::range(last..=last)));
            while !seen.load(Ordering::Relaxed) {
                spin_loop();
            }
        })?;
        let hog = Hog {
            stop,
            thread: Some(thread),
        };
        started.recv()??;
        Ok(hog)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // We ignore the result, because a thread that only spins cannot panic.
            let _ = thread.join();
        }
    }
}

/// Returns the subject with a hog, a thread that spins on one PU during each of its samples.
pub fn with_hog(subject: Subject) -> Subject {
    subject.within(|sample| {
        let _hog = Hog::start()?;
        sample()
    })
}

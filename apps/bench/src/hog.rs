//! A neighbour that spins on one PU, as another program may.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use creel_topology::{CpuSet, affinity};

use crate::harness::Subject;

/// Spins until it is dropped.
struct Hog {
    /// Relaxed: it carries no data.
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// Begins to spin on the last PU of the caller's mask, and returns once it does.
    fn start() -> anyhow::Result<Self> {
        let last = affinity::current()?.last().unwrap_or(0);
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, started) = std::sync::mpsc::channel();
        let seen = Arc::clone(&stop);
        let thread = thread::Builder::new().name("hog".into()).spawn(move || {
            // The receiver waits for this one message.
            let _ = ready.send(affinity::set(&CpuSet::range(last, last)));
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
            // It cannot panic: it only spins.
            let _ = thread.join();
        }
    }
}

/// The subject, with a hog beside each of its samples.
pub fn with_hog(subject: Subject) -> Subject {
    subject.within(|sample| {
        let _hog = Hog::start()?;
        sample()
    })
}

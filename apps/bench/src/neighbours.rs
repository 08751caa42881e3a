//! Threads that compute and sleep in turn, like compilers on the same machine.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::harness::Subject;

/// Threads that compute and sleep in turn until this is dropped.
struct Neighbours {
    /// Ends the threads. Relaxed is enough, because the flag publishes no other data.
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The time that a neighbour computes, and the time that it sleeps. A compiler waits for files and
/// for its own threads about as often.
const COMPUTES: Duration = Duration::from_millis(4);
const SLEEPS: Duration = Duration::from_millis(1);
/// The time before a sample, so that the averages of the kernel show the neighbours.
const SETTLES: Duration = Duration::from_millis(200);

impl Neighbours {
    fn start(count: usize) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Neighbours {
            stop: Arc::clone(&stop),
            threads: Vec::with_capacity(count),
        };
        for _ in 0..count {
            let seen = Arc::clone(&stop);
            let builder = thread::Builder::new().name("neighbour".into());
            all.threads.push(builder.spawn(move || {
                while !seen.load(Ordering::Relaxed) {
                    let begin = Instant::now();
                    while begin.elapsed() < COMPUTES {
                        spin_loop();
                    }
                    thread::sleep(SLEEPS);
                }
            })?);
        }
        thread::sleep(SETTLES);
        Ok(all)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread cannot panic, because it only computes and sleeps.
            let _ = thread.join();
        }
    }
}

/// Returns the subject with neighbours that run next to each of its samples.
pub fn with_neighbours(subject: Subject, count: usize) -> Subject {
    subject.within(move |sample| {
        let _neighbours = Neighbours::start(count)?;
        sample()
    })
}

//! Imitates other programs on the same machine, because users rarely have a machine for themselves.
//! *Neighbours* are threads that compute and sleep in turn, like compilers.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::harness::Subject;

/// A guard with threads that compute and sleep in turn until the guard is dropped.
struct Neighbours {
    /// Ends the threads. Relaxed is enough, because the flag publishes no other data.
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// The time that a neighbour computes, and the time that it sleeps. A compiler waits for files and
/// for its own threads about as often.
const COMPUTES: Duration = Duration::from_millis(4);
const SLEEPS: Duration = Duration::from_millis(1);
/// The time that the neighbours run before a sample begins. The kernel's averages of the load then
/// already include them.
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
            // We ignore the result, because a thread that only computes and sleeps cannot panic.
            let _ = thread.join();
        }
    }
}

/// Returns the subject with `count` neighbours, which run during each of its samples.
pub fn with_neighbours(subject: Subject, count: usize) -> Subject {
    subject.within(move |sample| {
        let _neighbours = Neighbours::start(count)?;
        sample()
    })
}

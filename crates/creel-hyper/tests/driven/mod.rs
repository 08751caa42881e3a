//! A clock that a test drives, no faster than the server that goes by it follows.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use creel::Pool;
use creel::time::{Clock, interval};

/// For what must come: only a hang takes this long.
pub const PATIENCE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// A second, and what a timer may be late by.
const STEP: Duration = Duration::from_millis(1001);

/// The clock of a pool of one worker on a thread of its own.
pub struct Driven {
    clock: Clock,
    seconds: Receiver<()>,
}

impl Driven {
    /// Runs this with the pool.
    pub fn start(run: impl FnOnce(Pool) + Send + 'static) -> Driven {
        let clock = Clock::manual();
        let (tell, seconds) = mpsc::channel();
        let (on, first) = (clock.clone(), clock.now() + SECOND);
        thread::spawn(move || {
            let pool = Pool::builder().workers(1).clock(on).build().unwrap();
            pool.spawn(async move {
                let mut ticks = interval(SECOND).starting(first);
                while tell.send(()).is_ok() {
                    ticks.tick().await;
                }
            });
            run(pool);
        });
        // The first is told of before any has gone by.
        seconds.recv_timeout(PATIENCE).unwrap();
        Driven { clock, seconds }
    }

    /// Lets a second go by, and waits until the pool has seen that; unless it is gone.
    pub fn second(&self) {
        self.clock.advance(STEP);
        let seen = self.seconds.recv_timeout(PATIENCE);
        assert!(seen != Err(RecvTimeoutError::Timeout), "it stands still");
    }
}

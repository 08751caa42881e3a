//! A clock that a test advances by one second at a time. After each second, the test waits until
//! the server has noticed.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use creel::Pool;
use creel::time::{Clock, interval};

/// The timeout of all waits. It is long, because only a test that hangs should reach it.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// The step by which we advance the clock: a second, plus the millisecond by which a timer may be
/// late.
const STEP: Duration = Duration::from_millis(1001);

/// The clock of a pool with one worker on its own thread.
pub struct Driven {
    clock: Clock,
    seconds: Receiver<()>,
}

impl Driven {
    /// Creates a pool whose clock the test drives, and runs a function with the pool on a new
    /// thread.
    pub fn start(run: impl FnOnce(Pool) + Send + 'static) -> Driven {
        let clock = Clock::manual();
        let (sender, seconds) = mpsc::channel();
        let (on, first) = (clock.clone(), clock.now() + SECOND);
        thread::spawn(move || {
            let pool = Pool::builder().workers(1).clock(on).build().unwrap();
            pool.spawn(async move {
                let mut ticks = interval(SECOND).starting(first);
                while sender.send(()).is_ok() {
                    ticks.tick().await;
                }
            });
            run(pool);
        });
        // We wait for the first message, which the pool sends when it is ready, before any second
        // has passed.
        seconds.recv_timeout(HANG_TIMEOUT).unwrap();
        Driven { clock, seconds }
    }

    /// Advances the clock by a second and waits until the pool has noticed, unless the pool has
    /// ended.
    pub fn second(&self) {
        self.clock.advance(STEP);
        let seen = self.seconds.recv_timeout(HANG_TIMEOUT);
        assert!(
            seen != Err(RecvTimeoutError::Timeout),
            "the pool does not react to its clock"
        );
    }
}

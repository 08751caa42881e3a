//! Ctrl-C as a flag that a program looks at between its units.
//!
//! The first SIGINT or SIGTERM sets the flag: the program finishes or abandons the unit under
//! way, leaves whole outputs only, and ends with [`Exit::Interrupted`] or [`Exit::Terminated`]. A
//! second one ends the process at once, as it would any, for a unit that takes too long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::{Exit, Failure};

/// Whether who started this wants a signal ignored, as `nohup` does; where the system does not say, it is not.
pub fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// Whether the user asked the program to stop; clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    /// Only ever goes from false to true. Relaxed: it carries no data, and the one who reads it
    /// next time is soon enough.
    requested: Arc<AtomicBool>,
    /// Whether it was SIGTERM; set before `requested` is, and looked at after it. Relaxed: the
    /// handlers set both in one thread, and a wrong word in a race of two signals harms nobody.
    terminated: Arc<AtomicBool>,
    /// The same of [`Interrupt::hang_up`].
    hung_up: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes over SIGINT and SIGTERM for the rest of the process's life.
    ///
    /// # Errors
    ///
    /// When the system refuses the handlers.
    pub fn install() -> io::Result<Self> {
        let interrupt = Interrupt::default();
        let early = Arc::new(AtomicBool::new(false));
        for (signal, exit) in [(SIGINT, Exit::Interrupted), (SIGTERM, Exit::Terminated)] {
            // One that comes before all of this is there ends nothing by itself any more.
            flag::register(signal, early.clone())?;
            if exit == Exit::Terminated {
                flag::register(signal, interrupt.terminated.clone())?;
            }
            // Order matters: the shutdown looks at the flag before this signal sets it.
            flag::register_conditional_default(signal, interrupt.requested.clone())?;
            flag::register(signal, interrupt.requested.clone())?;
        }
        if early.load(Ordering::Relaxed) {
            interrupt.request();
        }
        Ok(interrupt)
    }

    /// Sets the flag as a signal would.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// The same where the terminal was closed.
    pub fn hang_up(&self) {
        self.hung_up.store(true, Ordering::Relaxed);
        self.request();
    }

    /// Whether a stop was asked for. Never blocks; cheap enough for an inner loop.
    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// The same as an error, to leave a function with `?`.
    ///
    /// # Errors
    ///
    /// A [`Failure`] with [`Exit::Interrupted`], [`Exit::Terminated`] or [`Exit::HungUp`] once a stop was
    /// asked for.
    ///
    /// ```
    /// use creel_console::Interrupt;
    ///
    /// let interrupt = Interrupt::default();
    /// assert!(interrupt.check().is_ok());
    /// interrupt.request();
    /// assert_eq!(interrupt.check().unwrap_err().to_string(), "interrupted");
    /// ```
    pub fn check(&self) -> Result<(), Failure> {
        if self.requested() && self.terminated.load(Ordering::Relaxed) {
            Err(Failure::new(Exit::Terminated, "terminated"))
        } else if self.requested() && self.hung_up.load(Ordering::Relaxed) {
            Err(Failure::new(Exit::HungUp, "its terminal was closed"))
        } else if self.requested() {
            Err(Failure::new(Exit::Interrupted, "interrupted"))
        } else {
            Ok(())
        }
    }
}

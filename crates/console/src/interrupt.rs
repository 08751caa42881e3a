//! Ctrl-C as a flag that a program checks between two parts of its work.
//!
//! The first SIGINT or SIGTERM sets the flag. The program then finishes or abandons the current
//! part, leaves complete outputs only, and ends with [`Exit::Interrupted`] or [`Exit::Terminated`].
//! A second signal ends the process at once, as it ends other programs. You need it if a part takes
//! too long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::{Exit, Failure};

/// Returns whether the process was started with this signal ignored, as `nohup` does. Returns
/// `false` if the system does not report it.
pub fn is_ignored(number: i32) -> bool {
    let status = crate::system::text("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// A flag that says whether the user has asked the program to stop. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    /// Changes only from false to true. Relaxed is enough, because the flag carries no data, and a
    /// reader that misses the change sees it on its next check.
    requested: Arc<AtomicBool>,
    /// Whether the signal was SIGTERM. The handlers set it before `requested`, and we read it after
    /// `requested`. Relaxed is enough, because the handlers set both flags in one thread, and a
    /// wrong exit code after a race of two signals does no harm.
    terminated: Arc<AtomicBool>,
    /// Whether [`Interrupt::hang_up`] was called.
    hung_up: Arc<AtomicBool>,
}

impl Interrupt {
    /// Installs handlers for SIGINT and SIGTERM, which stay for the rest of the process.
    ///
    /// # Errors
    ///
    /// Returns an error if the system rejects the handlers.
    pub fn install() -> io::Result<Self> {
        let interrupt = Interrupt::default();
        let early = Arc::new(AtomicBool::new(false));
        for (signal, exit) in [(SIGINT, Exit::Interrupted), (SIGTERM, Exit::Terminated)] {
            // From here on, a signal no longer ends the process by itself. `early` records a signal
            // that arrives before the other handlers are installed.
            flag::register(signal, early.clone())?;
            if exit == Exit::Terminated {
                flag::register(signal, interrupt.terminated.clone())?;
            }
            // The order matters: the handler that ends the process must check the flag before the
            // same signal sets it.
            flag::register_conditional_default(signal, interrupt.requested.clone())?;
            flag::register(signal, interrupt.requested.clone())?;
        }
        if early.load(Ordering::Relaxed) {
            interrupt.request();
        }
        Ok(interrupt)
    }

    /// Sets the flag as a SIGINT does.
    pub fn request(&self) {
        self.requested.store(true, Ordering::Relaxed);
    }

    /// Sets the flag and records that the terminal was closed.
    pub fn hang_up(&self) {
        self.hung_up.store(true, Ordering::Relaxed);
        self.request();
    }

    /// Returns whether the program should stop. The call never blocks, and it is cheap enough for
    /// an inner loop.
    pub fn requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// Returns an error if the program should stop, so that you can leave a function with `?`.
    ///
    /// # Errors
    ///
    /// Returns a [`Failure`] with [`Exit::Interrupted`], [`Exit::Terminated`] or [`Exit::HungUp`]
    /// once the flag is set.
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
            Err(Failure::new(Exit::HungUp, "the terminal was closed"))
        } else if self.requested() {
            Err(Failure::new(Exit::Interrupted, "interrupted"))
        } else {
            Ok(())
        }
    }
}

//! Keys that come at the very moment of a resize.
//!
//! A library that waits for keys and for SIGWINCH by an edge-triggered poller, and gives one event at a
//! time, forgets that there were keys when both come at once, and is not told of them again before the
//! next key. Setting a terminal's modes to what they are wakes whoever waits for it (Linux:
//! `n_tty_set_termios`), and so tells it again.

#[cfg(unix)]
use std::io;

/// To be called after a resize: keys that are there already are told of once more.
pub fn after_resize() {
    #[cfg(unix)]
    {
        use rustix::process::getpgrp;
        use rustix::termios::{OptionalActions, tcgetattr, tcgetpgrp, tcsetattr};

        let stdin = io::stdin();
        // In the background it would be stopped for that.
        if tcgetpgrp(&stdin) != Ok(getpgrp()) {
            return;
        }
        if let Ok(modes) = tcgetattr(&stdin) {
            // Who is not let waits for the next key, as before.
            let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
        }
    }
}

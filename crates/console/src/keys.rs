//! A workaround for keys that arrive at the same time as a resize of the terminal.
//!
//! Some libraries wait for keys and for SIGWINCH with an edge-triggered poller and return one event
//! at a time. If both arrive together, such a library forgets the keys. The poller reports them
//! again only with the next key. We can trigger that report: setting the modes of a terminal to
//! their current values wakes its readers (on Linux in `n_tty_set_termios`).

#[cfg(unix)]
use std::io;

/// Makes the terminal report waiting keys again. Call it after each resize event.
pub fn after_resize() {
    #[cfg(unix)]
    {
        use rustix::process::getpgrp;
        use rustix::termios::{OptionalActions, tcgetattr, tcgetpgrp, tcsetattr};

        let stdin = io::stdin();
        // We set the modes of the terminal only in the foreground, because the kernel stops a
        // background process that sets them.
        if tcgetpgrp(&stdin) != Ok(getpgrp()) {
            return;
        }
        if let Ok(modes) = tcgetattr(&stdin) {
            // We ignore an error. In this case, the waiting keys are reported with the next key, as
            // they would be without this workaround.
            let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
        }
    }
}

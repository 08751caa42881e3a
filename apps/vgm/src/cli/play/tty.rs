//! The system's part of the terminal: opening it, waiting for input, and job control.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Signal, getpgrp, kill_current_process_group};
use rustix::termios::tcgetpgrp;

/// The terminal. We use a `File`, because writing to it needs only a shared reference.
pub type Tty = File;

/// Opens the terminal again, in non-blocking mode. We do not use standard output, because other
/// processes may share it, and non-blocking mode would affect them as well. The terminal is also
/// available if standard input is a playlist or a song.
pub fn open() -> io::Result<Tty> {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(nonblocking)
        .open("/dev/tty")
}

/// Returns whether there is a terminal and we are in its foreground. The system stops a background
/// process that uses the terminal.
pub fn is_foreground() -> bool {
    open().is_ok_and(|terminal| tcgetpgrp(&terminal) == Ok(getpgrp()))
}

/// Returns whether the terminal can show an interface. Some have no screen, for example the shell
/// of Emacs.
pub fn is_screen() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Waits for a key or a signal for up to `wait`. Returns whether the terminal has hung up. We check
/// this, because the library that reads keys would read forever from such a terminal.
pub fn wait_for_input(terminal: &Tty, wait: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(terminal, PollFlags::IN)];
    let time = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&time)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let ends = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    Ok(fds[0].revents().intersects(ends))
}

/// Returns whether an error means that the window of the terminal was closed.
pub fn is_closed(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::IO.raw_os_error())
}

/// Whether the shell can stop the player and resume it.
pub const HAS_JOB_CONTROL: bool = true;

/// Stops the process group until the shell resumes it.
pub fn stop() -> io::Result<()> {
    Ok(kill_current_process_group(Signal::TSTP)?)
}

/// Sends SIGINT to the process group. In raw mode, the terminal sends no signal for Ctrl-C. A
/// script that waits for the player must receive the signal as well.
pub fn interrupt_group() -> io::Result<()> {
    Ok(kill_current_process_group(Signal::INT)?)
}

/// Writes bytes to the terminal without waiting for it.
pub fn write(bytes: &[u8]) -> io::Result<()> {
    open()?.write_all(bytes)
}

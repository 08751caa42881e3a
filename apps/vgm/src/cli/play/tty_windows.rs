//! The system's part of the terminal on Windows. There is no job control, and a console that is
//! closed ends the process. We write to standard output, because Rust's standard library then
//! converts the text to the console's encoding.

use std::io::{self, Stdout, Write};
use std::time::Duration;

use ratatui::crossterm::event;

/// The terminal, to which a reference can write.
pub type Tty = Stdout;

/// Returns the terminal. The function has the form that other systems need.
#[expect(clippy::unnecessary_wraps)]
pub fn open() -> io::Result<Tty> {
    Ok(io::stdout())
}

/// Returns true, because the system does not stop processes in the background.
pub fn is_foreground() -> bool {
    true
}

/// Returns true, because every console can show an interface.
pub fn is_screen() -> bool {
    true
}

/// Waits for a key for up to `wait`. Returns false, because a console does not hang up.
pub fn wait_for_input(_: &Tty, wait: Duration) -> io::Result<bool> {
    event::poll(wait)?;
    Ok(false)
}

/// Returns false, because the process ends with its console.
pub fn is_closed(_: &io::Error) -> bool {
    false
}

/// Whether the shell can stop the player and resume it.
pub const HAS_JOB_CONTROL: bool = false;

/// Does nothing, because there is no job control.
#[expect(clippy::unnecessary_wraps)]
pub fn stop() -> io::Result<()> {
    Ok(())
}

/// Does nothing, because a script learns from the exit code that the player was interrupted.
#[expect(clippy::unnecessary_wraps)]
pub fn interrupt_group() -> io::Result<()> {
    Ok(())
}

/// Writes bytes to the terminal.
pub fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(bytes)?;
    out.flush()
}

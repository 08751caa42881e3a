//! The terminal of the interface. We write to it without blocking, and restore it at the end, even
//! after a panic.

use std::cell::RefCell;
use std::io::{self, Write};
use std::panic;
use std::rc::Rc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ratatui::Frame;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};

use super::backend::NoCursorQuery;
use super::tty::{self, Tty};

/// Whether a thread has panicked. The interface then draws nothing more, so that it does not
/// overwrite the panic message. `Relaxed` is enough, because a frame that is being drawn is
/// finished in any case.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// The terminal while the interface uses it.
pub struct Terminal {
    inner: ratatui::Terminal<NoCursorQuery<BufferedTty>>,
    /// The writer that `inner` writes to.
    out: BufferedTty,
    mouse: bool,
}

impl Terminal {
    /// Switches the terminal to the interface, and captures the mouse if `mouse` is set.
    pub fn enter(mouse: bool) -> io::Result<Self> {
        static PANIC_HOOK: Once = Once::new();
        PANIC_HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                PANICKED.store(true, Relaxed);
                restore();
                before(info);
            }));
        });
        let mut out = BufferedTty::new()?;
        let inner = ratatui::Terminal::new(NoCursorQuery::new(out.clone()))?;
        enter_raw(mouse, &mut out)?;
        Ok(Terminal { inner, out, mouse })
    }

    /// Draws a frame. Draws nothing if the terminal has not accepted the previous frame yet, or if
    /// a thread has panicked.
    ///
    /// The frame is a synchronized update, which a terminal shows as a whole. A terminal that does
    /// not know this mode ignores it.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if PANICKED.load(Relaxed) {
            return Ok(());
        }
        self.out.flush()?;
        if self.out.pending.borrow().is_empty() {
            queue!(self.out, BeginSynchronizedUpdate)?;
            self.inner.draw(draw)?;
            execute!(self.out, EndSynchronizedUpdate)?;
        }
        Ok(())
    }

    /// Returns the terminal from which to read keys.
    pub fn keys(&self) -> &Tty {
        &self.out.out
    }

    /// Makes the next frame redraw the whole screen and not only the changes.
    pub fn invalidate(&mut self) -> io::Result<()> {
        // The terminal then does not show the empty screen.
        queue!(self.out, BeginSynchronizedUpdate)?;
        self.inner.clear()
    }

    /// Restores the terminal and stops the process until the shell resumes it.
    pub fn suspend(&mut self) -> io::Result<()> {
        restore();
        tty::stop()?;
        enter_raw(self.mouse, &mut self.out)?;
        self.inner.clear()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether the interface uses the terminal. We must restore it only once, because a second time
/// would move the cursor back before output that was written in between. `Relaxed` is enough,
/// because the value is swapped, so only one of two threads restores the terminal.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Switches the terminal to the interface, at the start or after a suspend.
fn enter_raw(mouse: bool, out: &mut impl Write) -> io::Result<()> {
    ENTERED.store(true, Relaxed);
    enable_raw_mode()?;
    execute!(out, EnterAlternateScreen, Hide)?;
    if mouse {
        execute!(out, EnableMouseCapture)?;
    }
    Ok(())
}

/// Restores the terminal without waiting for it, because it may be stopped. We ignore errors,
/// because there is nowhere to report them.
fn restore() {
    if !ENTERED.swap(false, Relaxed) {
        return;
    }
    let mut bytes = Vec::new();
    let _ = execute!(
        bytes,
        EndSynchronizedUpdate,
        DisableMouseCapture,
        LeaveAlternateScreen,
        Show
    );
    let _ = tty::write(&bytes);
    let _ = disable_raw_mode();
}

/// A writer to the terminal that buffers the bytes which the terminal does not accept now. A
/// stopped terminal therefore does not block the interface.
#[derive(Clone)]
struct BufferedTty {
    out: Rc<Tty>,
    pending: Rc<RefCell<Vec<u8>>>,
}

impl BufferedTty {
    fn new() -> io::Result<Self> {
        Ok(BufferedTty {
            out: Rc::new(tty::open()?),
            pending: Rc::default(),
        })
    }
}

impl Write for BufferedTty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut pending = self.pending.borrow_mut();
        while !pending.is_empty() {
            match (&*self.out).write(&pending) {
                Ok(count) => {
                    pending.drain(..count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use pty_process::blocking::{Command, open};
    use std::io::Read;
    use std::os::fd::AsFd;

    /// Runs as a program of its own, in a terminal that the test below checks.
    #[test]
    #[ignore = "panics on purpose: the test below starts it"]
    fn panics() {
        let mut terminal = Terminal::enter(true).unwrap();
        let mut draw = || terminal.draw(|frame| frame.render_widget("picture", frame.area()));
        draw().unwrap();
        if std::env::var_os("CREEL_TEST_ELSEWHERE").is_none() {
            panic!("a message");
        }
        let other = std::thread::spawn(|| panic!("a message"));
        assert!(other.join().is_err());
        // The interface draws once more after the panic.
        draw().unwrap();
    }

    fn screen_after(vars: &[(&str, &str)]) -> vt100::Parser {
        let (mut pty, pts) = open().unwrap();
        pty.resize(pty_process::Size::new(24, 80)).unwrap();
        let before = rustix::termios::tcgetattr(pty.as_fd()).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture"])
            .arg("cli::play::terminal::tests::panics")
            .env("RUST_BACKTRACE", "0")
            .env("TERM", "xterm-256color");
        for (name, value) in vars {
            command = command.env(name, value);
        }
        let mut child = command.spawn(pts).unwrap();
        let mut written = Vec::new();
        let mut piece = [0; 4096];
        // Reading a pty fails when its other end is closed.
        while let Ok(read @ 1..) = pty.read(&mut piece) {
            written.extend(&piece[..read]);
        }
        child.wait().unwrap();
        let text = String::from_utf8_lossy(&written);
        assert!(
            text.contains("picture"),
            "the interface was not drawn: {text}"
        );
        let after = rustix::termios::tcgetattr(pty.as_fd()).unwrap();
        assert_eq!(after.local_modes, before.local_modes, "{text}");
        let one = std::num::NonZeroU16::new;
        let mut screen = vt100::Parser::new(one(24).unwrap(), one(80).unwrap(), 0);
        screen.process(&written);
        screen
    }

    #[test]
    fn panic_restores_the_terminal_and_prints_its_message() {
        for vars in [&[][..], &[("CREEL_TEST_ELSEWHERE", "1")]] {
            let screen = screen_after(vars);
            let screen = screen.screen();
            let text = screen.contents();
            assert!(!screen.alternate_screen() && !screen.hide_cursor());
            assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
            assert!(text.contains("a message"), "{text}");
            assert!(!text.contains("picture"), "{text}");
        }
    }
}

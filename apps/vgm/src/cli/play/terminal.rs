//! The terminal: taken over, written to without waiting, and given back whatever happens.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic;
use std::rc::Rc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ratatui::Frame;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use super::backend::NoCursorQuery;

/// Whether any thread has panicked: then the terminal is the panic's message's, and nothing is drawn
/// over it. Relaxed: a picture that is under way is drawn to its end either way.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// The terminal while the interface has it.
pub struct Terminal {
    inner: ratatui::Terminal<NoCursorQuery<BufferedTty>>,
    /// The same that the inner one writes to.
    out: BufferedTty,
    mouse: bool,
}

impl Terminal {
    /// Takes it over, the mouse too if so asked.
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

    /// Draws, unless the last picture has not been taken yet.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if PANICKED.load(Relaxed) {
            return Ok(());
        }
        self.out.flush()?;
        if self.out.pending.borrow().is_empty() {
            self.inner.draw(draw)?;
        }
        Ok(())
    }

    /// Where its keys come from.
    pub fn keys(&self) -> &File {
        &self.out.out
    }

    /// Draws all of it next time, and not what has changed.
    pub fn invalidate(&mut self) -> io::Result<()> {
        self.inner.clear()
    }

    /// Gives it back and stops, until the shell lets the program go on.
    pub fn suspend(&mut self) -> io::Result<()> {
        restore();
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        enter_raw(self.mouse, &mut self.out)?;
        self.inner.clear()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether it is taken over: given back twice, the cursor would be where it was before what was
/// written since. Relaxed: it is swapped, so one of two threads gives it back.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Takes it over, from the start or after a stop.
fn enter_raw(mouse: bool, out: &mut impl Write) -> io::Result<()> {
    ENTERED.store(true, Relaxed);
    enable_raw_mode()?;
    execute!(out, EnterAlternateScreen, Hide)?;
    if mouse {
        execute!(out, EnableMouseCapture)?;
    }
    Ok(())
}

/// Gives the terminal back, as far as it takes it: one that is stopped is not waited for. What fails
/// here can't be told anybody.
fn restore() {
    if !ENTERED.swap(false, Relaxed) {
        return;
    }
    let mut bytes = Vec::new();
    let _ = execute!(bytes, DisableMouseCapture, LeaveAlternateScreen, Show);
    let _ = open_tty().and_then(|mut out| out.write_all(&bytes));
    let _ = disable_raw_mode();
}

/// The terminal, opened anew: that it does not block would else hold for whoever shares our standard
/// output. It is there also where standard input is a list or a song.
pub fn open_tty() -> io::Result<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(nonblocking)
        .open("/dev/tty")
}

/// Whether there is one that is ours: who runs in the background is stopped if he takes it.
pub fn is_foreground() -> bool {
    open_tty().is_ok_and(|terminal| tcgetpgrp(&terminal) == Ok(getpgrp()))
}

/// The terminal as a writer that keeps what it does not take now: one that is stopped holds up
/// nobody.
#[derive(Clone)]
struct BufferedTty {
    out: Rc<File>,
    pending: Rc<RefCell<Vec<u8>>>,
}

impl BufferedTty {
    fn new() -> io::Result<Self> {
        Ok(BufferedTty {
            out: Rc::new(open_tty()?),
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

#[cfg(test)]
mod tests {
    use super::*;
    use pty_process::blocking::{Command, open};
    use std::io::Read;
    use std::os::fd::AsFd;

    /// A program of its own, in a terminal that the test below looks at.
    #[test]
    #[ignore = "it panics: the test below starts it"]
    fn panics() {
        let mut terminal = Terminal::enter(true).unwrap();
        let mut draw = || terminal.draw(|frame| frame.render_widget("picture", frame.area()));
        draw().unwrap();
        if std::env::var_os("CREEL_TEST_ELSEWHERE").is_none() {
            panic!("a message");
        }
        let other = std::thread::spawn(|| panic!("a message"));
        assert!(other.join().is_err());
        // The interface goes on for a moment.
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
        // A pty whose other end is closed says so by an error.
        while let Ok(read @ 1..) = pty.read(&mut piece) {
            written.extend(&piece[..read]);
        }
        child.wait().unwrap();
        let text = String::from_utf8_lossy(&written);
        assert!(text.contains("picture"), "it was drawn: {text}");
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

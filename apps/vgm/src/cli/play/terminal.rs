//! The terminal: taken over, written to without waiting, and given back whatever happens.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic;
use std::rc::Rc;
use std::sync::Once;

use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// The terminal while the interface has it.
pub struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<Patient>>,
    /// The same that the inner one writes to.
    out: Patient,
}

impl Terminal {
    /// Takes it over.
    pub fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                leave();
                before(info);
            }));
        });
        let out = Patient::new()?;
        let inner = ratatui::Terminal::new(CrosstermBackend::new(out.clone()))?;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        Ok(Terminal { inner, out })
    }

    /// Draws, unless the last picture has not been taken yet.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.out.flush()?;
        if self.out.pending.borrow().is_empty() {
            self.inner.draw(draw)?;
        }
        Ok(())
    }

    /// Gives it back and stops, until the shell lets the program go on.
    pub fn suspend(&mut self) -> io::Result<()> {
        leave();
        rustix::process::kill_current_process_group(rustix::process::Signal::TSTP)?;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        self.inner.clear()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back. What fails here can't be told anybody.
fn leave() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}

/// The terminal as a writer that keeps what it does not take now: one that is stopped holds up
/// nobody.
#[derive(Clone)]
struct Patient {
    out: Rc<File>,
    pending: Rc<RefCell<Vec<u8>>>,
}

impl Patient {
    fn new() -> io::Result<Self> {
        let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        // Opened anew: the flag would else be that of whoever shares our standard output.
        let out = OpenOptions::new()
            .write(true)
            .custom_flags(nonblocking)
            .open("/dev/tty")?;
        Ok(Patient {
            out: Rc::new(out),
            pending: Rc::default(),
        })
    }
}

impl Write for Patient {
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

//! Runs the player in a terminal: a pty, and a model of its screen.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use pty_process::{Size, blocking};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_creel-vgm");
/// A timeout that only a hang can exceed.
const HANG: Duration = Duration::from_secs(60);
/// The begin and the end of a synchronized update.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// A terminal in which the program runs.
pub struct Terminal {
    pty: Option<blocking::Pty>,
    pub child: Child,
    pub screen: vt100::Parser,
    /// Whether a part of a frame has been read. The player begins and ends its frames with the
    /// sequences of a synchronized update.
    partial: bool,
    /// The whole output of the program.
    pub written: Vec<u8>,
}

/// The environment variables that affect the screen.
pub const PLAIN: &[(&str, &str)] = &[("LC_ALL", "C.UTF-8"), ("TERM", "xterm-256color")];

fn size(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

/// Returns the exit status as a shell shows it: the exit code, or 128 plus the signal.
pub fn shown(status: ExitStatus) -> Option<i32> {
    status.code().or(status.signal().map(|signal| 128 + signal))
}

impl Terminal {
    /// Starts `creel-vgm play` with these arguments in a terminal of this size (rows and columns).
    pub fn play(words: &[&str], size: (u16, u16), vars: &[(&str, &str)]) -> Terminal {
        Terminal::start(PROGRAM, &[&["play"], words].concat(), size, vars)
    }

    /// Starts a program in a terminal of this size (rows and columns).
    pub fn start(
        program: &str,
        words: &[&str],
        (rows, columns): (u16, u16),
        vars: &[(&str, &str)],
    ) -> Terminal {
        let (pty, pts) = blocking::open().unwrap();
        pty.resize(Size::new(rows, columns)).unwrap();
        // The tests may have been started with ignored signals, for example by `nohup` or a
        // script's `&`.
        let mut command = blocking::Command::new("env").args(["--default-signal", program]);
        for name in ["NO_COLOR", "COLORTERM", "LC_ALL", "LC_CTYPE", "LANG"] {
            command = command.env_remove(name);
        }
        for (name, value) in vars {
            command = command.env(name, value);
        }
        // The test must not use the user's configuration or bus.
        let command = command
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
        let child = command.args(words).spawn(pts).unwrap();
        Terminal {
            pty: Some(pty),
            child,
            screen: vt100::Parser::new(size(rows), size(columns), 0),
            partial: false,
            written: Vec::new(),
        }
    }

    fn pty(&self) -> &blocking::Pty {
        self.pty.as_ref().expect("it has not hung up")
    }

    /// Closes the terminal.
    pub fn hang_up(&mut self) -> &mut Child {
        self.pty = None;
        &mut self.child
    }

    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads available output, or waits for some. Returns false at the end of the output.
    fn read(&mut self, wait: Duration) -> bool {
        let time = Timespec::try_from(wait).unwrap();
        let mut fds = [PollFd::from_borrowed_fd(self.pty().as_fd(), PollFlags::IN)];
        if poll(&mut fds, Some(&time)).unwrap() == 0 {
            return true;
        }
        let mut bytes = [0; 1 << 16];
        match self.pty.as_mut().unwrap().read(&mut bytes) {
            Ok(read @ 1..) => {
                self.screen.process(&bytes[..read]);
                // A sequence may be split between two reads.
                let from = self.written.len().saturating_sub(BEGIN.len() - 1);
                self.written.extend_from_slice(&bytes[..read]);
                let last = self.written[from..]
                    .windows(BEGIN.len())
                    .rfind(|&window| window == BEGIN || window == END);
                self.partial = last.map_or(self.partial, |last| last == BEGIN);
                true
            }
            _ => false,
        }
    }

    /// Reads available output, and waits for up to `wait`.
    pub fn poll(&mut self, wait: Duration) {
        assert!(self.read(wait), "the program has ended:\n{}", self.text());
    }

    /// Reads until the screen satisfies a condition after a whole frame.
    pub fn until(&mut self, what: &str, condition: impl Fn(&str) -> bool) {
        let begin = Instant::now();
        while self.partial || !condition(&self.text()) {
            let more = self.read(Duration::from_millis(100));
            let late = begin.elapsed() > HANG;
            assert!(more && !late, "{what}: not seen in\n{}", self.text());
        }
    }

    pub fn until_has(&mut self, text: &str) {
        self.until(text, |screen| screen.contains(text));
    }

    pub fn until_gone(&mut self, text: &str) {
        self.until(text, |screen| !screen.contains(text));
    }

    /// Sends keys as bytes.
    pub fn press(&mut self, keys: &str) {
        self.pty
            .as_mut()
            .unwrap()
            .write_all(keys.as_bytes())
            .unwrap();
    }

    /// Clicks a button (0 is left, 2 is right, 64 and 65 are the wheel) at a column and a row, from
    /// 0.
    pub fn click(&mut self, button: u8, (column, row): (u16, u16)) {
        let keys = format!("\x1b[<{button};{};{}M", column + 1, row + 1);
        self.press(&keys);
    }

    /// Resizes the terminal. The model forgets the screen, so the program must draw it again.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.pty().resize(Size::new(rows, columns)).unwrap();
        self.screen = vt100::Parser::new(size(rows), size(columns), 0);
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Reads to the end, and returns the exit status as a shell shows it.
    pub fn end(&mut self) -> Option<i32> {
        let begin = Instant::now();
        while self.read(Duration::from_millis(100)) {
            assert!(
                begin.elapsed() < HANG,
                "the program does not end:\n{}",
                self.text()
            );
        }
        shown(self.child.wait().unwrap())
    }

    /// Returns whether the screen is restored: the normal screen, with a cursor and without mouse.
    /// The modes of the terminal are not checked.
    pub fn is_restored(&self) -> bool {
        let screen = self.screen.screen();
        !screen.alternate_screen()
            && !screen.hide_cursor()
            && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
    }

    /// Returns whether the terminal is in line mode, as in a shell.
    pub fn is_cooked(&self) -> bool {
        let modes = rustix::termios::tcgetattr(self.pty().as_fd()).unwrap();
        modes
            .local_modes
            .contains(rustix::termios::LocalModes::ICANON)
    }

    /// Returns the row of the first line that contains this text.
    pub fn row_of(&self, text: &str) -> u16 {
        let row = self.text().lines().position(|line| line.contains(text));
        row.unwrap_or_else(|| panic!("{text:?} is not in\n{}", self.text())) as u16
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // We ignore an error, because the program may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! The program that `creel top` starts, with its output in a pane, in a file or on stderr.
//!
//! A pane is a terminal of its own (a pty), so that the program prints the same as without creel. A
//! small terminal emulator keeps the contents of the pane.

use crate::run::exec::start_failure;
use anyhow::Result;
use creel_console::{Exit, Failure, output};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pty_process::{Size, blocking};
use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    num::NonZeroU16,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// A program that we have started. Dropping it ends the program, unless it was detached.
pub struct ChildProgram {
    child: Child,
    pane: Option<Pane>,
    /// The temporary file for the output of a program that may outlive us.
    file: Option<PathBuf>,
    ended: Option<i32>,
    kill_on_drop: bool,
}

/// The terminal of the program.
struct Pane {
    pty: Arc<blocking::Pty>,
    screen: Arc<Mutex<vt100::Parser>>,
    reader: thread::JoinHandle<()>,
}

/// Converts a size. A terminal has at least one row and one column.
fn size(rows: u16, columns: u16) -> (NonZeroU16, NonZeroU16) {
    let one = NonZeroU16::MIN;
    (
        NonZeroU16::new(rows).unwrap_or(one),
        NonZeroU16::new(columns).unwrap_or(one),
    )
}

impl ChildProgram {
    /// Starts a program with its output on our stderr, so that stdout has our data only.
    pub fn on_stderr(program: &OsStr, args: &[OsString]) -> Result<Self> {
        let out = Stdio::from(io::stderr());
        Self::spawn(Command::new(program).args(args).stdout(out))
    }

    /// Starts a program with its output in a file.
    pub fn in_file(program: &OsStr, args: &[OsString], file: &Path) -> Result<Self> {
        let out = File::create(file).map_err(|e| {
            let text = format!("cannot create the output file {}: {e}", file.display());
            Failure::new(Exit::Usage, text)
        })?;
        let mut command = Command::new(program);
        command.args(args).stderr(out.try_clone()?).stdout(out);
        Self::spawn(&mut command)
    }

    /// Starts a program with its output in a temporary file, which we show like a pane. We use this
    /// for a program that may outlive us, because a pane would end with us.
    pub fn in_temporary_file(program: &OsStr, args: &[OsString]) -> Result<Self> {
        // The name is unpredictable, and only this user may read the file.
        let file = tempfile::Builder::new()
            .prefix("creel-top-")
            .suffix(".out")
            .append(true)
            .tempfile()?;
        let (out, file) = file.keep()?;
        let mut command = Command::new(program);
        command.args(args).stderr(out.try_clone()?).stdout(out);
        let mut child = Self::spawn(&mut command).inspect_err(|_| {
            // We ignore an error here, because the caller needs the reason why the program did not
            // start.
            let _ = fs::remove_file(&file);
        })?;
        child.file = Some(file);
        Ok(child)
    }

    fn spawn(command: &mut Command) -> Result<Self> {
        let child = crate::inherited::restore_in_child(command).spawn();
        let child = child.map_err(|e| start_failure(command.get_program(), &e))?;
        Ok(Self {
            child,
            pane: None,
            file: None,
            ended: None,
            kill_on_drop: true,
        })
    }

    /// Starts a program in a pane.
    pub fn in_pane(program: &OsStr, args: &[OsString], rows: u16, columns: u16) -> Result<Self> {
        let (pty, pts) = blocking::open()?;
        pty.resize(Size::new(rows.max(1), columns.max(1)))?;
        let child = blocking::Command::new(program).args(args).spawn(pts);
        let child = child.map_err(|e| start_failure(program, &io_error(e)))?;
        let (rows, columns) = size(rows, columns);
        let pty = Arc::new(pty);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let (from, into) = (pty.clone(), screen.clone());
        // The thread ends when the last process closes the terminal, or with this process.
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = (&*from).read(&mut bytes) {
                let mut screen = into.lock().unwrap_or_else(PoisonError::into_inner);
                screen.process(&bytes[..count]);
            }
        });
        let pane = Pane {
            pty,
            screen,
            reader,
        };
        Ok(Self {
            child,
            pane: Some(pane),
            file: None,
            ended: None,
            kill_on_drop: true,
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit code of the program, or 128 plus the signal that ended it. Returns `None`
    /// while the program runs.
    pub fn ended(&mut self) -> Option<i32> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten().map(code);
        }
        self.ended
    }

    /// Waits until the pane contains the whole output of a program that has ended. The wait is
    /// short, because a child of the program may still have the terminal open.
    pub fn drain(&self) {
        let Some(pane) = &self.pane else {
            return;
        };
        let mut samples = 0..50;
        while !pane.reader.is_finished() && samples.next().is_some() {
            thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Returns the contents of the pane or the temporary file, without empty lines at the end.
    pub fn output(&self, width: usize) -> Option<Vec<String>> {
        if let Some(file) = &self.file {
            return Some(last_lines(file));
        }
        let pane = self.pane.as_ref()?;
        let screen = pane.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        let mut rows: Vec<String> = screen.screen().rows(0, width).collect();
        while rows.last().is_some_and(|row| row.trim().is_empty()) {
            rows.pop();
        }
        Some(rows)
    }

    /// Resizes the pane.
    pub fn resize(&self, rows: u16, columns: u16) {
        if let Some(pane) = &self.pane {
            // We ignore the error, because the terminal then keeps its size.
            let _ = pane.pty.resize(Size::new(rows.max(1), columns.max(1)));
            let (rows, columns) = size(rows, columns);
            let mut screen = pane.screen.lock().unwrap_or_else(PoisonError::into_inner);
            screen.set_size(rows, columns);
        }
    }

    /// Lets the program outlive us.
    pub fn detach(mut self) {
        self.kill_on_drop = false;
        if self.ended().is_none()
            && let Some(file) = self.file.take()
        {
            output::note(&format!(
                "creel: the program keeps running; its output is in {}\n",
                file.display()
            ));
        }
    }
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // We have printed the contents of the file already.
            let _ = fs::remove_file(file);
        }
        if !self.kill_on_drop || self.ended().is_some() {
            return;
        }
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // In a pane, the program leads a process group, and we signal the whole group.
            let target = if self.pane.is_some() { -pid } else { pid };
            let _ = kill(Pid::from_raw(target), Signal::SIGTERM);
        }
        // We wait for a second, then kill the program.
        for _ in 0..50 {
            if self.ended().is_some() {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The largest number of bytes of the output that we show.
const SHOWN_MAX: u64 = 64 << 10;

/// Returns the last lines of a growing file, without control characters.
fn last_lines(file: &Path) -> Vec<String> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(file) {
        let length = file.metadata().map_or(0, |data| data.len());
        // If the file cannot be read, we show what we have.
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(SHOWN_MAX)));
        let _ = file.take(SHOWN_MAX).read_to_end(&mut bytes);
    }
    let text = String::from_utf8_lossy(&bytes).replace('\t', "    ");
    let lines = text.lines();
    lines
        .map(|line| line.chars().filter(|c| !c.is_control()).collect())
        .collect()
}

fn code(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| 128 + signal);
    status.code().or(by_signal).unwrap_or(-1)
}

fn io_error(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        pty_process::Error::Rustix(error) => error.into(),
    }
}

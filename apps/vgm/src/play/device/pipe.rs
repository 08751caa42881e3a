//! A pipe to a program that plays, or standard output.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ioctl_fionread, write};

use super::Device;
use crate::wav::{Container, Layout};

/// Programs that play 16-bit samples from their standard input, the first that is there: its name,
/// and its arguments but for the rate, which stands for `{}`.
pub const PLAYERS: &[(&str, &[&str])] = &[
    (
        "pw-play",
        &[
            "--raw",
            "--rate={}",
            "--channels=2",
            "--format=s16",
            "--latency=20ms",
            "-",
        ],
    ),
    (
        "pacat",
        &[
            "--playback",
            "--raw",
            "--rate={}",
            "--channels=2",
            "--format=s16le",
            "--latency-msec=20",
        ],
    ),
    (
        "aplay",
        &[
            "-q",
            "-t",
            "raw",
            "-f",
            "S16_LE",
            "-c",
            "2",
            "-r",
            "{}",
            "--buffer-time=40000",
        ],
    ),
];

/// How often, and how far apart, a program that was started is looked at.
const LOOKS: u32 = 10;
const LOOK: Duration = Duration::from_millis(20);
/// Of what it says before it ends.
const SAID_BYTES_MAX: u64 = 16 << 10;
/// How long it may take to play the rest: the server that it waits for may stand still.
const REST: Duration = Duration::from_secs(3);
/// A pipe of 23 ms of 44.1 kHz.
const PIPE_BYTES: usize = 4096;
const LAYOUT: Layout = Layout {
    container: Container::Raw,
    samples: crate::mix::SampleFormat::I16,
};

/// A pipe that 16-bit little-endian samples go into.
#[derive(Debug)]
pub struct Pipe {
    /// None once all is written.
    end: Option<OwnedFd>,
    child: Option<Child>,
    bytes: Vec<u8>,
    /// Bytes of a frame that did not fit whole.
    rest: Vec<u8>,
    /// Whether what reads it may come back.
    may_return: bool,
}

impl Pipe {
    /// Starts a program of [`PLAYERS`], and looks for a fifth of a second whether it stays: one that
    /// has neither a card nor a server ends at once.
    ///
    /// # Errors
    ///
    /// If it is not there or does not start or stay.
    pub fn to_program(name: &str, arguments: &[&str], rate: u32) -> io::Result<Self> {
        let rate = rate.to_string();
        let arguments = arguments.iter().map(|text| text.replace("{}", &rate));
        let mut child = Command::new(name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        for _ in 0..LOOKS {
            if let Some(status) = child.try_wait()? {
                let why = child.stderr.take().map(last_words).unwrap_or_default();
                return Err(io::Error::other(format!(
                    "it ended at once ({status}){why}"
                )));
            }
            std::thread::sleep(LOOK);
        }
        // It would wait for who reads it, and end by who does not.
        if let Some(mut said) = child.stderr.take() {
            let drain = move || io::copy(&mut said, &mut io::sink());
            std::thread::Builder::new()
                .name("said".into())
                .spawn(drain)?;
        }
        let end = child.stdin.take().expect("it was asked for");
        Pipe::new(end.into(), Some(child), true)
    }

    /// Standard output.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn to_stdout() -> io::Result<Self> {
        Pipe::new(rustix::io::dup(rustix::stdio::stdout())?, None, false)
    }

    /// A FIFO, or a file, which is begun anew.
    ///
    /// # Errors
    ///
    /// What the system says; of a FIFO that nobody reads, too.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        // A FIFO without a reader is refused, not waited for.
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(nonblocking)
            .open(path)?;
        let is_fifo = file.metadata()?.file_type().is_fifo();
        Pipe::new(file.into(), None, is_fifo)
    }

    fn new(end: OwnedFd, child: Option<Child>, may_return: bool) -> io::Result<Self> {
        let flags = fcntl_getfl(&end)?;
        fcntl_setfl(&end, flags | OFlags::NONBLOCK)?;
        // No pipe, or a system that has pipes of one size: then there is more delay.
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&end, PIPE_BYTES);
        Ok(Pipe {
            end: Some(end),
            child,
            bytes: Vec::new(),
            rest: Vec::new(),
            may_return,
        })
    }

    /// Writes what fits; says how many bytes.
    fn push(end: Option<&OwnedFd>, bytes: &[u8]) -> io::Result<usize> {
        let end = end.ok_or(io::ErrorKind::BrokenPipe)?;
        match write(end, bytes) {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a program that has ended said last, as it follows its status.
fn last_words(mut said: ChildStderr) -> String {
    let mut text = Vec::new();
    // A child of its own may have it open still.
    let is_read = fcntl_setfl(&said, OFlags::NONBLOCK).is_ok();
    if is_read {
        // What comes of it is as good as all.
        let _ = said.by_ref().take(SAID_BYTES_MAX).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(str::trim);
    let last = lines.rfind(|line| !line.is_empty());
    last.map_or(String::new(), |line| format!(": {line}"))
}

impl Device for Pipe {
    fn write(&mut self, frames: &[[f32; 2]]) -> io::Result<usize> {
        if !self.rest.is_empty() {
            let count = Pipe::push(self.end.as_ref(), &self.rest)?;
            self.rest.drain(..count);
            if !self.rest.is_empty() {
                return Ok(0);
            }
        }
        self.bytes.clear();
        LAYOUT.encode(frames, &mut self.bytes);
        let count = Pipe::push(self.end.as_ref(), &self.bytes)?;
        let whole = count.div_ceil(LAYOUT.frame_bytes());
        let end = whole * LAYOUT.frame_bytes();
        self.rest.extend_from_slice(&self.bytes[count..end]);
        Ok(whole)
    }

    fn queued_frames(&mut self) -> usize {
        let bytes = self.end.as_ref().and_then(|end| ioctl_fionread(end).ok());
        bytes.unwrap_or(0) as usize / LAYOUT.frame_bytes()
    }

    fn is_permanently_lost(&self) -> bool {
        !self.may_return
    }

    fn finish(&mut self, is_heard: bool) -> io::Result<()> {
        self.end = None;
        let begin = Instant::now();
        // It plays the rest, some hundredths of a second.
        while let Some(child) = &mut self.child
            && is_heard
            && child.try_wait()?.is_none()
            && begin.elapsed() < REST
        {
            std::thread::sleep(LOOK / 4);
        }
        Ok(())
    }
}

/// No program is left behind.
impl Drop for Pipe {
    fn drop(&mut self) {
        self.end = None;
        if let Some(child) = &mut self.child
            && !matches!(child.try_wait(), Ok(Some(_)))
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

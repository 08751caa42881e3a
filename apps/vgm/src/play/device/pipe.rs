//! A device that writes samples to a pipe: to a program that plays sound, a FIFO or standard
//! output.

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

/// Programs that play 16-bit samples from their standard input, in the order of preference. Each
/// has a name and arguments, in which `{}` stands for the sample rate.
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

/// The number of times that we check whether a program keeps running after its start.
const START_CHECKS: u32 = 10;
/// The time between two of these checks.
const START_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum size of the error output that we read from a program that ended.
const SAID_BYTES_MAX: u64 = 16 << 10;
/// The longest time that we wait for a program to play its remaining sound. It may take forever if
/// the sound server stalls.
const FINISH_TIMEOUT: Duration = Duration::from_secs(3);
/// The size of the pipe on Linux, which is 23 ms of 16-bit stereo sound at 44.1 kHz.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 4096;
const LAYOUT: Layout = Layout {
    container: Container::Raw,
    samples: crate::mix::SampleFormat::I16,
};

/// A pipe for 16-bit little-endian samples.
#[derive(Debug)]
pub struct Pipe {
    /// The write end of the pipe, or `None` once it is closed.
    end: Option<OwnedFd>,
    child: Option<Child>,
    bytes: Vec<u8>,
    /// The remaining bytes of a frame of which only a part fitted in the pipe.
    rest: Vec<u8>,
    /// Whether the reader may come back after it disappeared.
    may_return: bool,
}

impl Pipe {
    /// Starts a program of [`PLAYERS`]. A program that finds neither a sound card nor a server ends
    /// at once. We therefore check for a fifth of a second whether the program keeps running.
    ///
    /// # Errors
    ///
    /// Fails if the program is not installed, does not start, or ends at once.
    pub fn to_program(name: &str, arguments: &[&str], rate: u32) -> io::Result<Self> {
        let rate = rate.to_string();
        let arguments = arguments.iter().map(|text| text.replace("{}", &rate));
        let mut child = Command::new(name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        for _ in 0..START_CHECKS {
            if let Some(status) = child.try_wait()? {
                let why = child.stderr.take().map(last_words).unwrap_or_default();
                return Err(io::Error::other(format!(
                    "it ended at once ({status}){why}"
                )));
            }
            std::thread::sleep(START_CHECK_INTERVAL);
        }
        // We must read the error output of the program. If the pipe were full, the program would
        // block. If it were closed, the program would be killed when it writes.
        if let Some(mut said) = child.stderr.take() {
            let drain = move || io::copy(&mut said, &mut io::sink());
            std::thread::Builder::new()
                .name("said".into())
                .spawn(drain)?;
        }
        let end = child
            .stdin
            .take()
            .expect("the command has a pipe for stdin");
        Pipe::new(end.into(), Some(child), true)
    }

    /// Creates a device for standard output.
    ///
    /// # Errors
    ///
    /// Fails if the system reports an error.
    pub fn to_stdout() -> io::Result<Self> {
        Pipe::new(rustix::io::dup(rustix::stdio::stdout())?, None, false)
    }

    /// Creates a device for a FIFO, or for a file, which is truncated.
    ///
    /// # Errors
    ///
    /// Fails if the system reports an error, or if no process reads the FIFO.
    pub fn to_file(path: &Path) -> io::Result<Self> {
        // With this flag, opening a FIFO without a reader fails instead of blocking.
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
        // We ignore an error here. If the file is not a pipe, or the system does not allow this
        // size, the only effect is a longer delay.
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

    /// Writes as many bytes as fit, and returns their number.
    fn push(end: Option<&OwnedFd>, bytes: &[u8]) -> io::Result<usize> {
        let end = end.ok_or(io::ErrorKind::BrokenPipe)?;
        match write(end, bytes) {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the last line of the error output of a program that ended, after a colon.
fn last_words(mut said: ChildStderr) -> String {
    let mut text = Vec::new();
    // A child process of the program may still have the pipe open, so we must not block.
    let is_read = fcntl_setfl(&said, OFlags::NONBLOCK).is_ok();
    if is_read {
        // If reading fails, we use the part that we have.
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
        // The program plays its remaining sound, which normally takes some hundredths of a second.
        while let Some(child) = &mut self.child
            && is_heard
            && child.try_wait()?.is_none()
            && begin.elapsed() < FINISH_TIMEOUT
        {
            std::thread::sleep(START_CHECK_INTERVAL / 4);
        }
        Ok(())
    }
}

/// Ends the program, so that it does not outlive the player.
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

//! Starts a service as a process of its own, which can have a CPU quota or a busy neighbour.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use creel_console::quota::Quota;

use super::Subject;

/// A thread that computes without pause, like another program would, until this is dropped.
pub struct Neighbour {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Neighbour {
    pub fn new() -> anyhow::Result<Neighbour> {
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = std::thread::Builder::new()
            .name("neighbour".into())
            .spawn(move || {
                while !until.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })?;
        let thread = Some(thread);
        Ok(Neighbour { is_over, thread })
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The process of a service. It is killed on drop.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

impl Process {
    /// Starts a service, and waits until it prints its address.
    pub fn start(subject: &Subject, quota: Option<&Quota>) -> anyhow::Result<Process> {
        let (program, arguments) = subject
            .command
            .split_first()
            .context("the command of the service is empty: use --compare NAME=COMMAND")?;
        let mut command = match quota {
            None => Command::new(program),
            // The process must join the group before it counts its usable cores. A shell therefore
            // joins the group and then executes the program.
            Some(quota) => {
                let mut shell = Command::new("sh");
                shell
                    .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
                    .arg(quota.members())
                    .arg(program);
                shell
            }
        };
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.with_context(|| format!("cannot start {program}"))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let address = line
            .trim()
            .strip_prefix("http://")
            .and_then(|address| address.parse().ok());
        match address {
            Some(address) => Ok(Process { child, address }),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                Err(anyhow!(
                    "cannot find the address of {program}: the first line that it prints must be \
                     http://IP:PORT"
                ))
            }
        }
    }

    /// Returns access to the memory statistics of this process.
    pub fn memory(&self) -> Memory {
        Memory(format!("/proc/{}/status", self.child.id()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The memory statistics of a process. They are 0 bytes if the OS does not report them.
///
/// Source: proc(5).
#[derive(Clone)]
pub struct Memory(String);

impl Memory {
    /// Returns the peak of the resident memory.
    pub fn most_bytes(&self) -> u64 {
        self.field("VmHWM:")
    }

    /// Returns the current resident memory.
    pub fn now_bytes(&self) -> u64 {
        self.field("VmRSS:")
    }

    /// Returns a field of the status file in bytes.
    fn field(&self, name: &str) -> u64 {
        let status = fs::read_to_string(&self.0).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }
}

//! Starts programs of other projects, such as players, if they are installed.
#![allow(dead_code, reason = "each test program uses some of it")]

use crate::ports::free_ports;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Returns the program if it is installed. `version` is a flag that makes it print its version and
/// exit.
pub fn player(name: &str, version: &str) -> Option<Command> {
    let mut look = Command::new(name);
    look.arg(version)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if look.status().is_err() {
        eprintln!("skipped, because {name} is not installed");
        return None;
    }
    Some(Command::new(name))
}

/// A running player, which is killed when this value is dropped, for example because the test
/// failed.
pub struct Player(pub Child);

impl Player {
    /// Starts the player, and discards its output.
    pub fn start(command: &mut Command) -> Self {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        Player(quiet.stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a free port. The next port is free as well, because players use it for RTCP.
pub fn free_port() -> SocketAddr {
    free_ports(2)
}

/// Writes a WAV file.
pub fn wav(path: &Path, samples: &[i16], rate: u32, channels: u16) {
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0".to_vec();
    bytes.extend(channels.to_le_bytes());
    bytes.extend(rate.to_le_bytes());
    bytes.extend((rate * u32::from(channels) * 2).to_le_bytes());
    bytes.extend((channels * 2).to_le_bytes());
    bytes.extend([16, 0]);
    bytes.extend(b"data");
    bytes.extend((samples.len() as u32 * 2).to_le_bytes());
    bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    let riff = bytes.len() as u32 - 8;
    bytes[4..8].copy_from_slice(&riff.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}
